"""A common start without a coordinator: users' own clusters, merged on their way up a tree.

*Up.* Level by level, from the farthest: a user puts its own clusters' means and weights (the best
of ``n_init`` weighted k-means, at most 3K of them) together with what its children sent, finds 3K
among them by weighted k-means again if there are more, and sends these to its parent. ``reach``
exchanges, in each of which one level speaks.

*Down.* The root finds K centres among what has come from everybody's rows and floods them; all
users then have the same, in the same order. ``reach`` exchanges, in which each user speaks once.

**When users die.** One that has lost its parent offers K centres of its own branch, under its
own number, and of all that is offered the lowest number's wins: if the root dies, the next lowest
takes over. Users whom no offer reaches, since they slept or deaths have made the graph longer than
``reach``, are left without (``known``). Centres are made of everybody's rows if nobody was lost.

**What leaves.** Means and weights of local clusters, of at least ``min_count`` rows each under the
user's policy, to the parent alone, and the spread of the user's rows, if they are that many. A mean
of one row is that row: with a minimum of 1 rows may leave. The parent of a user without children
gets what this user sent and nothing else; one above it gets means of clusters merged from several
users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from unpooled.errors import ProtocolError
from unpooled.kernels.lloyd.kmeans import Clustering, cluster, means_of
from unpooled.losses import Loss
from unpooled.messages.message import Post
from unpooled.messages.release import COLUMNS, FINITE, AtMost, Release, Size
from unpooled.parallel import in_chunks
from unpooled.privacy.row_groups import room, sendable
from unpooled.protocols.mesh.base import Block, Heard, Peer
from unpooled.protocols.mesh.shared.global_bounds import OWN
from unpooled.protocols.mesh.shared.spanning_tree import Tree, missing
from unpooled.types import Array, Body, BoolArray, FloatArray, IntArray

_MERGES = 20
"""Restarts of k-means on merged clusters, which are few."""
POINTS = 3
"""Clusters that are sent up, over K. With K alone, clusters that look like one to a few users are
one from then on; on digits and MNIST the merged start then is a worse one now and then."""
_NOBODY = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Beside:
    """Numbers that ride along: added up over users on the way up, made use of by the root."""

    own: FloatArray
    """(users, n)"""
    made: Callable[[FloatArray], FloatArray]
    """What the root makes of their sums, for everybody to know."""
    n_made: int


@dataclass(frozen=True)
class Merged:
    """What the block's users know after the start."""

    centers: FloatArray
    """(users, K, d)"""
    known: BoolArray
    """Who has got centres."""
    spread: FloatArray
    """The largest root mean square deviation of any user's rows: what is small is so beside it."""
    height: IntArray
    """How far the farthest user is from the root."""
    broken: BoolArray
    """Who has missed a neighbour, or been offered what not all users are part of."""
    made: FloatArray
    """(users, n_made)"""


