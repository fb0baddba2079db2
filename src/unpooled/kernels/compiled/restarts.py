"""k-means of one table from many starts, compiled.

A start is one of scikit-learn's: the same seeds from the same generator, then Lloyd's iteration on
rows about their mean until no label changes or centres hardly move, where an empty cluster is given
the row that is farthest from its centre. The start that ends with the least cost wins. Only
rounding differs, as squared distances are sums of squares here, not made of products. On a table of
a hundred rows scikit-learn spends most of its time around the arithmetic, which is saved here.

**Labels.** Let d(k) be a row's distance to centre k when it was last measured, and p(k) the
centre's drift since then, the sum of the lengths of its steps: the distance now is at least
d(k) - p(k) (Elkan 2003). The row is measured only to those centres for which that bound is not
above its distance to its own centre. If the lowest bound exceeds that distance by g, the row is
skipped until the drift of its own centre and the largest drift have together grown by g (Hamerly
2010). What rounding may do to a bound is taken off it: labels are those of measuring every row to
every centre, and the first of equally near centres wins.

**Means** are added up in the order of the rows, again from the beginning where a row came or went:
to the last digit they are what adding up all rows would give.
"""

from __future__ import annotations

import math
from threading import Lock

import numpy as np

from unpooled.kernels.compiled._jit import jit, waits_explained
from unpooled.kernels.compiled.distances import squared_in_lanes
from unpooled.kernels.compiled.restart_seeds import CHECK_AT, UPPER, find_seeds
from unpooled.parallel import in_chunks
from unpooled.types import FloatArray, IntArray

_MAX_ITERATIONS = 300
_TOL = 1e-4
"""Of the mean variance of the columns: the sum of squared moves at which an iteration ends."""

_LANES = 8
"""Columns that are read together; zeros fill up the last ones."""
_ROUNDING = 1e-9
"""Of a distance: more than its rounding error."""
_DRIFT_ROUNDING = 1e-11
"""Of a drift: more than its rounding error after 300 steps."""
_TINY = 1e-150
"""A distance whose square has lost digits."""

_GENERATOR, _GENERATOR_LOCK = np.random.RandomState(0), Lock()
"""One generator that is seeded again for each table: to make one takes longer than a start."""

_DRIFT, _N_ROWS, _STATUS = 0, 1, 2
"""The rows of ``per_center`` (3, K + 1): each centre's drift, and at the end the sum of the longest
steps; how many rows the cluster has; and what has happened to these since its mean was found."""
_UNCHANGED, _CHANGED, _REFILLED = 0, 1, 2
"""A status. A refilled cluster was empty and has been given a row."""


