"""The messages. They are frozen, and carry nothing but named arrays.

Three of them travel: a coordinator's :class:`Ask`, a party's :class:`Reply`, a peer's
:class:`Post`. :class:`Note` is what an algorithm says to the people who run it: it stays where it
is made and feeds progress displays and histories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from unpooled.types import Array, Body, BoolArray, in_c_order


def sealed(body: Mapping[str, Array]) -> Body:
    """The same arrays as read-only views: nobody can change what has been handed on.

    They are in C order, as they are after bytes: what a receiver makes of a message does not depend
    on the way that it came.
    """
    views = {}
    for name, value in body.items():
        if type(value) is not np.ndarray:
            value = np.asarray(value)
        value = in_c_order(value)
        if value.flags.writeable:
            value = value.view()
            value.flags.writeable = False
        views[name] = value
    return MappingProxyType(views)


@dataclass(frozen=True)
class Ask:
    """A coordinator's question to every party.

    ``quorum`` is how many answers are enough to go on; None means all of them.
    """

    kind: str
    body: Body = field(default_factory=dict)
    round: int = 0
    quorum: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", sealed(self.body))


@dataclass(frozen=True)
class Reply:
    """A party's answer."""

    kind: str
    body: Body
    round: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", sealed(self.body))


@dataclass(frozen=True)
class Post:
    """What the users of a block tell their neighbours in one exchange.

    Every array has one entry per user of the block along its first axis. ``senders`` marks the
    users that speak; None means all of them. ``to`` marks the links that their words go out on, in
    the order of :attr:`unpooled.graphs.topology.Neighbourhood.ends`; None means all of them.
    Whoever is not addressed learns that there is nothing for it.

    ``times`` is more than 1 for a block that has been through several exchanges on its own, which
    it may if all users are in it and nobody else listens (``Block.alone``): so many, from this
    round on, and the body is that of the last one.
    """

    kind: str
    round: int
    body: Body
    senders: BoolArray | None = None
    to: BoolArray | None = None
    times: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", sealed(self.body))


@dataclass(frozen=True)
class Note:
    """A remark about a round, for the screen and the history. It never leaves.

    It may be about several rounds at once, ``times`` of them from this one on; there is then one
    number of each kind for a round, about all users.
    """

    round: int
    body: Body
    times: int = 1


Message: TypeAlias = Ask | Reply | Post
