"""Losses of the distance alone: k-means, Huber, logistic, fair."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit

from unpooled.errors import InputError
from unpooled.losses.base import Loss, Metric
from unpooled.types import FloatArray


class DistanceLoss(Loss):
    """A loss of the distance t = g(x, y) alone, increasing in t.

    A subclass gives ``of_distance``, ``weight`` and ``beta``, the largest curvature of f in x for
    the Euclidean metric.
    """

    beta: ClassVar[float]

    @abstractmethod
    def of_distance(self, t: FloatArray) -> FloatArray:
        """f as a function of t."""

    @abstractmethod
    def weight(self, t: FloatArray) -> FloatArray:
        """f'(t) / t, continued to t = 0."""

    def value(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return self.of_distance(np.sqrt(self.metric.squared(x - y)))

    def gradient(self, x: FloatArray, y: FloatArray) -> FloatArray:
        difference = x - y
        t = np.sqrt(self.metric.squared(difference))
        return self.weight(t)[:, None] * self.metric.apply(difference)

    def smoothness(self, low: FloatArray, high: FloatArray) -> float:
        # With u = A^(1/2) (x - y) the Hessian is A^(1/2) H(u) A^(1/2), and H(u) <= beta.
        return self.beta * self.metric.smoothness

    def dissimilarity(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return self.metric.squared(x - y)

    def under(self, metric: Metric) -> Self:
        bound = copy.copy(self)
        object.__setattr__(bound, "metric", metric)
        return bound


@dataclass(frozen=True)
class SquaredEuclidean(DistanceLoss):
    """k-means: f = t^2 / 2."""

    beta = 1.0

    def of_distance(self, t: FloatArray) -> FloatArray:
        return 0.5 * t * t

    def weight(self, t: FloatArray) -> FloatArray:
        return np.ones_like(t)

    def gradient(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return self.metric.apply(x - y)


@dataclass(frozen=True)
class Huber(DistanceLoss):
    """Quadratic up to ``delta``, linear beyond it: rows far away pull with bounded force.

    Parameters
    ----------
    delta : float, default=1.0
        Where the one goes over into the other.
    """

    delta: float = 1.0
    beta = 1.0

    def __post_init__(self) -> None:
        _refuse_not_positive("Huber", "delta", self.delta)

    def of_distance(self, t: FloatArray) -> FloatArray:
        near = np.minimum(t, self.delta)
        return near * (t - 0.5 * near)

    def weight(self, t: FloatArray) -> FloatArray:
        return self.delta / np.maximum(t, self.delta)


@dataclass(frozen=True)
class Logistic(DistanceLoss):
    """f = log(1 + exp(t^2)): rows far away count up to twice as much as those at the centre."""

    beta = 2.60163893001175  # the maximum that the package's docstring has, found numerically

    def of_distance(self, t: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, t * t)

    def weight(self, t: FloatArray) -> FloatArray:
        return 2.0 * np.asarray(expit(t * t))


@dataclass(frozen=True)
class Fair(DistanceLoss):
    """f = 2 c^2 (t/c - log(1 + t/c)): like Huber without the corner.

    Parameters
    ----------
    c : float, default=1.0
        The distance at which a row pulls half as hard, for its distance, as one at the centre.
    """

    c: float = 1.0
    beta = 2.0

    def __post_init__(self) -> None:
        _refuse_not_positive("Fair", "c", self.c)

    def of_distance(self, t: FloatArray) -> FloatArray:
        return 2.0 * self.c**2 * (t / self.c - np.log1p(t / self.c))

    def weight(self, t: FloatArray) -> FloatArray:
        return 2.0 / (1.0 + t / self.c)


def _refuse_not_positive(loss: str, name: str, value: float) -> None:
    if not isinstance(value, Real) or not 0 < value <= 1e100:
        raise InputError(f"{loss} needs a finite {name} > 0, not {value!r}.")
