"""Losses: the cost f(x, y) of a row y at a centre x.

A :class:`DistanceLoss` is a function of the distance t = g(x, y) under a metric, and its gradient
is ``weight(t) * A (x - y)``. A :class:`Bregman` loss is built from a convex function psi. A loss of
one's own is a subclass of either, or of :class:`Loss` itself.

Every method works on rows: ``x`` and ``y`` are (n, d), one centre per row, and the value of a row
depends on that row alone, bit for bit, so that users may be split over hosts in any way.

==============  ==========================================  ===================  ============
loss            f                                           weight(t)            smoothness
==============  ==========================================  ===================  ============
k-means         t^2 / 2                                     1                    1
Huber(delta)    t^2 / 2, beyond delta: delta t - delta^2/2  min(1, delta / t)    1
logistic        log(1 + exp(t^2))                           2 / (1 + exp(-t^2))  2.6016389...
fair(c)         2 c^2 (t/c - log(1 + t/c))                  2 / (1 + t/c)        2
Bregman         psi(y) - psi(x) - <grad psi(x), y - x>      Hessian psi(x)       given
==============  ==========================================  ===================  ============

Smoothness is the largest curvature in x. For the logistic loss it is the maximum over s = t^2 of 2
sigma(s) + 4 s sigma(s) (1 - sigma(s)), with sigma the logistic function; 2, as sometimes printed,
is too small.
"""

from __future__ import annotations

from typing import Any

from unpooled.errors import InputError
from unpooled.losses.base import Euclidean, Loss, Mahalanobis, Metric
from unpooled.losses.bregman import Bregman
from unpooled.losses.distance import DistanceLoss, Fair, Huber, Logistic, SquaredEuclidean

__all__ = [
    "NAMED",
    "Bregman",
    "DistanceLoss",
    "Euclidean",
    "Fair",
    "Huber",
    "Logistic",
    "Loss",
    "Mahalanobis",
    "Metric",
    "SquaredEuclidean",
    "resolve",
]

NAMED: dict[str, Loss] = {
    "kmeans": SquaredEuclidean(),
    "huber": Huber(),
    "logistic": Logistic(),
    "fair": Fair(),
}


def resolve(loss: Any, metric: Any = "euclidean") -> Loss:
    """The loss that the options ``loss`` and ``metric`` of an estimator mean.

    Parameters
    ----------
    loss : str or Loss
        A name, or an object of this module.
    metric : "euclidean" or Mahalanobis, default="euclidean"
        How distances are measured.

    Returns
    -------
    loss : Loss
        The loss in its metric.
    """
    if isinstance(loss, str) and loss in NAMED:
        loss = NAMED[loss]
    if not isinstance(loss, Loss):
        raise InputError(
            f"loss={loss!r} is not known; give one of {', '.join(map(repr, NAMED))} or an object "
            "of unpooled.losses."
        )
    if isinstance(metric, str) and metric == "euclidean":
        metric = Euclidean()
    if not isinstance(metric, Metric):
        raise InputError(
            f"metric={metric!r} is not known; give 'euclidean' or losses.Mahalanobis(A)."
            if isinstance(metric, str)
            else f"metric is a {type(metric).__name__}; give 'euclidean' or losses.Mahalanobis(A)."
        )
    return loss.under(metric)
