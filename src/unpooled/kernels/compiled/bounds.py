"""The label of one row from bounds on its distances to the centres, in compiled code.

A row's label is the nearest of its user's centres, by :func:`squared_between`; the lowest number
wins a tie. (Rows that have been put in other coordinates, which rounds them, also tie where
distances are equal up to TIE.)

**Bounds.** Let d(k) be the distance to centre k when it was last measured, and p(k) the centre's
drift since then, the sum of the lengths of its steps. The distance now lies between d(k) - p(k)
and d(k) + p(k) (Elkan 2003). A label is certain while the upper bound for its own centre is below
the lower bounds for all others.

**When to check.** Let g be the gap between that upper bound and the lowest of those lower bounds.
No lower bound falls faster than MAX_DRIFT grows, so the label stays certain until the drift of its
own centre and MAX_DRIFT have together grown by g. CHECK_AT is their sum then: rows that have not
reached it are skipped, and users without any row that has are skipped altogether. What rounding may
do to a bound is taken off the gap.

Where the gap has become smaller than what MAX_DRIFT has grown since bounds were last refreshed, the
lowest bounds are measured again before they have to be: otherwise such a row would be checked more
and more often.

**Narrow rows** have one lower bound for all centres but the own, which falls as fast as MAX_DRIFT
grows (Hamerly 2010).

**Wide rows.** Measuring a distance takes as long as reading the row from memory. So there is a copy
in single precision, y' = (y - o)/s with s the user's largest |y - o|, and bounds are found from it:
x' and y' are rounded by a part 2^-24 of themselves, and so are the log d + 3 sums and products that
lead to each part of their distance. Only if that leaves several centres possible is the row
measured in double precision.
"""

from __future__ import annotations

import math

import numpy as np

from unpooled.kernels.compiled._jit import inlined, inner
from unpooled.kernels.compiled.clusters import (
    CHECK_AT,
    COARSE_ERROR,
    LABEL,
    MAX_DRIFT,
    ONE_BOUND,
    REFRESHED,
    SCALE,
    TIE,
    UPPER,
)
from unpooled.kernels.compiled.distances import SingleArray, pairwise_sum, squared_between
from unpooled.types import FloatArray

_ROUNDING = 1e-9
"""Of a distance: more than its rounding error."""
_DRIFT_ROUNDING = 1e-11
"""Of a drift: more than its rounding error after a hundred thousand steps."""


@inlined
def coarse_centers(x: FloatArray, origin: FloatArray, scale: float, width: int) -> SingleArray:
    """(K, width) x' of the text, for centres ``x``; (K, 0) unless rows are wide."""
    n_clusters, d = x.shape
    coarse_x = np.zeros((n_clusters, width), dtype=np.float32)
    if width > 0:
        per_scale = 1.0 / scale
        for k in range(n_clusters):
            for j in range(d):
                coarse_x[k, j] = (x[k, j] - origin[j]) * per_scale
    return coarse_x


@inlined
def with_margin(upper: float, max_drift: float) -> float:
    """What a lower bound must exceed for its centre to be farther away than ``upper``."""
    return upper + _ROUNDING * upper + _DRIFT_ROUNDING * max_drift


@inlined
def _gap(per_row: FloatArray, r: int, drift: FloatArray, label: int) -> float:
    """By how much the lowest bound for another centre exceeds that for the own."""
    lowest, n_clusters = math.inf, len(drift) - 6
    if per_row.shape[1] == ONE_BOUND and n_clusters > 1:
        lowest = per_row[r, 0] - drift[MAX_DRIFT]
    else:
        for k in range(n_clusters):
            bound = per_row[r, k] - drift[k]
            if k != label and bound < lowest:
                lowest = bound
    return lowest - with_margin(per_row[r, UPPER] + drift[label], drift[MAX_DRIFT])


# In this module and its callers, ``drift`` is the user's line of `Clusters.per_user`, which begins
# with the centres' drifts. Functions take single arrays, not one `UserClusters`: taking arrays out
# of a tuple for every row would cost more than the comparisons do.


@inner
def distance_bounds(
    rows: FloatArray,
    coarse: SingleArray,
    r: int,
    drift: FloatArray,
    x: FloatArray,
    coarse_x: SingleArray,
    k: int,
    coarse_room: SingleArray,
    room: FloatArray,
) -> tuple[float, float]:
    """Bounds of the distance of row r to centre k."""
    if coarse.shape[1] == 0:
        distance = math.sqrt(squared_between(x, k, rows, r, room))
        return distance, distance
    eighth = coarse.shape[1] // 8
    for j in range(eighth):
        z0 = coarse_x[k, j] - coarse[r, j]
        z1 = coarse_x[k, j + eighth] - coarse[r, j + eighth]
        z2 = coarse_x[k, j + 2 * eighth] - coarse[r, j + 2 * eighth]
        z3 = coarse_x[k, j + 3 * eighth] - coarse[r, j + 3 * eighth]
        z4 = coarse_x[k, j + 4 * eighth] - coarse[r, j + 4 * eighth]
        z5 = coarse_x[k, j + 5 * eighth] - coarse[r, j + 5 * eighth]
        z6 = coarse_x[k, j + 6 * eighth] - coarse[r, j + 6 * eighth]
        z7 = coarse_x[k, j + 7 * eighth] - coarse[r, j + 7 * eighth]
        one, two = (z0 * z0 + z1 * z1) + (z2 * z2 + z3 * z3), z4 * z4 + z5 * z5
        coarse_room[0, j] = one + (two + (z6 * z6 + z7 * z7))
    distance = drift[SCALE] * math.sqrt(pairwise_sum(coarse_room, 0, eighth))
    error = drift[COARSE_ERROR] * (distance + drift[SCALE])
    if not distance + error < math.inf:  # too large for single precision
        return 0.0, math.inf
    return distance - error, distance + error


