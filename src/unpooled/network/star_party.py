"""A party of a star on a network: it answers until there is a result, and after it was killed.

A party that is asked again repeats its answer, the same bytes (:mod:`unpooled.runtime.idempotent`).

**After a kill.** A party writes what it must remember, then its ledger's line, and only then sends;
killed in between, it writes the line when it is started again (``unsent``), since it counts as
sent. Whose run it is, it remembers too: a coordinator that begins the same plan anew is another
run, which a party that has answered in the first one refuses, since answers to both could be
subtracted from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from time import monotonic
from typing import Any

import numpy as np

from unpooled.errors import (
    InputError,
    LedgerRefusal,
    PolicyRefusal,
    ProtocolError,
    QuorumLost,
    StateError,
    WireError,
)
from unpooled.messages.codec import Encoded
from unpooled.messages.conform import misfit
from unpooled.messages.message import Ask, Post
from unpooled.network.link import Received, Refused
from unpooled.network.node import Left, Node, encode_text, why_it_leaves
from unpooled.network.refusal import OLDER
from unpooled.network.star_kinds import (
    BYE,
    COORDINATOR,
    HERE,
    MEMBERS,
    READY,
    REFUSAL,
    RESULT,
    RUN,
    RUN_LENGTH,
)
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.latest import Latest
from unpooled.network.storage.ledger_file import LEDGER, LedgerFile
from unpooled.network.timing import Timing
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.idempotent import IdempotentParty
from unpooled.runtime.party import PartyRuntime
from unpooled.types import Body

_POLL = 1.0
"""Seconds after which a party looks whether the coordinator has been silent for too long."""


class StarParty:
    """Answers the coordinator's questions until there is a result."""

    def __init__(
        self,
        protocol: StarProtocol,
        runtime: PartyRuntime,
        node: Node,
        state: StateDirectory,
        timing: Timing,
        observe: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.name = runtime.data.name
        self.node = node
        self.runtime = runtime
        self.party = IdempotentParty(runtime)
        self._asks = {release.kind: release for release in protocol.asks}
        self._protocol = protocol
        self._columns = runtime.data.rows.shape[1]
        self._state = state
        self._timing = timing
        self._observe = observe
        self._lines = LedgerFile(state.path / LEDGER)
        self._logged = {str(line["digest"]) for line in self._lines.lines if "digest" in line}
        self._memory = Latest(state, "memory")
        memory = self._memory.value
        if memory is not None:
            self.party.remember(memory)
        if len(self._logged) > self.party.answered:
            raise state.damaged("memory")  # it has said more than it remembers
        self._run = state.read("run")
        self.members: tuple[int, ...] = ()
        """Whose rows are in the result, by their numbers in the plan."""
        self._log_unsent()

    def run(self) -> Body:
        """The result, as far as parties get it."""
        silence = monotonic()
        while True:
            event = self.node.poll(monotonic() + _POLL)
            if isinstance(event, Received):
                silence = monotonic()
                if event.message.kind == RESULT:
                    result = self._take_result(event)
                    if result is not None:
                        return result
                    continue
                self._take(event)
            elif isinstance(event, Left):
                raise QuorumLost(f"The coordinator has given up: {event.why}")
            elif isinstance(event, Refused):
                raise (StateError if event.reason == OLDER else InputError)(event.sentence)
            elif event is None and monotonic() - silence > self._timing.patience:
                raise QuorumLost(
                    f"{self.name} has not heard of the coordinator for {self._timing.patience:g} "
                    "seconds; what it knows is kept: see that the coordinator runs at the plan's "
                    "endpoint, then start this again."
                )

    def _take_result(self, event: Received) -> Body | None:
        body = dict(event.message.body)
        members = body.pop(MEMBERS, np.empty(0))
        wrong = _wrong_result(self._protocol, body, self._columns)
        if wrong is None and (members.ndim != 1 or members.dtype != np.int64):
            wrong = "it does not say who took part"
        if wrong is not None:
            self._refuse(event, f"a result: {wrong}")
            return None
        self.members = tuple(members.tolist())
        self._send(BYE)
        return body

    def close(self) -> None:
        """Closes the files."""
        self._memory.close()
        self._lines.close()

    def terminate(self) -> None:
        """Tells the coordinator once more that this party has the result."""
        self._send(BYE)
        self.node.poll(monotonic() + 0.2)

    def _take(self, event: Received) -> None:
        message = event.message
        if message.kind == RUN:
            self._join(event)
        elif message.kind == HERE:
            self._send(HERE)
        elif isinstance(message, Ask) and message.kind in self._asks:
            wrong = misfit(self._asks[message.kind], message.body, self._columns)
            if wrong is not None:
                self._refuse(event, f"{message.kind!r} of round {message.round}: {wrong}")
            elif self._run is not None:
                self._answer(message, event)
        else:
            self._refuse(event, f"{message.kind!r}, which the protocol does not declare")

    def _join(self, event: Received) -> None:
        named = event.message.body.get("run", np.empty(0))
        run = named.tobytes()
        if named.dtype != np.uint8 or len(run) != RUN_LENGTH:
            self._refuse(event, "a run without a name")
            return
        if self._run is not None and run != self._run and self.party.answered:
            error = StateError(
                f"{self.name} has answered in another run of this plan, and answers to both could "
                "be subtracted from each other; go on with that one (--resume at the coordinator), "
                f"or, if its owner agrees, move {self._state.path} away."
            )
            self._send(REFUSAL, str(error), event.exchange)
            raise error
        self._run = run
        self._state.write("run", run)
        self._send(READY)

    def _answer(self, ask: Ask, event: Received) -> None:
        before = self.party.answered
        try:
            reply = self.party.answer(Encoded(ask, event.plain), event.exchange)
            if reply is None:
                raise PolicyRefusal(f"The policy of {self.name} withholds {ask.kind!r}.")
        except (LedgerRefusal, ProtocolError, InputError) as refusal:
            self._lines.append({"refused": ask.kind, "round": ask.round, "why": str(refusal)})
            self.node.refuse(event.sender, "refused", str(refusal))
            # What is wrong with rows may be said in their values.
            reason = why_it_leaves(refusal) if isinstance(refusal, InputError) else str(refusal)
            self._send(REFUSAL, reason, event.exchange)
            return
        except WireError as error:
            raise ProtocolError(
                f"{self.name} cannot answer {ask.kind!r} of round {ask.round}: {error} Let it take "
                "part with fewer rows, or change the plan."
            ) from error
        fresh = self.party.answered > before
        if fresh:  # before anything is sent: if this fails, the party's part has ended
            self._memory.put(self.party.memory, exchange=event.exchange)
        self._log(reply, event.exchange)
        self.node.send(event.sender, reply.data, event.exchange)
        if self._observe is not None and fresh:
            self._observe({"answered": ask.kind, "round": ask.round, "bytes": len(reply.data)})

    def _log_unsent(self) -> None:
        """A line for what an earlier process remembered, but did not come to log and send."""
        reply = self.party.reply
        if reply is None or sha256(reply.data).hexdigest() in self._logged:
            return
        exchange = self._memory.header.get("exchange")
        if not isinstance(exchange, int):
            raise self._state.damaged("memory")
        self._log(reply, exchange, unsent=True)

    def _log(self, reply: Encoded, exchange: int, *, unsent: bool = False) -> None:
        message, digest = reply.message, sha256(reply.data).hexdigest()
        self._lines.append(
            {
                "exchange": exchange,
                "kind": message.kind,
                "round": message.round,
                "to": [COORDINATOR],
                "numbers": sum(value.size for value in message.body.values()),
                "bytes": len(reply.data),
                "digest": digest,
                **({"again": True} if digest in self._logged else {}),
                **({"unsent": True} if unsent else {}),
            }
        )
        self._logged.add(digest)

    def _send(self, kind: str, text: str = "", exchange: int = 0) -> None:
        body = {"why": encode_text(text)} if text else {}
        self.node.send(COORDINATOR, Post(kind, 0, body), exchange)

    def _refuse(self, event: Received, what: str) -> None:
        self.node.refuse(
            event.sender, "does not fit", f"{self.name} refuses {what}, from {event.sender}."
        )


def _wrong_result(protocol: StarProtocol, body: Body, n_columns: int) -> str | None:
    """Why rows cannot be labelled by this; None if they may be."""
    wrong = misfit(protocol.shared, body, n_columns)
    if wrong is None and "centers" in body and not len(body["centers"]):
        wrong = "there are no centres"
    if wrong is None:
        try:
            protocol.embedded(np.empty((0, n_columns)), body)
        except ProtocolError as error:
            wrong = str(error).rstrip(".")
    return wrong
