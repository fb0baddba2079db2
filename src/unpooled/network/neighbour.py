"""What a peer on a network knows of a neighbour, what it sends to it, and what it heard.

A neighbour is in one of these states, of which :class:`Neighbour` keeps the marks:

===========  =====================================  ==============================================
state        mark                                   what an exchange does about it
===========  =====================================  ==============================================
running      none                                   waits for its post, ``round_timeout`` at most
missing      ``lost_since``                         waits still, until ``patience`` is over
given up     ``lost_since`` before ``patience``     does not wait, until it is heard again
left         ``left``                               does not wait, until a new process of it comes
terminated   ``ended``                              goes on with its last post, where that stands
===========  =====================================  ==============================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.graphs.topology import Neighbourhood
from unpooled.messages.codec import Encoded, encode
from unpooled.messages.message import Post
from unpooled.protocols.mesh.base import ByNeighbour, Heard
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
    """The last exchange in which it was heard, be it by an empty post."""
    posts: dict[int, Encoded] = field(default_factory=dict)
    """Its posts of this exchange and the next."""
    fits: int = NEVER
    """The latest exchange whose post was checked and is as it should be."""
    ended: int | None = None
    """The last exchange it took part in, once it has terminated."""
    last_post: Encoded | None = None
    """What counts once it has terminated."""
    heard_at: float = 0.0
    """When anything came from it."""
    lost_since: float | None = None
    left: str | None = None
    """Why it takes no part, once it has sent so; until a new process of it comes."""
    knows: frozenset[int] = frozenset()
    """Peers whose reports of the run it has (:mod:`unpooled.network.membership`)."""
    resent: float = 0.0
    """When something was last retransmitted to it."""
    silent: Spans = field(default_factory=list)
    """Exchanges in which it was not heard."""

    def worth_waiting(self, now: float, patience: float) -> bool:
        """Whether something may still come from it: it has neither left nor been given up."""
        if self.left is not None:
            return False
        return self.lost_since is None or now - self.lost_since < patience

    def ended_before(self, n: int) -> bool:
        """Whether exchange n comes after the last it took part in."""
        return self.ended is not None and n > self.ended


@dataclass(frozen=True)
class Outgoing:
    """A post of ours: whole for those it is addressed to, for the others an empty one."""

    post: Post
    plain: bytes
    """The post as it travels."""
    addressed: Collection[PartyId]

    def to(self, name: PartyId) -> bytes:
        """What this neighbour gets: the post, or one without a field."""
        if name in self.addressed:
            return self.plain
        return encode(Post(self.post.kind, self.post.round, {}))


def addressees(post: Post, neighbours: Sequence[PartyId]) -> tuple[PartyId, ...]:
    """Whom a single user's post is addressed to; its links are in the order of ``neighbours``."""
    if post.to is None:
        return tuple(neighbours)
    return tuple(name for name, addressed in zip(neighbours, post.to, strict=True) if addressed)


def heard_by_one(
    near: Neighbourhood,
    own: Body,
    bodies: Mapping[int, Body],
    present: Collection[int] = (),
    ended: Collection[int] = (),
    *,
    up: bool = True,
) -> Heard:
    """What a single user has heard: bodies by the numbers of the neighbours that sent any.

    ``present`` are those that took part in this exchange, ``ended`` those that had terminated
    before; of either some may have sent nothing.
    """
    others = near.ends[1].tolist()
    outer, running = near.outer.tolist(), np.array([up])
    here = np.array([j in present for j in others], dtype=bool)
    over = np.array([j in ended for j in others], dtype=bool)
    if len(bodies) == len(outer):
        return Heard(near.links, own, ByNeighbour([bodies[j] for j in outer]), running, here, over)
    nothing = {name: np.zeros_like(value) for name, value in own.items()}
    heard = np.array([j in bodies for j in others], dtype=bool)
    filled = [bodies.get(j, nothing) for j in outer]
    return Heard(near.keep(heard), own, ByNeighbour(filled), running, here, over)


def same_form(one: Body, other: Body) -> bool:
    """Whether both have the same fields, of the same shapes and types."""
    if one.keys() != other.keys():
        return False
    for name, value in one.items():
        due = other[name]
        if value.shape != due.shape or value.dtype != due.dtype:
            return False
    return True
