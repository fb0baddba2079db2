"""What users' clusters hold, kept up while centres move, at the cost of what changes.

**Labels.** A row is in the cluster of the nearest of its user's centres, |x(k) - y|^2 added up in
eight lanes (`squared`), the lowest k of those that are equal. A row is looked at only where that
may have changed. Let d(k) be its distance to centre k when that was last measured, and p(k) how far
the centre has come since then, step by step: the distance now is between d(k) - p(k) and
d(k) + p(k) (Elkan 2003). A row stays as long as its own upper bound is below all other lower
bounds. And since no bound moves faster than the user's fastest centre, a row with the gap g between
these bounds is safe until the fastest centres have come g/2 further: that is its *deadline*. Rows
whose deadline has not passed are passed by, users without such rows altogether. What rounding may
do to a bound is taken off the gap.

**Sums.** Of the rows that a cluster *holds* there are the sum S of w (y - o), the weight N and the
scatter about the mean. (o is the user's first row: far from the origin, sums about it would be
short of digits.) A row that comes or goes is added or taken away, with the rounding errors of the
sum carried along: so sums are those of the rows that are there, to the last digit or nearly so,
however they came about. From them follow, for any centre x, with e = N (x - o) - S,

    sum of w (x - y) = e,       sum of w |x - y|^2 = scatter + |e|^2 / N.

For k-means all rows are held. For the Huber loss those within delta of their centre are, where it
is a square; the others, and all rows under the logistic and the fair loss, are *loose*: they are
measured at every visit, to their own centre only, and what they pull with is added up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unpooled.kernels._jit import jit
from unpooled.types import FloatArray, IntArray

KMEANS, HUBER, LOGISTIC, FAIR = range(4)

LABEL, HELD = 0, 1
NEAR, DUE = -2, -1
MOST, SOONEST, LOOSE = -3, -2, -1
WEIGHT, SCATTER, SIZE = -3, -2, -1

_ROUNDING = 1e-9
"""Of a distance: more than what rounding does to it."""
_DRIFT = 1e-11
"""Of a way: more than what rounding does to it in a hundred thousand steps."""


class Clusters(NamedTuple):
    """The state, for m users with K centres each and n rows of d columns.

    Few arrays, since compiling takes longer the more there are.
    """

    rows: FloatArray
    weights: FloatArray
    offsets: IntArray
    """User u has the rows from offsets[u] up to offsets[u + 1]."""
    place: IntArray
    """(n, 2) LABEL: the row's cluster, -1 before it is looked at; HELD: whether it is held."""
    bounds: FloatArray
    """(n, K + 2) The distance to each centre when it was measured, plus that centre's way then;
    NEAR: the distance to the own centre, less its way; DUE: the deadline, a time on MOST."""
    clock: FloatArray
    """(m, K + 3) How far each centre has come; MOST: how far the fastest have, step by step;
    SOONEST: the first deadline of the user's rows; LOOSE: how many of these are loose."""
    origins: FloatArray
    """(m, d) o of the text."""
    sums: FloatArray
    """(m, K, d + 3) Of held rows, the sum of w (y - o); WEIGHT: of w; SCATTER: of w |y - mean|^2;
    SIZE: how many there are."""
    rests: FloatArray
    """(m, K, d + 1) What rounding has kept out of the sums of w (y - o) and of w."""


def clusters(rows: FloatArray, weights: FloatArray, offsets: IntArray, n_clusters: int) -> Clusters:
    """The state before any row was looked at."""
    (n, d), m, k = rows.shape, len(offsets) - 1, n_clusters
    bounds = np.zeros((n, k + 2))
    bounds[:, DUE] = -np.inf
    clock = np.zeros((m, k + 3))
    clock[:, SOONEST] = -np.inf
    origins = np.zeros((m, d))
    some = np.diff(offsets) > 0
    origins[some] = rows[offsets[:-1][some]]
    return Clusters(
        np.ascontiguousarray(rows),
        np.ascontiguousarray(weights),
        np.ascontiguousarray(offsets),
        np.tile(np.array([-1, 0]), (n, 1)),
        bounds,
        clock,
        origins,
        np.zeros((m, k, d + 3)),
        np.zeros((m, k, d + 1)),
    )


