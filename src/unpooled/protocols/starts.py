"""Where centres start in a mesh: given, random, local k-means++, or DKM+C.

DKM+C (Armacki et al. 2024): round 0 is k-means++ on a user's own rows; in rounds 1..L users
exchange their centres with their neighbours and run k-means, again started by k-means++, on their
own and their neighbours' centres, (|N_i| + 1) K points. As published, it does not align the
numbering of centres between users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unpooled.errors import DomainError, InputError
from unpooled.kernels.lloyd import lloyd, plus_plus, random_rows
from unpooled.losses import Loss
from unpooled.protocols.mesh import Block, Peer
from unpooled.types import Array, FloatArray
from unpooled.wire.message import Post
from unpooled.wire.policy import COLUMNS, Release

StartName = Literal["random", "k-means++", "dkm+c"]
NAMES: tuple[StartName, ...] = ("random", "k-means++", "dkm+c")


@dataclass(frozen=True)
class Start:
    """How starting centres are found.

    ``init`` is one of ``NAMES`` or an array (K, d) for all users or (m, K, d), one slice per user
    in the order of the graph.
    """

    n_clusters: int
    init: StartName | FloatArray = "dkm+c"
    rounds: int = 3

    @property
    def exchanges(self) -> bool:
        """Whether users talk to each other before they have centres."""
        return isinstance(self.init, str) and self.init == "dkm+c" and self.rounds > 0

    @property
    def from_rows(self) -> bool:
        """Whether starting centres may be rows: drawn ones are, given ones of each user's may be.

        After DKM+C many still are: a cluster of one point keeps it.
        """
        return isinstance(self.init, str) or np.ndim(self.init) == 3

    @property
    def releases(self) -> tuple[Release, ...]:
        """The exchanges of DKM+C, if there are any."""
        if not self.exchanges:
            return ()
        why = "centres for the start; in the first exchange they are rows, drawn by k-means++"
        shapes = {"centers": (self.n_clusters, COLUMNS)}
        return (Release("start", ("centers",), ("rows",), why, shapes=shapes),)

    def centers(self, block: Block, loss: Loss) -> Peer[FloatArray]:
        """The starting centres of the block's users, (users, K, d), inside the loss's domain."""
        if not isinstance(self.init, str):
            centers = self._given(block)
        else:
            _refuse_empty(block)
            centers = self._drawn(block, random_rows if self.init == "random" else plus_plus)
            if self.exchanges:
                centers = yield from self._dkm_c(block, centers)
        _refuse_outside(block, centers, loss)
        return centers

    def _given(self, block: Block) -> FloatArray:
        init = np.asarray(self.init, dtype=np.float64)
        if init.ndim == 3:
            return init[block.neighbourhood.users]
        return np.broadcast_to(init, (len(block), *init.shape)).copy()

    def _drawn(self, block: Block, draw: Callable[..., FloatArray]) -> FloatArray:
        parties = block.parties
        noise = block.exponentials(0, self.n_clusters, parties.sizes)
        return draw(parties.rows, parties.offsets, parties.weights, noise)

    def _dkm_c(self, block: Block, centers: FloatArray) -> Peer[FloatArray]:
        for number in range(1, self.rounds + 1):
            heard = yield Post("start", number, {"centers": centers})
            points, offsets = heard.gathered("centers")
            noise = block.exponentials(number, self.n_clusters, np.diff(offsets))
            ones = np.ones(len(points))
            seeds = plus_plus(points, offsets, ones, noise)
            centers = heard.step(centers, lloyd(points, offsets, ones, seeds))
        return centers


def _refuse_empty(block: Block) -> None:
    empty: Array = np.flatnonzero(block.parties.sizes == 0)
    if len(empty):
        raise InputError(
            f"Party {block.parties.names[empty[0]]} has no rows to draw starting centres from; "
            "leave it out or give init as an array."
        )


def _refuse_outside(block: Block, centers: FloatArray, loss: Loss) -> None:
    outside = ~loss.inside(centers)
    if not outside.any():
        return
    user, k = np.argwhere(outside)[0]
    low, high = loss.domain
    column = int(np.argmin((centers[user, k] > low) & (centers[user, k] < high)))
    raise DomainError(
        f"Party {block.parties.names[user]} starts with a centre whose column {column} is "
        f"{centers[user, k, column]:.6g}, outside the loss's domain ({low:g}, {high:g}); shift the "
        "data or give init as an array inside it."
    )
