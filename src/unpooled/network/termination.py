"""How a peer of a mesh ends: it sends its last post and its report until all who are there know.

A peer that has its result sends every neighbour a *termination notice*: the last exchange it took
part in, its last post, which stands for it from then on, and all reports of who was heard to the
end that it knows of (:mod:`unpooled.network.membership`). Whoever gets one answers with whose
reports it has. A peer stays until all who are there have the same reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

import numpy as np

from unpooled.errors import MalformedMessage
from unpooled.messages.codec import Encoded, decode
from unpooled.messages.message import Message, Post
from unpooled.network.link import Received
from unpooled.network.membership import Membership
from unpooled.network.neighbour import NEVER, Neighbour
from unpooled.network.node import CONTROL, Event, Node
from unpooled.network.storage.journal import Journal
from unpooled.network.timing import Timing
from unpooled.types import PartyId

NOTICE, ACKNOWLEDGED = CONTROL + "bye", CONTROL + "seen"
PROBE = 0.2
"""Seconds after which a silent neighbour is asked where it is."""
_STILL_THERE = 2.0
"""Seconds between two notices to one who knows everything: its answer shows that it is there."""
FARTHEST = 10**9
"""No run has more exchanges."""


class PeerTermination:
    """A peer's notices and reports; ``n_peers`` are in the plan."""

    def __init__(
        self,
        n_peers: int,
        node: Node,
        neighbours: Mapping[PartyId, Neighbour],
        journal: Journal,
        timing: Timing,
    ) -> None:
        self.membership = Membership(n_peers)
        self._node = node
        self._neighbours = neighbours
        self._journal = journal
        self._timing = timing

    def finish(
        self, notify: Callable[[Neighbour], None], handle: Callable[[Event | None], None]
    ) -> None:
        """Sends notices until everybody who is there knows who took part, or nobody is left."""
        progress = monotonic()
        probe = still_there = 0.0
        patience = self._timing.round_timeout + self._timing.patience
        while True:
            now, known = monotonic(), self.membership.peers
            others = self._neighbours.values()
            there = [other for other in others if other.worth_waiting(now, self._timing.patience)]
            to_notify = [other for other in there if not known <= other.knows]
            if self.membership.complete and not to_notify:
                break
            running = [other.heard_at for other in there if other.ended is None]
            if not there or now >= max([progress, *running]) + patience:
                break
            if now >= probe:
                probe = now + PROBE
                if now >= still_there:
                    still_there, to_notify = now + _STILL_THERE, there
                for other in to_notify:
                    notify(other)
            handle(self._node.poll(probe))
            if self.membership.peers != known:
                progress, probe = now, 0.0  # news is passed on at once

    def send_notice(self, other: Neighbour, exchange: int, last_post: bytes) -> None:
        """Tells one neighbour that this peer has terminated before ``exchange``."""
        last = exchange - 1
        body = {
            "place": np.array([last, min(other.heard, last)]),
            "words": np.frombuffer(last_post, np.uint8),
            "accounts": self.membership.lines,
        }
        self._node.send(other.name, Post(NOTICE, 0, body), exchange)

    def take_notice(self, other: Neighbour, event: Received, exchange: int) -> str | None:
        """A neighbour has terminated; what is wrong with its notice, if anything is."""
        last, heard_us = numbers(event.message, 2)
        if not NEVER <= heard_us <= last < FARTHEST:
            return f"a termination notice after exchange {last}"
        self._take_reports(other, event.message)
        if other.ended is None:
            raw = event.message.body.get("words", np.empty(0)).tobytes()
            other.last_post = Encoded(decode(raw), raw) if raw else None
            other.ended = last
            self._journal.append({"ended": other.name, "last": last}, {"words": raw})
        other.status = max(other.status, (last + 1, heard_us))
        known = np.array(sorted(self.membership.peers), dtype=np.int64)
        self._node.send(other.name, Post(ACKNOWLEDGED, 0, {"peers": known}), exchange)
        return None

    def take_acknowledgement(self, other: Neighbour, event: Received) -> None:
        """A neighbour answers whose reports it has."""
        peers = event.message.body.get("peers")
        if peers is None or peers.ndim != 1 or peers.dtype != np.int64:
            raise MalformedMessage(f"{event.message.kind!r} does not say what it should.")
        self._note_known(other, frozenset(peers.tolist()))

    def _take_reports(self, other: Neighbour, message: Message) -> None:
        lines = message.body.get("accounts", np.empty((0, 4), np.int64))
        try:
            fresh = self.membership.add_lines(lines)
        except ValueError as error:
            raise MalformedMessage(f"{message.kind!r} has {error}.") from None
        if fresh:
            self._journal.append({"accounts": lines.tolist()}, {})
        self._note_known(other, frozenset(lines[:, 0].tolist()))

    def _note_known(self, other: Neighbour, peers: frozenset[int]) -> None:
        """A neighbour has these reports; a later process of ours need not send them again."""
        if not peers <= other.knows:
            other.knows |= peers
            self._journal.append({"known_to": other.name, "accounts": sorted(peers)}, {})


def numbers(message: Message, count: int) -> list[int]:
    """The whole numbers that say where a peer is."""
    place = message.body.get("place")
    if place is None or place.shape != (count,) or place.dtype != np.int64:
        raise MalformedMessage(f"{message.kind!r} does not say what it should.")
    return [int(value) for value in place]
