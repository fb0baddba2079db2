"""Where users' centres start: given, drawn from own rows, DKM+C, or a common start.

**"random"** and **"k-means++"** draw K of a user's own rows.

**"dkm+c"** (Armacki et al. 2024): round 0 is k-means++ on a user's own rows. In rounds 1..L users
exchange their centres with their neighbours and run k-means, again started by k-means++, on their
own and their neighbours' centres, (|N_i| + 1) K points. As published, it does not align the
numbering of centres between users.

**"tree"** is :mod:`unpooled.protocols.mesh.shared.common_start`: all users begin with the same
centres of everybody's rows, so they are aligned; users of a graph without links begin with centres
of their own clusters. A user that was down while the tree was found is not in it, and has centres
of its own clusters too. One that was down during the broadcast has no centres: it puts all K on the
mean of its rows, and its neighbours' pull then takes each of them to where theirs is.

**Alignment.** Users that agree on where centres are may still number them differently, while the
methods compare centre k with a neighbour's centre k. With ``align``, users whose starts differ find
a tree (:mod:`unpooled.protocols.mesh.shared.spanning_tree`). Then, level by level from the root,
parents send their centres to their children. A child renumbers its own centres such that the sum of
squared distances to its parent's is least: that sum is what DGC's cost has for their link. Only
numbers change, no centre moves. It takes ``reach`` exchanges, in each of which one level sends, and
only to its children. A user that does not hear its parent keeps its numbers, and the
users below it number their centres after its.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unpooled.errors import InputError
from unpooled.kernels.linalg.segments import ClusterSums, means_or_keep
from unpooled.kernels.lloyd.matching import matched
from unpooled.kernels.lloyd.per_user import lloyd, plus_plus, random_rows
from unpooled.losses import Loss
from unpooled.messages.message import Post
from unpooled.messages.release import COLUMNS, Release
from unpooled.protocols.mesh.base import Block, Peer, only
from unpooled.protocols.mesh.shared.common_start import common_start_releases, find_common_start
from unpooled.protocols.mesh.shared.domain import refuse_outside
from unpooled.protocols.mesh.shared.spanning_tree import TREE_RELEASES, find_tree
from unpooled.types import Array, FloatArray

InitName = Literal["random", "k-means++", "dkm+c", "tree"]
INIT_NAMES: tuple[InitName, ...] = ("random", "k-means++", "dkm+c", "tree")


@dataclass(frozen=True)
class InitialCenters:
    """How starting centres are found.

    ``init`` is one of ``INIT_NAMES``, an array (K, d) for all users, or an array (m, K, d) with one
    slice per user in the order of the graph. ``rounds`` are those of DKM+C; ``n_init`` is how often
    "tree" restarts k-means on a user's own rows. ``align`` has no effect where all users start
    alike.
    """

    n_clusters: int
    init: InitName | FloatArray = "dkm+c"
    rounds: int = 3
    n_init: int = 10
    align: bool = False

    @property
    def may_be_rows(self) -> bool:
        """Whether starting centres may be rows: drawn ones are, each user's given ones may be.

        After DKM+C many still are: a cluster of one point keeps it. The common start has means of
        clusters.
        """
        return self.init != "tree" if isinstance(self.init, str) else np.ndim(self.init) == 3

    @property
    def aligns(self) -> bool:
        """Whether users renumber their centres: only where each draws, or is given, its own."""
        return self.align and self.may_be_rows

    @property
    def releases(self) -> tuple[Release, ...]:
        """What users send before they have centres, if anything."""
        if isinstance(self.init, str) and self.init == "tree":
            return (*TREE_RELEASES, *common_start_releases(self.n_clusters))
        shapes = {"centers": (self.n_clusters, COLUMNS)}
        why = "centres for the start; in the first exchange they are rows, drawn by k-means++"
        started = Release("start", ("centers",), ("rows",), why, shapes=shapes)
        why = "starting centres, which may be rows, by which users lower in a tree number theirs"
        aligned = Release("aligned", ("centers",), ("rows",), why, shapes=shapes)
        return (
            *((started,) if self._runs_dkm_c else ()),
            *((*TREE_RELEASES, aligned) if self.aligns else ()),
        )

    @property
    def _runs_dkm_c(self) -> bool:
        return isinstance(self.init, str) and self.init == "dkm+c" and self.rounds > 0

    def find(self, block: Block, loss: Loss) -> Peer[FloatArray]:
        """The starting centres of the block's users, (users, K, d), inside the loss's domain."""
        if not isinstance(self.init, str):
            centers = self._given(block)
        elif self.init == "tree":
            centers = yield from self._common(block, loss)
        else:
            _refuse_empty(block)
            centers = self._drawn(block, random_rows if self.init == "random" else plus_plus)
            if self._runs_dkm_c:
                centers = yield from self._dkm_c(block, centers)
        if self.aligns:
            centers = yield from _aligned(block, centers)
        refuse_outside(block, centers, loss)
        return centers

    def _given(self, block: Block) -> FloatArray:
        init = np.asarray(self.init, dtype=np.float64, order="C")
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

    def _common(self, block: Block, loss: Loss) -> Peer[FloatArray]:
        tree = yield from find_tree(block)
        found = yield from find_common_start(block, tree, self.n_clusters, self.n_init, loss)
        return only(found.known, found.centers, _means_of_rows(block))


def _means_of_rows(block: Block) -> FloatArray:
    """The mean of each user's rows, (users, 1, d); 0 without any weight."""
    parties, shape = block.parties, (len(block), 1)
    sums = ClusterSums(parties.owner, np.zeros_like(parties.owner), parties.weights, shape)
    nothing = np.zeros((*shape, parties.n_features))
    return means_or_keep(sums(parties.rows), sums.weights(), nothing)


def _aligned(block: Block, centers: FloatArray) -> Peer[FloatArray]:
    """The same centres, each user's numbered to match its parent's as closely as possible."""
    near = block.neighbourhood
    tree = yield from find_tree(block)
    for level in range(block.reach):
        to = tree.to_children & (tree.hops == level)[near.holder]
        heard = yield Post("aligned", level, {"centers": centers}, to=to)
        links = np.flatnonzero(tree.to_parent & heard.received(near))
        parents = heard.from_neighbours(near, "centers")[links]
        renumbered = centers.copy()
        for user, parent in zip(near.holder[links], parents, strict=True):
            renumbered[user, matched(centers[user], parent)] = centers[user]
        centers = renumbered
    return centers


def _refuse_empty(block: Block) -> None:
    empty: Array = np.flatnonzero(block.parties.sizes == 0)
    if len(empty):
        raise InputError(
            f"Party {block.parties.names[empty[0]]} has no rows to draw starting centres from, or "
            "fewer persons than its minimum count; leave it out or give init as an array."
        )
