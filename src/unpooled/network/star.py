"""A coordinator and its parties on a network: processes that die, freeze and come back.

**A question** goes to every party. The coordinator waits until all have answered, for
``round_timeout`` seconds at most; then it goes on if the quorum holds, and otherwise waits on, for
``patience`` seconds in all, for parties to return. Who missed a question is asked the next one too,
but not waited for until it is heard again. Questions are repeated while an answer is missing; a
party repeats its answer, the same bytes (:mod:`unpooled.runtime.idempotent`). A party that cannot
take part says so and is not waited for, unless a new process of it comes; where too few remain for
the quorum, all end at once. With the result, parties learn who answered the last question: whose
rows are in it.

**After a kill.** The coordinator writes the answers to a question into its journal before it goes
on; started again it reads them and asks the question that comes next. A party writes what it must
remember, then its ledger's line, and only then sends; killed in between, it writes the line when it
is started again (``unsent``), since it counts as said. Whose run it is, it remembers too: a
coordinator that begins the same plan anew is another run, which a party that has answered in the
first one refuses, since answers to both could be subtracted from each other.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
from unpooled.messages.codec import decode, encode
from unpooled.messages.conform import lengths, misfit
from unpooled.messages.message import Ask, Message, Note, Post, Reply
from unpooled.network.link import Received, Refused, Up
from unpooled.network.mesh import Timing
from unpooled.network.node import CONTROL, Left, Node, spoken, why_it_leaves, words
from unpooled.network.refusal import OLDER
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import JOURNAL, Journal
from unpooled.network.storage.latest import Latest
from unpooled.network.storage.ledger_file import LEDGER
from unpooled.network.storage.ledger_file import LedgerFile as Chain
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.coordinator import CoordinatorRuntime, Exchange
from unpooled.runtime.idempotent import IdempotentParty
from unpooled.runtime.party import PartyRuntime
from unpooled.types import Body, PartyId

COORDINATOR = "coordinator"
_RUN, _READY, _HERE = CONTROL + "run", CONTROL + "ready", CONTROL + "here"
_REFUSAL, _RESULT, _BYE = CONTROL + "refusal", CONTROL + "result", CONTROL + "bye"
_MEMBERS = "_members"
"""The field of a result that says whose rows are in it; no protocol's fields begin like this."""
_AGAIN = 1.0
"""Seconds after which a question without an answer is repeated, or more if it is a large one."""
_LARGE = 1_000_000
"""Bytes for which a second is due, lest a network be sent again and again while it is trained."""
_RUN_LENGTH = 16


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
        self.conductor = CoordinatorRuntime(protocol, len(names), seed, self._take_note, quorum)
        self._asks = {release.kind: release for release in protocol.asks}
        self._releases = {release.kind: release for release in protocol.releases}
        self._protocol = protocol
        self._columns = n_columns
        self._timing = timing
        self._observe = observe
        self._journal = Journal(state.path / JOURNAL)
        self._lines = Chain(state.path / LEDGER)
        self._run = state.read("run") or secrets.token_bytes(_RUN_LENGTH)
        state.write("run", self._run)
        self._ready: set[PartyId] = set()
        self._absent: set[PartyId] = set()
        self._replies: dict[PartyId, bytes] = {}
        self._open: tuple[Ask, bytes] | None = None
        self._asked = ""
        """The digest of the question, as in :class:`unpooled.runtime.coordinator.Exchange`."""
        self._note: Note | None = None
        self._said_bye: set[PartyId] = set()

    def run(self) -> Body:
        """The result, once there is one; parties learn of it by :meth:`part`."""
        ask = self.conductor.begin(self._past())
        while ask is not None:
            replies = self._answers(ask)
            self._journal.append(
                {"question": self._asked, "kind": ask.kind, "round": ask.round}, replies
            )
            ask = self.conductor.answered({name: decode(raw).body for name, raw in replies.items()})
        return self.conductor.result

    @property
    def members(self) -> tuple[PartyId, ...]:
        """Whose rows are in the result: those who answered the last question."""
        return next(reversed(self.conductor.answerers.values()), ())

    def part(self) -> None:
        """Sends the result until every party that is there has it."""
        members = np.array([self.names.index(name) for name in self.members], dtype=np.int64)
        shown = self._protocol.shown(self.conductor.result)
        message = Post(_RESULT, 0, {**shown, _MEMBERS: members})
        self._open = None
        end, again = monotonic() + self._timing.round_timeout, 0.0
        while (now := monotonic()) < end and set(self.names) - self._said_bye - set(self.left):
            if now >= again:
                again = now + _AGAIN
                self._tell_all(message)
                for name in set(self.names) - self._ready - self._said_bye:
                    self._tell_run(name)
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
                    f"{self.conductor.exchange} ({type(error).__name__}); move the state directory "
                    "away to begin anew."
                ) from error

    # One question

    def _answers(self, ask: Ask) -> dict[PartyId, bytes]:
        """Enough answers to the question, in party order."""
        plain = encode(ask)
        self._asked = sha256(plain).hexdigest()
        self._open, self._replies, self.refusals = (ask, plain), {}, {}
        self._lines.append(
            {
                "exchange": self.conductor.exchange,
                "kind": ask.kind,
                "round": ask.round,
                "to": list(self.names),
                "bytes": len(plain),
                "digest": self._asked,
            }
        )
        for name in self._ready:
            self.node.send(name, plain, self.conductor.exchange)
        needed = len(self.names) if ask.quorum is None else ask.quorum
        began = now = monotonic()
        pause = _AGAIN * max(1.0, len(plain) / _LARGE)
        again = now + pause
        gathering = self.conductor.exchange == len(self._journal.records)
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
                self.node.send(name, self._open[1], self.conductor.exchange)
            else:
                self._tell_run(name)
        for name in set(self.names) - set(missing):
            self.node.send(name, Post(_HERE, 0, {}), self.conductor.exchange)

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
            self._tell_run(event.sender)
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
        if message.kind == _READY:
            self._ready.add(name)
            if self._open is not None and name not in self._done:
                self.node.send(name, self._open[1], self.conductor.exchange)
        elif message.kind == _REFUSAL:
            if event.exchange == self.conductor.exchange and name not in self._replies:
                self.refusals[name] = spoken(message)
        elif message.kind == _BYE:
            self._said_bye.add(name)
        elif message.kind != _HERE:
            self._take_reply(name, event)

    def _take_reply(self, name: PartyId, event: Received) -> None:
        message = event.message
        ask = self._open[0] if self._open is not None else None
        late = event.exchange < self.conductor.exchange or ask is None or name in self._replies
        if late and isinstance(message, Reply):
            return  # it was repeated, or came too late; it counts for nothing
        wrong = None
        if ask is None or not isinstance(message, Reply):
            wrong = f"{message.kind!r}, which is no answer"
        elif (message.kind, message.round) != (ask.kind, ask.round):
            wrong = f"{message.kind!r} of round {message.round}"
        else:
            known = lengths(self._asks[ask.kind], ask.body)
            wrong = misfit(self._releases[ask.kind], message.body, self._columns, lengths=known)
        if wrong is None:
            self._replies[name] = event.plain
            return
        due = f"{ask.kind!r} of round {ask.round} is due" if ask else "nothing is due"
        self.node.refuse(
            name, "does not fit", f"The coordinator refuses what {name} sent where {due}: {wrong}."
        )

    def _tell_run(self, name: PartyId) -> None:
        """Says whose run this is, until the party says that it is ready: words may get lost."""
        hello = Post(_RUN, 0, {"run": np.frombuffer(self._run, np.uint8)})
        self.node.send(name, hello, self.conductor.exchange)

    def _tell_all(self, message: Message) -> None:
        for name in self._ready - self._said_bye:
            self.node.send(name, message, self.conductor.exchange)

    def _take_note(self, note: Note) -> None:
        self._note = note

    def _show(self, ask: Ask) -> None:
        if self._observe is not None:
            missing = tuple(name for name in self.names if name not in self._replies)
            there = tuple(name for name in self.names if name in self._replies)
            out, in_ = self.node.bytes_out, self.node.bytes_in
            self._observe(StarProgress(ask.kind, ask.round, there, missing, out, in_, self._note))
        self._note = None


