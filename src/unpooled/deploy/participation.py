"""Who took part in a run: in sentences for a person, and in the manifest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from unpooled.deploy.plan import Plan
from unpooled.errors import TooFewParties
from unpooled.network.mesh import MeshPeer
from unpooled.types import PartyId


def attended(plan: Plan, members: Collection[PartyId]) -> dict[str, Any]:
    """The entries of a manifest on who is in the result."""
    return {
        "took_part": [name for name in plan.names if name in members],
        "missing": [name for name in plan.names if name not in members],
        "min_parties": plan.min_parties,
        "complete": len(members) >= plan.min_parties,
    }


def refuse_too_few(plan: Plan, members: Collection[PartyId]) -> None:
    """Refuses, once all is written, a result with fewer parties than the plan asks for."""
    if len(members) < plan.min_parties:
        missing = [name for name in plan.names if name not in members]
        raise TooFewParties(
            f"The result is written, but only {len(members)} of {len(plan.names)} are in it and "
            f"the plan asks for {plan.min_parties}; {', '.join(missing)} took no part: run again "
            "with them, or agree on a lower min_parties."
        )


def star_sentences(
    names: Sequence[PartyId],
    members: Collection[PartyId],
    left: Mapping[PartyId, str] = MappingProxyType({}),
) -> list[str]:
    """What it means for a star's result that somebody was missing; ``left`` has known reasons."""
    return [
        f"{name} did not answer the last question"
        + (f" ({left[name]})" if name in left else "")
        + ", so its rows are not in the result."
        for name in names
        if name not in members
    ]


def mesh_sentences(names: Sequence[PartyId], peer: MeshPeer) -> list[str]:
    """What it means for a peer's result that somebody was missing, for a while or to the end."""
    participation, members = peer.participation, peer.members
    sentences = [_missing(names, name, peer) for name in names if name not in members]
    for other, spans in participation["not_heard"].items():
        if other in members:
            missed = sum(end - first + 1 for first, end in spans)
            sentences.append(
                f"{other} was not heard in {missed} of {participation['exchanges']} exchanges, the "
                f"last of them {spans[-1][1]}; it was there at the end, so its rows count in full "
                "if the run came to rest after that."
            )
    if participation["asleep"]:
        missed = sum(end - first + 1 for first, end in participation["asleep"])
        sentences.append(f"{peer.name} itself missed {missed} exchanges.")
    return sentences


def _missing(names: Sequence[PartyId], name: PartyId, peer: MeshPeer) -> str:
    neighbour = peer.neighbours.get(name)
    why = f" ({neighbour.left})" if neighbour is not None and neighbour.left is not None else ""
    since = peer.membership.missing_since(names.index(name))
    if since == 0:
        return f"{name} was never heard{why}: none of its rows are in the result."
    if since is None:
        return (
            f"{name} sent no notice that it came to the end{why}: whether its rows are in the "
            "result is not known."
        )
    return (
        f"{name} was not heard from exchange {since} to the end{why}: its rows count only as far "
        "as they had shown before, and this is not the clustering of all rows; run again once it "
        "is back."
    )
