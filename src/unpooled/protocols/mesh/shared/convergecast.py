"""Convergecast: users' clusters go up a spanning tree, level by level, to its root.

Each user summarises its n rows by the means and weights of clusters, the best of ``n_init``
weighted k-means: at most L = max(5K, 48) of them, and no more than the larger of 5K and 3 n^½. One
level of the tree sends per exchange, the farthest first, and to parents alone. A parent puts what
its children sent beside its own clusters. After ``reach`` exchanges the root knows clusters of
everybody's rows.

**Width.** In an exchange all messages have room for equally many clusters, and everybody must know
for how many: for L of each user in the widest branch that begins at this level, by the plan's
graph; or, where users are to go by their own links, for L of all users but those on the way to the
root. There is room for 6 L at most, and for no more than make 2^25 numbers (d + 1 for a cluster) in
the messages of all m users together, since one process may hold them all; but always for L. A user
that has more, because its branch is large or since faults have made another tree, finds as many as
there is room for among them by weighted k-means. So no user sends more than 6 L (d + 1) numbers.

**What leaves.** Means and weights of clusters, and the spread of the user's rows. The mean of one
row is that row. A parent receives the clusters of every user below it as these made them, and their
order tells which branch they are from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from unpooled.kernels.lloyd.kmeans import Clustering, cluster, means_of
from unpooled.losses import Loss
from unpooled.messages.message import Post
from unpooled.parallel import in_chunks
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.shared.global_bounds import OWN_VALUES
from unpooled.protocols.mesh.shared.spanning_tree import BreadthFirstTree, missed_neighbours
from unpooled.types import BoolArray, FloatArray, IntArray, all_rows

_PER_CENTER, _FINE = 5, 48
"""Clusters that a user makes of its rows: over K, and where K is small. If users sent K only,
clusters that look like one to a few of them would stay one; and the finer they are, the nearer is
the start to where Lloyd's method ends, which saves cycles of many exchanges."""
MOST_USERS = 6
"""Users for whose clusters a message has room at most."""
_MOST_NUMBERS = 1 << 25
"""Numbers in the messages of one exchange at most, for all users together."""


@dataclass(frozen=True)
class ExtraSums:
    """Numbers that travel with the clusters: added up over users, then evaluated by the root."""

    own: FloatArray
    """(users, n) What each user adds."""
    evaluate: Callable[[FloatArray], FloatArray]
    """What the root computes from their sums, (n_results,), for everybody to know."""
    n_results: int


@dataclass(frozen=True)
class Branches:
    """What each user knows of its branch of the tree: itself and all users below it."""

    clusters: list[Clusters]
    """Each user's."""
    scale: FloatArray
    """(users, 2) The largest spread, and the height of the whole tree as far as it is known."""
    added: FloatArray
    """(users, n) Sums of `ExtraSums`."""
    orphaned: BoolArray
    """Which users have missed their parent."""
    broken: BoolArray
    """Which users have missed a neighbour, now or while the tree was found."""


def convergecast(
    block: Block,
    tree: BreadthFirstTree,
    n_clusters: int,
    n_init: int,
    loss: Loss,
    extra: ExtraSums | None,
    *,
    private: bool = False,
) -> Peer[Branches]:
    """The clusters of every user's branch; ``private`` if users are to go by their own links."""
    near = block.neighbourhood
    has_parent = tree.has_parent(block)
    orphaned = np.zeros_like(tree.broken)
    broken = tree.broken.copy()
    widths = message_widths(block, n_clusters, private=private)
    clusters = _local_clusters(block, n_clusters, n_init, loss)
    added = np.empty((len(block), 0)) if extra is None else extra.own
    scale = np.column_stack([_own_spread(block, n_clusters), tree.hops])
    for step in range(block.reach):
        level = block.reach - step
        sends = has_parent & (tree.hops == level)
        body = {**_padded(clusters, sends, int(widths[level])), "scale": scale}
        body |= {} if extra is None else {"added": added}
        heard = yield Post("clusters", step, body, to=tree.to_parent & sends[near.holder])
        broken |= missed_neighbours(block, heard)
        orphaned |= heard.awake & has_parent & ~tree.parent_marked(block, heard.present)
        parents = np.flatnonzero(heard.degrees)  # posts are addressed: only parents hear anything
        if not len(parents):
            continue
        everyone = {name: heard.everyone(name) for name in body}
        scale, added = scale.copy(), added.copy()
        for i in parents:
            children = heard.links.indices[heard.links.indptr[i] : heard.links.indptr[i + 1]]
            who = np.concatenate([[i], children])
            scale[i] = everyone["scale"][who].max(axis=0).clip(0, [np.inf, block.graph.n_users])
            if extra is not None:
                added[i] = everyone["added"][who].sum(axis=0)
            sent = (everyone[name][children] for name in ("points", "weights"))
            clusters[i] = clusters[i].beside(*sent)
            if has_parent[i]:
                clusters[i] = clusters[i].reduced(block, int(i), int(widths[tree.hops[i]]), loss)
    return Branches(clusters, scale, added, orphaned, broken)


