"""What happened on a network, as faults for the in-process drivers.

A run over a network in which parties died, froze or were cut off gives what the in-process run
gives with these faults, bit for bit. That is how such runs are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from unpooled.simulate.faults import AnswerLost, Deaf, Fault, UserDown
from unpooled.types import PartyId


def star_faults(
    names: Sequence[PartyId],
    answered: Sequence[Collection[PartyId]],
    said: Mapping[PartyId, Collection[int]],
) -> tuple[Fault, ...]:
    """Faults from whom the coordinator heard, question by question.

    ``said`` has the numbers of the questions that each party has answered by its own ledger: an
    answer that came too late has left all the same.
    """
    return tuple(
        AnswerLost(i, question, question + 1)
        if question in said.get(name, ())
        else UserDown(i, question, question + 1)
        for question, present in enumerate(answered)
        for i, name in enumerate(names)
        if name not in present
    )


def mesh_faults(
    names: Sequence[PartyId], participation: Mapping[PartyId, Mapping[str, Any]]
) -> tuple[Fault, ...]:
    """Faults from what the peers that came to an end recorded (``MeshPeer.participation``)."""
    return tuple(_mesh_faults(list(names), participation))


def _mesh_faults(
    names: list[PartyId], participation: Mapping[PartyId, Mapping[str, Any]]
) -> Iterator[Fault]:
    for name, own in participation.items():
        i = names.index(name)
        for first, last in own["asleep"]:
            yield UserDown(i, first, last + 1)
        for other, spans in own["not_heard"].items():
            for first, last in spans:
                yield Deaf(i, names.index(other), first, last + 1)
    for name in names:
        if name not in participation:
            # It never came back: what it did after it was last heard is lost with it.
            yield UserDown(names.index(name), _last_heard(name, participation) + 1)


def _last_heard(name: PartyId, participation: Mapping[PartyId, Mapping[str, Any]]) -> int:
    last = -1
    for own in participation.values():
        if name in own["neighbours"]:
            silent = own["not_heard"].get(name, [])
            end = own["exchanges"] - 1
            if silent and silent[-1][1] == end:
                end = silent[-1][0] - 1
            last = max(last, end)
    return last
