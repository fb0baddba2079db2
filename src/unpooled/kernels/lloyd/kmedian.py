"""k-median of one table: a row costs w |x - c|, not its square, with c its nearest centre.

Like k-means it alternates two steps that never raise the cost. Rows go to their nearest centre;
then each centre moves towards the geometric median of its rows, the y that minimises the sum over r
of w_r |x_r - y|, by a step of Weiszfeld's iteration as corrected by Vardi & Zhang (2000)::

    T = (sum w_r x_r / |x_r - y|) / (sum w_r / |x_r - y|)    over rows that are not at y
    R = |sum w_r (x_r - y) / |x_r - y||                      the same rows' pull
    y <- y + max(0, 1 - W / R) (T - y)                       W: the weight of the rows at y

Weiszfeld's T divides by zero at a row, and all starts are rows. The corrected step stays there only
if the row is the median, that is if the others' pull R is at most its weight W.
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.assignment.centers import squared_to_own
from unpooled.kernels.assignment.nearest import nearest, squared_distance
from unpooled.kernels.linalg.products import lengths
from unpooled.kernels.linalg.segments import sums_by_label
from unpooled.kernels.lloyd.kmeans import Clustering, distinct_rows
from unpooled.types import FloatArray, IntArray

_SAME = 1e-12
"""A row this near to a centre, as a part of the data's extent, is at it: 1 / distance would be
nothing but rounding."""
_FINISHES = 10
_ROUGH, _FINE = (1e-3, 50), (1e-8, 500)
"""When to stop, in finding the best start and in finishing it: after a step below this part of the
data's extent, or after this many."""


def cluster(
    rows: FloatArray, weights: FloatArray, n_clusters: int, n_init: int, rng: np.random.Generator
) -> Clustering:
    """The best of ``n_init`` runs of k-median.

    There are as many centres as were asked for, or as many as there are distinct rows; none is
    without rows. Rows of weight zero are as good as absent (label -1).
    """
    there = weights > 0
    points, mass = rows[there], weights[there]
    few = distinct_rows(points, n_clusters)
    centers, own = few if few is not None else _best(points, mass, n_clusters, n_init, rng)
    labels = np.full(len(rows), -1, dtype=np.int64)
    labels[there] = own
    return Clustering(centers, labels, np.asarray(np.bincount(own, mass, len(centers)), float))


def _best(
    rows: FloatArray, weights: FloatArray, n_clusters: int, n_init: int, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    runs = [
        _descend(rows, weights, _seeds(rows, weights, n_clusters, rng), *_ROUGH)
        for _ in range(n_init)
    ]
    centers = min(runs, key=lambda own: _costs(rows, weights, own).sum())
    for _ in range(_FINISHES):
        before = centers
        centers = _on_rows(rows, weights, _descend(rows, weights, centers, *_FINE))
        # A centre that was put on a row may have won or lost other rows by that.
        if np.array_equal(_nearest(rows, centers), _nearest(rows, before)):
            break
    used, labels = np.unique(_nearest(rows, centers), return_inverse=True)
    return centers[used], labels.astype(np.int64)


def _seeds(
    rows: FloatArray, weights: FloatArray, n_clusters: int, rng: np.random.Generator
) -> FloatArray:
    """k-means++ for this cost: each further centre is a row drawn in proportion to its cost."""
    distance = np.full(len(rows), np.inf)
    costs = weights
    chosen = []
    for _ in range(n_clusters):
        chosen.append(int(rng.choice(len(rows), p=costs / costs.sum())))
        distance = np.minimum(distance, np.sqrt(squared_distance(rows, rows[chosen[-1]])))
        costs = weights * distance
    return rows[chosen]


def _descend(
    rows: FloatArray, weights: FloatArray, centers: FloatArray, tol: float, most: int
) -> FloatArray:
    extent = float(np.ptp(rows, axis=0).max())
    for _ in range(most):
        labels = _nearest(rows, centers)
        moved = _step(rows, weights, labels, centers, _SAME * extent)
        empty = np.flatnonzero(np.bincount(labels, minlength=len(centers)) == 0)
        if len(empty):
            # As k-means does: a centre without rows starts again at a row that costs most.
            dearest = np.argsort(-_costs(rows, weights, centers), kind="stable")
            moved[empty] = rows[dearest[: len(empty)]]
        far = np.abs(moved - centers).max()
        centers = moved
        if far <= tol * extent:
            break
    return centers


def _step(
    rows: FloatArray, weights: FloatArray, labels: IntArray, centers: FloatArray, same: float
) -> FloatArray:
    """One corrected Weiszfeld step for every centre; see above."""
    away = rows - centers[labels]
    distance = lengths(away)
    here = distance <= same
    pull = np.where(here, 0.0, weights) / np.where(here, 1.0, distance)
    # T - y and R both come from sum w_r (x_r - y) / |x_r - y|.
    pulled, total = sums_by_label(away, pull, labels, len(centers))
    strength = lengths(pulled)
    at_center = np.bincount(labels, np.where(here, weights, 0.0), len(centers))
    free = strength > at_center
    share = 1.0 - at_center / np.where(free, strength, 1.0)
    step = np.where(free, share, 0.0) / np.where(total > 0, total, 1.0)
    return np.asarray(centers + step[:, None] * pulled)


def _on_rows(rows: FloatArray, weights: FloatArray, centers: FloatArray) -> FloatArray:
    """Puts a centre on its nearest row where that is cheaper: the iteration only gets close."""
    labels = _nearest(rows, centers)
    distance = np.sqrt(squared_to_own(rows, centers, labels))
    order = np.lexsort((distance, labels))
    filled, first = np.unique(labels[order], return_index=True)
    moved = centers.copy()
    moved[filled] = rows[order[first]]
    there = np.sqrt(squared_to_own(rows, moved, labels))
    better = np.bincount(labels, weights * (there - distance), len(centers)) <= 0
    return np.where(better[:, None], moved, centers)


def _costs(rows: FloatArray, weights: FloatArray, centers: FloatArray) -> FloatArray:
    return weights * np.sqrt(squared_to_own(rows, centers, _nearest(rows, centers)))


def _nearest(rows: FloatArray, centers: FloatArray) -> IntArray:
    return nearest(rows, np.zeros(len(rows), dtype=np.int64), centers[None])
