"""What arrives at a peer of a mesh: posts, statuses, notices, and who leaves or returns."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Protocol

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from unpooled.errors import PartyLeft, StateError, WireError
from unpooled.messages.codec import Encoded
from unpooled.messages.message import Post
from unpooled.network.link import Received, Refused, Up
from unpooled.network.neighbour import NEVER, Neighbour
from unpooled.network.node import CONTROL, Event, Left, Node
from unpooled.network.posts import OwnPosts
from unpooled.network.refusal import OLDER
from unpooled.network.termination import ACKNOWLEDGED, FARTHEST, NOTICE, PeerTermination, numbers
from unpooled.runtime.peer import PeerRuntime
from unpooled.types import PartyId

_STATUS = CONTROL + "status"


class Receiver(Protocol):
    """The peer that events are for."""

    name: PartyId
    number: int
    names: tuple[PartyId, ...]
    exchange: int
    neighbours: Mapping[PartyId, Neighbour]
    node: Node
    peer: PeerRuntime


class Inbox:
    """Takes events for one peer; all that it keeps of them is in the peer's neighbours."""

    def __init__(
        self, peer: Receiver, posts: OwnPosts, termination: PeerTermination, min_parties: int
    ) -> None:
        self._own = peer
        self._posts = posts
        self._termination = termination
        self._min_parties = min_parties

    def handle(self, event: Event | None) -> None:
        """Takes an event; None is that nothing came in time."""
        if isinstance(event, Up):
            other = self._own.neighbours[event.sender]
            other.left = None
            self.send_status(other, answer=False)
        elif isinstance(event, Left):
            self._take_leave(self._own.neighbours[event.sender], event.who, event.why)
        elif isinstance(event, Refused):
            if event.reason == OLDER and self._own.peer.post is not None:
                raise StateError(event.sentence)
            self._take_leave(self._own.neighbours[event.sender], event.sender, event.sentence)
        elif isinstance(event, Received):
            other = self._own.neighbours[event.sender]
            other.lost_since, other.heard_at = None, monotonic()
            try:
                self._take(other, event)
            except WireError as error:
                self._refuse(other, "malformed", f"a message of no use ({error})")

    def _take(self, other: Neighbour, event: Received) -> None:
        if event.message.kind == _STATUS:
            self._take_status(other, event)
        elif event.message.kind == NOTICE:
            wrong = self._termination.take_notice(other, event, self._own.exchange)
            if wrong is not None:
                self._refuse(other, "out of round", wrong)
        elif event.message.kind == ACKNOWLEDGED:
            self._termination.take_acknowledgement(other, event)
        else:
            self._take_post(other, event)

    def _take_post(self, other: Neighbour, event: Received) -> None:
        e, n = event.exchange, self._own.exchange
        if not isinstance(event.message, Post) or event.message.kind not in self._own.peer.releases:
            self._refuse(other, "undeclared", f"{event.message.kind!r}, which nobody may send")
            return
        if not 0 <= e < FARTHEST:
            self._refuse(other, "out of round", f"a post of exchange {e}")
            return
        other.at = max(other.at, e)
        if e >= n:
            other.posts.setdefault(e, Encoded(event.message, event.plain))
        if e > n + 1:
            self.send_status(other, answer=False)
        while len(other.posts) > 3:  # this exchange, the next, and the latest
            del other.posts[sorted(other.posts)[-2]]

    def _take_leave(self, other: Neighbour, who: PartyId, why: str) -> None:
        """Ends this peer's part too, where too few remain for a result that was agreed on."""
        known, why = other.left is not None, why.rstrip(".")
        other.left = why if who == other.name else f"it does not go on without {who}: {why}"
        if self._own.peer.post is None or known:
            return
        gone = [o.number for o in self._own.neighbours.values() if o.left is not None]
        links = self._own.peer.block.graph.adjacency.tolil()
        links[gone], links[:, gone] = 0, 0
        within = len(breadth_first_order(links.tocsr(), self._own.number, directed=False)[0])
        if within < self._min_parties or len(gone) == len(self._own.neighbours):
            raise PartyLeft(
                who,
                why,
                f"{who} takes no part ({why}), so too few peers can be in the result of "
                f"{self._own.name} (the plan's min_parties is {self._min_parties} of "
                f"{len(self._own.names)}); see to it, then start all of them again.",
            )
        self._own.node.refuse(other.name, "left", f"{other.name} takes no part: {other.left}.")

    def _take_status(self, other: Neighbour, event: Received) -> None:
        at, heard_us, has_ours, answer = numbers(event.message, 4)
        if not (0 <= at < FARTHEST and NEVER <= heard_us <= at):
            self._refuse(other, "out of round", f"word of exchange {at}")
            return
        other.at = max(other.at, at)
        other.status = max(other.status, (at, heard_us))
        if self._own.peer.post is None:
            self.notify(other)
            return
        n = self._own.exchange
        if at == n and not has_ours:
            self._posts.retransmit(other, n)
        elif at < n and other.heard >= at:
            self._posts.retransmit(other, at)
        if not answer:
            self.send_status(other, answer=True)

    def send_status(self, other: Neighbour, *, answer: bool) -> None:
        """Sends where this peer is: as an answer to a status, or to ask for one."""
        n = self._own.exchange
        heard = other.heard if other.heard < n else n - 1
        place = np.array([n, heard, int(n in other.posts), int(answer)])
        self._own.node.send(other.name, Post(_STATUS, 0, {"place": place}), n)

    def notify(self, other: Neighbour) -> None:
        """Sends that this peer has terminated."""
        self._termination.send_notice(other, self._own.exchange, self._posts.last_for(other))

    def _refuse(self, other: Neighbour, reason: str, what: str) -> None:
        self._own.node.refuse(
            other.name, reason, f"{self._own.name} refuses {what}, from {other.name}."
        )
