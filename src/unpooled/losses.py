"""What a row pays for its centre: f(x, y) for a centre x and a row y.

A :class:`DistanceLoss` is a function of the distance t = g(x, y) under a metric, and its gradient
is ``weight(t) * A (x - y)``. A :class:`Bregman` loss is built from a convex function psi. A loss
of one's own is a subclass of either, or of :class:`Loss` itself.

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

Smoothness is the largest curvature in x. For the logistic loss it is the maximum over s = t^2 of
2 sigma(s) + 4 s sigma(s) (1 - sigma(s)), with sigma the logistic function; 2, as sometimes
printed, is too small.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, xlogy

from unpooled.errors import InputError
from unpooled.types import BoolArray, FloatArray


class Metric:
    """Squared distance (x - y)' A (x - y) for a symmetric positive definite A."""

    smoothness: float
    """The largest eigenvalue of A."""

    def apply(self, difference: FloatArray) -> FloatArray:
        """A (x - y) for every row."""
        raise NotImplementedError

    def squared(self, difference: FloatArray) -> FloatArray:
        """(x - y)' A (x - y) for every row."""
        return np.asarray(np.vecdot(difference, self.apply(difference)))

    def check_width(self, n_features: int) -> None:
        """Refuses rows of a width the metric is not made for."""


class Euclidean(Metric):
    """The ordinary distance: A is the identity."""

    smoothness = 1.0

    def apply(self, difference: FloatArray) -> FloatArray:
        return difference


class Mahalanobis(Metric):
    """Squared distance (x - y)' A (x - y) for a symmetric positive definite A."""

    def __init__(self, A: Any) -> None:
        matrix = np.array(A, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"Mahalanobis needs a square matrix, not one of shape {matrix.shape}.")
        if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-10):
            raise InputError("Mahalanobis needs a symmetric matrix of finite numbers.")
        spectrum = np.linalg.eigvalsh(matrix)
        if spectrum[0] <= 0:
            raise InputError(
                "Mahalanobis needs a positive definite matrix, but its smallest eigenvalue is "
                f"{spectrum[0]:.3g}; add a multiple of the identity."
            )
        self.A = matrix
        self.smoothness = float(spectrum[-1])

    def __repr__(self) -> str:
        return f"Mahalanobis({self.A.shape[0]}x{self.A.shape[1]})"

    def check_width(self, n_features: int) -> None:
        if len(self.A) != n_features:
            raise InputError(
                f"The Mahalanobis matrix is {len(self.A)}x{len(self.A)} but rows have "
                f"{n_features} columns."
            )

    def apply(self, difference: FloatArray) -> FloatArray:
        # One matrix-vector product per row: a product of whole matrices would round a row
        # differently depending on the rows beside it.
        return np.asarray(np.matvec(self.A, difference))


