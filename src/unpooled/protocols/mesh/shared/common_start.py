"""A common start without a coordinator: all users begin with the same centres, in the same order.

**Up** (:mod:`unpooled.protocols.mesh.shared.convergecast`): users' own clusters go up level by
level, until the root of the spanning tree knows clusters of everybody's rows.

**Down.** The root finds K centres among them by weighted k-means and broadcasts these by flooding:
``reach`` exchanges, in which each user sends once, what it has just received.

**Faults.** A user that has lost its parent broadcasts K centres of its own branch, under its own
number. Every user keeps the centres with the lowest number, so if the root goes down, the next
lowest takes over. Users that no centres reach, because they were down or because faults have made
the graph longer than ``reach``, are left without (``known``). If nobody was lost, the centres are
made of everybody's rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from unpooled.errors import ProtocolError
from unpooled.losses import Loss
from unpooled.messages.message import Post
from unpooled.messages.release import COLUMNS, FINITE, AtMost, Release, Size
from unpooled.protocols.mesh.base import Block, Heard, Peer
from unpooled.protocols.mesh.shared.convergecast import (
    MOST_USERS,
    Branches,
    ExtraSums,
    convergecast,
    most_local,
    weighted_kmeans,
)
from unpooled.protocols.mesh.shared.spanning_tree import BreadthFirstTree, missed_neighbours
from unpooled.types import Array, Body, BoolArray, FloatArray, IntArray

_NOBODY = np.iinfo(np.int64).max
_STARTS = (10, 100)
"""Restarts of the root's k-means, which decide what all users start from."""
_WORK = 4_000_000
"""Clusters x centres x restarts of it, within the bounds above: about a second."""


@dataclass(frozen=True)
class CommonStart:
    """What the block's users know after the start."""

    centers: FloatArray
    """(users, K, d)"""
    known: BoolArray
    """Which users have centres."""
    spread: FloatArray
    """The largest root mean square deviation of any user's rows: the scale of tolerances."""
    height: IntArray
    """How far the farthest user is from the root."""
    broken: BoolArray
    """Which users missed a neighbour, or have centres that are not of everybody's rows."""
    root_results: FloatArray
    """(users, n_results) What the root computed from `ExtraSums`."""


def common_start_releases(
    n_clusters: int, *, extra: bool = False, n_results: int = 0
) -> tuple[Release, ...]:
    """What `find_common_start` sends; ``extra`` if there are `ExtraSums`."""
    sent = AtMost(MOST_USERS * most_local(n_clusters), "clusters")
    up: dict[str, tuple[Size, ...]] = {
        "points": (sent, COLUMNS),
        "weights": (sent,),
        "scale": (2,),
    }
    if extra:
        up["added"] = (AtMost(inf),)  # as many as the graph's reach makes them
    down: dict[str, tuple[Size, ...]] = {
        "centers": (n_clusters, COLUMNS),
        "place": (3,),
        "scale": (1 + n_results,),
    }
    return (
        Release(
            "clusters",
            tuple(up),
            ("sums", "counts"),
            "means and weights of clusters of a user's rows and of those below it in the tree",
            shapes=up,
            bounds={"added": FINITE} if extra else {},
        ),
        Release(
            "start",
            tuple(down),
            ("model",),
            "centres for all, merged from users' clusters, passed on as they came",
            shapes=down,
            types={"place": "int64"},
        ),
    )


def find_common_start(
    block: Block,
    tree: BreadthFirstTree,
    n_clusters: int,
    n_init: int,
    loss: Loss,
    extra: ExtraSums | None = None,
    *,
    private: bool = False,
) -> Peer[CommonStart]:
    """The common start: up the tree, then down; ``private`` if users go by their own links."""
    near = block.neighbourhood
    branches = yield from convergecast(
        block, tree, n_clusters, n_init, loss, extra, private=private
    )
    broken = branches.broken
    has_parent = tree.has_parent(block)
    broadcast = _Broadcast(block, branches, extra, n_clusters, loss)
    broadcast.originate(~has_parent | branches.orphaned, broken)
    for step in range(block.reach):
        heard = yield Post("start", step, broadcast.body, to=broadcast.fresh[near.holder])
        broken |= missed_neighbours(block, heard)
        reachable = tree.parent_marked(block, heard.present | heard.ended)
        orphaned = heard.awake & has_parent & ~reachable
        broadcast.receive(heard)
        broadcast.originate(orphaned & ~broadcast.known, broken)
    _refuse_nothing_sent(~has_parent & ~broken & ~broadcast.known)
    return broadcast.result(broken | ~broadcast.known)


