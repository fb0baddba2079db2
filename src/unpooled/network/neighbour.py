"""What a peer on a network knows of a neighbour, what goes out to it, and what was heard."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.graphs.topology import Neighbourhood
from unpooled.messages.codec import encode
from unpooled.messages.message import Message, Post
from unpooled.protocols.mesh.base import Apart, Heard
from unpooled.runtime.spans import Spans
from unpooled.types import Body, PartyId

NEVER = -1


@dataclass
class Neighbour:
    """What is known of a neighbour."""

    name: PartyId
    number: int
    at: int = NEVER
    """The latest exchange it is known to be in."""
    status: tuple[int, int] = (NEVER, NEVER)
    """From its status: the exchange it was in, and the last before that in which it heard us."""
    heard: int = NEVER
    """The last exchange in which it was heard, be it that it had nothing to say."""
    posts: dict[int, tuple[Message, bytes]] = field(default_factory=dict)
    """What it said in this exchange and the next."""
    fits: int = NEVER
    """The latest exchange whose post was looked at and is as it should be."""
    ended: int | None = None
    """The last exchange it took part in, once it has said good-bye."""
    words: tuple[Message, bytes] | None = None
    """The last it said: what counts once it has ended."""
    last_word: float = 0.0
    """When anything came from it."""
    lost_since: float | None = None
    left: str | None = None
    """Why it takes no part, once it has said so; until a new process of it comes."""
    knows: frozenset[int] = frozenset()
    """Peers whose accounts of the run it has (:mod:`unpooled.network.attendance`)."""
    resent: float = 0.0
    """When something was last sent to it once more."""
    silent: Spans = field(default_factory=list)
    """Exchanges in which it was not heard."""

    def ended_before(self, n: int) -> bool:
        """Whether exchange n comes after the last it took part in."""
        return self.ended is not None and n > self.ended


@dataclass(frozen=True)
class Outgoing:
    """A post of ours: words for those it is addressed to, for the others that there are none."""

    post: Post
    plain: bytes
    """The post as it travels."""
    spoken_to: Collection[PartyId]

    def to(self, name: PartyId) -> bytes:
        """What this neighbour gets: the words, or a bare post, which has no field."""
        if name in self.spoken_to:
            return self.plain
        return encode(Post(self.post.kind, self.post.round, {}))


def spoken_to(post: Post, neighbours: Sequence[PartyId]) -> tuple[PartyId, ...]:
    """Whom a single user's post is addressed to; its links are in the order of ``neighbours``."""
    if post.to is None:
        return tuple(neighbours)
    return tuple(name for name, spoken in zip(neighbours, post.to, strict=True) if spoken)


def heard_by_one(
    near: Neighbourhood,
    own: Body,
    spoken: Mapping[int, Body],
    present: Collection[int] = (),
    ended: Collection[int] = (),
    *,
    awake: bool = True,
) -> Heard:
    """What a single user has heard, from those of its neighbours that spoke.

    ``present`` are those that took part in this exchange, ``ended`` those that had come to their
    end before; of either some may have no words.
    """
    others = near.ends[1].tolist()
    outer, up = near.outer.tolist(), np.array([awake])
    here = np.array([j in present for j in others], dtype=bool)
    over = np.array([j in ended for j in others], dtype=bool)
    if len(spoken) == len(outer):
        return Heard(near.links, own, Apart([spoken[j] for j in outer]), up, here, over)
    nothing = {name: np.zeros_like(value) for name, value in own.items()}
    words = np.array([j in spoken for j in others], dtype=bool)
    bodies = [spoken.get(j, nothing) for j in outer]
    return Heard(near.keep(words), own, Apart(bodies), up, here, over)


def alike(one: Body, other: Body) -> bool:
    """Whether both have the same fields, of the same shapes and types."""
    if one.keys() != other.keys():
        return False
    for name, value in one.items():
        due = other[name]
        if value.shape != due.shape or value.dtype != due.dtype:
            return False
    return True
