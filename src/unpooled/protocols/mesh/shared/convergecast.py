"""Convergecast: users' clusters are merged, level by level, on their way up a spanning tree.

Each user summarises its own rows by the means and weights of at most 3K clusters: the best of
``n_init`` weighted k-means. One level of the tree sends per exchange, the farthest first, and to
parents alone. A parent puts what its children sent together with its own clusters, and if these are
more than 3K, finds 3K among them by weighted k-means again. After ``reach`` exchanges the root
knows clusters made of everybody's rows.

**What leaves.** Means and weights of clusters of at least ``min_count`` rows each, under the user's
policy, and the spread of the user's rows if they are that many. With ``min_count`` 1 rows may
leave: the mean of one row is that row. The parent of a user without children receives this user's
clusters and nothing else; a user above receives clusters merged from several users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unpooled.kernels.lloyd.kmeans import Clustering, cluster, means_of
from unpooled.losses import Loss
from unpooled.messages.message import Post
from unpooled.parallel import in_chunks
from unpooled.privacy.row_groups import room, sendable
from unpooled.protocols.mesh.base import Block, Heard, Peer
from unpooled.protocols.mesh.shared.global_bounds import OWN_VALUES
from unpooled.protocols.mesh.shared.spanning_tree import BreadthFirstTree, missed_neighbours
from unpooled.types import BoolArray, FloatArray, all_rows

MERGE_RESTARTS = 20
"""Restarts of k-means on merged clusters, which are few."""
CLUSTERS_PER_CENTER = 3
"""Clusters that are sent up, over K. If users sent K only, clusters that look like one to a few of
them would stay one; on digits and MNIST the start then is worse now and then."""


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

    body: dict[str, FloatArray]
    """``points`` and ``weights`` of clusters; ``scale``: largest spread, height; ``added`` sums."""
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
) -> Peer[Branches]:
    """The clusters of every user's branch, at most ``n_clusters`` of them."""
    near = block.neighbourhood
    has_parent = tree.has_parent(block)
    orphaned = np.zeros_like(tree.broken)
    broken = tree.broken.copy()
    body = _local_clusters(block, tree, n_clusters, n_init, loss, extra)
    for step in range(block.reach):
        level = block.reach - step
        sends = has_parent & (tree.hops == level)
        heard = yield Post("clusters", step, body, to=tree.to_parent & sends[near.holder])
        broken |= missed_neighbours(block, heard)
        orphaned |= heard.awake & has_parent & ~tree.parent_marked(block, heard.present)
        body = _merge_children(block, heard, body, n_clusters, loss)
    return Branches(body, orphaned, broken)


def _local_clusters(
    block: Block,
    tree: BreadthFirstTree,
    n_clusters: int,
    n_init: int,
    loss: Loss,
    extra: ExtraSums | None,
) -> dict[str, FloatArray]:
    """What each user knows before it has heard anybody."""
    parties, n = block.parties, len(block)
    points: FloatArray = np.zeros((n, n_clusters, parties.n_features))
    weights: FloatArray = np.zeros((n, n_clusters))

    def summarise(i: int) -> None:
        # A user has a random stream for each purpose: 0 local clusters, 1 merged clusters,
        # 2 centres for all, 3 the probes of the graph's spectrum.
        rng = np.random.default_rng([block.seed, int(block.neighbourhood.users[i]), 0])
        own = parties[i]
        wanted = min(n_clusters, max(1, room(len(own.rows), block.min_count)))
        found = weighted_kmeans(block, all_rows(own.rows), own.weights, wanted, n_init, loss, rng)
        kept = sendable(found.labels, own.weights, len(found.centers), block.min_count)
        points[i, : len(kept)] = found.centers[kept]
        weights[i, : len(kept)] = found.counts[kept]

    def summarise_all(users: slice) -> None:
        for i in range(users.start, users.stop):
            summarise(i)

    in_chunks(
        summarise_all,
        (n, max(1, len(parties.rows) // n) * parties.n_features * n_init),
    )
    own_spread = OWN_VALUES["spread"](block, points)[:, 0]
    spread = np.where(parties.sizes >= block.min_count, own_spread, 0.0)
    scale = np.column_stack([spread, tree.hops])
    body = {"points": points, "weights": weights, "scale": scale}
    return body if extra is None else {**body, "added": extra.own}


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


def _merge_children(
    block: Block, heard: Heard, body: dict[str, FloatArray], n_clusters: int, loss: Loss
) -> dict[str, FloatArray]:
    """Each user's clusters with those that its children sent."""
    parents = np.flatnonzero(heard.degrees)  # posts are addressed: only parents hear anything
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
            found = weighted_kmeans(block, points, weights, n_clusters, MERGE_RESTARTS, loss, rng)
            points, weights = found.centers, found.counts
        body["points"][i], body["weights"][i] = 0.0, 0.0
        body["points"][i, : len(points)] = points
        body["weights"][i, : len(points)] = weights
    return body