class _Broadcast:
    """The centres that users hold so far: of all that reached them, those of the lowest number."""

    def __init__(
        self,
        block: Block,
        branches: Branches,
        extra: ExtraSums | None,
        n_clusters: int,
        loss: Loss,
    ) -> None:
        n, width = len(block), block.parties.n_features
        self._loss, self._n_clusters = loss, n_clusters
        n_results = 0 if extra is None else extra.n_results
        self._block, self._branches, self._extra = block, branches, extra
        self.centers: FloatArray = np.zeros((n, n_clusters, width))
        self.origin: IntArray = np.tile(np.array([_NOBODY, 0, 0]), (n, 1))
        """Whose they are (its number), how high its tree is, and whether it missed no neighbour."""
        self.scale: FloatArray = np.zeros((n, 1 + n_results))
        self.fresh: BoolArray = np.zeros(n, dtype=bool)
        """Who has received or made its centres just now, and so sends them in the next exchange."""

    @property
    def known(self) -> BoolArray:
        return np.asarray(self.origin[:, 0] < _NOBODY)

    @property
    def body(self) -> Body:
        return {"centers": self.centers, "place": self.origin, "scale": self.scale}

    def originate(self, users: BoolArray, broken: BoolArray) -> None:
        """These users broadcast K centres of their own branch of the tree."""
        self.centers, self.origin, self.scale = (
            self.centers.copy(),
            self.origin.copy(),
            self.scale.copy(),
        )
        branches = self._branches
        for i in np.flatnonzero(users):
            known = branches.clusters[i]
            if not len(known.weights):
                continue
            number = int(self._block.neighbourhood.users[i])
            rng = np.random.default_rng([self._block.seed, number, 2])
            starts = int(np.clip(_WORK // (len(known.weights) * self._n_clusters), *_STARTS))
            found = weighted_kmeans(
                self._block,
                known.points,
                known.weights,
                self._n_clusters,
                starts,
                self._loss,
                rng,
            )
            # With fewer points than K, centres are repeated; a repeated one gets no rows.
            self.centers[i] = np.resize(found.centers, self.centers[i].shape)
            self.origin[i] = number, int(branches.scale[i, 1]), int(not broken[i])
            self.scale[i, 0] = branches.scale[i, 0]
            if self._extra is not None:
                self.scale[i, 1:] = self._extra.evaluate(branches.added[i])
            self.fresh[i] = True

    def receive(self, heard: Heard) -> None:
        """Takes the lowest number's centres of those heard, if it is lower than the present one."""
        near, m = self._block.neighbourhood, self._block.graph.n_users
        origin = heard.from_neighbours(near, "place")
        sane = heard.received(near) & ((origin >= 0) & (origin <= m)).all(axis=1)
        number = np.where(sane, origin[:, 0], _NOBODY)
        lowest = self.origin[:, 0].copy()
        np.minimum.at(lowest, near.holder, number)
        self.fresh = lowest < self.origin[:, 0]
        chosen = self.fresh[near.holder] & (number == lowest[near.holder])
        users, first = np.unique(near.holder[chosen], return_index=True)
        links = np.flatnonzero(chosen)[first]
        self.centers, self.origin, self.scale = (
            _replaced(mine, users, heard.from_neighbours(near, name)[links])
            for name, mine in self.body.items()
        )

    @property
    def _not_of_the_first(self) -> BoolArray:
        """Who has other centres than user 0's, which then did not reach everybody."""
        return np.asarray((self.origin[:, 0] != 0) & (self._block.reach > 0))

    def result(self, broken: BoolArray) -> CommonStart:
        """What users know at the end."""
        return CommonStart(
            self.centers,
            self.known,
            self.scale[:, 0],
            self.origin[:, 1],
            broken | (self.origin[:, 2] == 0) | self._not_of_the_first,
            self.scale[:, 1:],
        )


def _replaced(values: Array, users: IntArray, by: Array) -> Array:
    values = values.copy()
    values[users] = by
    return values


def _refuse_nothing_sent(roots: BoolArray) -> None:
    """Refuses a start for which no user could send a cluster; ``roots`` have nothing to merge."""
    if roots.any():
        raise ProtocolError(
            "No user sent anything about its rows: each has fewer persons than its policy's "
            "minimum count; find users with more, or have the minimum lowered."
        )