@jit
def squared(x: FloatArray, y: FloatArray, d: int) -> float:
    """|x - y|^2 over the first d columns: the squares of every eighth are added to the same of
    eight sums, and these in pairs."""
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    j = 0
    while j + 8 <= d:
        z0 = x[j] - y[j]
        z1 = x[j + 1] - y[j + 1]
        z2 = x[j + 2] - y[j + 2]
        z3 = x[j + 3] - y[j + 3]
        z4 = x[j + 4] - y[j + 4]
        z5 = x[j + 5] - y[j + 5]
        z6 = x[j + 6] - y[j + 6]
        z7 = x[j + 7] - y[j + 7]
        a0 += z0 * z0
        a1 += z1 * z1
        a2 += z2 * z2
        a3 += z3 * z3
        a4 += z4 * z4
        a5 += z5 * z5
        a6 += z6 * z6
        a7 += z7 * z7
        j += 8
    while j < d:  # a lane at a time: the sums change places
        z0 = x[j] - y[j]
        a0, a1, a2, a3, a4, a5, a6, a7 = a1, a2, a3, a4, a5, a6, a7, a0 + z0 * z0
        j += 1
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@jit
def value(kind: int, bend: float, squared: float) -> float:
    """The loss at this squared distance."""
    if kind == LOGISTIC:
        return squared + math.log1p(math.exp(-squared))
    t = math.sqrt(squared)
    if kind == FAIR:
        return 2.0 * bend * bend * (t / bend - math.log1p(t / bend))
    near = min(t, bend)  # k-means bends nowhere
    return near * (t - 0.5 * near)


@jit
def force(kind: int, bend: float, squared: float) -> float:
    """f'(t) / t at this squared distance."""
    if kind == LOGISTIC:
        return 2.0 / (1.0 + math.exp(-squared))
    t = math.sqrt(squared)
    if kind == FAIR:
        return 2.0 / (1.0 + t / bend)
    return bend / t if t > bend else 1.0


@jit
def _safe(upper: float, most: float) -> float:
    """What a lower bound must be above for the centre to be farther away than ``upper``."""
    return upper + _ROUNDING * upper + _DRIFT * most


@jit
def _gap(bounds: FloatArray, clock: FloatArray, label: int) -> float:
    """How much the lowest of the other centres' bounds is above what is safe."""
    lowest = math.inf
    for k in range(len(bounds) - 2):
        if k != label:
            lowest = min(lowest, bounds[k] - clock[k])
    return lowest - _safe(bounds[NEAR] + clock[label], clock[MOST])


@jit
def _nearest(
    row: FloatArray, label: int, own: float, bounds: FloatArray, clock: FloatArray, x: FloatArray
) -> tuple[int, float]:
    """The row's cluster, and its squared distance if it was measured, else -1.

    ``own`` is the squared distance to the centre of ``label``, or -1. Renews bounds and deadline.
    """
    n_clusters, d = x.shape
    gap = _gap(bounds, clock, label) if label >= 0 else -1.0
    if not gap > 0:
        old = label
        if old >= 0:
            if own < 0:
                own = squared(x[old], row, d)
            bounds[old] = math.sqrt(own) + clock[old]
        for k in range(n_clusters):
            near = _safe(math.sqrt(own), clock[MOST]) if label >= 0 else math.inf
            if k == old or (old >= 0 and bounds[k] - clock[k] > near):
                continue
            found = squared(x[k], row, d)
            bounds[k] = math.sqrt(found) + clock[k]
            if label < 0 or found < own or (found == own and k < label):
                own, label = found, k
        bounds[NEAR] = math.sqrt(own) - clock[label]
        gap = _gap(bounds, clock, label)
    bounds[DUE] = clock[MOST] + 0.5 * gap if gap > 0 else -math.inf
    return label, own


