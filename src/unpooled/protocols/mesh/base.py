"""The mesh role: peers that talk to their neighbours, with nobody in charge.

A peer is a generator. It yields a :class:`unpooled.messages.Post`, is sent what its neighbours said
in the same exchange as a :class:`Heard`, and in the end returns its result: arrays with one entry
per user along the first axis. A :class:`unpooled.messages.Note` yielded in between is for the
screen; nothing is sent back for it.

A peer works on a :class:`Block` of users. One user per block is the ordinary deployment, one block
with every user is the simulation, and the algorithm is the same code, with one sparse product where
a single user would add up its neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from unpooled.data.parties import Parties
from unpooled.graphs.topology import Neighbourhood, Topology
from unpooled.messages.message import Note, Post
from unpooled.messages.release import Release
from unpooled.privacy.policy import Policy
from unpooled.types import Array, Body, BoolArray, FloatArray, IntArray, PartyId

Result = TypeVar("Result")


@dataclass(frozen=True)
class Block:
    """The users that one host carries: their rows, their links and their random numbers.

    ``reach`` is a number of exchanges after which a word from any user has reached every other: the
    diameter of the graph or a bound on it, known from the plan like the graph itself. ``alone``
    says that all users are here and that nobody listens to them or disturbs them: they may be
    through several exchanges at once (``Post.times``).
    """

    parties: Parties
    neighbourhood: Neighbourhood
    graph: Topology
    seed: int
    alone: bool = False
    remarks: Mapping[PartyId, list[str]] = field(default_factory=dict)
    """What users left out of their rows, in words."""

    @classmethod
    def of(
        cls,
        parties: Parties,
        graph: Topology,
        users: IntArray,
        seed: int,
        policy: Policy,
        *,
        alone: bool = False,
    ) -> Block:
        """The block of ``users``, whose rows are ``parties``, as their policy admits them."""
        seen, remarks = policy.admitted_parties(parties)
        return cls(seen, graph.neighbourhood(users), graph, seed, alone, remarks)

    @property
    def reach(self) -> int:
        return self.graph.reach

    def __len__(self) -> int:
        return len(self.parties)

    def exponentials(self, draw: int, count: int, sizes: IntArray) -> FloatArray:
        """(count, sum of sizes) standard exponentials, ``sizes[i]`` columns for user ``i``.

        Each user draws from its own stream, named by the seed, its number in the graph and
        ``draw``: who shares its host does not matter.
        """
        streams = (
            np.random.default_rng([self.seed, int(user), draw]).standard_exponential((count, size))
            for user, size in zip(self.neighbourhood.users, sizes, strict=True)
        )
        return np.concatenate(list(streams), axis=1)


class ByNeighbour(Mapping[str, Array]):
    """What users said, each kept where it came from; one array is made for those who ask for it."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        self.bodies = bodies

    def __getitem__(self, field: str) -> Array:
        if not self.bodies:
            raise KeyError(field)  # nobody is there to say anything
        return np.concatenate([body[field] for body in self.bodies])

    def __iter__(self) -> Iterator[str]:
        return iter(self.bodies[0] if self.bodies else ())

    def __len__(self) -> int:
        return len(self.bodies[0]) if self.bodies else 0


