"""The interfaces of metrics and losses, and the two metrics there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from unpooled.errors import InputError
from unpooled.kernels.linalg.products import dots, matvecs
from unpooled.types import BoolArray, FloatArray, in_c_order


class Metric:
    """Squared distance (x - y)' A (x - y) for a symmetric positive definite A."""

    smoothness: float
    """The largest eigenvalue of A."""

    def apply(self, difference: FloatArray) -> FloatArray:
        """A (x - y) for every row."""
        raise NotImplementedError

    def squared(self, difference: FloatArray) -> FloatArray:
        """(x - y)' A (x - y) for every row."""
        return dots(difference, self.apply(difference))

    def flattened(self, rows: FloatArray) -> FloatArray:
        """The rows in coordinates in which this is the ordinary distance.

        Of the difference of a centre and a row in these coordinates, :meth:`unflattened` makes A (x
        - y).
        """
        raise NotImplementedError

    def unflattened(self, difference: FloatArray) -> FloatArray:
        """A (x - y), from ``flattened(x) - flattened(y)``."""
        raise NotImplementedError

    def check_width(self, n_features: int) -> None:
        """Refuses rows of a width the metric is not made for."""


class Euclidean(Metric):
    """The ordinary distance: A is the identity."""

    smoothness = 1.0

    def apply(self, difference: FloatArray) -> FloatArray:
        return difference

    def flattened(self, rows: FloatArray) -> FloatArray:
        return rows

    def unflattened(self, difference: FloatArray) -> FloatArray:
        return difference


class Mahalanobis(Metric):
    """Squared distance (x - y)' A (x - y) for a symmetric positive definite A.

    Parameters
    ----------
    A : array of shape (d, d)
        The matrix.
    """

    def __init__(self, A: Any) -> None:
        try:
            matrix = np.array(A, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            raise InputError("Mahalanobis needs a matrix of numbers.") from None
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise InputError(f"Mahalanobis needs a square matrix, not one of shape {matrix.shape}.")
        slack = 1e-10 * np.abs(matrix).max()
        if not np.isfinite(matrix).all() or np.abs(matrix - matrix.T).max() > slack:
            raise InputError("Mahalanobis needs a symmetric matrix of finite numbers.")
        spectrum = np.linalg.eigvalsh(matrix)
        if spectrum[0] <= 0:
            raise InputError(
                "Mahalanobis needs a positive definite matrix, but its smallest eigenvalue is "
                f"{spectrum[0]:.3g}; add a multiple of the identity."
            )
        self.A = matrix
        self._half: FloatArray = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        self._half_t = in_c_order(self._half.T)
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
        return matvecs(self.A, difference)

    def flattened(self, rows: FloatArray) -> FloatArray:
        # With A = C C', (x - y)' A (x - y) = |C'x - C'y|².
        return matvecs(self._half_t, rows)

    def unflattened(self, difference: FloatArray) -> FloatArray:
        return matvecs(self._half, difference)


class Loss(ABC):
    """A loss f(x, y), coercive in x and smooth where centres can get to."""

    domain: tuple[float, float] = (-np.inf, np.inf)
    """Every coordinate of a centre lies strictly between these."""

    needs_box: bool = False
    """Whether ``smoothness`` looks at the box that holds all rows."""

    metric: Metric = Euclidean()
    """How distances are measured; a loss with a geometry of its own leaves it alone."""

    @property
    def name(self) -> str:
        """How to call the loss in a sentence."""
        return type(self).__name__

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
        if self.domain == (-np.inf, np.inf):
            return np.asarray(np.isfinite(x).all(axis=-1))
        low, high = self.domain
        return np.asarray(((x > low) & (x < high)).all(axis=-1))
