"""Rows and one set of centres: the nearest, the distances, the cost.

Unlike :mod:`unpooled.kernels.assignment`, which serves users with centres of their own and rounds
every row in the same way whatever its neighbours, this goes through matrix products
(scikit-learn's), which are many times faster.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances_argmin

from unpooled.chunks import in_chunks
from unpooled.types import FloatArray, IntArray


def label(rows: FloatArray, centers: FloatArray) -> IntArray:
    """labels[r] = argmin over k of |centers[k] - rows[r]|; of centres that are equal, the first."""
    # |x - c|² is found as |x|² - 2 x.c + |c|², which loses digits far from the origin. So that is
    # moved among the rows: to a median, because a far row or centre would draw a mean away.
    origin = np.median(rows[:: max(1, len(rows) // 1000)], axis=0) if len(rows) else 0.0
    labels = np.empty(len(rows), dtype=np.int64)

    def put(span: slice) -> None:
        labels[span] = pairwise_distances_argmin(rows[span] - origin, centers - origin)

    in_chunks(put, rows.shape)
    return labels


def distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """|centers[k] - rows[r]| for every row r and every k."""
    return np.asarray(cdist(rows, centers))


def cost(rows: FloatArray, weights: FloatArray, centers: FloatArray, labels: IntArray) -> float:
    """Σ w |x - c(x)|², where c(x) is the centre of the row's label."""

    def part(span: slice) -> float:
        return float(squared_to_own(rows[span], centers, labels[span]) @ weights[span])

    return sum(in_chunks(part, rows.shape))


def squared_to_own(rows: FloatArray, centers: FloatArray, labels: IntArray) -> FloatArray:
    """|x - c(x)|² for every row, where c(x) is the centre of its label; anything for -1."""
    if not len(centers):
        return np.zeros(len(rows))
    difference = centers[labels]
    difference -= rows  # in place: fresh memory costs more than the arithmetic
    return np.asarray(np.vecdot(difference, difference))


def movement(before: FloatArray, after: FloatArray) -> float:
    """How far the centre that moved most has moved."""
    return float(np.sqrt(np.square(after - before).sum(axis=1).max(initial=0.0)))