def most_local(n_clusters: int) -> int:
    """L of the module's text."""
    return max(_PER_CENTER * n_clusters, _FINE)


def message_widths(block: Block, n_clusters: int, *, private: bool = False) -> IntArray:
    """For how many clusters messages have room, by the level that sends them."""
    graph, n_features = block.graph, block.parties.n_features
    if private:
        users = graph.n_users - np.arange(block.reach + 1)
    else:
        users = np.ones(block.reach + 1, dtype=np.int64)
        users[: len(graph.widest_branches)] = graph.widest_branches
    own = most_local(n_clusters)
    memory = _MOST_NUMBERS // (graph.n_users * (n_features + 1))
    most = max(own, min(MOST_USERS * own, memory))
    return np.asarray((own * users).clip(own, most))


@dataclass(frozen=True)
class Clusters:
    """Means and weights of clusters."""

    points: FloatArray
    weights: FloatArray

    def beside(self, points: FloatArray, weights: FloatArray) -> Clusters:
        """These, then others from several messages, without what is empty in these."""
        filled = weights > 0
        return Clusters(
            np.concatenate([self.points, points[filled]]),
            np.concatenate([self.weights, weights[filled]]),
        )

    def reduced(self, block: Block, user: int, most: int, loss: Loss) -> Clusters:
        """At most so many, by weighted k-means; of many clusters one start is enough."""
        if len(self.weights) <= most:
            return self
        rng = np.random.default_rng([block.seed, int(block.neighbourhood.users[user]), 1])
        found = weighted_kmeans(block, self.points, self.weights, most, 1, loss, rng)
        return Clusters(found.centers, found.counts)


def _padded(clusters: list[Clusters], senders: BoolArray, width: int) -> dict[str, FloatArray]:
    """Messages of one width; nothing is in those of users that do not send now."""
    n_features = clusters[0].points.shape[1]
    points: FloatArray = np.zeros((len(clusters), width, n_features))
    weights: FloatArray = np.zeros((len(clusters), width))
    for i in np.flatnonzero(senders):
        own = clusters[i]
        points[i, : len(own.weights)] = own.points
        weights[i, : len(own.weights)] = own.weights
    return {"points": points, "weights": weights}


def _local_clusters(block: Block, n_clusters: int, n_init: int, loss: Loss) -> list[Clusters]:
    """What each user makes of its own rows."""
    parties, n = block.parties, len(block)
    most = most_local(n_clusters)
    nothing = Clusters(np.empty((0, parties.n_features)), np.empty(0))
    clusters = [nothing] * n

    def summarise(i: int) -> None:
        # A user has a random stream for each purpose: 0 local clusters, 1 merged clusters,
        # 2 centres for all, 3 the probes of the graph's spectrum.
        rng = np.random.default_rng([block.seed, int(block.neighbourhood.users[i]), 0])
        own = parties[i]
        fine = max(_PER_CENTER * n_clusters, ceil(3 * sqrt(len(own.rows))))
        wanted = min(most, fine)
        found = weighted_kmeans(block, all_rows(own.rows), own.weights, wanted, n_init, loss, rng)
        clusters[i] = Clusters(found.centers, found.counts)

    def summarise_all(users: slice) -> None:
        for i in range(users.start, users.stop):
            summarise(i)

    in_chunks(
        summarise_all,
        (n, max(1, len(parties.rows) // n) * parties.n_features * n_init),
    )
    return clusters


def _own_spread(block: Block, n_clusters: int) -> FloatArray:
    """How far each user's rows spread."""
    nowhere = np.zeros((len(block), n_clusters, block.parties.n_features))
    return OWN_VALUES["spread"](block, nowhere)[:, 0]


def weighted_kmeans(
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
