"""What users' clusters hold, kept up while centres move, at the cost of what changes.

**Labels.** A row is in the cluster of the nearest of its user's centres, |x(k) - y|^2 added up in
one order (`squared`), the lowest k of those that are equal (or as good as equal, where rows have
been put in other coordinates, which rounds them). A row is looked at only where that
may have changed. Let d(k) be its distance to centre k when that was last measured, and p(k) how far
the centre has come since then, step by step: the distance now is between d(k) - p(k) and
d(k) + p(k) (Elkan 2003). A row stays as long as its own upper bound is below all other lower
bounds. And since no bound moves faster than the user's fastest centre, a row with the gap g between
these bounds is safe until its own centre and the fastest ones have come g further between them:
that is its *deadline*. Rows whose deadline has not passed are passed by, users without such rows
altogether. What rounding may do to a bound is taken off the gap. Where the gap has become smaller
than the way that the fastest centres have come since, those bounds that are nearest are measured
anew before they have to be: the row would be looked at ever more often otherwise.

Where rows are so narrow that bounds for every centre would fill more memory than they do, a row has
one bound for all other centres together, which falls as fast as the fastest centre moves (Hamerly
2010).

**Sums.** Of the rows that a cluster *holds* there are the sum S of w (y - o), the weight N and the
scatter about the mean. (o is the user's first row: far from the origin, sums about it would be
short of digits.) A row that comes or goes is added or taken away, with the rounding errors of the
sum carried along: so sums are those of the rows that are there, to the last digit or nearly so,
however they came about. From them follow, for any centre x, with e = N (x - o) - S,

    sum of w (x - y) = e,       sum of w |x - y|^2 = scatter + |e|^2 / N.

For k-means all rows are held. For the Huber loss those within delta of their centre are, where it
is a square; for the logistic loss those from `SATURATED` on, where exp(-t^2) is nothing beside 1
and the loss is twice the square to the last digit, each with twice its weight. The others, and all
rows under the fair loss, are *loose*: they are measured at every visit, to their own centre only,
and what they pull with is added up.

**Wide rows.** A distance is a walk through memory. Where rows are wide there is a copy of them in
half the digits, y' = (y - o)/s with s the user's largest |y - o|, and bounds are found from that:
x' and y' are rounded by a part 2^-24 of themselves, and so are the log d + 3 sums and products on
the way to each part of their distance. Only rows for which that leaves more than one centre
possible are measured in full.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unpooled.kernels.compiled._jit import inlined, inner
from unpooled.kernels.linalg.products import lengths
from unpooled.types import FloatArray, IntArray

Coarse: TypeAlias = NDArray[np.float32]

KMEANS, HUBER, LOGISTIC, FAIR = range(4)
SATURATED = 37.0**0.5
"""The distance from which on 1 + exp(-t^2) is 1 in double precision."""

STAMP, WEIGHT, LABEL, HELD, NEAR, DUE = -6, -5, -4, -3, -2, -1
TIE, BLUR, SCALE, MOST, SOONEST, LOOSE = -6, -5, -4, -3, -2, -1
MASS, SCATTER, SIZE = -3, -2, -1

_ROUNDING = 1e-9
"""Of a distance: more than what rounding does to it."""
_DRIFT = 1e-11
"""Of a way: more than what rounding does to it in a hundred thousand steps."""
_WIDE = 256
"""Columns of rows of which there is a copy in half the digits."""
_HALF = 2.0**-23
"""Twice what one rounding does to half the digits, as a part of the number."""


class Clusters(NamedTuple):
    """The state, for m users with K centres each and n rows of d columns.

    Few arrays, since compiling takes longer the more there are.
    """

    rows: FloatArray
    coarse: Coarse
    """(n, d and some zeros) y' of the text; (n, 0) where rows are not wide."""
    ledger: FloatArray
    """(n, K + 6) The least that the distance to each centre can have been when it was measured,
    plus that centre's way then; STAMP: MOST when old bounds were last measured anew. Or (n, 1 + 5),
    the least of the distances to all but the own, plus MOST then. In both WEIGHT; LABEL: the row's
    cluster, -1 before it is looked at; HELD: whether it is held; NEAR: the most that the distance
    to the own centre can have been, less its way then; DUE: the deadline, a sum of the own centre's
    way and MOST."""
    starts: IntArray
    """(m + 1) User u has the rows from starts[u] up to starts[u + 1]."""
    clock: FloatArray
    """(m, K + 6) How far each centre has come; TIE: twice the difference up to which distances are
    as good as equal; SCALE: s of the text; BLUR: what half the digits
    leave open of a distance and s, as a part of these; MOST: how far the fastest
    have come, step by step; SOONEST: the MOST before which none of the user's rows is due; LOOSE:
    how many of these are loose."""
    sums: FloatArray
    """(m, 2 K + 1, d + 3) Of the rows that cluster k holds, the sum of w (y - o); MASS: of w;
    SCATTER: of w |y - mean|^2; SIZE: how many there are. At K + k, what rounding has kept out of
    the sums; at 2 K, the origin o."""


