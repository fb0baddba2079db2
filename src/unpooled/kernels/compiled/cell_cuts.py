"""Rows cut in two, and again, until they are cells: compiled.

A set of rows is sorted along a line and cut where the two sides differ most: where the cut takes
the most off the scatter Σ w |x - mean|², which is |S|² (1 / a + 1 / b) with S the sum of w (x -
mean) on one side and a, b the weights of the sides. Only such cuts are allowed that leave enough
on both sides (`allowed`). The first line is the first principal component; the next ones run from
one side's mean to the other's, as in 2-means, for as long as that gains something.

Sums are made in the order of the rows, so that the same rows give the same cells on any processor.
"""

from __future__ import annotations

import math

import numpy as np

from unpooled.kernels.compiled._jit import inner, jit
from unpooled.kernels.compiled.distances import SingleArray
from unpooled.types import BoolArray, FloatArray, IntArray

ROUNDING = 1e-9
"""Sizes and shares are compared up to this much of them."""
_POWER_STEPS = 8
"""Of the power iteration: a line near the principal component serves as well."""
_LINES = 4
"""To cut along, at most."""
_GAIN = 1e-12
"""Of a gain: what another line must add to it to be worth the next one."""


@inner
def allowed(
    counted: float, counted_squares: float, total: float, heaviest: float, min_count: int
) -> bool:
    """Whether rows may be a cell: (Σ w)² / Σ w² over fresh ones reaches the minimum, and none has
    more than 2 / ``min_count`` of the weight."""
    return (
        counted > 0.0
        and counted * counted >= min_count * (1 - ROUNDING) * counted_squares
        and heaviest * min_count <= 2 * (1 + ROUNDING) * total
    )


@inner
def _dot(x: SingleArray, i: int, v: FloatArray) -> float:
    """x_i · v: every fourth product goes to the same of four sums."""
    d = len(v)
    a0 = a1 = a2 = a3 = 0.0
    for j in range(0, d - 3, 4):
        a0 += x[i, j] * v[j]
        a1 += x[i, j + 1] * v[j + 1]
        a2 += x[i, j + 2] * v[j + 2]
        a3 += x[i, j + 3] * v[j + 3]
    for j in range(d - d % 4, d):
        a0 += x[i, j] * v[j]
    return (a0 + a1) + (a2 + a3)


@inner
def _centre(rows: SingleArray, weights: FloatArray, members: IntArray, mean: FloatArray) -> float:
    """Fills in the weighted mean; returns the total weight."""
    total = 0.0
    mean[:] = 0.0
    for i in members:
        for j in range(len(mean)):
            mean[j] += weights[i] * rows[i, j]
        total += weights[i]
    for j in range(len(mean)):
        mean[j] /= total
    return total


@inner
def _principal(
    rows: SingleArray,
    weights: FloatArray,
    members: IntArray,
    mean: FloatArray,
    line: FloatArray,
    sums: FloatArray,
) -> None:
    """The first principal component, by power iteration from the row farthest from the mean."""
    d, farthest, start = len(mean), 0.0, -1
    for i in members:
        squares = 0.0
        for j in range(d):
            squares += (rows[i, j] - mean[j]) ** 2
        if squares > farthest:
            farthest, start = squares, i
    for j in range(d):
        line[j] = (rows[start, j] - mean[j]) / math.sqrt(farthest) if start >= 0 else 0.0
    for _ in range(_POWER_STEPS if start >= 0 else 0):
        at_mean, squares = 0.0, 0.0
        for j in range(d):
            at_mean += mean[j] * line[j]
            sums[j] = 0.0
        for i in members:
            t = weights[i] * (_dot(rows, i, line) - at_mean)
            for j in range(d):
                sums[j] += t * (rows[i, j] - mean[j])
        for j in range(d):
            squares += sums[j] * sums[j]
        if squares <= 0.0:
            return
        for j in range(d):
            line[j] = sums[j] / math.sqrt(squares)


