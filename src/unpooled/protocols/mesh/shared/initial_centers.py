"""Where centres start in a mesh: given, random, local k-means++, DKM+C, or merged along a tree.

**DKM+C** (Armacki et al. 2024): round 0 is k-means++ on a user's own rows; in rounds 1..L users
exchange their centres with their neighbours and run k-means, again started by k-means++, on their
own and their neighbours' centres, (|N_i| + 1) K points. As published, it does not align the
numbering of centres between users.

**Aligned.** Users who agree on where centres are may still number them differently, and the methods
compare centre k with a neighbour's centre k. With ``align``, users whose starts differ find a
tree (:mod:`unpooled.protocols.mesh.shared.spanning_tree`); then, level by level from the root, parents
send their centres to their children, who renumber their own such that the sum of squared distances
to their parent's is least: what DGC's cost charges for that link. Only numbers change, no centre
moves. ``reach`` exchanges, in each of which one level speaks, and only to its children. A user that
does not hear its parent keeps its numbers, and its branch takes them.

**Tree.** The common start of :mod:`unpooled.protocols.mesh.shared.common_start`: all users begin with
the same centres of everybody's rows, so they are aligned. A user that slept while the tree was made
is in none, and has centres of its own clusters. One that slept when they were passed on has no
centres; it puts all K on the mean of its rows, whence its neighbours' pull takes each to where
theirs is.
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
from unpooled.protocols.mesh.shared.common_start import merge, merge_releases
from unpooled.protocols.mesh.shared.domain import refuse_outside
from unpooled.protocols.mesh.shared.spanning_tree import TREE_RELEASES, find_tree
from unpooled.types import Array, FloatArray

StartName = Literal["random", "k-means++", "dkm+c", "tree"]
NAMES: tuple[StartName, ...] = ("random", "k-means++", "dkm+c", "tree")


@dataclass(frozen=True)
class Start:
    """How starting centres are found.

    ``init`` is one of ``NAMES`` or an array (K, d) for all users or (m, K, d), one slice per user
    in the order of the graph. ``rounds`` are those of DKM+C; ``n_init`` is how often "tree" starts
    k-means on a user's own rows. ``align`` has no effect where all users start alike.
    """

    n_clusters: int
    init: StartName | FloatArray = "dkm+c"
    rounds: int = 3
    n_init: int = 10
    align: bool = False

    @property
    def from_rows(self) -> bool:
        """Whether starting centres may be rows: drawn ones are, given ones of each user's may be.

        After DKM+C many still are: a cluster of one point keeps it. What is merged along the tree
        are means of clusters.
        """
        return self.init != "tree" if isinstance(self.init, str) else np.ndim(self.init) == 3

    @property
    def aligns(self) -> bool:
        """Whether users renumber their centres; only those who draw, or are given, their own do."""
        return self.align and self.from_rows

    @property
    def releases(self) -> tuple[Release, ...]:
        """What users say before they have centres, if anything."""
        if isinstance(self.init, str) and self.init == "tree":
            return (*TREE_RELEASES, *merge_releases(self.n_clusters))
        shapes = {"centers": (self.n_clusters, COLUMNS)}
        why = "centres for the start; in the first exchange they are rows, drawn by k-means++"
        started = Release("start", ("centers",), ("rows",), why, shapes=shapes)
        why = "starting centres, which may be rows, by which users lower in a tree number theirs"
        aligned = Release("aligned", ("centers",), ("rows",), why, shapes=shapes)
        return (
            *((started,) if self._mixes else ()),
            *((*TREE_RELEASES, aligned) if self.aligns else ()),
        )

    @property
    def _mixes(self) -> bool:
        return isinstance(self.init, str) and self.init == "dkm+c" and self.rounds > 0

    def centers(self, block: Block, loss: Loss) -> Peer[FloatArray]:
        """The starting centres of the block's users, (users, K, d), inside the loss's domain."""
        if not isinstance(self.init, str):
            centers = self._given(block)
        elif self.init == "tree":
            centers = yield from self._merged(block, loss)
        else:
            _refuse_empty(block)
            centers = self._drawn(block, random_rows if self.init == "random" else plus_plus)
            if self._mixes:
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

    def _merged(self, block: Block, loss: Loss) -> Peer[FloatArray]:
        tree = yield from find_tree(block)
        found = yield from merge(block, tree, self.n_clusters, self.n_init, loss)
        return only(found.known, found.centers, _means(block))


def _means(block: Block) -> FloatArray:
    """The mean of each user's rows, (users, 1, d); 0 where nothing is weighed."""
    parties, shape = block.parties, (len(block), 1)
    sums = ClusterSums(parties.owner, np.zeros_like(parties.owner), parties.weights, shape)
    nothing = np.zeros((*shape, parties.n_features))
    return means_or_keep(sums(parties.rows), sums.weights(), nothing)


def _aligned(block: Block, centers: FloatArray) -> Peer[FloatArray]:
    """The same centres, numbered after the root's as well as it can be done link by link."""
    near = block.neighbourhood
    tree = yield from find_tree(block)
    for level in range(block.reach):
        to = tree.down & (tree.hops == level)[near.holder]
        heard = yield Post("aligned", level, {"centers": centers}, to=to)
        links = np.flatnonzero(tree.up & heard.spoken(near))
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
            f"Party {block.parties.names[empty[0]]} has no rows to draw starting centres from; "
            "leave it out or give init as an array."
        )
