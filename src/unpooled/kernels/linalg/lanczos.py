"""Eigenpairs of a symmetric matrix that is known only by its products with vectors.

Nothing here multiplies by the matrix: functions return vectors to be multiplied and take the
products, so that whoever has the matrix, in one place or in many, can be asked for them.

**Lanczos.** Orthonormal c_1, c_2, ... with R C_q = C_q T_q + β_q c_{q+1} e_q', T_q tridiagonal.
With T_q = P Σ P', the Ritz vectors C_q P have residuals |R y_i - σ_i y_i| = β_q |P_{qi}|, and
within that distance of σ_i there is an eigenvalue. Every new vector is made orthogonal to *all*
earlier ones, twice: to the last two alone, as the recurrence has it, orthogonality is lost as soon
as a Ritz value converges.

**Block Krylov.** Of an orthonormal V whose products G V are known, the best low-rank approximation
that V and G V allow is Nyström's, G V (V' G V)^-1 V' G (Gittens & Mahoney 2016). It is one
multiplication by G better than that of Rayleigh and Ritz, V (V' G V) V', and takes no product more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from unpooled.kernels.linalg.products import dot, lengths, matmul, matmul_tn, norm
from unpooled.types import BoolArray, FloatArray

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Ritz:
    """Ritz values, the largest first, their coordinates in the basis, and residuals."""

    values: FloatArray
    coordinates: FloatArray
    residuals: FloatArray


class Lanczos:
    """The iteration, from a start that must not be orthogonal to the eigenvectors in question."""

    def __init__(self, start: FloatArray) -> None:
        self._basis = [start / norm(start)]
        self._largest = 0.0
        self._diagonal: list[float] = []
        self._beside: list[float] = []

    @property
    def vector(self) -> FloatArray:
        """What to multiply next."""
        return self._basis[-1]

    @property
    def basis(self) -> FloatArray:
        """The vectors that have been multiplied, as columns."""
        return np.stack(self._basis[: len(self._diagonal)], axis=1)

    @property
    def exhausted(self) -> bool:
        """Whether there is no further vector: the basis spans all that the start can reach."""
        return len(self._basis) == len(self._diagonal)

    def take(self, product: FloatArray) -> None:
        """The product of the matrix and :attr:`vector`."""
        last = self._basis[-1]
        self._diagonal.append(dot(last, product))
        self._largest = max(self._largest, norm(product))
        basis = np.stack(self._basis, axis=1)
        rest = product - matmul(basis, matmul_tn(basis, product))
        rest -= matmul(basis, matmul_tn(basis, rest))
        length = norm(rest)
        self._beside.append(length)
        # Against the largest product, since the last may itself be nothing but rounding.
        if length > len(last) * _EPS * self._largest and len(self._basis) < len(last):
            self._basis.append(rest / length)

    def ritz(self) -> Ritz:
        """What is known of the eigenpairs so far."""
        values, coordinates = eigh_tridiagonal(self._diagonal, self._beside[:-1])
        values, coordinates = values[::-1], coordinates[:, ::-1]
        left = 0.0 if self.exhausted else self._beside[-1]
        return Ritz(values, coordinates, left * np.abs(coordinates[-1]))


def settled(ritz: Ritz, threshold: float, tol: float) -> bool:
    """Whether it seems known which eigenvalues lie above ``threshold``, and what they are.

    There must be one; the residual of each must be within ``tol`` of its value; and the first that
    does not lie above must not be able to, within its own residual.
    """
    above = int((ritz.values > threshold).sum())
    if above == 0 or not found(ritz, above, tol) or above == len(ritz.values):
        return False
    return bool(ritz.values[above] + ritz.residuals[above] <= (1 + tol) * threshold)


def found(ritz: Ritz, count: int, tol: float) -> bool:
    """Whether the ``count`` largest eigenvalues are known, each to within ``tol`` of itself."""
    enough = len(ritz.values) >= count
    return enough and bool((ritz.residuals[:count] <= tol * ritz.values[:count]).all())


def orthonormal(block: FloatArray, against: FloatArray) -> FloatArray:
    """An orthonormal basis of what the block adds to the columns of ``against``, if anything."""
    least = len(block) * _EPS * norm(block)
    for _ in range(2):
        block = block - matmul(against, matmul_tn(against, block))
        block, sizes, _ = np.linalg.svd(block, full_matrices=False)
        block, least = block[:, sizes > least], 0.5  # the second time they are 1 but for rounding
    return block


def nystrom(basis: FloatArray, products: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The ``count`` largest eigenpairs of G V (V' G V)^-1 V' G, from V and G V, largest first.

    With V' G V = L L' the approximation is F F' for F = G V L'^-1, whose singular vectors are the
    eigenvectors. Where V' G V is singular, V contains directions that G maps to nothing.
    """
    inner = matmul_tn(basis, products)
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    kept = above_rounding(values, len(values))
    factor = matmul(products, vectors[:, kept] / np.sqrt(values[kept]))
    left, singular, _ = np.linalg.svd(factor, full_matrices=False)
    return singular[:count] ** 2, left[:, :count]


def ritz_residual(basis: FloatArray, products: FloatArray, count: int) -> float:
    """How far the ``count`` best Ritz vectors are from eigenvectors, from V and G V.

    The largest |G y - θ y| over y = V c, V' G V c = θ c, relative to the largest θ: within that of
    each θ there is an eigenvalue.
    """
    inner = matmul_tn(basis, products)
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    apart = matmul(products, vectors) - matmul(basis, vectors) * values
    return float(lengths(apart.T).max() / values[0])


def above_rounding(values: FloatArray, size: int) -> BoolArray:
    """Which eigenvalues or singular values of a matrix of this size are more than rounding."""
    return np.asarray(values > size * _EPS * values.max(initial=0.0))


def signs(columns: FloatArray) -> FloatArray:
    """±1 for every column, by which its largest entry is positive: a solver's signs are chance."""
    largest = np.take_along_axis(columns, np.abs(columns).argmax(axis=0)[None], axis=0)[0]
    return np.where(largest < 0, -1.0, 1.0)