@inlined
def nearest_by_one_bound(
    rows: FloatArray,
    per_row: FloatArray,
    r: int,
    drift: FloatArray,
    x: FloatArray,
    room: FloatArray,
    own: float,
) -> tuple[int, float]:
    """As `nearest_by_bounds`, for narrow rows."""
    label = int(per_row[r, LABEL])
    gap = _gap(per_row, r, drift, label) if label >= 0 else -1.0
    if not gap > 0 and label >= 0 and own < 0:
        own = squared_between(x, label, rows, r, room)
        per_row[r, UPPER] = math.sqrt(own) - drift[label]
        gap = _gap(per_row, r, drift, label)
    if not gap > 0:
        label, own, second = 0, math.inf, math.inf
        for k in range(len(x)):
            found = squared_between(x, k, rows, r, room)
            if k == 0 or found < own - drift[TIE] * math.sqrt(own):
                label, own, second = k, found, own
            else:
                second = min(second, found)
        per_row[r, 0] = math.sqrt(second) + drift[MAX_DRIFT]
        per_row[r, UPPER] = math.sqrt(own) - drift[label]
        gap = _gap(per_row, r, drift, label)
    per_row[r, CHECK_AT] = drift[label] + drift[MAX_DRIFT] + gap if gap > 0 else -math.inf
    return label, own


@inlined
def nearest_by_bounds(
    rows: FloatArray,
    coarse: SingleArray,
    per_row: FloatArray,
    r: int,
    drift: FloatArray,
    x: FloatArray,
    coarse_x: SingleArray,
    coarse_room: SingleArray,
    room: FloatArray,
    own: float,
) -> tuple[int, float]:
    """The row's label, and its squared distance to that centre if it was measured exactly, else -1.

    ``own`` is the squared distance to the centre of its label so far, or -1. Bounds and CHECK_AT
    are brought up to date. The two arrays called room are overwritten.
    """
    label, measured = int(per_row[r, LABEL]), own >= 0
    gap = _gap(per_row, r, drift, label) if label >= 0 else -1.0
    if not gap > 0:
        label, own = _measured_label(
            rows, coarse, per_row, r, drift, x, coarse_x, coarse_room, room, own
        )
        measured = True
        gap = _gap(per_row, r, drift, label)
    if gap < drift[MAX_DRIFT] - per_row[r, REFRESHED]:
        if not measured:
            _, upper = distance_bounds(
                rows, coarse, r, drift, x, coarse_x, label, coarse_room, room
            )
            per_row[r, UPPER] = min(per_row[r, UPPER], upper - drift[label])
        _refresh(rows, coarse, per_row, r, drift, x, coarse_x, coarse_room, room, label)
        gap = _gap(per_row, r, drift, label)
    per_row[r, CHECK_AT] = drift[label] + drift[MAX_DRIFT] + gap if gap > 0 else -math.inf
    return label, own


@inlined
def _measured_label(
    rows: FloatArray,
    coarse: SingleArray,
    per_row: FloatArray,
    r: int,
    drift: FloatArray,
    x: FloatArray,
    coarse_x: SingleArray,
    coarse_room: SingleArray,
    room: FloatArray,
    own: float,
) -> tuple[int, float]:
    """The row's label where bounds leave it open; measures to each centre that may be nearest."""
    old, upper = int(per_row[r, LABEL]), math.inf
    if own >= 0:
        upper = math.sqrt(own)
        per_row[r, old] = upper + drift[old]
    elif old >= 0:
        lower, upper = distance_bounds(rows, coarse, r, drift, x, coarse_x, old, coarse_room, room)
        per_row[r, old] = lower + drift[old]
    for k in range(len(x)):
        limit = with_margin(upper, drift[MAX_DRIFT])
        if old < 0 or (k != old and not per_row[r, k] - drift[k] > limit):
            lower, farther = distance_bounds(
                rows, coarse, r, drift, x, coarse_x, k, coarse_room, room
            )
            per_row[r, k] = lower + drift[k]
            upper = min(upper, farther)
    limit, label, possible = with_margin(upper, drift[MAX_DRIFT]), old, 0
    for k in range(len(x)):
        if not per_row[r, k] - drift[k] > limit:
            label = k
            possible += 1
    if possible == 1:
        own = own if label == old else -1.0
    else:  # in double precision
        label = -1
        for k in range(len(x)):
            if not per_row[r, k] - drift[k] > limit:
                found = squared_between(x, k, rows, r, room)
                per_row[r, k] = math.sqrt(found) + drift[k]
                if label < 0 or found < own - drift[TIE] * math.sqrt(own):
                    own, label = found, k
        upper = math.sqrt(own)
    per_row[r, UPPER] = upper - drift[label]
    return label, own


@inlined
def _refresh(
    rows: FloatArray,
    coarse: SingleArray,
    per_row: FloatArray,
    r: int,
    drift: FloatArray,
    x: FloatArray,
    coarse_x: SingleArray,
    coarse_room: SingleArray,
    room: FloatArray,
    label: int,
) -> None:
    """Measures the lowest of the bounds for other centres again."""
    since = drift[MAX_DRIFT] - per_row[r, REFRESHED]
    limit = with_margin(per_row[r, UPPER] + drift[label], drift[MAX_DRIFT]) + since
    for k in range(len(x)):
        if k != label and per_row[r, k] - drift[k] < limit:
            lower, _ = distance_bounds(rows, coarse, r, drift, x, coarse_x, k, coarse_room, room)
            per_row[r, k] = max(per_row[r, k], lower + drift[k])
    per_row[r, REFRESHED] = drift[MAX_DRIFT]