@inner
def _which_cuts(
    order: IntArray,
    weights: FloatArray,
    fresh: BoolArray,
    min_count: int,
    ok: BoolArray,
) -> None:
    """Whether the set may be cut after each row, by the rows before it and by those after."""
    n = len(order)
    for turn in range(2):
        counted = squares = total = heaviest = 0.0
        for step in range(n):
            at = step if turn == 0 else n - 1 - step
            w = weights[order[at]]
            total += w
            heaviest = max(heaviest, w)
            if fresh[order[at]]:
                squares += w * w
                counted += w
            good = allowed(counted, squares, total, heaviest, min_count)
            if turn == 0:
                ok[at] = good
            elif at > 0:
                ok[at - 1] &= good
    ok[n - 1] = False


@inner
def _best_cut(
    rows: SingleArray,
    weights: FloatArray,
    order: IntArray,
    ok: BoolArray,
    mean: FloatArray,
    total: float,
    sums: FloatArray,
) -> tuple[float, int]:
    """What the best of the allowed cuts takes off the scatter, and how many rows are before it.

    If none takes off anything, as where all rows are alike: the one nearest to the middle.
    """
    n, best, at, left, middle = len(order), 0.0, 0, 0.0, 0
    sums[:] = 0.0
    for step in range(n):
        i, squares = order[step], 0.0
        for j in range(len(mean)):
            sums[j] += weights[i] * (rows[i, j] - mean[j])
        left += weights[i]
        if ok[step]:
            if middle == 0 or abs(2 * step + 2 - n) < abs(2 * middle - n):
                middle = step + 1
            for j in range(len(mean)):
                squares += sums[j] * sums[j]
            squares *= 1 / left + 1 / (total - left)
            if squares > best:
                best, at = squares, step + 1
    return best, at if at else middle


@inner
def cut(
    rows: SingleArray,
    weights: FloatArray,
    fresh: BoolArray,
    members: IntArray,
    min_count: int,
    right: BoolArray,
) -> float:
    """Cuts the members in two: ``right`` says which are on the right side.

    Returns what that takes off the scatter; below 0 if there is no allowed cut.
    """
    n, d = len(members), rows.shape[1]
    mean, line, sums = np.empty(d), np.empty(d), np.empty(d)
    along, ok = np.empty(n), np.empty(n, dtype=np.bool_)
    total, most = _centre(rows, weights, members, mean), -1.0
    _principal(rows, weights, members, mean, line, sums)
    for _ in range(_LINES):
        for i in range(n):
            along[i] = _dot(rows, members[i], line)
        ranks = np.argsort(along, kind="mergesort")
        order = members[ranks]
        _which_cuts(order, weights, fresh, min_count, ok)
        gain, at = _best_cut(rows, weights, order, ok, mean, total, sums)
        if at == 0 or gain <= most * (1 + _GAIN):
            break
        most = gain
        line[:] = 0.0
        for step in range(n):
            right[ranks[step]] = step >= at
            if step < at:
                for j in range(d):
                    line[j] += weights[order[step]] * (rows[order[step], j] - mean[j])
    return most


@jit
def split(
    rows: SingleArray,
    weights: FloatArray,
    fresh: BoolArray,
    order: IntArray,
    min_count: int,
    stop: int,
) -> IntArray:
    """Cuts sets of more than ``stop`` rows, for as long as that is allowed.

    Brings the rows' numbers in ``order``, sorted at first, into one where each set is together;
    returns where the sets begin, and last the number of rows.
    """
    n = len(order)
    right, room = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    sets, starts = [(0, n)], np.empty(n + 1, dtype=np.int64)
    n_starts = 0
    while len(sets) > 0:
        low, high = sets.pop()
        gain = -1.0
        if high - low > stop and high - low >= 2 * min_count:
            members = order[low:high].copy()
            gain = cut(rows, weights, fresh, members, min_count, right)
        if gain < 0.0:
            starts[n_starts] = low
            n_starts += 1
            continue
        at, n_right = low, 0
        for i in range(low, high):  # both sides stay sorted
            if right[i - low]:
                room[n_right] = order[i]
                n_right += 1
            else:
                order[at] = order[i]
                at += 1
        order[at:high] = room[:n_right]
        sets.append((at, high))
        sets.append((low, at))
    starts[n_starts] = n
    return starts[: n_starts + 1]