def clusters(
    rows: FloatArray, weights: FloatArray, offsets: IntArray, n_clusters: int, tie: float = 0.0
) -> Clusters:
    """The state before any row was looked at; ``tie`` is a part of a user's largest number."""
    (n, d), m, k = rows.shape, len(offsets) - 1, n_clusters
    rows = np.ascontiguousarray(rows)
    ledger = np.zeros((n, k + 6 if 4 * k <= d else 1 + 5))
    ledger[:, WEIGHT] = weights
    ledger[:, LABEL] = -1
    ledger[:, DUE] = -np.inf
    clock = np.zeros((m, k + 6))
    clock[:, BLUR] = _HALF * (4 + np.log2(max(d, 2)))
    clock[:, SOONEST] = -np.inf
    sums = np.zeros((m, 2 * k + 1, d + 3))
    some = np.diff(offsets) > 0
    sums[some, -1, :d] = rows[offsets[:-1][some]]
    if tie > 0:
        clock[some, TIE] = tie * np.maximum.reduceat(np.abs(rows).max(axis=1), offsets[:-1][some])
    coarse = np.zeros((n, -(-d // 64) * 64 if d >= _WIDE else 0), dtype=np.float32)
    if d >= _WIDE:
        for u in np.flatnonzero(some):
            own = slice(offsets[u], offsets[u + 1])
            centred = rows[own] - sums[u, -1, :d]
            scale = lengths(centred).max()
            clock[u, SCALE] = scale if scale > 0 else 1.0
            coarse[own, :d] = centred / clock[u, SCALE]
    return Clusters(rows, coarse, ledger, np.ascontiguousarray(offsets), clock, sums)


@inner
def fold(work: FloatArray | Coarse, i: int, width: int) -> float:
    """The sum of so many numbers: one half is added to the other, and so on; the last few are
    added to four sums, and these in pairs."""
    while width > 32:
        half = (width + 1) // 2
        for j in range(width - half):
            work[i, j] += work[i, j + half]
        width = half
    a0 = a1 = a2 = a3 = 0.0
    for j in range(0, width - 3, 4):
        a0 += work[i, j]
        a1 += work[i, j + 1]
        a2 += work[i, j + 2]
        a3 += work[i, j + 3]
    for j in range(width - width % 4, width):
        a0 += work[i, j]
    return (a0 + a1) + (a2 + a3)


@inner
def in_lanes(x: FloatArray, i: int, y: FloatArray, r: int) -> float:
    """|x_i - y_r|^2: the squares of every eighth column are added to the same of eight sums, and
    these in pairs."""
    d = x.shape[1]
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    for j in range(0, d - 7, 8):
        z0 = x[i, j] - y[r, j]
        z1 = x[i, j + 1] - y[r, j + 1]
        z2 = x[i, j + 2] - y[r, j + 2]
        z3 = x[i, j + 3] - y[r, j + 3]
        z4 = x[i, j + 4] - y[r, j + 4]
        z5 = x[i, j + 5] - y[r, j + 5]
        z6 = x[i, j + 6] - y[r, j + 6]
        z7 = x[i, j + 7] - y[r, j + 7]
        a0 += z0 * z0
        a1 += z1 * z1
        a2 += z2 * z2
        a3 += z3 * z3
        a4 += z4 * z4
        a5 += z5 * z5
        a6 += z6 * z6
        a7 += z7 * z7
    for j in range(d - d % 8, d):  # a lane at a time: the sums change places
        z0 = x[i, j] - y[r, j]
        a0, a1, a2, a3, a4, a5, a6, a7 = a1, a2, a3, a4, a5, a6, a7, a0 + z0 * z0
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@inner
def squared(x: FloatArray, i: int, y: FloatArray, r: int, work: FloatArray) -> float:
    """|x_i - y_r|^2, with room to work in, (1, d).

    The squares of wide rows are added up by `fold`: that is the way through memory that processors
    foresee best.
    """
    d = x.shape[1]
    if d < 64:
        return in_lanes(x, i, y, r)
    for j in range(d):
        z = x[i, j] - y[r, j]
        work[0, j] = z * z
    return fold(work, 0, d)


@inner
def value(kind: float, bend: float, squared: float) -> float:
    """The loss at this squared distance."""
    if kind == LOGISTIC:
        return squared + math.log1p(math.exp(-squared))
    t = math.sqrt(squared)
    if kind == FAIR:
        return 2.0 * bend * bend * (t / bend - math.log1p(t / bend))
    near = min(t, bend)  # k-means bends nowhere
    return near * (t - 0.5 * near)


@inner
def force(kind: float, bend: float, squared: float) -> float:
    """f'(t) / t at this squared distance."""
    if kind == LOGISTIC:
        return 2.0 / (1.0 + math.exp(-squared))
    t = math.sqrt(squared)
    if kind == FAIR:
        return 2.0 / (1.0 + t / bend)
    return bend / t if t > bend else 1.0


@inlined
def _safe(upper: float, most: float) -> float:
    """What a lower bound must be above for the centre to be farther away than ``upper``."""
    return upper + _ROUNDING * upper + _DRIFT * most


@inlined
def _gap(ledger: FloatArray, r: int, clock: FloatArray, label: int) -> float:
    """How much the lowest of the other centres' bounds is above what is safe."""
    lowest, n_clusters = math.inf, len(clock) - 6
    if ledger.shape[1] == 6 and n_clusters > 1:
        lowest = ledger[r, 0] - clock[MOST]
    else:
        for k in range(n_clusters):
            bound = ledger[r, k] - clock[k]
            if k != label and bound < lowest:
                lowest = bound
    return lowest - _safe(ledger[r, NEAR] + clock[label], clock[MOST])


@inner
def _between(
    rows: FloatArray,
    coarse: Coarse,
    r: int,
    x: FloatArray,
    near: Coarse,
    k: int,
    work: Coarse,
    room: FloatArray,
    clock: FloatArray,
) -> tuple[float, float]:
    """Bounds of the distance of row r to centre k."""
    if coarse.shape[1] == 0:
        distance = math.sqrt(squared(x, k, rows, r, room))
        return distance, distance
    eighth = coarse.shape[1] // 8
    for j in range(eighth):
        z0 = near[k, j] - coarse[r, j]
        z1 = near[k, j + eighth] - coarse[r, j + eighth]
        z2 = near[k, j + 2 * eighth] - coarse[r, j + 2 * eighth]
        z3 = near[k, j + 3 * eighth] - coarse[r, j + 3 * eighth]
        z4 = near[k, j + 4 * eighth] - coarse[r, j + 4 * eighth]
        z5 = near[k, j + 5 * eighth] - coarse[r, j + 5 * eighth]
        z6 = near[k, j + 6 * eighth] - coarse[r, j + 6 * eighth]
        z7 = near[k, j + 7 * eighth] - coarse[r, j + 7 * eighth]
        one, two = (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3), z4 * z4 + z5 * z5
        work[0, j] = one + (two + (z6 * z6 + z7 * z7))
    distance = clock[SCALE] * math.sqrt(fold(work, 0, eighth))
    error = clock[BLUR] * (distance + clock[SCALE])
    if not distance + error < math.inf:  # beyond what half the digits can say
        return 0.0, math.inf
    return distance - error, distance + error


@inlined
def _two_nearest(
    rows: FloatArray,
    ledger: FloatArray,
    r: int,
    clock: FloatArray,
    x: FloatArray,
    room: FloatArray,
    own: float,
) -> tuple[int, float]:
    """As `_nearest`, for rows that have one bound for all other centres."""
    n_clusters = len(x)
    label = int(ledger[r, LABEL])
    gap = _gap(ledger, r, clock, label) if label >= 0 else -1.0
    if not gap > 0 and label >= 0 and own < 0:
        own = squared(x, label, rows, r, room)
        ledger[r, NEAR] = math.sqrt(own) - clock[label]
        gap = _gap(ledger, r, clock, label)
    if not gap > 0:
        label, own, second = 0, math.inf, math.inf
        for k in range(n_clusters):
            found = squared(x, k, rows, r, room)
            if k == 0 or found < own - clock[TIE] * math.sqrt(own):
                label, own, second = k, found, own
            else:
                second = min(second, found)
        ledger[r, 0] = math.sqrt(second) + clock[MOST]
        ledger[r, NEAR] = math.sqrt(own) - clock[label]
        gap = _gap(ledger, r, clock, label)
    ledger[r, DUE] = clock[label] + clock[MOST] + gap if gap > 0 else -math.inf
    return label, own


@inlined
def _nearest(
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    r: int,
    clock: FloatArray,
    x: FloatArray,
    near: Coarse,
    work: Coarse,
    room: FloatArray,
    own: float,
) -> tuple[int, float]:
    """The row's cluster, and its squared distance if it was measured in full, else -1.

    ``own`` is the squared distance to the centre of the row's label, or -1. Renews bounds and
    deadline.
    """
    n_clusters, old = len(x), int(ledger[r, LABEL])
    label, fresh = old, False
    gap = _gap(ledger, r, clock, label) if old >= 0 else -1.0
    if not gap > 0:
        upper, fresh = math.inf, True
        if own >= 0:
            upper = math.sqrt(own)
            ledger[r, old] = upper + clock[old]
        elif old >= 0:
            lower, upper = _between(rows, coarse, r, x, near, old, work, room, clock)
            ledger[r, old] = lower + clock[old]
        for k in range(n_clusters):
            if old < 0 or (k != old and not ledger[r, k] - clock[k] > _safe(upper, clock[MOST])):
                lower, farther = _between(rows, coarse, r, x, near, k, work, room, clock)
                ledger[r, k] = lower + clock[k]
                upper = min(upper, farther)
        limit = _safe(upper, clock[MOST])
        possible = 0
        for k in range(n_clusters):
            if not ledger[r, k] - clock[k] > limit:
                label = k
                possible += 1
        if possible == 1:
            own = own if label == old else -1.0
        else:
            label = -1
            for k in range(n_clusters):
                if not ledger[r, k] - clock[k] > limit:
                    found = squared(x, k, rows, r, room)
                    ledger[r, k] = math.sqrt(found) + clock[k]
                    if label < 0 or found < own - clock[TIE] * math.sqrt(own):
                        own, label = found, k
            upper = math.sqrt(own)
        ledger[r, NEAR] = upper - clock[label]
        gap = _gap(ledger, r, clock, label)
    since = clock[MOST] - ledger[r, STAMP]
    if gap < since:
        if not fresh and own < 0:
            lower, upper = _between(rows, coarse, r, x, near, label, work, room, clock)
            ledger[r, NEAR] = min(ledger[r, NEAR], upper - clock[label])
        limit = _safe(ledger[r, NEAR] + clock[label], clock[MOST]) + since
        for k in range(n_clusters):
            if k != label and ledger[r, k] - clock[k] < limit:
                lower, upper = _between(rows, coarse, r, x, near, k, work, room, clock)
                ledger[r, k] = max(ledger[r, k], lower + clock[k])
        ledger[r, STAMP] = clock[MOST]
        gap = _gap(ledger, r, clock, label)
    ledger[r, DUE] = clock[label] + clock[MOST] + gap if gap > 0 else -math.inf
    return label, own


@inner
def _added(total: float, rest: float, term: float) -> tuple[float, float]:
    """A sum and what rounding keeps out of it, after another term (Knuth 1969)."""
    new = total + term
    part = new - total
    rest += (total - (new - part)) + (term - part)
    return new + rest, rest - ((new + rest) - new)


@inner
def _come_or_go(
    rows: FloatArray, r: int, weight: float, sums: FloatArray, k: int, work: FloatArray
) -> None:
    """Adds a row to a cluster's sums; or takes it away, if its weight is that with a minus."""
    d, n_clusters = rows.shape[1], sums.shape[0] // 2
    rests, origin = n_clusters + k, 2 * n_clusters
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
        scatter = sums[k, SCATTER] + weight * before / after * fold(work, 1, d)
        sums[k, SCATTER] = max(0.0, scatter)
    for j in range(d):
        sums[k, j], sums[rests, j] = _added(sums[k, j], sums[rests, j], weight * work[0, j])
    sums[k, MASS], sums[rests, MASS] = _added(before, sums[rests, MASS], weight)


@inner
def _empty(sums: FloatArray, k: int) -> None:
    """A cluster that holds no row: nothing is left of rounding errors either."""
    for j in range(sums.shape[1]):
        sums[k, j] = 0.0
        sums[sums.shape[0] // 2 + k, j] = 0.0


@inner
def visit(
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    pull: FloatArray,
    kind: float,
    bend: float,
    reach: float,
) -> tuple[int, float]:
    """Puts one user's rows in the clusters of its centres ``x``.

    Rows up to ``reach`` from their centre are held, under the logistic loss those from there on;
    for k-means all are. To ``pull`` (K, d) is added the sum of
    w (f'(t)/t) (x - y) over the others. Returns how many rows changed cluster, and how much more
    rows had cost in the clusters they were in than those that are held now do in theirs.
    """
    changed, extra, (n_clusters, d) = 0, 0.0, x.shape
    if clock[MOST] < clock[SOONEST] and clock[LOOSE] == 0:
        return changed, extra
    near = np.zeros((n_clusters, coarse.shape[1]), dtype=np.float32)
    if coarse.shape[1] > 0:
        per_scale = 1.0 / clock[SCALE]
        for k in range(n_clusters):
            for j in range(d):
                near[k, j] = (x[k, j] - sums[2 * n_clusters, j]) * per_scale
    work, terms = np.empty((1, coarse.shape[1]), dtype=np.float32), np.empty((2, d))
    room, unit = np.empty((1, d)), 2.0 if kind == LOGISTIC else 1.0
    soonest, loose = math.inf, 0
    for r in range(len(rows)):
        before, held, weight = int(ledger[r, LABEL]), ledger[r, HELD] > 0, ledger[r, WEIGHT]
        passed = before < 0 or not clock[before] + clock[MOST] < ledger[r, DUE]
        if held and not passed:
            soonest = min(soonest, ledger[r, DUE] - clock[before])
            continue
        label, own = before, -1.0
        if before >= 0 and kind != KMEANS:
            own = squared(x, before, rows, r, room)
            ledger[r, NEAR] = math.sqrt(own) - clock[before]
        was = own
        if passed and ledger.shape[1] == 6 and n_clusters > 1:
            label, own = _two_nearest(rows, ledger, r, clock, x, room, own)
        elif passed:
            label, own = _nearest(rows, coarse, ledger, r, clock, x, near, work, room, own)
        if own < 0 and (label != before or kind != KMEANS):
            own = squared(x, label, rows, r, room)
        holds = True
        if kind != KMEANS:
            distance = math.sqrt(own)
            within = distance - reach if kind == LOGISTIC else reach - distance
            holds = within >= 0
            if holds:
                # Half of the deadline's clock at least is not of the own centre's making.
                gap = 2.0 * (within - (_safe(distance, clock[MOST]) - distance))
                due = clock[label] + clock[MOST] + gap if gap > 0 else -math.inf
                ledger[r, DUE] = min(ledger[r, DUE], due)
        if label != before or not holds or not held:
            if before >= 0:
                if was < 0:
                    was = squared(x, before, rows, r, room)
                extra += weight * (value(kind, bend, was) - (0.5 * unit * own if holds else 0.0))
            changed += label != before
        if label != before or holds != held:
            if held:
                _come_or_go(rows, r, -unit * weight, sums, before, terms)
                sums[before, SIZE] -= 1.0
                if sums[before, SIZE] == 0:
                    _empty(sums, before)
            if holds:
                _come_or_go(rows, r, unit * weight, sums, label, terms)
                sums[label, SIZE] += 1.0
            ledger[r, LABEL], ledger[r, HELD] = label, 1.0 if holds else 0.0
        if not holds:
            loose += 1
            pulls = weight * force(kind, bend, own)
            for j in range(d):
                pull[label, j] += pulls * (x[label, j] - rows[r, j])
        soonest = min(soonest, ledger[r, DUE] - clock[label])
    clock[SOONEST], clock[LOOSE] = clock[MOST] + 0.5 * (soonest - clock[MOST]), loose
    return changed, extra


@inner
def paid(rows: FloatArray, ledger: FloatArray, x: FloatArray, kind: float, bend: float) -> float:
    """What all rows cost in the clusters they are in."""
    cost, room = 0.0, np.empty((1, rows.shape[1]))
    for r in range(len(rows)):
        label = int(ledger[r, LABEL])
        if label >= 0:
            own = squared(x, label, rows, r, room)
            cost += ledger[r, WEIGHT] * value(kind, bend, own)
    return cost


@inner
def pull_only(
    rows: FloatArray, ledger: FloatArray, x: FloatArray, pull: FloatArray, kind: float, bend: float
) -> None:
    """``pull`` as in `visit`, for clusters as they are."""
    d, room = rows.shape[1], np.empty((1, rows.shape[1]))
    for r in range(len(rows)):
        label = int(ledger[r, LABEL])
        if ledger[r, HELD] > 0 or label < 0:
            continue
        pulls = ledger[r, WEIGHT] * force(kind, bend, squared(x, label, rows, r, room))
        for j in range(d):
            pull[label, j] += pulls * (x[label, j] - rows[r, j])