def merge_releases(n_clusters: int, *, added: bool = False, n_made: int = 0) -> tuple[Release, ...]:
    """What `merge` sends; with ``added`` there is something beside."""
    up: dict[str, tuple[Size, ...]] = {
        "points": (POINTS * n_clusters, COLUMNS),
        "weights": (POINTS * n_clusters,),
        "scale": (2,),
    }
    if added:
        up["added"] = (AtMost(inf),)  # as many as the graph's reach makes them
    down: dict[str, tuple[Size, ...]] = {
        "centers": (n_clusters, COLUMNS),
        "place": (3,),
        "scale": (1 + n_made,),
    }
    return (
        Release(
            "clusters",
            tuple(up),
            ("sums", "counts"),
            "means and weights of clusters of a user's rows and of those below it in the tree",
            shapes=up,
            bounds={"added": FINITE} if added else {},
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


def merge(
    block: Block, tree: Tree, n_clusters: int, n_init: int, loss: Loss, beside: Beside | None = None
) -> Peer[Merged]:
    """The common start."""
    near = block.neighbourhood
    has_parent: BoolArray = np.isin(np.arange(len(block)), near.holder[tree.up])
    lost = np.zeros_like(tree.broken)
    broken = tree.broken.copy()
    n_points = POINTS * n_clusters
    body = _own(block, tree, n_points, n_init, loss, beside)

    for step in range(block.reach):
        level = block.reach - step
        speaks = has_parent & (tree.hops == level)
        heard = yield Post("clusters", step, body, to=tree.up & speaks[near.holder])
        broken |= missing(block, heard)
        lost |= heard.awake & has_parent & ~tree.of_parent(block, heard.present)
        body = _put_together(block, heard, body, n_points, loss)

    offer = _Offer(block, body, beside, n_clusters, loss)
    offer.make(~has_parent | lost, broken)
    for step in range(block.reach):
        heard = yield Post("start", step, offer.body, to=offer.news[near.holder])
        broken |= missing(block, heard)
        orphan = heard.awake & has_parent & ~tree.of_parent(block, heard.present | heard.ended)
        offer.take(heard)
        offer.make(orphan & ~offer.known, broken)
    _refuse_nothing(~has_parent & ~broken & ~offer.known)
    return offer.result(broken | ~offer.known)


def _own(
    block: Block, tree: Tree, n_clusters: int, n_init: int, loss: Loss, beside: Beside | None
) -> dict[str, FloatArray]:
    """What each user has to send up before it has heard anybody."""
    parties, n = block.parties, len(block)
    points: FloatArray = np.zeros((n, n_clusters, parties.n_features))
    weights: FloatArray = np.zeros((n, n_clusters))

    def put(i: int) -> None:
        rng = np.random.default_rng([block.seed, int(block.neighbourhood.users[i]), 0])
        own = parties[i]
        wanted = min(n_clusters, max(1, room(len(own.rows), block.min_count)))
        found = _clusters(block, own.rows, own.weights, wanted, n_init, loss, rng)
        kept = sendable(found.labels, own.weights, len(found.centers), block.min_count)
        points[i, : len(kept)] = found.centers[kept]
        weights[i, : len(kept)] = found.counts[kept]

    def put_all(users: slice) -> None:
        for i in range(users.start, users.stop):
            put(i)

    in_chunks(
        put_all,
        (n, max(1, len(parties.rows) // n) * parties.n_features * n_init),
    )
    spread = np.where(parties.sizes >= block.min_count, OWN["spread"](block, points)[:, 0], 0.0)
    scale = np.column_stack([spread, tree.hops])
    body = {"points": points, "weights": weights, "scale": scale}
    return body if beside is None else {**body, "added": beside.own}


def _clusters(
    block: Block,
    rows: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    n_init: int,
    loss: Loss,
    rng: np.random.Generator,
) -> Clustering:
    """The best of ``n_init`` weighted k-means in the loss's metric."""
    flat = loss.metric.flattened(rows)
    found = cluster(flat, weights, n_clusters, n_init, rng, tables=block.graph.n_users)
    return found if flat is rows else means_of(rows, weights, found.labels)


def _put_together(
    block: Block, heard: Heard, body: dict[str, FloatArray], n_clusters: int, loss: Loss
) -> dict[str, FloatArray]:
    """Each user's clusters with those that its children sent."""
    parents = np.flatnonzero(heard.degrees)
    if not len(parents):
        return body
    everyone = {name: heard.everyone(name) for name in body}
    body = {name: value.copy() for name, value in body.items()}
    for i in parents:
        children = heard.links.indices[heard.links.indptr[i] : heard.links.indptr[i + 1]]
        who = np.concatenate([[i], children])
        body["scale"][i] = everyone["scale"][who].max(axis=0).clip(0, [np.inf, block.graph.n_users])
        if "added" in body:
            body["added"][i] = everyone["added"][who].sum(axis=0)
        weights = everyone["weights"][who].reshape(-1)
        points = everyone["points"][who].reshape(len(weights), -1)[weights > 0]
        weights = weights[weights > 0]
        if len(weights) > n_clusters:
            rng = np.random.default_rng([block.seed, int(block.neighbourhood.users[i]), 1])
            found = _clusters(block, points, weights, n_clusters, _MERGES, loss, rng)
            points, weights = found.centers, found.counts
        body["points"][i], body["weights"][i] = 0.0, 0.0
        body["points"][i, : len(points)] = points
        body["weights"][i, : len(points)] = weights
    return body


class _Offer:
    """The centres that users have been offered so far, by the lowest number; and their own."""

    def __init__(
        self, block: Block, mine: Body, beside: Beside | None, n_clusters: int, loss: Loss
    ) -> None:
        n, width = len(block), block.parties.n_features
        self._loss, self._n_clusters = loss, n_clusters
        n_made = 0 if beside is None else beside.n_made
        self._block, self._mine, self._beside = block, mine, beside
        self.centers: FloatArray = np.zeros((n, n_clusters, width))
        self.place: IntArray = np.tile(np.array([_NOBODY, 0, 0]), (n, 1))
        """By whom (its number), how high its tree is, and whether it had missed no neighbour."""
        self.scale: FloatArray = np.zeros((n, 1 + n_made))
        self.news: BoolArray = np.zeros(n, dtype=bool)

    @property
    def known(self) -> BoolArray:
        return np.asarray(self.place[:, 0] < _NOBODY)

    @property
    def body(self) -> Body:
        return {"centers": self.centers, "place": self.place, "scale": self.scale}

    def make(self, users: BoolArray, broken: BoolArray) -> None:
        """These users offer what their own branch of the tree has come to."""
        self.centers, self.place, self.scale = (
            self.centers.copy(),
            self.place.copy(),
            self.scale.copy(),
        )
        for i in np.flatnonzero(users & self._mine["weights"].any(axis=1)):
            number = int(self._block.neighbourhood.users[i])
            weights = self._mine["weights"][i]
            points, weights = self._mine["points"][i][weights > 0], weights[weights > 0]
            rng = np.random.default_rng([self._block.seed, number, 2])
            found = _clusters(
                self._block, points, weights, self._n_clusters, _MERGES, self._loss, rng
            )
            # Too few points for K centres: what repeats another gets no rows.
            self.centers[i] = np.resize(found.centers, self.centers[i].shape)
            self.place[i] = number, int(self._mine["scale"][i, 1]), int(not broken[i])
            self.scale[i, 0] = self._mine["scale"][i, 0]
            if self._beside is not None:
                self.scale[i, 1:] = self._beside.made(self._mine["added"][i])
            self.news[i] = True

    def take(self, heard: Heard) -> None:
        """Takes the lowest number's offer of those heard, if it is lower than the present one."""
        near, m = self._block.neighbourhood, self._block.graph.n_users
        place = heard.from_neighbours(near, "place")
        sane = heard.spoken(near) & ((place >= 0) & (place <= m)).all(axis=1)
        number = np.where(sane, place[:, 0], _NOBODY)
        lowest = self.place[:, 0].copy()
        np.minimum.at(lowest, near.holder, number)
        self.news = lowest < self.place[:, 0]
        chosen = self.news[near.holder] & (number == lowest[near.holder])
        users, first = np.unique(near.holder[chosen], return_index=True)
        links = np.flatnonzero(chosen)[first]
        self.centers, self.place, self.scale = (
            _replaced(mine, users, heard.from_neighbours(near, name)[links])
            for name, mine in self.body.items()
        )

    @property
    def _not_first(self) -> BoolArray:
        """Who has other centres than the first user's: there are users whom these did not reach."""
        return np.asarray((self.place[:, 0] != 0) & (self._block.reach > 0))

    def result(self, broken: BoolArray) -> Merged:
        """What it has come to."""
        return Merged(
            self.centers,
            self.known,
            self.scale[:, 0],
            self.place[:, 1],
            broken | (self.place[:, 2] == 0) | self._not_first,
            self.scale[:, 1:],
        )


def _replaced(values: Array, users: IntArray, by: Array) -> Array:
    values = values.copy()
    values[users] = by
    return values


def _refuse_nothing(roots: BoolArray) -> None:
    """Nothing comes of nothing."""
    if roots.any():
        raise ProtocolError(
            "No user sent anything about its rows: each has fewer of them in every cluster than "
            "its policy's minimum count; ask for fewer clusters or have the minimum lowered."
        )