@dataclass(frozen=True)
class Heard:
    """What reached the users of a block in one exchange.

    ``links`` has the links over which something was heard (see
    :class:`unpooled.graphs.topology.Neighbourhood`); ``own`` is what the block itself posted,
    ``outer`` what users outside said; ``awake`` marks the users that are running: one that is not
    takes no step, and what it knew stays as it was.

    ``present`` and ``ended`` tell of all of the block's links, in the order of
    ``Neighbourhood.ends``: whether the neighbour took part in this exchange, be it that it had
    nothing to say, and whether it had terminated before, so that its last post stands for it. Of a
    neighbour that is neither, nothing is known: it is down, or the link is.
    """

    links: sp.csr_array
    own: Body
    outer: Body
    awake: BoolArray
    present: BoolArray
    ended: BoolArray

    @property
    def degrees(self) -> IntArray:
        """How many neighbours each user heard."""
        indptr = self.links.indptr
        return np.asarray(indptr[1:] - indptr[:-1], dtype=np.int64)

    def everyone(self, field: str) -> FloatArray:
        """The field's values at the block's users, then at the users outside."""
        own, outer = self.own[field], self.outer.get(field)
        return own if outer is None else np.concatenate([own, outer])

    def neighbour_sum(self, field: str) -> FloatArray:
        """sum over j in N_i of x_j."""
        own = self.own[field]
        if isinstance(self.outer, ByNeighbour) and len(own) == 1 and self.links.nnz:
            # A user alone on its host adds row after row, as the sparse product does.
            bodies = self.outer.bodies
            first, *others = [bodies[j - 1][field] for j in self.links.indices.tolist()]
            total: FloatArray = first + others[0] if others else first.copy()
            for value in others[1:]:
                total += value
            return total
        flat = self.everyone(field).reshape(self.links.shape[1], -1)
        return np.asarray(self.links @ flat).reshape(own.shape)

    def disagreement(self, field: str) -> FloatArray:
        """sum over j in N_i of (x_i - x_j): the block's rows of (L kron I) x."""
        own = self.own[field]
        degrees = self.degrees.reshape(-1, *[1] * (own.ndim - 1))
        return degrees * own - self.neighbour_sum(field)

    def mixed(self, near: Neighbourhood, field: str, used: BoolArray) -> FloatArray:
        """sum over the links ``used`` of w_ij (x_j - x_i): minus the block's rows of M x, with M
        the mixing matrix of :mod:`unpooled.kernels.linalg.polynomials`."""
        everyone = self.everyone(field)
        mixed = near.mixing(used) @ everyone.reshape(len(everyone), -1)
        return np.asarray(mixed).reshape(self.own[field].shape)

    def from_neighbours(self, near: Neighbourhood, field: str) -> Array:
        """What the neighbour at the other end of each of the block's links said, heard or not."""
        said: Array = self.everyone(field)[near.links.indices]
        return said

    def received(self, near: Neighbourhood) -> BoolArray:
        """Over which of the block's links words came."""
        if self.links.nnz == near.links.nnz:
            return np.ones(near.links.nnz, dtype=bool)
        width = near.links.shape[1]
        heard_by = np.repeat(np.arange(len(near.users)), self.degrees)
        numbers = near.holder * width + near.links.indices
        return np.isin(numbers, heard_by * width + self.links.indices)

    def largest(self, field: str) -> FloatArray:
        """The largest of a user's own value and its neighbours', entry by entry."""
        result = self.own[field].copy()
        heard_by = np.repeat(np.arange(len(result)), self.degrees)
        np.maximum.at(result, heard_by, self.everyone(field)[self.links.indices])
        return result

    def gathered(self, field: str) -> tuple[FloatArray, IntArray]:
        """Own and neighbours' values of a (users, K, d) field as rows, with users' offsets."""
        everyone = self.everyone(field)
        n, (_, n_clusters, width) = len(self.own[field]), everyone.shape
        # A user's own values stand before those of its neighbours.
        who = np.insert(self.links.indices, self.links.indptr[:-1], np.arange(n))
        offsets = (self.links.indptr + np.arange(n + 1)).astype(np.int64) * n_clusters
        return everyone[who].reshape(-1, width), offsets

    def step(self, old: FloatArray, new: FloatArray) -> FloatArray:
        """``new`` for users that are awake, ``old`` for the others."""
        return only(self.awake, new, old)


def only(users: BoolArray, new: FloatArray, old: FloatArray) -> FloatArray:
    """``new`` for the marked users, ``old`` for the others."""
    if users.all():
        return new
    return np.where(users.reshape(-1, *[1] * (new.ndim - 1)), new, old)


Peer: TypeAlias = Generator[Post | Note, Heard, Result]


class MeshProtocol(ABC):
    """An algorithm between peers: its parameters, what it may release, and one peer's part."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Rises whenever a peer of the old and one of the new could not talk."""

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """Everything that may leave a user, with these parameters."""

    @abstractmethod
    def peer(self, block: Block) -> Peer[Body]:
        """The part of the users in ``block``."""
