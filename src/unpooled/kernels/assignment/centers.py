"""Rows and one set of centres: the nearest, the distances, the cost.

Unlike :mod:`unpooled.kernels.assignment.nearest`, for users with centres of their own, this uses
matrix products, which are many times faster. These round a row differently depending on the rows
beside it, so labels that they leave in doubt are found row by row: a label depends on the row and
the centres alone.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.kernels.assignment.nearest import in_cache
from unpooled.kernels.linalg.products import dot, matmul_nt, squared_lengths
from unpooled.parallel import in_chunks, libraries
from unpooled.types import FloatArray, IntArray, Rows, take_rows

_ROUNDING = 2.0**-48
"""Times d + 8, of the squared lengths that a score is made from: more than its rounding errors."""
_FAR = 64.0
"""Centres are far from 0 if the squared length of their middle exceeds this many times their
typical squared distance from it."""


def label(rows: Rows, centers: FloatArray) -> IntArray:
    """labels[r] = argmin over k of |centers[k] - rows[r]|; of centres that are equal, the first."""
    return labels_and_gaps(rows, centers)[0]


def labels_and_gaps(
    rows: Rows, centers: FloatArray, some: IntArray | None = None
) -> tuple[IntArray, FloatArray]:
    """The labels of all rows, or of ``some``; and the gap between the two nearest centres.

    The gap is by how much, at least, the nearest centre is nearer than any other; it is negative
    where rounding leaves that in doubt. Centres that are not finite raise a ValueError.
    """
    centers = np.asarray_chkfinite(centers)
    n = len(rows) if some is None else len(some)
    labels, gaps = np.empty(n, dtype=np.int64), np.empty(n)
    origin = _origin(centers)
    width = rows.shape[1] + len(centers)

    @np.errstate(over="ignore", invalid="ignore")  # such rows are measured row by row
    def put(span: slice) -> None:
        for part in in_cache(span, width):
            own = rows[part] if some is None else take_rows(rows, some[part])
            labels[part], gaps[part] = _few_labels_and_gaps(own, centers, origin)

    with libraries().limit(limits=1, user_api="blas"):  # products this small are slow on several
        in_chunks(put, (n, width))
    return labels, gaps


def _origin(centers: FloatArray) -> FloatArray | None:
    """The middle of the centres if they are far from 0.

    |x - c|² is found as |x|² - 2 x.c + |c|², which loses digits far from the origin. The middle is
    a median, because a single far centre would draw a mean away.
    """
    middle = np.median(centers, axis=0)
    beside = centers - middle
    near = dot(middle, middle) <= _FAR * np.median(squared_lengths(beside))
    return None if near else middle


def _few_labels_and_gaps(
    rows: FloatArray, centers: FloatArray, origin: FloatArray | None
) -> tuple[IntArray, FloatArray]:
    """`labels_and_gaps` of a few rows.

    The score of a centre c is |c|² - 2 x.c, which is |x - c|² - |x|². It is wrong by no more than
    (d + 3) u (|c|² + 2 |x| |c|), where u = 2^-53. With L² the largest of |x|² and the |c|² of the
    two centres with the lowest scores: centres with |c| < 3 L have scores that are wrong by up to
    15 (d + 3) u L², those beyond are farther from x than these two, whatever their scores are. So
    no squared distance but that to the nearest is lower than the second score plus |x|² by more
    than `doubt`.
    """
    (n, d), k = rows.shape, len(centers)
    seen, places = (rows, centers) if origin is None else (rows - origin, centers - origin)
    squares, norms = squared_lengths(seen), squared_lengths(places)
    scores = matmul_nt(seen, -2.0 * places)
    scores += norms
    flat, begin = scores.reshape(-1), np.arange(0, n * k, k)
    labels = scores.argmin(axis=1)
    first = flat[begin + labels]
    flat[begin + labels] = np.inf
    others = scores.argmin(axis=1)
    second = flat[begin + others]
    doubt = _ROUNDING * (d + 8) * (squares + np.maximum(norms[labels], norms[others]))
    unsure = np.flatnonzero(~(second - first > doubt))
    near = np.sqrt(np.maximum(squares + first, 0.0) + doubt)
    gaps = np.sqrt(np.maximum(squares + second - doubt, 0.0)) - near
    if len(unsure):
        labels[unsure] = cdist(rows[unsure], centers, "sqeuclidean").argmin(axis=1)
    return labels, gaps


def distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """|centers[k] - rows[r]| for every row r and every k."""
    return np.asarray(cdist(rows, centers))


def cost(rows: FloatArray, weights: FloatArray, centers: FloatArray, labels: IntArray) -> float:
    """Σ w |x - c(x)|², where c(x) is the centre of the row's label."""

    def part(span: slice) -> float:
        return dot(squared_to_own(rows[span], centers, labels[span]), weights[span])

    return sum(in_chunks(part, rows.shape))


def squared_to_own(rows: FloatArray, centers: FloatArray, labels: IntArray) -> FloatArray:
    """|x - c(x)|² for every row, where c(x) is the centre of its label; anything for -1."""
    squared = np.zeros(len(rows))
    if not len(centers):
        return squared
    for part in in_cache(slice(0, len(rows)), rows.shape[1]):
        difference = centers[labels[part]]
        difference -= rows[part]  # in place: fresh memory costs more than the arithmetic
        squared[part] = squared_lengths(difference)
    return squared


def movement(before: FloatArray, after: FloatArray) -> float:
    """How far the centre that moved most has moved."""
    return float(np.sqrt(np.square(after - before).sum(axis=1).max(initial=0.0)))
