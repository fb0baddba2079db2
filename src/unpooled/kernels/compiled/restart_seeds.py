"""Seeds for k-means of one table, compiled: greedy k-means++ (Arthur & Vassilvitskii 2007).

Seeds are rows. The first is drawn by weight; for each further one a few candidates are drawn in
proportion to w |x - c(x)|^2, with c(x) the nearest seed so far, and the candidate is taken that
leaves the least sum of these. Given the same draws they are the seeds of scikit-learn.

Each candidate is measured to all rows, column by column, which processors do for several rows at a
time. To skip rows that the triangle inequality rules out would take longer than to measure them.
The distances are the bounds that the iteration of :mod:`unpooled.kernels.compiled.restarts` starts
with.
"""

from __future__ import annotations

import math

import numpy as np

from unpooled.kernels.compiled._jit import jit
from unpooled.types import FloatArray, IntArray

UPPER, CHECK_AT = -2, -1
"""The last columns of ``bounds`` (n, K + 2). Before them is for each centre its distance when it
was measured, plus its drift then: less its drift now, that is a lower bound. UPPER: the distance to
the own centre, at most, less its drift then; CHECK_AT: up to which sum of the own centre's drift
and the largest drift the row can be skipped."""

_NEAREST, _CUMULATED = -2, -1
"""The last rows of ``found`` (candidates + 2, n), after the candidates' squared distances to all
rows: those of the nearest seed so far, and their weighted sum up to each row."""


@jit
def _measure(
    rows: FloatArray, columns: FloatArray, drawn: IntArray, trials: int, found: FloatArray
) -> None:
    """|x - y|^2 for each row x that was drawn and every row y.

    Eight columns are done for all drawn rows before the next eight are read from memory.
    """
    d, n = columns.shape
    j = 0
    while j < d:
        for i in range(trials):
            x = drawn[i]
            x0, x1, x2, x3 = rows[x, j], rows[x, j + 1], rows[x, j + 2], rows[x, j + 3]
            x4, x5, x6, x7 = rows[x, j + 4], rows[x, j + 5], rows[x, j + 6], rows[x, j + 7]
            for r in range(n):
                z0, z1 = columns[j, r] - x0, columns[j + 1, r] - x1
                z2, z3 = columns[j + 2, r] - x2, columns[j + 3, r] - x3
                z4, z5 = columns[j + 4, r] - x4, columns[j + 5, r] - x5
                z6, z7 = columns[j + 6, r] - x6, columns[j + 7, r] - x7
                some = (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3)
                some += (z4 * z4 + z5 * z5) + (z6 * z6 + z7 * z7)
                found[i, r] = some if j == 0 else found[i, r] + some
        j += 8


@jit
def find_seeds(
    rows: FloatArray,
    columns: FloatArray,
    weights: FloatArray,
    draws: FloatArray,
    seeds: IntArray,
    labels: IntArray,
    bounds: FloatArray,
) -> None:
    """Finds all ``seeds`` but the first, which is given; fills ``labels`` and ``bounds`` from them.

    Labels are those of the nearest seeds, up to rounding.
    """
    n, n_clusters = len(rows), len(seeds)
    most = 2 + int(math.log(n_clusters))
    found, drawn = np.empty((most + 2, n)), np.empty(most, dtype=np.int64)
    for k in range(n_clusters):
        total, trials = 0.0, most if k else 1
        for r in range(n):
            if k == 0:
                found[_NEAREST, r] = math.inf
            total += weights[r] * found[_NEAREST, r]
            found[_CUMULATED, r] = total
        for i in range(trials):
            low, high, wanted = seeds[0], seeds[0], 0.0
            if k:
                low, high, wanted = 0, n - 1, total * draws[1 + (k - 1) * most + i]
            while low < high:  # the first row whose cumulated cost reaches what was drawn
                middle = (low + high) // 2
                if found[_CUMULATED, middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            drawn[i] = low
        _measure(rows, columns, drawn, trials, found)
        least, best = math.inf, 0
        for i in range(trials):
            cost = 0.0
            for r in range(n):
                cost += weights[r] * min(found[_NEAREST, r], found[i, r])
            if cost < least:
                least, best = cost, i
        seeds[k] = drawn[best]
        for r in range(n):
            bounds[r, k] = math.sqrt(found[best, r])
            if found[best, r] < found[_NEAREST, r]:
                found[_NEAREST, r] = found[best, r]
                bounds[r, UPPER] = bounds[r, k]
                labels[r] = k
