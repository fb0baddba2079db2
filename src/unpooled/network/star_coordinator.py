"""A coordinator on a network: it asks, waits, repeats, and goes on after it was killed.

**A question** goes to every party. The coordinator waits until all have answered, for
``round_timeout`` seconds at most; then it goes on if the quorum holds, and otherwise waits on, for
``patience`` seconds in all, for parties to return. Who missed a question is asked the next one too,
but not waited for until it is heard again. Questions are repeated while an answer is missing. A
party that cannot take part says so and is not waited for, unless a new process of it comes; where
too few remain for the quorum, all end at once. With the result, parties learn who answered the last
question: whose rows are in it.

**After a kill.** The coordinator writes the answers to a question into its journal before it goes
on; started again it reads them and asks the question that comes next.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic

import numpy as np

from unpooled.errors import PolicyRefusal, QuorumLost, StateError, WireError
from unpooled.messages.codec import Encoded, decode, encode
from unpooled.messages.message import Ask, Message, Note, Post, Reply
from unpooled.network.link import Received, Refused, Up
from unpooled.network.node import Left, Node, decode_text
from unpooled.network.star_kinds import (
    BYE,
    HERE,
    MEMBERS,
    READY,
    REFUSAL,
    RESULT,
    RUN,
    RUN_LENGTH,
)
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import JOURNAL, Journal
from unpooled.network.storage.ledger_file import LEDGER, LedgerFile
from unpooled.network.timing import Timing
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.coordinator import CoordinatorRuntime, Exchange
from unpooled.types import Body, PartyId

_REPEAT = 1.0
"""Seconds after which a question without an answer is repeated, or more if it is a large one."""
_LARGE = 1_000_000
"""Bytes for which a second is due, lest a network be sent again and again while it is trained."""


@dataclass(frozen=True)
class StarProgress:
    """What a screen may show: a question has been answered, or somebody has come or gone."""

    asked: str
    round: int
    answered: tuple[PartyId, ...]
    missing: tuple[PartyId, ...]
    bytes_out: int
    bytes_in: int
    note: Note | None = None


class StarCoordinator:
    """Asks the parties ``names`` (in the plan's order) until the protocol has its result."""

    def __init__(
        self,
        protocol: StarProtocol,
        names: tuple[PartyId, ...],
        node: Node,
        state: StateDirectory,
        seed: int,
        timing: Timing,
        *,
        quorum: int | None = None,
        n_columns: int,
        observe: Callable[[StarProgress], None] | None = None,
    ) -> None:
        self.names = names
        self.node = node
        self.refusals: dict[PartyId, str] = {}
        """Why parties did not answer, in their words."""
        self.left: dict[PartyId, str] = {}
        """Who takes no part at all, and why."""
        self.runtime = CoordinatorRuntime(protocol, len(names), seed, self._take_note, quorum)
        self._protocol = protocol
        self._columns = n_columns
        self._timing = timing
        self._observe = observe
        self._journal = Journal(state.path / JOURNAL)
        self._lines = LedgerFile(state.path / LEDGER)
        self._run = state.read("run") or secrets.token_bytes(RUN_LENGTH)
        state.write("run", self._run)
        self._ready: set[PartyId] = set()
        self._absent: set[PartyId] = set()
        self._replies: dict[PartyId, Encoded] = {}
        self._open: Encoded | None = None
        self._asked = ""
        """The digest of the question, as in :class:`unpooled.runtime.coordinator.Exchange`."""
        self._note: Note | None = None
        self._done_with: set[PartyId] = set()

    def run(self) -> Body:
        """The result, once there is one; parties learn of it by :meth:`terminate`."""
        ask = self.runtime.begin(self._past())
        while ask is not None:
            replies = self._answers(ask)
            self._journal.append(
                {"question": self._asked, "kind": ask.kind, "round": ask.round},
                {name: reply.data for name, reply in replies.items()},
            )
            bodies = {name: reply.message.body for name, reply in replies.items()}
            ask = self.runtime.answered(bodies)
        return self.runtime.result

    @property
    def members(self) -> tuple[PartyId, ...]:
        """Whose rows are in the result: those who answered the last question."""
        return next(reversed(self.runtime.answerers.values()), ())

    def terminate(self) -> None:
        """Sends the result until every party that is there has it."""
        members = np.array([self.names.index(name) for name in self.members], dtype=np.int64)
        shown = self._protocol.shown(self.runtime.result)
        message = Post(RESULT, 0, {**shown, MEMBERS: members})
        self._open = None
        end, again = monotonic() + self._timing.round_timeout, 0.0
        while (now := monotonic()) < end and set(self.names) - self._done_with - set(self.left):
            if now >= again:
                again = now + _REPEAT
                self._send_all(message)
                for name in set(self.names) - self._ready - self._done_with:
                    self._announce_run(name)
            self._handle(min(end, again))

    def close(self) -> None:
        """Closes the files."""
        self._journal.close()
        self._lines.close()

    def _past(self) -> Iterator[Exchange]:
        """What earlier processes were answered."""
        for header, parts in self._journal.records:
            try:
                replies = {name: decode(raw).body for name, raw in parts.items()}
                yield Exchange(header["question"], replies)
            except (KeyError, WireError) as error:
                raise StateError(
                    f"The coordinator's journal does not have the answers to question "
                    f"{self.runtime.exchange} ({type(error).__name__}); move the state directory "
                    "away to begin anew."
                ) from error

    # One question

    def _answers(self, ask: Ask) -> dict[PartyId, Encoded]:
        """Enough answers to the question, in party order."""
        plain = encode(ask)
        self._asked = sha256(plain).hexdigest()
        self._open, self._replies, self.refusals = Encoded(ask, plain), {}, {}
        self._lines.append(
            {
                "exchange": self.runtime.exchange,
                "kind": ask.kind,
                "round": ask.round,
                "to": list(self.names),
                "bytes": len(plain),
                "digest": self._asked,
            }
        )
        for name in self._ready:
            self.node.send(name, plain, self.runtime.exchange)
        needed = self.runtime.needed
        began = now = monotonic()
        pause = _REPEAT * max(1.0, len(plain) / _LARGE)
        again = now + pause
        gathering = self.runtime.exchange == len(self._journal.records)
        timeout = self._timing.patience if gathering else self._timing.round_timeout
        while True:
            done = self._done
            missing = [name for name in self.names if name not in done]
            enough = len(self._replies) >= needed
            waited = now - began
            if not missing or (enough and (waited >= timeout or not set(missing) - self._absent)):
                break
            if waited >= self._timing.patience or len(self._able) < needed:
                break  # too long, or too many have refused
            until = min(again, began + timeout) if now < began + timeout else again
            self._handle(until, next((n for n in missing if n in self._ready), None))
            now = monotonic()
            if now >= again:
                again = now + pause
                self._repeat(missing)
        self._absent = set(missing)
        if len(self._replies) < needed:
            self._give_up(ask, needed)
        self._show(ask)
        return {name: self._replies[name] for name in self.names if name in self._replies}

    @property
    def _done(self) -> set[PartyId]:
        """Those of whom nothing more is waited for."""
        return set(self._replies) | set(self.refusals) | set(self.left)

    @property
    def _able(self) -> set[PartyId]:
        """Those who have answered or still may."""
        return set(self.names) - (set(self.refusals) | set(self.left)) | set(self._replies)

    def _repeat(self, missing: list[PartyId]) -> None:
        assert self._open is not None
        for name in missing:
            if name in self._ready:
                self.node.send(name, self._open.data, self.runtime.exchange)
            else:
                self._announce_run(name)
        for name in set(self.names) - set(missing):
            self.node.send(name, Post(HERE, 0, {}), self.runtime.exchange)

    def _give_up(self, ask: Ask, needed: int) -> None:
        for name, why in self.refusals.items():
            raise PolicyRefusal(f"{name} refuses: {why}")
        for name, why in self.left.items():
            raise QuorumLost(
                f"{name} takes no part ({why}), so at most {len(self._able)} of {len(self.names)} "
                f"parties can answer {ask.kind!r} in round {ask.round}, and {needed} are needed; "
                "see to it, then start this again with --resume."
            )
        raise QuorumLost(
            f"{len(self._replies)} of {len(self.names)} parties answered {ask.kind!r} in round "
            f"{ask.round}, but {needed} are needed; {', '.join(sorted(self._absent))} did not: "
            "start them, then this again with --resume."
        )

    # What arrives

    def _handle(self, until: float, expected: PartyId | None = None) -> None:
        event = self.node.poll(until, expected)
        if isinstance(event, Up):
            self._ready.discard(event.sender)
            self.left.pop(event.sender, None)
            self._announce_run(event.sender)
        elif isinstance(event, Left):
            self._take_leave(event.sender, event.why)
        elif isinstance(event, Refused):
            self._take_leave(event.sender, event.sentence)
        elif isinstance(event, Received):
            self._take(event)

    def _take_leave(self, name: PartyId, why: str) -> None:
        self._ready.discard(name)
        if name not in self.left:
            self.left[name] = why.rstrip(".")
            self.node.refuse(name, "left", f"{name} takes no part: {self.left[name]}.")

    def _take(self, event: Received) -> None:
        name, message = event.sender, event.message
        self._absent.discard(name)
        if message.kind == READY:
            self._ready.add(name)
            if self._open is not None and name not in self._done:
                self.node.send(name, self._open.data, self.runtime.exchange)
        elif message.kind == REFUSAL:
            if event.exchange == self.runtime.exchange and name not in self._replies:
                self.refusals[name] = decode_text(message)
        elif message.kind == BYE:
            self._done_with.add(name)
        elif message.kind != HERE:
            self._take_reply(name, event)

    def _take_reply(self, name: PartyId, event: Received) -> None:
        message = event.message
        ask = self._open.message if self._open is not None else None
        late = event.exchange < self.runtime.exchange or ask is None or name in self._replies
        if late and isinstance(message, Reply):
            return  # it was repeated, or came too late; it counts for nothing
        wrong = None
        if ask is None or not isinstance(message, Reply):
            wrong = f"{message.kind!r}, which is no answer"
        elif (message.kind, message.round) != (ask.kind, ask.round):
            wrong = f"{message.kind!r} of round {message.round}"
        else:
            wrong = self.runtime.misfit(message, self._columns)
        if wrong is None:
            self._replies[name] = Encoded(message, event.plain)
            return
        due = f"{ask.kind!r} of round {ask.round} is due" if ask else "nothing is due"
        self.node.refuse(
            name, "does not fit", f"The coordinator refuses what {name} sent where {due}: {wrong}."
        )

    def _announce_run(self, name: PartyId) -> None:
        """Says whose run this is, until the party says that it is ready: words may get lost."""
        hello = Post(RUN, 0, {"run": np.frombuffer(self._run, np.uint8)})
        self.node.send(name, hello, self.runtime.exchange)

    def _send_all(self, message: Message) -> None:
        for name in self._ready - self._done_with:
            self.node.send(name, message, self.runtime.exchange)

    def _take_note(self, note: Note) -> None:
        self._note = note

    def _show(self, ask: Ask) -> None:
        if self._observe is not None:
            missing = tuple(name for name in self.names if name not in self._replies)
            there = tuple(name for name in self.names if name in self._replies)
            out, in_ = self.node.bytes_out, self.node.bytes_in
            self._observe(StarProgress(ask.kind, ask.round, there, missing, out, in_, self._note))
        self._note = None
