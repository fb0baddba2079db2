"""Which of its user's centres a row belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from unpooled.kernels.linalg.products import squared_lengths
from unpooled.types import FloatArray, IntArray

_CHUNK = 1 << 16
"""Numbers per temporary array: small enough to stay in the cache."""

Dissimilarity = Callable[[FloatArray, FloatArray], FloatArray]


def squared_distance(x: FloatArray, y: FloatArray) -> FloatArray:
    """|x - y|^2 for every row."""
    return squared_lengths(x - y)


def in_cache(span: slice, width: int) -> Iterator[slice]:
    """The span of rows in pieces that fit in the processor's cache."""
    step = max(1, _CHUNK // max(1, width))
    for start in range(span.start, span.stop, step):
        yield slice(start, min(start + step, span.stop))


def nearest(
    rows: FloatArray,
    owner: IntArray,
    centers: FloatArray,
    dissimilarity: Dissimilarity = squared_distance,
) -> IntArray:
    """labels[r] = argmin over k of dissimilarity(centers[owner[r], k], rows[r]).

    ``centers`` is (users, K, d). The lowest index wins a tie.
    """
    labels = np.zeros(len(rows), dtype=np.int64)
    for span in in_cache(slice(0, len(rows)), rows.shape[1]):
        labels[span] = all_pairs(rows[span], owner[span], centers, dissimilarity).argmin(axis=1)
    return labels


def all_pairs(
    rows: FloatArray,
    owner: IntArray,
    centers: FloatArray,
    dissimilarity: Dissimilarity = squared_distance,
) -> FloatArray:
    """dissimilarity(centers[owner[r], k], rows[r]) for every row r and every k."""
    result = np.empty((len(rows), centers.shape[1]))
    for k in range(centers.shape[1]):
        result[:, k] = dissimilarity(centers[owner, k], rows)
    return result