class Loss(ABC):
    """A loss f(x, y), coercive in x and smooth where centres can get to."""

    domain: tuple[float, float] = (-np.inf, np.inf)
    """Every coordinate of a centre lies strictly between these."""

    needs_box: bool = False
    """Whether ``smoothness`` looks at the box that holds all rows."""

    @abstractmethod
    def value(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """f(x, y) for every row."""

    @abstractmethod
    def gradient(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The gradient of f in x for every row."""

    @abstractmethod
    def smoothness(self, low: FloatArray, high: FloatArray) -> float:
        """A bound on the curvature in x while rows and centres stay in the box [low, high]."""

    def dissimilarity(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """What assignment minimises: any function that orders centres as ``value`` does."""
        return self.value(x, y)

    def under(self, metric: Metric) -> Self:
        """This loss measured in ``metric``."""
        if not isinstance(metric, Euclidean):
            raise InputError(
                f"{type(self).__name__} has its own geometry and takes no metric; "
                'leave metric="euclidean".'
            )
        return self

    def accepts(self, y: FloatArray) -> BoolArray:
        """Which rows the loss is defined for: those in the closure of the domain."""
        low, high = self.domain
        return np.asarray(((y >= low) & (y <= high)).all(axis=-1))

    def inside(self, x: FloatArray) -> BoolArray:
        """Which vectors (along the last axis) lie in the domain."""
        low, high = self.domain
        return np.asarray(((x > low) & (x < high)).all(axis=-1))


class DistanceLoss(Loss):
    """A loss of the distance t = g(x, y) alone, increasing in t.

    A subclass gives ``of_distance``, ``weight`` and ``beta``, the largest curvature of f in x
    for the Euclidean metric.
    """

    beta: ClassVar[float]
    metric: Metric = Euclidean()

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
    """Quadratic up to ``delta``, linear beyond it: rows far away pull with bounded force."""

    delta: float = 1.0
    beta = 1.0

    def __post_init__(self) -> None:
        _positive("Huber", "delta", self.delta)

    def of_distance(self, t: FloatArray) -> FloatArray:
        near = np.minimum(t, self.delta)
        return near * (t - 0.5 * near)

    def weight(self, t: FloatArray) -> FloatArray:
        return self.delta / np.maximum(t, self.delta)


@dataclass(frozen=True)
class Logistic(DistanceLoss):
    """f = log(1 + exp(t^2)): rows far away count up to twice as much as those at the centre."""

    beta = 2.60163893001175

    def of_distance(self, t: FloatArray) -> FloatArray:
        return np.logaddexp(0.0, t * t)

    def weight(self, t: FloatArray) -> FloatArray:
        return 2.0 * np.asarray(expit(t * t))


@dataclass(frozen=True)
class Fair(DistanceLoss):
    """f = 2 c^2 (t/c - log(1 + t/c)): like Huber without the corner."""

    c: float = 1.0
    beta = 2.0

    def __post_init__(self) -> None:
        _positive("Fair", "c", self.c)

    def of_distance(self, t: FloatArray) -> FloatArray:
        return 2.0 * self.c**2 * (t / self.c - np.log1p(t / self.c))

    def weight(self, t: FloatArray) -> FloatArray:
        return 2.0 / (1.0 + t / self.c)


@dataclass(frozen=True)
class Bregman(Loss):
    """f(x, y) = psi(y) - psi(x) - <grad psi(x), y - x>, whose best centre is always the mean.

    Parameters
    ----------
    psi : (n, d) -> (n,), strictly convex
    grad : (n, d) -> (n, d), the gradient of psi
    hvp : (x, v) -> (n, d), the Hessian of psi at x times v
    beta : a bound on the curvature of f in x: a number, or a function (low, high) -> number of the
        box that holds rows and centres (``inf`` where there is none), or None where none is known
    domain : every coordinate of a centre lies strictly between these two; rows may touch them
        where psi is finite
    """

    psi: Callable[[FloatArray], FloatArray]
    grad: Callable[[FloatArray], FloatArray]
    hvp: Callable[[FloatArray, FloatArray], FloatArray]
    beta: float | Callable[[FloatArray, FloatArray], float] | None = None
    _: KW_ONLY
    domain: tuple[float, float] = (-np.inf, np.inf)
    name: str = field(default="This Bregman loss", compare=False)

    def accepts(self, y: FloatArray) -> BoolArray:
        with np.errstate(all="ignore"):
            return super().accepts(y) & np.isfinite(self.psi(y))

    @property
    def needs_box(self) -> bool:  # type: ignore[override]
        return callable(self.beta)

    def value(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(self.psi(y) - self.psi(x) - np.vecdot(self.grad(x), y - x))

    def gradient(self, x: FloatArray, y: FloatArray) -> FloatArray:
        # grad_x f = -grad psi + grad psi + Hessian psi(x) (x - y)
        return self.hvp(x, x - y)

    def smoothness(self, low: FloatArray, high: FloatArray) -> float:
        if self.beta is None:
            return np.inf
        return float(self.beta(low, high) if callable(self.beta) else self.beta)

    @classmethod
    def squared_euclidean(cls) -> Self:
        """psi = |x|^2 / 2, which gives k-means."""
        return cls(_half_square, _identity, _second, 1.0, name="Squared Euclidean")

    @classmethod
    def mahalanobis(cls, A: Any) -> Self:
        """psi = x' A x / 2."""
        metric = Mahalanobis(A)
        return cls(
            partial(_half_form, metric),
            metric.apply,
            partial(_apply_second, metric),
            metric.smoothness,
            name="Mahalanobis",
        )

    @classmethod
    def itakura_saito(cls) -> Self:
        """psi = -sum log x: f = sum (y/x - log(y/x) - 1) for positive rows, as of power spectra.

        Its curvature in x is (2y - x)/x^3, at most (2 high - low)/low^3 on a box.
        """
        return cls(
            _is_psi,
            _is_grad,
            _is_hvp,
            _is_beta,
            domain=(0.0, np.inf),
            name="Itakura-Saito",
        )

    @classmethod
    def generalised_kl(cls) -> Self:
        """psi = sum x log x - x: f = sum (y log(y/x) - y + x) for counts and intensities.

        Its curvature in x is y/x^2, at most high/low^2 on a box.
        """
        return cls(
            _kl_psi,
            _kl_grad,
            _kl_hvp,
            _kl_beta,
            domain=(0.0, np.inf),
            name="Generalised KL",
        )


# Named functions, not lambdas, so that estimators which carry a loss can be pickled.


def _identity(x: FloatArray) -> FloatArray:
    return x


def _second(x: FloatArray, v: FloatArray) -> FloatArray:
    return v


def _half_square(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * np.vecdot(x, x))


def _half_form(metric: Mahalanobis, x: FloatArray) -> FloatArray:
    return 0.5 * metric.squared(x)


def _apply_second(metric: Mahalanobis, x: FloatArray, v: FloatArray) -> FloatArray:
    return metric.apply(v)


def _is_psi(x: FloatArray) -> FloatArray:
    return np.asarray(-np.log(x).sum(axis=-1))


def _is_grad(x: FloatArray) -> FloatArray:
    return -1.0 / x


def _is_hvp(x: FloatArray, v: FloatArray) -> FloatArray:
    return v / (x * x)


def _is_beta(low: FloatArray, high: FloatArray) -> float:
    return float(((2.0 * high - low) / low**3).max()) if (low > 0).all() else np.inf


def _kl_psi(x: FloatArray) -> FloatArray:
    return np.asarray((xlogy(x, x) - x).sum(axis=-1))


def _kl_grad(x: FloatArray) -> FloatArray:
    return np.log(x)


def _kl_hvp(x: FloatArray, v: FloatArray) -> FloatArray:
    return v / x


def _kl_beta(low: FloatArray, high: FloatArray) -> float:
    return float((high / low**2).max()) if (low > 0).all() else np.inf


def _positive(loss: str, name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"{loss} needs a finite {name} > 0, not {value!r}.")


NAMED: dict[str, Loss] = {
    "kmeans": SquaredEuclidean(),
    "huber": Huber(),
    "logistic": Logistic(),
    "fair": Fair(),
}


def resolve(loss: Any, metric: Any = "euclidean") -> Loss:
    """The loss that the options ``loss`` and ``metric`` of an estimator mean."""
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
        )
    return loss.under(metric)
