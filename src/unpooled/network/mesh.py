"""One peer of a mesh on a network: no one in charge, neighbours that die, freeze and come back.

**Exchanges** are numbered from 0 over the whole run. In exchange n a peer sends its post to every
neighbour and waits until each has answered with its own post of exchange n, has ended (its last
words count from then on), has left, or is given up for this exchange: after ``round_timeout``
seconds without a word from it, or after ``patience`` seconds in all. A peer that itself waits for
another answers when it is asked where it is, so it is not given up with that other one. What was
heard goes to the journal, then to the algorithm.

**Whom a post is not addressed to** gets a bare one, without a field, which says that there is
nothing to wait for. It is no release: the ledger neither reviews nor counts it.

**Who is not heard** leaves the sum of this exchange. For ``patience`` seconds every exchange still
waits for it, ``round_timeout`` at most, so that a network in parts goes on slowly and does not run
to its end in parts; after that it is not waited for, until a word of it arrives.

**Coming back.** Peers tell each other where they are (``_status``): the exchange they are in, and
the last one in which they heard the other. A peer that finds a neighbour to be ahead finishes its
own exchange, with the neighbour's post if the neighbour heard its own (it is sent once more), and
then sleeps: it goes through the exchanges that it missed without a step, up to the one that the
neighbour is in. A process that was killed first reads its journal and is where it was.

**Leaving.** A peer that cannot take part says so and ends. Who hears of it goes on without it, or
ends too, at once, where fewer than ``min_parties`` could then be in the result.

**Parting.** Good-byes carry everybody's account of who was heard to the end
(:mod:`unpooled.network.attendance`). A peer stays until all who are there have the same accounts.

**What can be asymmetric.** Where a link is cut for longer than ``round_timeout``, one end may have
heard the other in the exchange of the cut and not the other way round: no protocol can exclude it.
Methods without memory of such sums (DGC, Kar & Swenson) do not mind, and gossiped sums start anew
after it; ADMM keeps an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Any

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from unpooled.errors import (
    MalformedMessage,
    PartyLeft,
    PolicyRefusal,
    ProtocolError,
    StateError,
    UnpooledError,
    WireError,
)
from unpooled.messages.codec import decode, encode
from unpooled.messages.conform import wrong_numbers
from unpooled.messages.message import Message, Note, Post
from unpooled.network.attendance import HEARD, Account, Attendance
from unpooled.network.link import Received, Refused, Up
from unpooled.network.neighbour import (
    NEVER,
    Neighbour,
    Outgoing,
    alike,
    heard_by_one,
    spoken_to,
)
from unpooled.network.node import CONTROL, Event, Left, Node
from unpooled.network.refusal import OLDER
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import JOURNAL, Journal
from unpooled.network.storage.ledger_file import LEDGER
from unpooled.network.storage.ledger_file import LedgerFile as Chain
from unpooled.privacy.ledger import Ledger
from unpooled.privacy.policy import Policy
from unpooled.protocols.mesh.base import Block, MeshProtocol
from unpooled.runtime import spans
from unpooled.runtime.spans import Spans
from unpooled.types import Body, IntArray, PartyId, in_c_order

_STATUS, _BYE, _SEEN = CONTROL + "status", CONTROL + "bye", CONTROL + "seen"
_NUDGE = 0.2
"""Seconds after which a silent neighbour is asked where it is."""
_STILL_THERE = 2.0
"""Seconds between two good-byes to one who has heard everything: its answer shows it is there."""
_FARTHEST = 10**9


@dataclass(frozen=True)
class Timing:
    """How long a run waits for whom, in seconds."""

    round_timeout: float = 30.0
    patience: float = 120.0


@dataclass(frozen=True)
class Progress:
    """What a screen may show after an exchange."""

    exchange: int
    present: tuple[PartyId, ...]
    bytes_out: int
    note: Note | None


class MeshPeer:
    """Runs one peer: ``block`` is its one user, ``names`` are everybody's in the plan's order."""

    def __init__(
        self,
        protocol: MeshProtocol,
        block: Block,
        names: tuple[PartyId, ...],
        node: Node,
        state: StateDirectory,
        policy: Policy,
        timing: Timing,
        observe: Callable[[Progress], None] | None = None,
        *,
        min_parties: int = 1,
    ) -> None:
        self.name = block.parties.names[0]
        self.attendance = Attendance(len(names))
        self.ledger = Ledger((self.name,), protocol.releases, policy)
        self.neighbours = {names[j]: Neighbour(names[j], int(j)) for j in block.neighbourhood.outer}
        self.asleep: Spans = []
        """Exchanges that this peer missed."""
        self.result: Body = {}
        self.node = node
        self._near = block.neighbourhood
        self._graph = block.graph
        self._names = names
        self._number = names.index(self.name)
        self._min_parties = min_parties
        self._releases = {release.kind: release for release in protocol.releases}
        self._timing = timing
        self._observe = observe
        self._lines = Chain(state.path / LEDGER, to_disk=False)
        self._journal = Journal(state.path / JOURNAL, to_disk=False)
        self._logged = {str(line.get("exchange")) for line in self._lines.lines}
        self._peer = protocol.peer(block)
        self._take = {_STATUS: self._take_status, _BYE: self._take_bye, _SEEN: self._take_seen}
        self._post: Post | None = None
        self._note: Note | None = None
        self._exchange = 0
        self._fresh = True
        self._own: dict[int, Outgoing] = {}
        """Our posts that a neighbour may still ask for, by exchange."""
        self._all: IntArray = np.array([len(self.neighbours)])

    def run(self) -> Body:
        """The peer's result; afterwards neighbours have heard that it ended."""
        self._advance(lambda: next(self._peer))
        self._replay()
        while self._post is not None:
            self._go_through_exchange()
            self._catch_up()
        self.attendance.add(self._number, self._account())
        return self.result

    def part(self) -> None:
        """Says good-bye until everybody who is there knows who took part."""
        progress = monotonic()
        nudge = still_there = 0.0
        patience = self._timing.round_timeout + self._timing.patience
        while True:
            now, known = monotonic(), self.attendance.peers
            there = [o for o in self.neighbours.values() if self._worth_waiting(o, now)]
            untold = [other for other in there if not known <= other.knows]
            if self.attendance.complete and not untold:
                break
            running = [other.last_word for other in there if other.ended is None]
            if not there or now >= max([progress, *running]) + patience:
                break
            if now >= nudge:
                nudge = now + _NUDGE
                if now >= still_there:
                    still_there, untold = now + _STILL_THERE, there
                for other in untold:
                    self._say_bye(other, self._exchange - 1)
            self._handle(self.node.poll(nudge))
            if self.attendance.peers != known:
                progress, nudge = now, 0.0  # news is passed on at once

    @property
    def members(self) -> tuple[PartyId, ...]:
        """Whose rows count in this peer's result, in the plan's order."""
        return tuple(self._names[j] for j in sorted(self.attendance.members(self._number)))

    def _account(self) -> Account:
        last = self._exchange - 1
        since = {
            other.number: other.silent[-1][0]
            if other.silent and other.silent[-1][1] == last
            else HEARD
            for other in self.neighbours.values()
        }
        return Account(last, since)

    def close(self) -> None:
        """Closes the files."""
        self._lines.close()
        self._journal.close()

    @property
    def participation(self) -> dict[str, Any]:
        """Who took part when: exchanges as [first, last], both included."""
        return {
            "exchanges": self._exchange,
            "neighbours": list(self.neighbours),
            "asleep": self.asleep,
            "not_heard": {o.name: o.silent for o in self.neighbours.values() if o.silent},
            "ended_before": {
                o.name: o.ended for o in self.neighbours.values() if o.ended is not None
            },
        }

    # One exchange

    def _go_through_exchange(self) -> None:
        n = self._exchange
        post = self._let_out(n)
        for other in self.neighbours.values():
            if other.ended is None:
                self.node.send(other.name, self._own[n].to(other.name), n)
        self._wait(n, post)
        heard, bare = {}, []
        for other in self.neighbours.values():
            said = self._said_by(other, n, post)
            if said is not None and said[0].body:
                heard[other.name] = said
            elif said is not None:
                bare.append(other.name)
        header = {"exchange": n, **({"bare": bare} if bare else {})}
        self._journal.append(header, {name: raw for name, (_, raw) in heard.items()})
        self._complete(n, post, {name: message.body for name, (message, _) in heard.items()}, bare)

    def _let_out(self, n: int) -> Post:
        """What is to be said now, once the policy agreed and the ledger has its line."""
        assert self._post is not None
        to = spoken_to(self._post, list(self.neighbours))
        whole = len(to) == len(self.neighbours)
        copies = self._all if whole else np.array([len(to)])
        post = self.ledger.send(self._post, copies, n) if to else self._post
        if post is None:
            raise PolicyRefusal(
                f"The policy of {self.name} withholds {self._post.kind!r} of round "
                f"{self._post.round}, but neighbours cannot go on without; leave the run or "
                "change the policy."
            )
        own = self._own[n] = Outgoing(post, encode(post), to)
        if to and str(n) not in self._logged:
            self._log(n, own, to, again=False)
        return post

    def _log(self, n: int, own: Outgoing, to: Collection[PartyId], *, again: bool) -> None:
        self._lines.append(
            {
                "exchange": n,
                "kind": own.post.kind,
                "round": own.post.round,
                "to": list(to),
                "numbers": sum(value.size for value in own.post.body.values()),
                "bytes": len(own.plain),
                "digest": sha256(own.plain).hexdigest(),
                **({"again": True} if again else {}),
            }
        )

    def _wait(self, n: int, post: Post) -> None:
        began = now = monotonic()
        silence = self._timing.patience if self._fresh else self._timing.round_timeout
        last_call, nudge = began + self._timing.patience, now + _NUDGE
        self._fresh = False
        open_ = list(self.neighbours.values())
        while open_ := [other for other in open_ if not self._resolved(other, n, post)]:
            hoped_for = [other for other in open_ if self._worth_waiting(other, now)]
            heard = max([began, *[other.last_word for other in hoped_for]])
            deadline = min(heard + silence, last_call)
            if now >= deadline:
                break
            if hoped_for:
                event = self.node.poll(min(deadline, nudge), hoped_for[0].name)
            elif (event := self.node.poll(now)) is None:
                break  # none of those given up has written since
            self._handle(event)
            now = monotonic()
            if now >= nudge:
                nudge = now + _NUDGE
                for other in open_:
                    self._tell_place(other, answer=False)
        for other in open_:
            if other.lost_since is None:
                other.lost_since = max(began, other.last_word)

    def _worth_waiting(self, other: Neighbour, now: float) -> bool:
        if other.left is not None:
            return False
        return other.lost_since is None or now - other.lost_since < self._timing.patience

    def _resolved(self, other: Neighbour, n: int, post: Post) -> bool:
        """Whether it is known what this neighbour's part in exchange n is."""
        if other.fits == n:
            return True
        if other.ended == n and n not in other.posts:
            if other.words is None or not _names(other.words[0], post):
                return True  # it was not there
            other.posts[n] = other.words  # what it said last has been lost before
        if n in other.posts:
            if self._fits(other, other.posts[n][0], post, n):
                other.fits = n
                return True
            del other.posts[n]
        if other.ended_before(n):
            return True
        at, heard_us = other.status
        return at > n and heard_us < n  # it went on without us

    def _fits(self, other: Neighbour, message: Message, post: Post, n: int) -> bool:
        """Whether this is what is due in exchange n: it looks like our own post, or is bare."""
        if not _names(message, post):
            wrong: str | None = f"{message.kind!r} of round {message.round}"
        elif message.body and not alike(message.body, post.body):
            wrong = "fields or shapes other than its own"
        else:
            wrong = wrong_numbers(self._releases[post.kind], message.body)
        if wrong is None:
            return True
        self.node.refuse(
            other.name,
            "does not fit",
            f"{self.name} refuses what {other.name} sent in exchange {n}, where {post.kind!r} of "
            f"round {post.round} is due: {wrong}.",
        )
        return False

    def _said_by(self, other: Neighbour, n: int, post: Post) -> tuple[Message, bytes] | None:
        """What counts as said by the neighbour in exchange n."""
        if not other.ended_before(n):
            return other.posts.get(n)
        if other.words is None or other.words[0].kind != post.kind:
            return None  # it ended in another phase and says nothing here
        message, raw = other.words
        now = Post(message.kind, post.round, message.body)
        return (message, raw) if message.body and self._fits(other, now, post, n) else None

    def _complete(
        self, n: int, post: Post, spoken: Mapping[PartyId, Body], bare: Collection[PartyId]
    ) -> None:
        """Hands on what was heard: the words of those who spoke, and who had none."""
        present, ended, counted = [], [], []
        for other in self.neighbours.values():
            over = other.ended_before(n)
            here = not over and (other.name in spoken or other.name in bare)
            if over:
                ended.append(other.number)
            if here:
                present.append(other.number)
                other.heard = n
            # One that ended in another phase has no part here: nothing is missing.
            elsewhere = over and other.words is not None and other.words[0].kind != post.kind
            if here or elsewhere or other.name in spoken:
                counted.append(other.name)
            else:
                spans.add(other.silent, n)
            for old in [e for e in other.posts if e <= n]:
                del other.posts[old]
        arrived = len(present) - len(bare)
        whole = arrived == len(self.neighbours)
        self.ledger.receive(post, self._all if whole else np.array([arrived]), n)
        still_asked_for = {n, *[o.heard for o in self.neighbours.values()]}
        self._own = {e: own for e, own in self._own.items() if e in still_asked_for}
        numbers = {self.neighbours[name].number: body for name, body in spoken.items()}
        heard = heard_by_one(self._near, post.body, numbers, present, ended)
        self._exchange = n + 1
        self._advance(lambda: self._peer.send(heard))
        self._show(n, tuple(counted))

    def _catch_up(self) -> None:
        """Sleeps through what neighbours have done without us."""
        target = max((o.at for o in self.neighbours.values() if o.ended is None), default=NEVER)
        if target > self._exchange and self._post is not None:
            self._journal.append({"asleep": target}, {})
            self._sleep_until(target)

    def _sleep_until(self, target: int) -> None:
        while self._exchange < target and self._post is not None:
            n, post = self._exchange, self._post
            spans.add(self.asleep, n)
            for other in self.neighbours.values():
                spans.add(other.silent, n)
            heard = heard_by_one(self._near, post.body, {}, awake=False)
            self._exchange = n + 1
            self._advance(lambda heard=heard: self._peer.send(heard))  # type: ignore[misc]

    def _advance(self, resume: Callable[[], Post | Note]) -> None:
        self._post = None
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                said = resume()
                while isinstance(said, Note):
                    self._note = said
                    said = next(self._peer)
        except StopIteration as end:
            self.result = {name: in_c_order(value) for name, value in end.value.items()}
            return
        except UnpooledError:
            raise
        except Exception as error:
            raise ProtocolError(
                f"{self.name} cannot go on with exchange {self._exchange}: what it heard is as "
                f"declared, but makes no sense ({type(error).__name__}); find out who sent what "
                "from its journal."
            ) from error
        if said.kind.startswith(CONTROL):
            raise ProtocolError(f"No protocol's messages may be called {said.kind!r}.")
        self._post = said

    def _show(self, n: int, present: tuple[PartyId, ...]) -> None:
        if self._observe is not None:
            self._observe(Progress(n, present, self.node.bytes_out, self._note))
        self._note = None

    # What arrives

    def _handle(self, event: Event | None) -> None:
        if isinstance(event, Up):
            other = self.neighbours[event.sender]
            other.left = None
            self._tell_place(other, answer=False)
        elif isinstance(event, Left):
            self._take_leave(self.neighbours[event.sender], event.who, event.why)
        elif isinstance(event, Refused):
            if event.reason == OLDER and self._post is not None:
                raise StateError(event.sentence)
            self._take_leave(self.neighbours[event.sender], event.sender, event.sentence)
        elif isinstance(event, Received):
            other = self.neighbours[event.sender]
            other.lost_since, other.last_word = None, monotonic()
            try:
                self._take.get(event.message.kind, self._take_post)(other, event)
            except WireError as error:
                self._refuse(other, "malformed", f"a message of no use ({error})")

    def _take_post(self, other: Neighbour, event: Received) -> None:
        e, n = event.exchange, self._exchange
        if not isinstance(event.message, Post) or event.message.kind not in self._releases:
            self._refuse(other, "undeclared", f"{event.message.kind!r}, which nobody may send")
            return
        if not 0 <= e < _FARTHEST:
            self._refuse(other, "out of round", f"a post of exchange {e}")
            return
        other.at = max(other.at, e)
        if e >= n:
            other.posts.setdefault(e, (event.message, event.plain))
        if e > n + 1:
            self._tell_place(other, answer=False)
        while len(other.posts) > 3:  # this exchange, the next, and the latest
            del other.posts[sorted(other.posts)[-2]]

    def _take_leave(self, other: Neighbour, who: PartyId, why: str) -> None:
        """Ends this peer's part too, where too few remain for a result that was agreed on."""
        known, why = other.left is not None, why.rstrip(".")
        other.left = why if who == other.name else f"it does not go on without {who}: {why}"
        if self._post is None or known:
            return
        gone = [o.number for o in self.neighbours.values() if o.left is not None]
        links = self._graph.adjacency.tolil()
        links[gone], links[:, gone] = 0, 0
        within = len(breadth_first_order(links.tocsr(), self._number, directed=False)[0])
        if within < self._min_parties or len(gone) == len(self.neighbours):
            raise PartyLeft(
                who,
                why,
                f"{who} takes no part ({why}), so too few peers can be in the result of "
                f"{self.name} (the plan's min_parties is {self._min_parties} of "
                f"{len(self._names)}); see to it, then start all of them again.",
            )
        self.node.refuse(other.name, "left", f"{other.name} takes no part: {other.left}.")

    def _take_seen(self, other: Neighbour, event: Received) -> None:
        self._note_known(other, _peers(event.message))

    def _note_known(self, other: Neighbour, peers: frozenset[int]) -> None:
        """A neighbour has these accounts; a later process of ours need not tell it again."""
        if not peers <= other.knows:
            other.knows |= peers
            self._journal.append({"known_to": other.name, "accounts": sorted(peers)}, {})

    def _take_status(self, other: Neighbour, event: Received) -> None:
        at, heard_us, has_ours, answer = _numbers(event.message, 4)
        if not (0 <= at < _FARTHEST and NEVER <= heard_us <= at):
            self._refuse(other, "out of round", f"word of exchange {at}")
            return
        other.at = max(other.at, at)
        other.status = max(other.status, (at, heard_us))
        if self._post is None:
            self._say_bye(other, self._exchange - 1)
            return
        n = self._exchange
        if at == n and not has_ours:
            self._send_again(other, n)
        elif at < n and other.heard >= at:
            self._send_again(other, at)
        if not answer:
            self._tell_place(other, answer=True)

    def _take_bye(self, other: Neighbour, event: Received) -> None:
        last, heard_us = _numbers(event.message, 2)
        if not NEVER <= heard_us <= last < _FARTHEST:
            self._refuse(other, "out of round", f"a good-bye after exchange {last}")
            return
        self._take_accounts(other, event.message)
        if other.ended is None:
            words = event.message.body.get("words", np.empty(0))
            other.words = (decode(words.tobytes()), words.tobytes()) if words.size else None
            other.ended = last
            self._journal.append({"ended": other.name, "last": last}, {"words": words.tobytes()})
        other.status = max(other.status, (last + 1, heard_us))
        known = np.array(sorted(self.attendance.peers), dtype=np.int64)
        self.node.send(other.name, Post(_SEEN, 0, {"peers": known}), self._exchange)

    def _take_accounts(self, other: Neighbour, message: Message) -> None:
        lines = message.body.get("accounts", np.empty((0, 4), np.int64))
        try:
            fresh = self.attendance.add_lines(lines)
        except ValueError as error:
            raise MalformedMessage(f"{message.kind!r} has {error}.") from None
        if fresh:
            self._journal.append({"accounts": lines.tolist()}, {})
        self._note_known(other, frozenset(lines[:, 0].tolist()))

    def _send_again(self, other: Neighbour, n: int) -> None:
        own, now = self._own.get(n), monotonic()
        if own is not None and self.node.up(other.name) and now >= other.resent + _NUDGE / 2:
            other.resent = now
            if other.name in own.spoken_to:
                self._log(n, own, [other.name], again=True)
            self.node.send(other.name, own.to(other.name), n)

    def _tell_place(self, other: Neighbour, *, answer: bool) -> None:
        n = self._exchange
        heard = other.heard if other.heard < n else n - 1
        place = np.array([n, heard, int(n in other.posts), int(answer)])
        self.node.send(other.name, Post(_STATUS, 0, {"place": place}), n)

    def _say_bye(self, other: Neighbour, last: int) -> None:
        # What was not meant for this neighbour does not stand for us there either.
        words = self._own[max(self._own)].to(other.name) if self._own else b""
        body = {
            "place": np.array([last, min(other.heard, last)]),
            "words": np.frombuffer(words, np.uint8),
            "accounts": self.attendance.lines,
        }
        self.node.send(other.name, Post(_BYE, 0, body), self._exchange)

    def _refuse(self, other: Neighbour, reason: str, what: str) -> None:
        self.node.refuse(other.name, reason, f"{self.name} refuses {what}, from {other.name}.")

    # After a restart

    def _replay(self) -> None:
        """Goes to where an earlier process was."""
        for header, parts in self._journal.records:
            try:
                self._replay_record(header, parts)
            except (KeyError, OverflowError, TypeError, ValueError, WireError) as error:
                if isinstance(error, UnpooledError) and not isinstance(error, WireError):
                    raise
                raise StateError(
                    f"The journal of {self.name} does not say what it should in exchange "
                    f"{self._exchange} ({type(error).__name__}); move the state directory away."
                ) from error

    def _replay_record(self, header: Mapping[str, Any], parts: Mapping[PartyId, bytes]) -> None:
        if "asleep" in header:
            self._sleep_until(int(header["asleep"]))
        elif "known_to" in header:
            self.neighbours[header["known_to"]].knows |= frozenset(header["accounts"])
        elif "accounts" in header:
            self.attendance.add_lines(np.array(header["accounts"], dtype=np.int64).reshape(-1, 4))
        elif "ended" in header:
            other = self.neighbours[header["ended"]]
            other.ended, raw = int(header["last"]), parts["words"]
            other.words = (decode(raw), raw) if raw else None
        else:
            self._replay_exchange(int(header["exchange"]), parts, header.get("bare", ()))

    def _replay_exchange(
        self, n: int, parts: Mapping[PartyId, bytes], bare: Collection[PartyId]
    ) -> None:
        if n != self._exchange or self._post is None:
            raise StateError(
                f"The journal of {self.name} has exchange {n} where {self._exchange} is due; the "
                "data, the plan or the program changed since: move the state directory away."
            )
        post = self._let_out(n)
        self._complete(n, post, {name: decode(raw).body for name, raw in parts.items()}, bare)


def _names(message: Message, post: Post) -> bool:
    """Whether both are of the same exchange, which kind and round name."""
    return (message.kind, message.round) == (post.kind, post.round)


def _peers(message: Message) -> frozenset[int]:
    peers = message.body.get("peers")
    if peers is None or peers.ndim != 1 or peers.dtype != np.int64:
        raise MalformedMessage(f"{message.kind!r} does not say what it should.")
    return frozenset(peers.tolist())


def _numbers(message: Message, count: int) -> list[int]:
    place = message.body.get("place")
    if place is None or place.shape != (count,) or place.dtype != np.int64:
        raise MalformedMessage(f"{message.kind!r} does not say what it should.")
    return [int(value) for value in place]