def best_labels(
    rows: FloatArray, weights: FloatArray, n_clusters: int, n_init: int, seed: int
) -> IntArray:
    """The labels that the best of ``n_init`` starts ends with. All weights must be above 0."""
    (n, d), trials = rows.shape, 2 + int(math.log(n_clusters))
    centred = np.zeros((n, -(-d // _LANES) * _LANES))
    np.subtract(rows, rows.mean(axis=0), out=centred[:, :d])
    tol = _TOL * float(np.square(centred).sum()) / rows.size
    # A number for the first seed and one for each candidate, start by start: this is what
    # RandomState's choice() and uniform() draw.
    with _GENERATOR_LOCK:
        _GENERATOR.seed(seed)
        draws = _GENERATOR.random_sample((n_init, 1 + (n_clusters - 1) * trials))
    cumulated = np.cumsum(weights / weights.sum())
    first = np.searchsorted(cumulated / cumulated[-1], draws[:, 0], side="right")
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
        _run_starts(
            rows, columns, weights, draws[some], seeds[some], tol, labels[some], costs[some]
        )

    in_chunks(run, (n_init, n * (d + n_clusters)))
    return labels, costs


@jit
def _run_starts(
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
    bounds, per_center = np.empty((n, n_clusters + 2)), np.empty((3, n_clusters + 1))
    centers, sums = np.empty((n_clusters, d)), np.empty((n_clusters, d + 1))
    for t in range(len(costs)):
        own = labels[t]
        find_seeds(rows, columns, weights, draws[t], seeds[t], own, bounds)
        for k in range(n_clusters + 1):
            per_center[_DRIFT, k] = per_center[_N_ROWS, k] = 0.0
            per_center[_STATUS, k] = _CHANGED
        for k in range(n_clusters):
            for j in range(d):
                centers[k, j] = rows[seeds[t, k], j]
        for r in range(n):
            bounds[r, CHECK_AT] = -math.inf
            per_center[_N_ROWS, own[r]] += 1
        changed = n
        for iteration in range(_MAX_ITERATIONS):
            changed = _assign(rows, centers, per_center, bounds, own)
            if iteration == 0:
                changed = n  # scikit-learn has no labels before the first iteration
            moved = _move_centers(rows, weights, centers, sums, per_center, bounds, own)
            if changed == 0 or moved <= tol:
                break
        if changed > 0:
            _assign(rows, centers, per_center, bounds, own)
        costs[t] = 0.0
        for r in range(n):
            costs[t] += weights[r] * squared_in_lanes(centers, own[r], rows, r)


@jit
def _with_margin(distance: float, drift: float) -> float:
    """What a lower bound must exceed for its centre to be farther away than ``distance``."""
    return distance + _ROUNDING * distance + _DRIFT_ROUNDING * drift + _TINY


@jit
def _assign(
    rows: FloatArray,
    centers: FloatArray,
    per_center: FloatArray,
    bounds: FloatArray,
    labels: IntArray,
) -> int:
    """Puts rows in the clusters of their nearest centres; returns how many change theirs."""
    n_clusters, max_drift, changed = len(centers), per_center[_DRIFT, -1], 0
    for r in range(len(rows)):
        before = label = labels[r]
        if per_center[_DRIFT, before] + max_drift < bounds[r, CHECK_AT]:
            continue
        near, lowest = bounds[r, UPPER] + per_center[_DRIFT, before], math.inf
        for k in range(n_clusters):
            if k != before:
                lowest = min(lowest, bounds[r, k] - per_center[_DRIFT, k])
        if lowest <= _with_margin(near, max_drift):
            exact, lowest = math.inf, math.inf
            for turn in range(n_clusters + 1):  # its own centre first
                k = turn - 1 if turn else before
                if turn and k == before:
                    continue
                bound = bounds[r, k] - per_center[_DRIFT, k]
                if turn == 0 or bound <= _with_margin(near, max_drift):
                    squares = squared_in_lanes(centers, k, rows, r)
                    bound = math.sqrt(squares)
                    bounds[r, k] = bound + per_center[_DRIFT, k]
                    if squares < exact or (squares == exact and k < label):
                        # The centre that was nearest so far is now one of the others.
                        exact, label, near, bound = squares, k, bound, near if turn else math.inf
                lowest = min(lowest, bound)
        bounds[r, UPPER] = near - per_center[_DRIFT, label]
        bounds[r, CHECK_AT] = (
            per_center[_DRIFT, label] + max_drift + (lowest - _with_margin(near, max_drift))
        )
        if label != before:
            labels[r] = label
            per_center[_N_ROWS, before] -= 1
            per_center[_N_ROWS, label] += 1
            per_center[_STATUS, before] = per_center[_STATUS, label] = _CHANGED
            changed += 1
    return changed


@jit
def _move_centers(
    rows: FloatArray,
    weights: FloatArray,
    centers: FloatArray,
    sums: FloatArray,
    per_center: FloatArray,
    bounds: FloatArray,
    labels: IntArray,
) -> float:
    """Takes centres to the means of their rows; returns the sum of squares of how far."""
    (n, d), n_clusters = rows.shape, len(centers)
    for k in range(n_clusters):
        if per_center[_N_ROWS, k] == 0:
            farthest, given = 0.0, -1
            for r in range(n):
                if per_center[_STATUS, labels[r]] != _REFILLED:
                    squares = squared_in_lanes(centers, labels[r], rows, r)
                    if squares > farthest:
                        farthest, given = squares, r
            if given >= 0:
                per_center[_N_ROWS, labels[given]] -= 1
                per_center[_STATUS, labels[given]] = _CHANGED
                per_center[_N_ROWS, k], per_center[_STATUS, k] = 1, _REFILLED
                labels[given] = k
                bounds[given, UPPER], bounds[given, CHECK_AT] = math.inf, -math.inf
        for j in range(d + 1):
            sums[k, j] = 0.0
    for r in range(n):
        k = labels[r]
        if per_center[_STATUS, k] != _UNCHANGED:
            for j in range(d):
                sums[k, j] += weights[r] * rows[r, j]
            sums[k, d] += weights[r]
    moved, fastest = 0.0, 0.0
    for k in range(n_clusters):
        if per_center[_STATUS, k] != _UNCHANGED and per_center[_N_ROWS, k] > 0:
            squares = 0.0
            for j in range(d):
                mean = sums[k, j] / sums[k, d]
                z = mean - centers[k, j]
                squares += z * z
                centers[k, j] = mean
            moved += squares
            per_center[_DRIFT, k] += math.sqrt(squares)
            fastest = max(fastest, math.sqrt(squares))
        per_center[_STATUS, k] = _UNCHANGED
    per_center[_DRIFT, -1] += fastest
    return moved
