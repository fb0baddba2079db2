"""A peer's own posts, which neighbours may ask for again, and the neighbours' posts that count."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256
from time import monotonic

from unpooled.messages.codec import Encoded, encode
from unpooled.messages.conform import wrong_numbers
from unpooled.messages.message import Message, Post
from unpooled.messages.release import Release
from unpooled.network.neighbour import Neighbour, Outgoing, same_form
from unpooled.network.node import Node
from unpooled.network.storage.ledger_file import LedgerFile
from unpooled.runtime.peer import stands
from unpooled.types import PartyId

_PAUSE = 0.1
"""Seconds between two retransmissions to one neighbour."""


class OwnPosts:
    """What this peer sends: a line in its ledger's file before the first transmission."""

    def __init__(self, node: Node, lines: LedgerFile) -> None:
        self._node = node
        self._lines = lines
        self._logged = {str(line.get("exchange")) for line in lines.lines}
        self._posts: dict[int, Outgoing] = {}
        """Those that a neighbour may still ask for, by exchange."""

    def __len__(self) -> int:
        return len(self._posts)

    def add(self, n: int, post: Post, addressed: Collection[PartyId]) -> None:
        """The post of exchange n, which has been released."""
        own = self._posts[n] = Outgoing(post, encode(post), addressed)
        if addressed and str(n) not in self._logged:
            self._log(n, own, addressed, again=False)

    def send(self, other: Neighbour, n: int) -> None:
        """Sends the post of exchange n, whole or empty."""
        self._node.send(other.name, self._posts[n].to(other.name), n)

    def retransmit(self, other: Neighbour, n: int) -> None:
        """Sends it once more, if it is still kept and the neighbour is there."""
        own, now = self._posts.get(n), monotonic()
        if own is not None and self._node.up(other.name) and now >= other.resent + _PAUSE:
            other.resent = now
            if other.name in own.addressed:
                self._log(n, own, [other.name], again=True)
            self._node.send(other.name, own.to(other.name), n)

    def keep(self, exchanges: Collection[int]) -> None:
        """Drops all but those of these exchanges."""
        self._posts = {n: own for n, own in self._posts.items() if n in exchanges}

    def last_for(self, other: Neighbour) -> bytes:
        """What stands for this peer at the neighbour once it has terminated.

        What was not addressed to this neighbour does not stand for us there either.
        """
        return self._posts[max(self._posts)].to(other.name) if self._posts else b""

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


class TheirPosts:
    """Which posts of neighbours count in an exchange."""

    def __init__(self, name: PartyId, node: Node, releases: Mapping[str, Release]) -> None:
        self._name = name
        self._node = node
        self._releases = releases

    def resolved(self, other: Neighbour, n: int, post: Post) -> bool:
        """Whether it is known what this neighbour's part in exchange n is."""
        if other.fits == n:
            return True
        if other.ended == n and n not in other.posts:
            if other.last_post is None or not _same_exchange(other.last_post.message, post):
                return True  # it was not there
            other.posts[n] = other.last_post  # its own transmission of it has been lost
        if n in other.posts:
            if self._fits(other, other.posts[n].message, post, n):
                other.fits = n
                return True
            del other.posts[n]
        if other.ended_before(n):
            return True
        at, heard_us = other.status
        return at > n and heard_us < n  # it went on without us

    def sent_by(self, other: Neighbour, n: int, post: Post) -> Encoded | None:
        """What counts as sent by the neighbour in exchange n."""
        if not other.ended_before(n):
            return other.posts.get(n)
        last = other.last_post
        if last is None or not stands(last.message, post) or not last.message.body:
            return None
        now = Post(last.message.kind, post.round, last.message.body)
        return last if self._fits(other, now, post, n) else None

    def _fits(self, other: Neighbour, message: Message, post: Post, n: int) -> bool:
        """Whether this is what is due in exchange n: of the form of our own post, or empty."""
        if not _same_exchange(message, post):
            wrong: str | None = f"{message.kind!r} of round {message.round}"
        elif message.body and not same_form(message.body, post.body):
            wrong = "fields or shapes other than its own"
        else:
            wrong = wrong_numbers(self._releases[post.kind], message.body)
        if wrong is None:
            return True
        self._node.refuse(
            other.name,
            "does not fit",
            f"{self._name} refuses what {other.name} sent in exchange {n}, where {post.kind!r} of "
            f"round {post.round} is due: {wrong}.",
        )
        return False


def _same_exchange(message: Message, post: Post) -> bool:
    """Whether both are of the same exchange, which kind and round name."""
    return (message.kind, message.round) == (post.kind, post.round)
