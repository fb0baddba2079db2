"""k-means of one table from many starts, compiled.

A start is one of scikit-learn's: the same seeds from the same generator, then Lloyd's iteration on
rows about their mean until no label changes or centres hardly move, an empty cluster being given
the row that is farthest from its centre; and the start that ends with the least cost wins. What
differs is rounding, as squared distances are sums of squares here and not made of products. Around
the arithmetic there is nothing: on a hundred rows that is where the time went.

**Seeds** (greedy k-means++, Arthur & Vassilvitskii 2007) are rows; each candidate is measured to
all others, column by column, which processors do for several rows at a time. To leave rows out that
are nearer to their seed than half the way from there to the candidate would take longer than to
measure them. The distances are the bounds that the iteration begins with.

**Labels.** Let d(k) be a row's distance to centre k when it was last measured, and p(k) how far the
centre has come since then, step by step: the distance now is at least d(k) - p(k) (Elkan 2003). The
row is measured to those centres only for which that is not more than its distance to its own. And
if the least of these bounds exceeds it by g, the row is passed by until its own centre and the
fastest of all have come g between them (Hamerly 2010). What rounding may do to a bound is taken off
it: labels are those of measuring every row to every centre, the first of centres that are equally
near.

**Means** are added up in the order of the rows, anew where a row came or went: to the last digit
they are what adding up all of them would give.
"""

from __future__ import annotations

import math
from threading import Lock

import numpy as np

from unpooled.kernels.compiled._jit import jit, waits_explained
from unpooled.kernels.compiled.distances import squared_in_lanes
from unpooled.parallel import in_chunks
from unpooled.types import FloatArray, IntArray

_TURNS = 300
_STILL = 1e-4
"""Of the mean variance of the columns: the sum of squared moves at which an iteration ends."""

_LANES = 8
"""Columns that are taken in one go; there are zeros where some are missing."""
_ROUNDING = 1e-9
"""Of a distance: more than what rounding does to it."""
_DRIFT = 1e-11
"""Of a way: more than what rounding does to it in 300 steps."""
_TINY = 1e-150
"""A distance whose square is short of digits."""

_GENERATOR, _ONE_AT_A_TIME = np.random.RandomState(0), Lock()
"""Seeded anew for each table, as making a generator takes longer than a start."""

# Of `bounds` (n, K + 2), beside those of the distances to all centres, each plus the centre's way
# when it was measured: the distance to the own centre, at most, less its way then; and up to which
# sum of the ways of its own and of the fastest centres the row can be passed by.
NEAR, DUE = -2, -1

# Of `clock` (3, K + 1): how far each centre has come, and at the end how far the fastest have, step
# by step; how many rows it has; and what has become of these since its mean was found.
WAY, SIZE, ROWS = 0, 1, 2
_SAME, _OTHER, _GIVEN = 0, 1, 2

# Of `found` (candidates + 2, n), beside candidates' squared distances to rows: those of the nearest
# seed so far, and their weighted sum up to each row.
GAP, HEIGHT = -2, -1


