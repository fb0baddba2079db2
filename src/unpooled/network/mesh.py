"""One peer of a mesh on a network: no one in charge, neighbours that die, freeze and come back.

**Exchanges** are numbered from 0 over the whole run. In exchange n a peer sends its post to every
neighbour and waits until each has answered with its own post of exchange n, has terminated (its
last post counts from then on), has left, or is given up for this exchange: after ``round_timeout``
seconds without a message from it, or after ``patience`` seconds in all. A peer that itself waits
for another answers when it is asked where it is, so it is not given up with that other one. What
was heard goes to the journal, then to the algorithm (:class:`unpooled.runtime.peer.PeerRuntime`).

**Whom a post is not addressed to** gets an empty one, without a field, which says that there is
nothing to wait for. It is no release: the ledger neither reviews nor counts it.

**Who is not heard** leaves the sum of this exchange. For ``patience`` seconds every exchange still
waits for it, ``round_timeout`` at most, so that a network in parts goes on slowly and does not run
to its end in parts; after that it is not waited for, until a message of it arrives.

**Coming back.** Peers send each other where they are (``_status``): the exchange they are in, and
the last one in which they heard the other. A peer that finds a neighbour to be ahead finishes its
own exchange, with the neighbour's post if the neighbour heard its own (it is retransmitted), and
then catches up: it goes through the exchanges that it missed without a step, up to the one that the
neighbour is in. A process that was killed first replays its journal and is where it was.

**Leaving.** A peer that cannot take part says so and ends. Who hears of it goes on without it, or
ends too, at once, where fewer than ``min_parties`` could then be in the result.

**Terminating** is in :mod:`unpooled.network.termination`.

**What can be asymmetric.** Where a link is cut for longer than ``round_timeout``, one end may have
heard the other in the exchange of the cut and not the other way round: no protocol can exclude it.
Methods without memory of such sums (DGC, Kar & Swenson) do not mind, and gossiped sums start anew
after it; ADMM keeps an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from unpooled.errors import (
    PolicyRefusal,
    ProtocolError,
    StateError,
    UnpooledError,
    WireError,
)
from unpooled.messages.codec import Encoded, decode
from unpooled.messages.message import Note, Post
from unpooled.network.membership import HEARD, PeerReport
from unpooled.network.neighbour import (
    NEVER,
    Neighbour,
    addressees,
    heard_by_one,
)
from unpooled.network.node import CONTROL, Node
from unpooled.network.peer_inbox import Inbox
from unpooled.network.posts import OwnPosts, TheirPosts
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import JOURNAL, Journal
from unpooled.network.storage.ledger_file import LEDGER, LedgerFile
from unpooled.network.termination import (
    PROBE,
    PeerTermination,
)
from unpooled.network.timing import Timing
from unpooled.protocols.mesh.base import Heard
from unpooled.runtime import spans
from unpooled.runtime.peer import PeerRuntime, stands
from unpooled.runtime.spans import Spans
from unpooled.types import Body, IntArray, PartyId


@dataclass(frozen=True)
class Progress:
    """What a screen may show after an exchange."""

    exchange: int
    present: tuple[PartyId, ...]
    bytes_out: int
    note: Note | None


class MeshPeer:
    """Runs one peer, whose block is one user; ``names`` are everybody's in the plan's order."""

    def __init__(
        self,
        peer: PeerRuntime,
        names: tuple[PartyId, ...],
        node: Node,
        state: StateDirectory,
        timing: Timing,
        observe: Callable[[Progress], None] | None = None,
        *,
        min_parties: int = 1,
    ) -> None:
        block = peer.block
        self.name = block.parties.names[0]
        self.ledger = peer.ledger
        self.neighbours: Mapping[PartyId, Neighbour] = {
            names[j]: Neighbour(names[j], int(j)) for j in block.neighbourhood.outer
        }
        self.exchange = 0
        """The exchange that it is in."""
        self.missed: Spans = []
        """Exchanges that this peer missed."""
        self.node = node
        self.peer = peer
        self._near = block.neighbourhood
        self.names = names
        self.number = names.index(self.name)
        self._timing = timing
        self._observe = observe
        self._lines = LedgerFile(state.path / LEDGER, to_disk=False)
        self._journal = Journal(state.path / JOURNAL, to_disk=False)
        self._posts = OwnPosts(node, self._lines)
        self._theirs = TheirPosts(self.name, node, peer.releases)
        self._termination = PeerTermination(
            len(names), node, self.neighbours, self._journal, timing
        )
        self.membership = self._termination.membership
        self._inbox = Inbox(self, self._posts, self._termination, min_parties)
        self._fresh = True
        self._all: IntArray = np.array([len(self.neighbours)])

    @property
    def result(self) -> Body:
        """What the protocol came to; nothing before its end."""
        return self.peer.result

    def run(self) -> Body:
        """The peer's result; neighbours learn by :meth:`terminate` that it has one."""
        self._advance(None)
        self._replay()
        while self.peer.post is not None:
            self._go_through_exchange(self.peer.post)
            self._catch_up()
        self.membership.add(self.number, self._report())
        return self.result

    def terminate(self) -> None:
        """Sends notices until everybody who is there knows who took part."""
        self._termination.finish(self._inbox.notify, self._inbox.handle)

    @property
    def members(self) -> tuple[PartyId, ...]:
        """Whose rows count in this peer's result, in the plan's order."""
        return tuple(self.names[j] for j in sorted(self.membership.members(self.number)))

    def _report(self) -> PeerReport:
        last = self.exchange - 1
        since = {
            other.number: other.silent[-1][0]
            if other.silent and other.silent[-1][1] == last
            else HEARD
            for other in self.neighbours.values()
        }
        return PeerReport(last, since)

    def close(self) -> None:
        """Closes the files."""
        self._lines.close()
        self._journal.close()

    @property
    def participation(self) -> dict[str, Any]:
        """Who took part when: exchanges as [first, last], both included."""
        return {
            "exchanges": self.exchange,
            "neighbours": list(self.neighbours),
            "asleep": self.missed,
            "not_heard": {o.name: o.silent for o in self.neighbours.values() if o.silent},
            "ended_before": {
                o.name: o.ended for o in self.neighbours.values() if o.ended is not None
            },
        }

    # One exchange

    def _go_through_exchange(self, post: Post) -> None:
        n = self.exchange
        post = self._let_out(post, n)
        for other in self.neighbours.values():
            if other.ended is None:
                self._posts.send(other, n)
        self._wait(n, post)
        heard: dict[PartyId, Encoded] = {}
        empty = []
        for other in self.neighbours.values():
            sent = self._theirs.sent_by(other, n, post)
            if sent is not None and sent.message.body:
                heard[other.name] = sent
            elif sent is not None:
                empty.append(other.name)
        header = {"exchange": n, **({"bare": empty} if empty else {})}
        self._journal.append(header, {name: sent.data for name, sent in heard.items()})
        bodies = {name: sent.message.body for name, sent in heard.items()}
        self._complete(n, post, bodies, empty)

    def _let_out(self, post: Post, n: int) -> Post:
        """What is to be sent now, once the policy agreed and the ledger has its line."""
        to = addressees(post, list(self.neighbours))
        copies = self._all if len(to) == len(self.neighbours) else np.array([len(to)])
        released = self.peer.release(copies, n)
        if released is None:
            raise PolicyRefusal(
                f"The policy of {self.name} withholds {post.kind!r} of round {post.round}, but "
                "neighbours cannot go on without; leave the run or change the policy."
            )
        self._posts.add(n, released, to)
        return released

    def _wait(self, n: int, post: Post) -> None:
        began = now = monotonic()
        silence = self._timing.patience if self._fresh else self._timing.round_timeout
        last_call, probe = began + self._timing.patience, now + PROBE
        self._fresh = False
        open_ = list(self.neighbours.values())
        while open_ := [other for other in open_ if not self._theirs.resolved(other, n, post)]:
            hoped_for = [o for o in open_ if o.worth_waiting(now, self._timing.patience)]
            heard = max([began, *[other.heard_at for other in hoped_for]])
            deadline = min(heard + silence, last_call)
            if now >= deadline:
                break
            if hoped_for:
                event = self.node.poll(min(deadline, probe), hoped_for[0].name)
            elif (event := self.node.poll(now)) is None:
                break  # none of those given up has sent anything since
            self._inbox.handle(event)
            now = monotonic()
            if now >= probe:
                probe = now + PROBE
                for other in open_:
                    self._inbox.send_status(other, answer=False)
        for other in open_:
            if other.lost_since is None:
                other.lost_since = max(began, other.heard_at)

    def _complete(
        self, n: int, post: Post, bodies: Mapping[PartyId, Body], empty: Collection[PartyId]
    ) -> None:
        """Hands on what was heard: bodies, and who sent an empty post."""
        present, ended, counted = [], [], []
        for other in self.neighbours.values():
            over = other.ended_before(n)
            here = not over and (other.name in bodies or other.name in empty)
            if over:
                ended.append(other.number)
            if here:
                present.append(other.number)
                other.heard = n
            # One that terminated in another phase has no part here: nothing is missing.
            last = other.last_post
            elsewhere = over and last is not None and not stands(last.message, post)
            if here or elsewhere or other.name in bodies:
                counted.append(other.name)
            else:
                spans.add(other.silent, n)
            for old in [e for e in other.posts if e <= n]:
                del other.posts[old]
        arrived = len(present) - len(empty)
        whole = arrived == len(self.neighbours)
        self.ledger.receive(post, self._all if whole else np.array([arrived]), n)
        # A neighbour may still ask for the post of the last exchange in which it was heard.
        self._posts.keep({n, *[o.heard for o in self.neighbours.values()]})
        numbered = {self.neighbours[name].number: body for name, body in bodies.items()}
        heard = heard_by_one(self._near, post.body, numbered, present, ended)
        self.exchange = n + 1
        self._advance(heard)
        self._show(n, tuple(counted))

    def _catch_up(self) -> None:
        """Goes through what neighbours have done without us."""
        target = max((o.at for o in self.neighbours.values() if o.ended is None), default=NEVER)
        if target > self.exchange and self.peer.post is not None:
            self._journal.append({"asleep": target}, {})
            self._miss_until(target)

    def _miss_until(self, target: int) -> None:
        while self.exchange < target and self.peer.post is not None:
            n = self.exchange
            spans.add(self.missed, n)
            for other in self.neighbours.values():
                spans.add(other.silent, n)
            heard = heard_by_one(self._near, self.peer.post.body, {}, up=False)
            self.exchange = n + 1
            self._advance(heard)

    def _advance(self, heard: Heard | None) -> None:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                if heard is None:
                    self.peer.begin()
                else:
                    self.peer.resume(heard)
        except UnpooledError:
            raise
        except Exception as error:
            raise ProtocolError(
                f"{self.name} cannot go on with exchange {self.exchange}: what it heard is as "
                f"declared, but makes no sense ({type(error).__name__}); find out who sent what "
                "from its journal."
            ) from error
        if self.peer.post is not None and self.peer.post.kind.startswith(CONTROL):
            raise ProtocolError(f"No protocol's messages may be called {self.peer.post.kind!r}.")

    def _show(self, n: int, present: tuple[PartyId, ...]) -> None:
        if self._observe is not None:
            note = self.peer.notes[-1] if self.peer.notes else None
            self._observe(Progress(n, present, self.node.bytes_out, note))
        self.peer.notes.clear()

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
                    f"{self.exchange} ({type(error).__name__}); move the state directory away."
                ) from error

    def _replay_record(self, header: Mapping[str, Any], parts: Mapping[PartyId, bytes]) -> None:
        if "asleep" in header:
            self._miss_until(int(header["asleep"]))
        elif "known_to" in header:
            self.neighbours[header["known_to"]].knows |= frozenset(header["accounts"])
        elif "accounts" in header:
            self.membership.add_lines(np.array(header["accounts"], dtype=np.int64).reshape(-1, 4))
        elif "ended" in header:
            other = self.neighbours[header["ended"]]
            other.ended, raw = int(header["last"]), parts["words"]
            other.last_post = Encoded(decode(raw), raw) if raw else None
        else:
            self._replay_exchange(int(header["exchange"]), parts, header.get("bare", ()))

    def _replay_exchange(
        self, n: int, parts: Mapping[PartyId, bytes], empty: Collection[PartyId]
    ) -> None:
        if n != self.exchange or self.peer.post is None:
            raise StateError(
                f"The journal of {self.name} has exchange {n} where {self.exchange} is due; the "
                "data, the plan or the program changed since: move the state directory away."
            )
        post = self._let_out(self.peer.post, n)
        self._complete(n, post, {name: decode(raw).body for name, raw in parts.items()}, empty)
