"""The state that compiled rounds keep of users' clusters: rows, bounds and sums.

**Bounds** show when a row must be checked, because its label may have changed: see
:mod:`unpooled.kernels.compiled.bounds`.

**Sums.** Over the rows of a cluster there are the sum S of w (y - o), the weight N and the scatter
about the mean (o is the user's first row: far from the origin, plain sums would lose digits). From
them follow, for any centre x, with e = N (x - o) - S,

    sum of w (x - y) = e,       sum of w |x - y|^2 = scatter + |e|^2 / N.

For k-means all rows are in the sums. For the Huber loss those within delta of their centre are,
where it is a square; for the logistic loss those from `SATURATED` on, where exp(-t^2) is nothing
beside 1 and the loss is twice half the square, so that each counts with twice its weight. All other
rows, and every row under the fair loss, are *outside* the sums: each round measures them to their
own centre and adds up their gradients one by one.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from unpooled.kernels.compiled._jit import inlined
from unpooled.kernels.compiled.distances import SingleArray
from unpooled.kernels.linalg.products import lengths
from unpooled.types import FloatArray, IntArray

Index: TypeAlias = int | np.int64
"""Indices of a ``prange`` are unsigned, for which code would be compiled once more: loops turn them
into np.int64."""

REFRESHED, WEIGHT, LABEL, IN_SUMS, UPPER, CHECK_AT = -6, -5, -4, -3, -2, -1
"""The last columns of `Clusters.per_row`."""
TIE, COARSE_ERROR, SCALE, MAX_DRIFT, NEXT_CHECK, N_OUTSIDE = -6, -5, -4, -3, -2, -1
"""The last columns of `Clusters.per_user`."""
MASS, SCATTER, SIZE = -3, -2, -1
"""The last columns of `Clusters.sums`."""

_WIDE = 256
"""Columns from which on there is a copy of the rows in single precision."""
_SINGLE = 2.0**-23
"""Twice the relative error of one rounding to single precision."""


class Clusters(NamedTuple):
    """The state, for m users with K centres each and n rows of d columns.

    Different things share an array, since compiling takes longer the more arrays there are.
    """

    rows: FloatArray
    coarse: SingleArray
    """(n, d and some zeros) y' of :mod:`unpooled.kernels.compiled.bounds`; (n, 0) if d < 256."""
    per_row: FloatArray
    """(n, K + 6) For each centre a lower bound of its distance when it was measured, plus the
    centre's drift then; REFRESHED: MAX_DRIFT when old bounds were last measured again. Narrow rows
    have (n, 1 + 5) instead: one lower bound for all centres but the own, plus MAX_DRIFT then.

    In both, WEIGHT; LABEL: the row's cluster, -1 before it is first checked; IN_SUMS: whether it is
    in the sums of that cluster; UPPER: an upper bound of the distance to the own centre when it was
    measured, less that centre's drift then; CHECK_AT: the sum of the own centre's drift and
    MAX_DRIFT from which on the row must be checked."""
    starts: IntArray
    """(m + 1) User u has the rows from starts[u] up to starts[u + 1]."""
    per_user: FloatArray
    """(m, K + 6) The drift of each centre: the sum of the lengths of its steps; TIE: twice the
    difference up to which distances count as equal; COARSE_ERROR: the error of a distance in single
    precision, as a part of that distance and of SCALE; SCALE: s of
    :mod:`unpooled.kernels.compiled.bounds`; MAX_DRIFT: the sum of the longest steps, each of
    whichever centre went farthest; NEXT_CHECK: the MAX_DRIFT from which on a row must be checked;
    N_OUTSIDE: how many rows are outside the sums."""
    sums: FloatArray
    """(m, 2 K + 1, d + 3) For cluster k the sum of w (y - o); MASS: of w; SCATTER: of w |y -
    mean|^2; SIZE: the number of rows. At K + k, what rounding has kept out of these sums; at 2 K,
    the origin o."""


class UserClusters(NamedTuple):
    """One user's part of `Clusters`."""

    rows: FloatArray
    coarse: SingleArray
    per_row: FloatArray
    per_user: FloatArray
    sums: FloatArray


@inlined
def clusters_of(state: Clusters, u: Index) -> UserClusters:
    """User u's part of the state."""
    a, z = state.starts[u], state.starts[u + 1]
    return UserClusters(
        state.rows[a:z],
        state.coarse[a:z],
        state.per_row[a:z],
        state.per_user[u],
        state.sums[u],
    )


def empty_clusters(
    rows: FloatArray, weights: FloatArray, offsets: IntArray, n_clusters: int, tie: float = 0.0
) -> Clusters:
    """The state before any row has a label.

    Distances count as equal up to ``tie`` times the largest coordinate of the user's rows.
    """
    (n, d), m, k = rows.shape, len(offsets) - 1, n_clusters
    rows = np.ascontiguousarray(rows)
    # For narrow rows, a bound for every centre would take more memory than the rows do.
    per_row = np.zeros((n, k + 6 if 4 * k <= d else 1 + 5))
    per_row[:, WEIGHT] = weights
    per_row[:, LABEL] = -1
    per_row[:, CHECK_AT] = -np.inf
    per_user = np.zeros((m, k + 6))
    per_user[:, COARSE_ERROR] = _SINGLE * (4 + np.log2(max(d, 2)))
    per_user[:, NEXT_CHECK] = -np.inf
    sums = np.zeros((m, 2 * k + 1, d + 3))
    some = np.diff(offsets) > 0
    sums[some, -1, :d] = rows[offsets[:-1][some]]
    if tie > 0:
        largest = np.maximum.reduceat(np.abs(rows).max(axis=1), offsets[:-1][some])
        per_user[some, TIE] = tie * largest
    coarse = np.zeros((n, -(-d // 64) * 64 if d >= _WIDE else 0), dtype=np.float32)
    if d >= _WIDE:
        for u in np.flatnonzero(some):
            own = slice(offsets[u], offsets[u + 1])
            centred = rows[own] - sums[u, -1, :d]
            scale = lengths(centred).max()
            per_user[u, SCALE] = scale if scale > 0 else 1.0
            coarse[own, :d] = centred / per_user[u, SCALE]
    return Clusters(rows, coarse, per_row, np.ascontiguousarray(offsets), per_user, sums)
