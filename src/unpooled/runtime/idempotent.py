"""A star party on a network, where questions come in bytes and may come twice.

The network may deliver a question again, because an answer was lost or late, and the party's
process may be another one by then. The same question gets the same bytes, without anything being
computed or counted again; another question under a name that was used before gets none, since it
would be a second release under one name. :attr:`IdempotentParty.memory` is all that must be kept in
between.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256

import numpy as np

from unpooled.errors import MalformedMessage, ProtocolError
from unpooled.messages.codec import Encoded, decode, decode_state, encode, encode_state
from unpooled.messages.message import Ask
from unpooled.runtime import spans
from unpooled.runtime.party import PartyRuntime
from unpooled.runtime.spans import Spans
from unpooled.types import Array

_OWN = "party."
_CHUNK = 1 << 16
"""Rows that are hashed at a time."""


class IdempotentParty:
    """Stands between the network and a :class:`unpooled.runtime.party.PartyRuntime`."""

    def __init__(self, runtime: PartyRuntime) -> None:
        self.runtime = runtime
        self._answered: dict[str, Spans] = {}
        """By kind, the rounds that have been answered."""
        self._last = ""
        self._reply: Encoded | None = None

    @property
    def answered(self) -> int:
        """How many questions the party has answered."""
        return sum(map(spans.count, self._answered.values()))

    @property
    def reply(self) -> Encoded | None:
        """The last answer, if there is one."""
        return self._reply

    @property
    def memory(self) -> bytes:
        """Everything that a later process of the party needs to go on from here."""
        own = {
            "names": "\n".join(
                f"{kind} {first} {last}"
                for kind, rounds in self._answered.items()
                for first, last in rounds
            ).encode(),
            "last": self._last.encode(),
            "reply": b"" if self._reply is None else self._reply.data,
            "rows": self._rows,
        }
        kept = {_OWN + name: np.frombuffer(value, np.uint8) for name, value in own.items()}
        return encode_state({**self.runtime.memory, **kept})

    def remember(self, memory: bytes) -> None:
        """Goes on from what an earlier process knew."""
        known = dict(decode_state(memory))
        own = {name: _taken(known, _OWN + name) for name in ("names", "last", "reply", "rows")}
        if own["rows"] != self._rows:
            # What it remembers is about rows by their places.
            raise ProtocolError(
                f"The rows of party {self.runtime.data.name} are not those that it began the run "
                "with; load the same rows in the same order for every question."
            )
        answered: dict[str, Spans] = {}
        try:
            for line in own["names"].decode("ascii").splitlines():
                kind, first, last = line.split(" ")
                answered.setdefault(kind, []).append([int(first), int(last)])
            asked = own["last"].decode("ascii")
        except ValueError:
            raise MalformedMessage("A party's memory has names that nothing is called.") from None
        self.runtime.remember(known)
        self._answered, self._last = answered, asked
        self._reply = Encoded(decode(own["reply"]), own["reply"]) if own["reply"] else None

    def answer(self, question: Encoded, exchange: int) -> Encoded | None:
        """The answer, the same whenever the question is; None if it is withheld."""
        ask, name = question.message, self.runtime.data.name
        if not isinstance(ask, Ask):
            raise MalformedMessage(f"Party {name} was sent a {type(ask).__name__}, not a question.")
        asked = sha256(question.data).hexdigest()
        if asked == self._last:
            return self._reply
        if spans.holds(self._answered.get(ask.kind, []), ask.round):
            raise ProtocolError(
                f"Party {name} has answered {ask.kind!r} of round {ask.round} before and repeats "
                "only its last answer, to the same question; begin a new run to ask another."
            )
        reply = self.runtime.answer(ask, exchange)
        if reply is None:
            return None
        spans.add(self._answered.setdefault(ask.kind, []), ask.round)
        self._last, self._reply = asked, Encoded(reply, encode(reply))
        return self._reply

    @cached_property
    def _rows(self) -> bytes:
        """What tells these rows from others."""
        data = self.runtime.data
        hashed = sha256(repr([("rows", data.rows.shape), ("weights", data.weights.shape)]).encode())
        for start in range(0, len(data.rows), _CHUNK):
            hashed.update(np.ascontiguousarray(data.rows[start : start + _CHUNK]).data)
        hashed.update(np.ascontiguousarray(data.weights).data)
        return hashed.digest()


def _taken(memory: dict[str, Array], name: str) -> bytes:
    if name not in memory:
        raise MalformedMessage(f"A party's memory has nothing under {name!r}.")
    return memory.pop(name).tobytes()
