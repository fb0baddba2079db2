"""The sums of clusters in compiled code, kept up to date as rows come and go.

A row that changes its cluster is added to one sum and taken off another, with the rounding errors
of each sum carried along: so sums are those of the rows that are there, to the last digit or nearly
so, in whatever order rows came and went. :mod:`unpooled.kernels.compiled.clusters` lists the sums.
"""

from __future__ import annotations

from unpooled.kernels.compiled._jit import inner
from unpooled.kernels.compiled.clusters import MASS, SCATTER, SIZE
from unpooled.kernels.compiled.distances import pairwise_sum
from unpooled.types import FloatArray


@inner
def add_row(
    rows: FloatArray, r: int, weight: float, sums: FloatArray, k: int, work: FloatArray
) -> None:
    """Adds a row to the sums of cluster k."""
    _add(rows, r, weight, sums, k, work)
    sums[k, SIZE] += 1.0


@inner
def remove_row(
    rows: FloatArray, r: int, weight: float, sums: FloatArray, k: int, work: FloatArray
) -> None:
    """Takes a row off the sums of cluster k."""
    _add(rows, r, -weight, sums, k, work)
    sums[k, SIZE] -= 1.0
    if sums[k, SIZE] == 0:  # then no rounding error may be left either
        for j in range(sums.shape[1]):
            sums[k, j] = 0.0
            sums[sums.shape[0] // 2 + k, j] = 0.0


@inner
def _add(
    rows: FloatArray, r: int, weight: float, sums: FloatArray, k: int, work: FloatArray
) -> None:
    """Adds a row with this weight, which is negative if the row goes."""
    d, n_clusters = rows.shape[1], sums.shape[0] // 2
    errors, origin = n_clusters + k, 2 * n_clusters
    for j in range(d):
        work[0, j] = rows[r, j] - sums[origin, j]
    before = sums[k, MASS]
    after = before + weight
    if not after > 0:
        sums[k, SCATTER] = 0.0
    elif before > 0:
        for j in range(d):
            z = work[0, j] - sums[k, j] / before
            work[1, j] = z * z
        scatter = sums[k, SCATTER] + weight * before / after * pairwise_sum(work, 1, d)
        sums[k, SCATTER] = max(0.0, scatter)
    for j in range(d):
        sums[k, j], sums[errors, j] = _added(sums[k, j], sums[errors, j], weight * work[0, j])
    sums[k, MASS], sums[errors, MASS] = _added(before, sums[errors, MASS], weight)


@inner
def _added(total: float, error: float, term: float) -> tuple[float, float]:
    """A sum and what rounding keeps out of it, after another term (Knuth 1969)."""
    new = total + term
    part = new - total
    error += (total - (new - part)) + (term - part)
    return new + error, error - ((new + error) - new)
