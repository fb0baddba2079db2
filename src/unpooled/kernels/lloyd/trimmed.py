"""k-means that leaves out the farthest share of the weight (Chawla & Gionis 2013, k-means--)."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.kernels.linalg.products import dot
from unpooled.kernels.lloyd.kmeans import Clustering, cluster
from unpooled.types import FloatArray

_REPETITIONS = 3


def trimmed(weights: FloatArray, far: FloatArray, budget: float) -> tuple[FloatArray, float]:
    """The weights without the farthest ``budget`` of weight, and Σ w far over what remains.

    ``far`` is each point's squared distance to its nearest centre. The last point to go goes in
    part, so that exactly ``budget`` is left out.
    """
    order = np.argsort(-far, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    left = weights.copy()
    left[order] -= np.clip(budget - before, 0.0, weights[order])
    return left, dot(left, far)


def trimmed_cluster(
    points: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    trim: float,
    n_init: int,
    rng: np.random.Generator,
) -> Clustering:
    """k-means of all but the share ``trim`` of the weight; what is left out has the label -1.

    Seeds come from a k-means++ that never draws what would be left out: outliers are far from
    everything, so an ordinary k-means++ would draw little else. Then, from the cheapest of
    ``n_init`` sets of seeds, two steps alternate: leaving out the farthest weight, and k-means of
    the rest with ``n_init`` starts.
    """
    budget = trim * float(weights.sum())
    seeds = (_seeds(points, weights, n_clusters, budget, rng) for _ in range(n_init))
    centers = min(seeds, key=lambda own: trimmed(weights, _far(points, own), budget)[1])
    for _ in range(_REPETITIONS):
        left, _ = trimmed(weights, _far(points, centers), budget)
        found = cluster(points, left, n_clusters, n_init, rng)
        centers = found.centers
    return found


def _far(points: FloatArray, centers: FloatArray) -> FloatArray:
    return np.asarray(cdist(points, centers, "sqeuclidean").min(axis=1))


def _seeds(
    points: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    budget: float,
    rng: np.random.Generator,
) -> FloatArray:
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    far = _far(points, points[chosen])
    for _ in range(n_clusters - 1):
        chance = trimmed(weights, far, budget)[0] * far
        if not chance.any():
            break
        chosen.append(int(rng.choice(len(points), p=chance / chance.sum())))
        far = np.minimum(far, _far(points, points[chosen[-1:]]))
    return points[chosen]
