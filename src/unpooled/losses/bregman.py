"""Bregman losses: f(x, y) = psi(y) - psi(x) - <grad psi(x), y - x> for a convex function psi."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import xlogy

from unpooled.kernels.linalg.products import dots, squared_lengths
from unpooled.losses.base import Loss, Mahalanobis
from unpooled.types import BoolArray, FloatArray


@dataclass(frozen=True)
class Bregman(Loss):
    """f(x, y) = psi(y) - psi(x) - <grad psi(x), y - x>, whose best centre is always the mean.

    Parameters
    ----------
    psi : callable
        (n, d) -> (n,), strictly convex.
    grad : callable
        (n, d) -> (n, d), the gradient of psi.
    hvp : callable
        (x, v) -> (n, d), the Hessian of psi at x times v.
    beta : float, callable or None, default=None
        A bound on the curvature of f in x: a number, or a function (low, high) -> number of the box
        that holds rows and centres (``inf`` where there is none), or None where none is known.
    domain : (float, float), default=(-inf, inf)
        Every coordinate of a centre lies strictly between these two; rows may touch them where psi
        is finite.
    name : str, default="This Bregman loss"
        How to call it in a sentence.
    """

    psi: Callable[[FloatArray], FloatArray]
    grad: Callable[[FloatArray], FloatArray]
    hvp: Callable[[FloatArray, FloatArray], FloatArray]
    beta: float | Callable[[FloatArray, FloatArray], float] | None = None
    _: KW_ONLY
    domain: tuple[float, float] = (-np.inf, np.inf)
    name: str = field(default="This Bregman loss", compare=False)
    recipe: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)
    """The classmethod that made this loss, and its arguments; empty for functions of one's own,
    also after ``dataclasses.replace``. Files keep it, as they cannot keep functions."""

    def accepts(self, y: FloatArray) -> BoolArray:
        with np.errstate(all="ignore"):
            return super().accepts(y) & np.isfinite(self.psi(y))

    @property
    def needs_box(self) -> bool:  # type: ignore[override]
        return callable(self.beta)

    def value(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(self.psi(y) - self.psi(x) - dots(self.grad(x), y - x))

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
        made = cls(_half_square, _identity, _second, 1.0, name="Squared Euclidean")
        return made._by("squared_euclidean")

    @classmethod
    def mahalanobis(cls, A: Any) -> Self:
        """psi = x' A x / 2."""
        metric = Mahalanobis(A)
        made = cls(
            partial(_half_form, metric),
            metric.apply,
            partial(_apply_second, metric),
            metric.smoothness,
            name="Mahalanobis",
        )
        return made._by("mahalanobis", metric.A)

    @classmethod
    def itakura_saito(cls) -> Self:
        """psi = -sum log x: f = sum (y/x - log(y/x) - 1) for positive rows, as of power spectra.

        Its curvature in x is (2y - x)/x^3, at most (2 high - low)/low^3 on a box.
        """
        made = cls(
            _is_psi,
            _is_grad,
            _is_hvp,
            _is_beta,
            domain=(0.0, np.inf),
            name="Itakura-Saito",
        )
        return made._by("itakura_saito")

    @classmethod
    def generalised_kl(cls) -> Self:
        """psi = sum x log x - x: f = sum (y log(y/x) - y + x) for counts and intensities.

        Its curvature in x is y/x^2, at most high/low^2 on a box.
        """
        made = cls(
            _kl_psi,
            _kl_grad,
            _kl_hvp,
            _kl_beta,
            domain=(0.0, np.inf),
            name="Generalised KL",
        )
        return made._by("generalised_kl")

    def _by(self, *recipe: Any) -> Self:
        object.__setattr__(self, "recipe", recipe)
        return self


# Named functions, not lambdas, so that estimators which carry a loss can be pickled.


def _identity(x: FloatArray) -> FloatArray:
    return x


def _second(x: FloatArray, v: FloatArray) -> FloatArray:
    return v


def _half_square(x: FloatArray) -> FloatArray:
    return 0.5 * squared_lengths(x)


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
