"""One star party as every driver runs it: its data, its state between questions, its ledger.

A driver hands it questions and carries its answers; everything a party does in between is here, so
that all drivers give the same answers. :attr:`PartyRuntime.memory` is what must outlive the party's
process: what its steps remember, and what its ledger knows of all that has left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.data.rows import SelectedRows
from unpooled.errors import MalformedMessage, ProtocolError, UnpooledError
from unpooled.messages.message import Ask, Reply, sealed
from unpooled.privacy.ledger import Ledger
from unpooled.privacy.policy import Policy
from unpooled.protocols.star.base import Answer, StarProtocol
from unpooled.types import Body, IntArray

_STATE, _LEDGER = "state.", "ledger."


@dataclass(frozen=True)
class Route:
    """How a party's messages reach the coordinator: what its ledger counts, and when."""

    copies: IntArray
    """How often each of its messages travels: once, or never for a party that coordinates too."""
    hops: int
    """Exchanges that a question takes, there and back."""
    delay: int
    """The exchange of these in which the party answers."""

    def exchange(self, question: int) -> int:
        """The exchange in which the party answers this question."""
        return question * self.hops + self.delay


DIRECT = Route(np.ones(1, dtype=np.int64), hops=1, delay=0)
"""Straight to a coordinator that is none of the parties."""


def _counting(data: PartyData) -> PartyData:
    """The rows that have any weight: the others are as good as absent, to the last bit.

    Left in, they would use up random numbers, and a product may round a row differently with others
    beside it.
    """
    there = data.weights > 0
    if there.all():
        return data
    rows = (
        data.rows[there]
        if isinstance(data.rows, np.ndarray)
        else SelectedRows(data.rows, np.flatnonzero(there))
    )
    return replace(data, rows=rows, weights=data.weights[there])


class PartyRuntime:
    """A party: ``seed`` is the run's with the party's number, ``route`` what its ledger counts."""

    def __init__(
        self,
        protocol: StarProtocol,
        data: PartyData,
        seed: tuple[int, int],
        policy: Policy,
        route: Route = DIRECT,
    ) -> None:
        self.data = policy.admitted(_counting(data), needs_rows=protocol.needs_rows)
        self.ledger = Ledger((data.name,), protocol.releases, policy)
        self._steps = protocol.steps
        self._state: Body = {}
        self._seed = seed
        self._route = route

    @property
    def memory(self) -> Body:
        """Everything that a later process of the party needs to go on from here."""
        return {
            **{_STATE + name: value for name, value in self._state.items()},
            **{_LEDGER + name: value for name, value in self.ledger.memory.items()},
        }

    def remember(self, memory: Body) -> None:
        """Goes on from what an earlier process knew."""
        parts: dict[str, dict[str, np.ndarray]] = {_STATE: {}, _LEDGER: {}}
        for name, value in memory.items():
            part, dot, rest = name.partition(".")
            if part + dot not in parts:
                raise MalformedMessage(f"Party {self.data.name} cannot have remembered {name!r}.")
            parts[part + dot][rest] = value
        self.ledger.remember(parts[_LEDGER])
        self._state = sealed(parts[_STATE])

    def answer(self, ask: Ask, exchange: int) -> Reply | None:
        """The party's answer, None if it is withheld; PolicyRefusal if its policy says no."""
        if ask.kind not in self._steps:
            raise ProtocolError(f"Parties have no step for the question {ask.kind!r}.")
        if ask.round < 0:
            raise ProtocolError(f"The question {ask.kind!r} has the round {ask.round}, below 0.")
        copies, exchange = self._route.copies, self._route.exchange(exchange)
        self.ledger.receive(ask, copies, exchange)
        rng = np.random.default_rng([*self._seed, crc32(ask.kind.encode()), ask.round])
        body, state = self._step(ask, rng)
        reply = self.ledger.send(Reply(ask.kind, body, ask.round), copies, exchange)
        if reply is None:
            return None
        # Only now: a party remembers having said what really left.
        self._state = sealed(state)
        return reply

    def _step(self, ask: Ask, rng: np.random.Generator) -> Answer:
        """The party's own part, whatever it was asked."""
        try:
            return self._steps[ask.kind](self.data, self._state, ask.body, rng)
        except UnpooledError:
            raise
        except Exception as error:
            # In words of ours: those of a library may quote the party's values.
            raise ProtocolError(
                f"Party {self.data.name} cannot answer {ask.kind!r} of round {ask.round}: the "
                f"question does not fit its rows or what was asked before ({type(error).__name__})."
            ) from error