@jit
def _come_or_go(
    row: FloatArray,
    origin: FloatArray,
    weight: float,
    comes: bool,
    sums: FloatArray,
    rests: FloatArray,
) -> None:
    """Adds a row to a cluster's sums, or takes it away."""
    d = len(row)
    signed = weight if comes else -weight
    before = sums[WEIGHT]
    after = before + signed
    if not after > 0:
        sums[SCATTER] = 0.0
    elif before > 0:
        squares = 0.0
        for j in range(d):
            z = (row[j] - origin[j]) - sums[j] / before
            squares += z * z
        sums[SCATTER] = max(0.0, sums[SCATTER] + signed * before / after * squares)
    sums[SIZE] += 1.0 if comes else -1.0
    empty = sums[SIZE] == 0
    for j in range(d + 1):
        term = signed * (row[j] - origin[j]) if j < d else signed
        old = sums[j]
        new = old + term
        part = new - old
        rest = rests[j] + ((old - (new - part)) + (term - part))
        total = new + rest
        sums[j] = 0.0 if empty else total
        rests[j] = 0.0 if empty else rest - (total - new)


@jit
def visit(
    rows: FloatArray,
    weights: FloatArray,
    place: IntArray,
    bounds: FloatArray,
    clock: FloatArray,
    origin: FloatArray,
    sums: FloatArray,
    rests: FloatArray,
    x: FloatArray,
    pull: FloatArray,
    kind: int,
    bend: float,
    reach: float,
) -> tuple[int, float]:
    """Puts one user's rows in the clusters of its centres ``x``.

    Rows up to ``reach`` from their centre are held. To ``pull`` (K, d) is added the sum of
    w (f'(t)/t) (x - y) over the others. Returns how many rows changed cluster, and what loose rows
    had cost before any did; and held ones that had come to be out of reach, less the square.
    """
    changed, cost, d = 0, 0.0, rows.shape[1]
    if clock[MOST] < clock[SOONEST] and clock[LOOSE] == 0:
        return changed, cost
    soonest, loose = math.inf, 0
    for r in range(len(rows)):
        before, held = place[r, LABEL], place[r, HELD]
        passed = not clock[MOST] < bounds[r, DUE]
        if held and not passed:
            soonest = min(soonest, bounds[r, DUE])
            continue
        label, own = before, -1.0
        if before >= 0 and (not held or reach < math.inf):
            own = squared(x[before], rows[r], d)
            cost += weights[r] * (value(kind, bend, own) - (0.5 * own if held else 0.0))
            bounds[r, NEAR] = math.sqrt(own) - clock[before]
        if passed:
            label, own = _nearest(rows[r], before, own, bounds[r], clock, x)
        holds = 1 if reach == math.inf else 0
        if reach < math.inf and math.sqrt(own) <= reach:
            holds = 1
            gap = reach - _safe(math.sqrt(own), clock[MOST])
            due = clock[MOST] + gap if gap > 0 else -math.inf
            bounds[r, DUE] = min(bounds[r, DUE], due)
        if label != before or holds != held:
            changed += label != before
            if held:
                _come_or_go(rows[r], origin, weights[r], False, sums[before], rests[before])
            if holds:
                _come_or_go(rows[r], origin, weights[r], True, sums[label], rests[label])
            place[r, LABEL], place[r, HELD] = label, holds
        if not holds:
            loose += 1
            pulls = weights[r] * force(kind, bend, own)
            for j in range(d):
                pull[label, j] += pulls * (x[label, j] - rows[r, j])
        soonest = min(soonest, bounds[r, DUE])
    clock[SOONEST], clock[LOOSE] = soonest, loose
    return changed, cost


@jit
def paid(
    rows: FloatArray, weights: FloatArray, place: IntArray, x: FloatArray, kind: int, bend: float
) -> float:
    """What all rows cost in the clusters they are in."""
    cost = 0.0
    for r in range(len(rows)):
        if place[r, LABEL] >= 0:
            own = squared(x[place[r, LABEL]], rows[r], rows.shape[1])
            cost += weights[r] * value(kind, bend, own)
    return cost


@jit
def pull_only(
    rows: FloatArray,
    weights: FloatArray,
    place: IntArray,
    x: FloatArray,
    pull: FloatArray,
    kind: int,
    bend: float,
) -> None:
    """``pull`` as in `visit`, for clusters as they are."""
    d = rows.shape[1]
    for r in range(len(rows)):
        label = place[r, LABEL]
        if place[r, HELD] or label < 0:
            continue
        pulls = weights[r] * force(kind, bend, squared(x[label], rows[r], d))
        for j in range(d):
            pull[label, j] += pulls * (x[label, j] - rows[r, j])