class StarParty:
    """Answers the coordinator's questions until there is a result."""

    def __init__(
        self,
        protocol: StarProtocol,
        site: PartyRuntime,
        node: Node,
        state: StateDirectory,
        timing: Timing,
        observe: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.name = site.data.name
        self.node = node
        self.site = site
        self.clerk = IdempotentParty(site)
        self._asks = {release.kind: release for release in protocol.asks}
        self._protocol = protocol
        self._columns = site.data.rows.shape[1]
        self._state = state
        self._timing = timing
        self._observe = observe
        self._lines = Chain(state.path / LEDGER)
        self._logged = {str(line["digest"]) for line in self._lines.lines if "digest" in line}
        self._memory = Latest(state, "memory")
        memory = self._memory.value
        if memory is not None:
            self.clerk.remember(memory)
        if len(self._logged) > self.clerk.answered:
            raise state.damaged("memory")  # it has said more than it remembers
        self._run = state.read("run")
        self._remarks_before = 0
        self.members: tuple[int, ...] = ()
        """Whose rows are in the result, by their numbers in the plan."""
        self._log_unsent()

    def run(self) -> Body:
        """The result, as far as parties get it."""
        silence = monotonic()
        while True:
            event = self.node.poll(monotonic() + _AGAIN)
            if isinstance(event, Received):
                silence = monotonic()
                if event.message.kind == _RESULT:
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
        members = body.pop(_MEMBERS, np.empty(0))
        wrong = _wrong_result(self._protocol, body, self._columns)
        if wrong is None and (members.ndim != 1 or members.dtype != np.int64):
            wrong = "it does not say who took part"
        if wrong is not None:
            self._refuse(event, f"a result: {wrong}")
            return None
        self.members = tuple(members.tolist())
        self._say(_BYE)
        return body

    def close(self) -> None:
        """Closes the files."""
        self._memory.close()
        self._lines.close()

    def part(self) -> None:
        """Tells the coordinator once more that this party has the result."""
        self._say(_BYE)
        self.node.poll(monotonic() + 0.2)

    def _take(self, event: Received) -> None:
        message = event.message
        if message.kind == _RUN:
            self._join(event)
        elif message.kind == _HERE:
            self._say(_HERE)
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
        if named.dtype != np.uint8 or len(run) != _RUN_LENGTH:
            self._refuse(event, "a run without a name")
            return
        if self._run is not None and run != self._run and self.clerk.answered:
            error = StateError(
                f"{self.name} has answered in another run of this plan, and answers to both could "
                "be subtracted from each other; go on with that one (--resume at the coordinator), "
                f"or, if its owner agrees, move {self._state.path} away."
            )
            self._say(_REFUSAL, str(error), event.exchange)
            raise error
        self._run = run
        self._state.write("run", run)
        self._say(_READY)

    def _answer(self, ask: Ask, event: Received) -> None:
        before = self.clerk.answered
        try:
            plain = self.clerk.answer(event.plain, event.exchange)
            if plain is None:
                raise PolicyRefusal(f"The policy of {self.name} withholds {ask.kind!r}.")
        except (LedgerRefusal, ProtocolError, InputError) as refusal:
            self._lines.append({"refused": ask.kind, "round": ask.round, "why": str(refusal)})
            self.node.refuse(event.sender, "refused", str(refusal))
            # What is wrong with rows may be said in their values.
            reason = why_it_leaves(refusal) if isinstance(refusal, InputError) else str(refusal)
            self._say(_REFUSAL, reason, event.exchange)
            return
        except WireError as error:
            raise ProtocolError(
                f"{self.name} cannot answer {ask.kind!r} of round {ask.round}: {error} Let it take "
                "part with fewer rows, or change the plan."
            ) from error
        fresh = self.clerk.answered > before
        if fresh:  # before anything is sent: if this fails, the party's part has ended
            self._memory.put(self.clerk.memory, exchange=event.exchange)
        self._log(ask, plain, event.exchange)
        self.node.send(event.sender, plain, event.exchange)
        if self._observe is not None and fresh:
            self._observe({"answered": ask.kind, "round": ask.round, "bytes": len(plain)})

    def _log_unsent(self) -> None:
        """A line for what an earlier process remembered, but did not come to log and send."""
        plain = self.clerk.reply
        if not plain or sha256(plain).hexdigest() in self._logged:
            return
        exchange = self._memory.header.get("exchange")
        if not isinstance(exchange, int):
            raise self._state.damaged("memory")
        self._log(decode(plain), plain, exchange, unsent=True)

    def _log(self, ask: Message, plain: bytes, exchange: int, *, unsent: bool = False) -> None:
        digest_ = sha256(plain).hexdigest()
        remarks = [str(remark) for remark in self.site.ledger.remarks[self._remarks_before :]]
        self._remarks_before = len(self.site.ledger.remarks)
        self._lines.append(
            {
                "exchange": exchange,
                "kind": ask.kind,
                "round": ask.round,
                "to": [COORDINATOR],
                "numbers": sum(value.size for value in decode(plain).body.values()),
                "bytes": len(plain),
                "digest": digest_,
                **({"held_back": remarks} if remarks else {}),
                **({"again": True} if digest_ in self._logged else {}),
                **({"unsent": True} if unsent else {}),
            }
        )
        self._logged.add(digest_)

    def _say(self, kind: str, text: str = "", exchange: int = 0) -> None:
        body = {"why": words(text)} if text else {}
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
