"""The losses of a distance that compiled code knows, by number.

They are those of :mod:`unpooled.losses`, as functions of t = |x - y|. Where a loss is a square, the
gradient over many rows follows from sums of these rows (`LossTerms.reach`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from unpooled.kernels.compiled._jit import inner

KMEANS, HUBER, LOGISTIC, FAIR = range(4)
SATURATED = 37.0**0.5
"""The distance from which on 1 + exp(-t^2) is 1 in double precision."""


class LossTerms(NamedTuple):
    """A loss: which one, and its parameters."""

    kind: int
    bend: float
    """delta of the Huber loss, c of the fair loss."""
    reach: float
    """Up to this distance the loss is half the square: delta of the Huber loss, all distances for
    k-means, none (-1) for the fair loss. The logistic loss is the square, to the last digit, *from*
    this distance on (`SATURATED`)."""


@inner
def loss_value(loss: LossTerms, squared: float) -> float:
    """The loss at this squared distance."""
    if loss.kind == LOGISTIC:
        return squared + math.log1p(math.exp(-squared))
    t = math.sqrt(squared)
    if loss.kind == FAIR:
        return 2.0 * loss.bend * loss.bend * (t / loss.bend - math.log1p(t / loss.bend))
    near = min(t, loss.bend)  # for k-means, bend is infinite
    return near * (t - 0.5 * near)


@inner
def loss_weight(loss: LossTerms, squared: float) -> float:
    """f'(t) / t at this squared distance."""
    if loss.kind == LOGISTIC:
        return 2.0 / (1.0 + math.exp(-squared))
    t = math.sqrt(squared)
    if loss.kind == FAIR:
        return 2.0 / (1.0 + t / loss.bend)
    return loss.bend / t if t > loss.bend else 1.0