def best_labels(
    rows: FloatArray, weights: FloatArray, n_clusters: int, n_init: int, seed: int
) -> IntArray:
    """The labels that the best of ``n_init`` starts ends with. All weights must be above 0."""
    (n, d), trials = rows.shape, 2 + int(math.log(n_clusters))
    centred = np.zeros((n, -(-d // _LANES) * _LANES))
    np.subtract(rows, rows.mean(axis=0), out=centred[:, :d])
    tol = _STILL * float(np.square(centred).sum()) / rows.size
    # A number for the first seed and one for each candidate, start by start: this is what
    # RandomState's choice() and uniform() draw.
    with _ONE_AT_A_TIME:
        _GENERATOR.seed(seed)
        draws = _GENERATOR.random_sample((n_init, 1 + (n_clusters - 1) * trials))
    heights = np.cumsum(weights / weights.sum())
    first = np.searchsorted(heights / heights[-1], draws[:, 0], side="right")
    with waits_explained():
        labels, costs = all_starts(centred, np.array(weights), n_clusters, draws, first, tol)
    best = 0
    for t in range(1, n_init):
        # Of the same clusters in another order, which costs less is a matter of rounding.
        if costs[t] < costs[best] and not _within(labels[t], labels[best], n_clusters):
            best = t
    return np.asarray(labels[best])


def _within(labels: IntArray, others: IntArray, n_clusters: int) -> bool:
    """Whether each cluster lies in one of the others."""
    return len(np.unique(labels * n_clusters + others)) == len(np.unique(labels))


def all_starts(
    rows: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    draws: FloatArray,
    first: IntArray,
    tol: float,
) -> tuple[IntArray, FloatArray]:
    """The labels that each start ends with, and what they cost.

    The number of columns must be a multiple of eight. A start has its first seed and, from the
    second on, its line of draws.
    """
    (n, d), n_init = rows.shape, len(draws)
    labels, costs = np.zeros((n_init, n), dtype=np.int64), np.zeros(n_init)
    seeds = np.zeros((n_init, n_clusters), dtype=np.int64)
    seeds[:, 0] = first
    columns = np.ascontiguousarray(rows.T)

    def run(some: slice) -> None:
        _run(rows, columns, weights, draws[some], seeds[some], tol, labels[some], costs[some])

    in_chunks(run, (n_init, n * (d + n_clusters)))
    return labels, costs


@jit
def _run(
    rows: FloatArray,
    columns: FloatArray,
    weights: FloatArray,
    draws: FloatArray,
    seeds: IntArray,
    tol: float,
    labels: IntArray,
    costs: FloatArray,
) -> None:
    """Makes these starts, one after the other."""
    (n, d), n_clusters = rows.shape, seeds.shape[1]
    bounds, clock = np.empty((n, n_clusters + 2)), np.empty((3, n_clusters + 1))
    centers, sums = np.empty((n_clusters, d)), np.empty((n_clusters, d + 1))
    for t in range(len(costs)):
        own = labels[t]
        _seed(rows, columns, weights, draws[t], seeds[t], own, bounds)
        for k in range(n_clusters + 1):
            clock[WAY, k], clock[SIZE, k], clock[ROWS, k] = 0.0, 0.0, _OTHER
        for k in range(n_clusters):
            for j in range(d):
                centers[k, j] = rows[seeds[t, k], j]
        for r in range(n):
            bounds[r, DUE] = -math.inf
            clock[SIZE, own[r]] += 1
        changed = n
        for turn in range(_TURNS):
            changed = _label(rows, centers, clock, bounds, own)
            if turn == 0:
                changed = n  # before, there were none
            moved = _move(rows, weights, centers, sums, clock, bounds, own)
            if changed == 0 or moved <= tol:
                break
        if changed > 0:
            _label(rows, centers, clock, bounds, own)
        costs[t] = 0.0
        for r in range(n):
            costs[t] += weights[r] * squared_in_lanes(centers, own[r], rows, r)


@jit
def _measure(
    rows: FloatArray, columns: FloatArray, drawn: IntArray, trials: int, found: FloatArray
) -> None:
    """|x - y|^2 for each row x that was drawn and every row y.

    Eight columns are gone through for all that were drawn before the next ones are fetched.
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
def _seed(
    rows: FloatArray,
    columns: FloatArray,
    weights: FloatArray,
    draws: FloatArray,
    seeds: IntArray,
    labels: IntArray,
    bounds: FloatArray,
) -> None:
    """Finds all seeds but the first, and bounds. Labels are those of the nearest seeds, up to
    rounding."""
    n, n_clusters = len(rows), len(seeds)
    most = 2 + int(math.log(n_clusters))
    found, drawn = np.empty((most + 2, n)), np.empty(most, dtype=np.int64)
    for k in range(n_clusters):
        height, trials = 0.0, most if k else 1
        for r in range(n):
            if k == 0:
                found[GAP, r] = math.inf
            height += weights[r] * found[GAP, r]
            found[HEIGHT, r] = height
        for i in range(trials):
            low, high, wanted = seeds[0], seeds[0], 0.0
            if k:
                low, high, wanted = 0, n - 1, height * draws[1 + (k - 1) * most + i]
            while low < high:
                middle = (low + high) // 2
                if found[HEIGHT, middle] < wanted:
                    low = middle + 1
                else:
                    high = middle
            drawn[i] = low
        _measure(rows, columns, drawn, trials, found)
        least, best = math.inf, 0
        for i in range(trials):
            left = 0.0
            for r in range(n):
                left += weights[r] * min(found[GAP, r], found[i, r])
            if left < least:
                least, best = left, i
        seeds[k] = drawn[best]
        for r in range(n):
            bounds[r, k] = math.sqrt(found[best, r])
            if found[best, r] < found[GAP, r]:
                found[GAP, r] = found[best, r]
                bounds[r, NEAR] = bounds[r, k]
                labels[r] = k


@jit
def _safe(distance: float, way: float) -> float:
    """What a bound must be above for its centre to be farther away than ``distance``."""
    return distance + _ROUNDING * distance + _DRIFT * way + _TINY


@jit
def _label(
    rows: FloatArray,
    centers: FloatArray,
    clock: FloatArray,
    bounds: FloatArray,
    labels: IntArray,
) -> int:
    """Puts rows in the clusters of their nearest centres; returns how many change theirs."""
    n_clusters, most, changed = len(centers), clock[WAY, -1], 0
    for r in range(len(rows)):
        before = label = labels[r]
        if clock[WAY, before] + most < bounds[r, DUE]:
            continue
        near, lowest = bounds[r, NEAR] + clock[WAY, before], math.inf
        for k in range(n_clusters):
            if k != before:
                lowest = min(lowest, bounds[r, k] - clock[WAY, k])
        if lowest <= _safe(near, most):
            exact, lowest = math.inf, math.inf
            for turn in range(n_clusters + 1):  # its own centre first
                k = turn - 1 if turn else before
                if turn and k == before:
                    continue
                bound = bounds[r, k] - clock[WAY, k]
                if turn == 0 or bound <= _safe(near, most):
                    squares = squared_in_lanes(centers, k, rows, r)
                    bound = math.sqrt(squares)
                    bounds[r, k] = bound + clock[WAY, k]
                    if squares < exact or (squares == exact and k < label):
                        # What was nearest is now one of the others.
                        exact, label, near, bound = squares, k, bound, near if turn else math.inf
                lowest = min(lowest, bound)
        bounds[r, NEAR] = near - clock[WAY, label]
        bounds[r, DUE] = clock[WAY, label] + most + (lowest - _safe(near, most))
        if label != before:
            labels[r] = label
            clock[SIZE, before] -= 1
            clock[SIZE, label] += 1
            clock[ROWS, before] = clock[ROWS, label] = _OTHER
            changed += 1
    return changed


@jit
def _move(
    rows: FloatArray,
    weights: FloatArray,
    centers: FloatArray,
    sums: FloatArray,
    clock: FloatArray,
    bounds: FloatArray,
    labels: IntArray,
) -> float:
    """Takes centres to the means of their rows; returns the sum of squares of how far."""
    (n, d), n_clusters = rows.shape, len(centers)
    for k in range(n_clusters):
        if clock[SIZE, k] == 0:
            farthest, given = 0.0, -1
            for r in range(n):
                if clock[ROWS, labels[r]] != _GIVEN:
                    squares = squared_in_lanes(centers, labels[r], rows, r)
                    if squares > farthest:
                        farthest, given = squares, r
            if given >= 0:
                clock[SIZE, labels[given]] -= 1
                clock[ROWS, labels[given]] = _OTHER
                clock[SIZE, k], clock[ROWS, k] = 1, _GIVEN
                labels[given] = k
                bounds[given, NEAR], bounds[given, DUE] = math.inf, -math.inf
        for j in range(d + 1):
            sums[k, j] = 0.0
    for r in range(n):
        k = labels[r]
        if clock[ROWS, k] != _SAME:
            for j in range(d):
                sums[k, j] += weights[r] * rows[r, j]
            sums[k, d] += weights[r]
    moved, fastest = 0.0, 0.0
    for k in range(n_clusters):
        if clock[ROWS, k] != _SAME and clock[SIZE, k] > 0:
            squares = 0.0
            for j in range(d):
                mean = sums[k, j] / sums[k, d]
                z = mean - centers[k, j]
                squares += z * z
                centers[k, j] = mean
            moved += squares
            clock[WAY, k] += math.sqrt(squares)
            fastest = max(fastest, math.sqrt(squares))
        clock[ROWS, k] = _SAME
    clock[WAY, -1] += fastest
    return moved
