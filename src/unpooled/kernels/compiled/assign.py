"""Assignment of one user's rows to clusters in compiled code, their cost, and the pull of some.

Rows that bounds show to stay where they are (:mod:`unpooled.kernels.compiled.bounds`) are skipped,
unless they are outside the sums (:mod:`unpooled.kernels.compiled.clusters`): these are measured to
their own centre every time.
"""

from __future__ import annotations

import math

import numpy as np

from unpooled.kernels.compiled._jit import inlined, inner
from unpooled.kernels.compiled.bounds import (
    coarse_centers,
    nearest_by_bounds,
    nearest_by_one_bound,
    with_margin,
)
from unpooled.kernels.compiled.cluster_sums import add_row, remove_row
from unpooled.kernels.compiled.clusters import (
    CHECK_AT,
    IN_SUMS,
    LABEL,
    MAX_DRIFT,
    N_OUTSIDE,
    NEXT_CHECK,
    SCALE,
    UPPER,
    WEIGHT,
    UserClusters,
)
from unpooled.kernels.compiled.distances import squared_between
from unpooled.kernels.compiled.loss_terms import (
    KMEANS,
    LOGISTIC,
    LossTerms,
    loss_value,
    loss_weight,
)
from unpooled.types import FloatArray


@inner
def assign_rows(
    user: UserClusters, x: FloatArray, pull: FloatArray, loss: LossTerms
) -> tuple[int, float]:
    """Puts one user's rows in the clusters of its centres ``x``, and in the sums or outside.

    To ``pull`` (K, d) is added the sum of w (f'(t)/t) (x - y) over the rows outside the sums.
    Returns how many rows changed cluster; and what rows cost in the clusters that they were in, as
    far as it does not follow from the sums as they are now.
    """
    rows, coarse, per_row, drift, sums = user
    changed, extra, (n_clusters, d) = 0, 0.0, x.shape
    if drift[MAX_DRIFT] < drift[NEXT_CHECK] and drift[N_OUTSIDE] == 0:
        return changed, extra
    coarse_x = coarse_centers(x, sums[2 * n_clusters], drift[SCALE], coarse.shape[1])
    coarse_room, room = np.empty((1, coarse.shape[1]), dtype=np.float32), np.empty((1, d))
    work, next_check, outside = np.empty((2, d)), math.inf, 0
    for r in range(len(rows)):
        before, was_inside = int(per_row[r, LABEL]), per_row[r, IN_SUMS] > 0
        check = before < 0 or not drift[before] + drift[MAX_DRIFT] < per_row[r, CHECK_AT]
        if was_inside and not check:
            next_check = min(next_check, per_row[r, CHECK_AT] - drift[before])
            continue
        label, own = before, -1.0
        if before >= 0 and loss.kind != KMEANS:
            own = squared_between(x, before, rows, r, room)
            per_row[r, UPPER] = math.sqrt(own) - drift[before]
        was = own
        if check and per_row.shape[1] == 6 and n_clusters > 1:
            label, own = nearest_by_one_bound(rows, per_row, r, drift, x, room, own)
        elif check:
            label, own = nearest_by_bounds(
                rows, coarse, per_row, r, drift, x, coarse_x, coarse_room, room, own
            )
        if own < 0 and (label != before or loss.kind != KMEANS):
            own = squared_between(x, label, rows, r, room)
        inside = loss.kind == KMEANS or _stays_inside(per_row, r, drift, label, own, loss)
        if before >= 0 and (label != before or not inside or not was_inside):
            if was < 0:
                was = squared_between(x, before, rows, r, room)
            extra += _extra_cost(per_row[r, WEIGHT], loss, inside, own, was)
        if label != before or inside != was_inside:
            _put(rows, per_row, r, label, inside, loss.kind, sums, work)
        if not inside:
            outside += 1
            factor = per_row[r, WEIGHT] * loss_weight(loss, own)
            for j in range(d):
                pull[label, j] += factor * (x[label, j] - rows[r, j])
        changed += label != before
        next_check = min(next_check, per_row[r, CHECK_AT] - drift[label])
    # A row's own centre may drift as fast as the fastest one, so the sum in CHECK_AT may grow twice
    # as fast as MAX_DRIFT.
    drift[NEXT_CHECK] = drift[MAX_DRIFT] + 0.5 * (next_check - drift[MAX_DRIFT])
    drift[N_OUTSIDE] = outside
    return changed, extra


@inlined
def _stays_inside(
    per_row: FloatArray, r: int, drift: FloatArray, label: int, own: float, loss: LossTerms
) -> bool:
    """Whether the loss is a square at this squared distance; CHECK_AT is when that may end."""
    distance = math.sqrt(own)
    room = distance - loss.reach if loss.kind == LOGISTIC else loss.reach - distance
    if room >= 0:
        # Only the own centre's drift counts here, which is at most half of the sum in CHECK_AT.
        gap = 2.0 * (room - (with_margin(distance, drift[MAX_DRIFT]) - distance))
        check_at = drift[label] + drift[MAX_DRIFT] + gap if gap > 0 else -math.inf
        per_row[r, CHECK_AT] = min(per_row[r, CHECK_AT], check_at)
    return room >= 0


@inlined
def _extra_cost(weight: float, loss: LossTerms, inside: bool, own: float, was: float) -> float:
    """What a row cost in the cluster it was in, less what it adds to the cost of the sums now."""
    unit = 2.0 if loss.kind == LOGISTIC else 1.0
    return weight * (loss_value(loss, was) - (0.5 * unit * own if inside else 0.0))


@inlined
def _put(
    rows: FloatArray,
    per_row: FloatArray,
    r: int,
    label: int,
    inside: bool,
    kind: int,
    sums: FloatArray,
    work: FloatArray,
) -> None:
    """Puts the row in this cluster, ``inside`` its sums or outside."""
    weight = (2.0 if kind == LOGISTIC else 1.0) * per_row[r, WEIGHT]
    if per_row[r, IN_SUMS] > 0:
        remove_row(rows, r, weight, sums, int(per_row[r, LABEL]), work)
    if inside:
        add_row(rows, r, weight, sums, label, work)
    per_row[r, LABEL], per_row[r, IN_SUMS] = label, 1.0 if inside else 0.0


@inner
def add_pulls(user: UserClusters, x: FloatArray, pull: FloatArray, loss: LossTerms) -> None:
    """``pull`` as in `assign_rows`, with clusters as they are."""
    rows, per_row, room = user.rows, user.per_row, np.empty((1, x.shape[1]))
    for r in range(len(rows)):
        label = int(per_row[r, LABEL])
        if per_row[r, IN_SUMS] > 0 or label < 0:
            continue
        factor = per_row[r, WEIGHT] * loss_weight(loss, squared_between(x, label, rows, r, room))
        for j in range(x.shape[1]):
            pull[label, j] += factor * (x[label, j] - rows[r, j])


@inner
def cost_of_rows(user: UserClusters, x: FloatArray, loss: LossTerms) -> float:
    """What all rows cost in the clusters they are in."""
    rows, per_row, room, cost = user.rows, user.per_row, np.empty((1, x.shape[1])), 0.0
    for r in range(len(rows)):
        label = int(per_row[r, LABEL])
        if label >= 0:
            own = squared_between(x, label, rows, r, room)
            cost += per_row[r, WEIGHT] * loss_value(loss, own)
    return cost
