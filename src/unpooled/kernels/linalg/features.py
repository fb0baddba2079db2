"""Random features of a kernel: z(x) in R^D with E[z(x) · z(y)] = k(x, y), drawn from a seed.

**Fourier features** (Rahimi & Recht 2008) for kernels of x - y, which are Fourier transforms of a
density p: with frequencies ω ~ p,

- ``cos-sin``: (2/D)^½ [cos ω·x, sin ω·x] for D/2 frequencies,
- ``phase``: (2/D)^½ cos(ω·x + b) for D frequencies, b uniform on [0, 2π).

The former has z(x) · z(x) = 1 exactly and less variance (Sutherland & Schneider 2015).

    gaussian    exp(-γ |x - y|²)                  ω_j normal, variance 2γ
    laplacian   exp(-γ Σ_j |x_j - y_j|)           ω_j Cauchy, scale γ
    cauchy      Π_j 1 / (1 + γ (x_j - y_j)²)      ω_j Laplace, scale γ^½

**How frequencies are drawn**, for the Gaussian kernel; for the other two kernels each coordinate is
mapped to its distribution, quantile to quantile. In all three cases every single frequency has the
right distribution, so estimates are unbiased.

- ``independent`` of each other.
- ``orthogonal`` (Yu et al. 2016): the directions of up to d frequencies are the columns of a random
  orthogonal matrix and their lengths are χ with d degrees of freedom, so that no two have nearly
  the same direction. The variance falls, most where D is near d; least for the Laplacian kernel,
  whose frequencies have heavy tails.
- ``sobol`` (Avron et al. 2016): a scrambled Sobol sequence, which leaves no gaps. With few columns
  its error falls nearly as 1/D, the others' as 1/D^½: at d = 2 and D = 512 it is an eighth of the
  orthogonal one, from about d = 8 on it is no less.

**Random Maclaurin features** (Kar & Karnick 2012) for dot-product kernels Σ_n a_n (x·y)^n: a degree
N is drawn with probability q_n, then N vectors of signs, and the feature is
(a_N / q_N)^½ Π_j ω_j·x / D^½.

    polynomial   (γ x·y + 1)³      exponential   exp(γ x·y)

**Blocks.** Features are made ``BLOCK`` at a time, each block from a generator of its own, and rows
a chunk at a time, so that what is in memory at once is bounded whatever D and n are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, comb, factorial, sqrt

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtr, ndtri
from scipy.stats.qmc import Sobol

from unpooled.kernels.linalg.products import gram, matmul_by_rows, matmul_tn
from unpooled.parallel import add_in_chunks, in_chunks
from unpooled.types import FloatArray, Rows

SHIFT_INVARIANT = ("gaussian", "laplacian", "cauchy")
DOT_PRODUCT = ("polynomial", "exponential")
KERNELS = (*SHIFT_INVARIANT, *DOT_PRODUCT)
FORMS = ("cos-sin", "phase")
FREQUENCIES = ("orthogonal", "independent", "sobol")
BLOCK = 1024
_DEGREE = 3


@dataclass(frozen=True)
class Features:
    """``n_features`` random features of a kernel: for one seed and ``draw`` always the same."""

    kernel: str
    gamma: float
    n_features: int
    seed: int
    draw: int = 0
    frequencies: str = "orthogonal"
    form: str = "cos-sin"

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS or self.n_features % self._per_frequency:
            raise ValueError(f"There are no {self.n_features} features of a {self.kernel} kernel.")

    @property
    def _fourier(self) -> bool:
        return self.kernel in SHIFT_INVARIANT

    @property
    def _per_frequency(self) -> int:
        return 2 if self._fourier and self.form == "cos-sin" else 1

    def blocks(self, n_columns: int) -> Iterator[tuple[slice, FeatureBlock]]:
        """The features, block by block: their places among all, and the block."""
        count = self.n_features // self._per_frequency
        for number, start in enumerate(range(0, count, BLOCK)):
            width = min(BLOCK, count - start)
            rng = np.random.default_rng([self.seed, self.draw, number])
            places = slice(start * self._per_frequency, (start + width) * self._per_frequency)
            yield places, self._block(n_columns, width, rng)

    def _block(self, n_columns: int, width: int, rng: np.random.Generator) -> FeatureBlock:
        if not self._fourier:
            return _maclaurin(self.kernel, self.gamma, n_columns, width, self.n_features, rng)
        normal = _NORMAL[self.frequencies](n_columns, width, rng)
        frequencies = _mapped(self.kernel, self.gamma, normal)
        phases = rng.uniform(0, 2 * np.pi, width) if self.form == "phase" else None
        return Fourier(frequencies, phases, sqrt(2 / self.n_features))

    def transform(self, rows: Rows) -> FloatArray:
        """z(x) for every row, (n, D)."""
        out = np.empty((len(rows), self.n_features))
        for places, block in self.blocks(rows.shape[1]):

            def fill(span: slice, places: slice = places, block: FeatureBlock = block) -> None:
                block.into(rows[span], out[span, places])

            in_chunks(fill, (len(rows), rows.shape[1] + places.stop - places.start))
        return out

    def project(self, rows: Rows, onto: FloatArray) -> FloatArray:
        """z(x) · onto for every row, (n, s), without ever holding all features."""
        out = np.zeros((len(rows), onto.shape[1]))
        for places, block in self.blocks(rows.shape[1]):
            width = places.stop - places.start

            def add(
                span: slice, places: slice = places, block: FeatureBlock = block, width: int = width
            ) -> None:
                part = np.empty((span.stop - span.start, width))
                block.into(rows[span], part)
                out[span] += matmul_by_rows(part, onto[places])

            in_chunks(add, (len(rows), rows.shape[1] + width))
        return out

    def gram(
        self,
        rows: Rows,
        weights: FloatArray,
        beside: FloatArray | None = None,
        scale: float = 1.0,
    ) -> FloatArray:
        """Σ w y y' for y = (scale z(x), the row of ``beside``); (D, D) if nothing is beside."""
        blocks = list(self.blocks(rows.shape[1]))
        extra = 0 if beside is None else beside.shape[1]
        width = self.n_features + extra

        def part(span: slice) -> FloatArray:
            y = np.empty((span.stop - span.start, width))
            for places, block in blocks:
                block.into(rows[span], y[:, places])
            if scale != 1.0:
                y[:, : self.n_features] *= scale
            if beside is not None:
                y[:, self.n_features :] = beside[span]
            y *= np.sqrt(weights[span])[:, None]
            return gram(y)

        total = np.zeros((width, width))
        add_in_chunks(total, part, (len(rows), rows.shape[1] + width))
        return total

    def pulled_back(self, rows: Rows, scores: FloatArray) -> FloatArray:
        """Σ z(x) scores(x)', (D, b)."""
        out = np.zeros((self.n_features, scores.shape[1]))
        for places, block in self.blocks(rows.shape[1]):
            width = places.stop - places.start

            def part(span: slice, block: FeatureBlock = block, width: int = width) -> FloatArray:
                z = np.empty((span.stop - span.start, width))
                block.into(rows[span], z)
                return matmul_tn(z, scores[span])

            add_in_chunks(out[places], part, (len(rows), rows.shape[1] + width))
        return out


@dataclass(frozen=True)
class Fourier:
    """A block of Fourier features: cosines and sines, or with phases cosines alone."""

    frequencies: FloatArray
    phases: FloatArray | None
    scale: float

    def into(self, rows: FloatArray, out: FloatArray) -> None:
        """Writes the features of the rows."""
        angles = matmul_by_rows(rows, self.frequencies)
        if self.phases is not None:
            angles += self.phases
            np.cos(angles, out=angles)
            np.multiply(angles, self.scale, out=out)
            return
        half = angles.shape[1]
        np.cos(angles, out=out[:, :half])
        np.sin(angles, out=out[:, half:])
        out *= self.scale


@dataclass(frozen=True)
class Maclaurin:
    """A block of random Maclaurin features, those of the highest degrees first.

    ``signs[j]`` are the vectors of the features that have more than j factors.
    """

    scales: FloatArray
    signs: tuple[FloatArray, ...]

    def into(self, rows: FloatArray, out: FloatArray) -> None:
        """Writes the features of the rows."""
        out[:] = self.scales
        for signs in self.signs:
            out[:, : signs.shape[1]] *= matmul_by_rows(rows, signs)


FeatureBlock = Fourier | Maclaurin


def exact(kernel: str, gamma: float, rows: FloatArray, others: FloatArray) -> FloatArray:
    """k(x, y) itself for all pairs."""
    if kernel == "gaussian":
        return np.asarray(np.exp(-gamma * cdist(rows, others, "sqeuclidean")))
    if kernel == "laplacian":
        return np.asarray(np.exp(-gamma * cdist(rows, others, "cityblock")))
    if kernel == "cauchy":
        product = np.ones((len(rows), len(others)))
        for own, other in zip(rows.T, others.T, strict=True):
            product *= 1 + gamma * np.square(np.subtract.outer(own, other))
        return np.asarray(1 / product)
    products = gamma * matmul_by_rows(rows, others.T)
    return np.asarray((products + 1) ** _DEGREE if kernel == "polynomial" else np.exp(products))


def _independent(n_columns: int, width: int, rng: np.random.Generator) -> FloatArray:
    return rng.normal(size=(n_columns, width))


def _orthogonal(n_columns: int, width: int, rng: np.random.Generator) -> FloatArray:
    """Normal vectors (d, width) of which each set of d is orthogonal."""
    size = min(n_columns, width)
    sets = ceil(width / size)
    directions = np.linalg.qr(rng.normal(size=(sets, n_columns, size)))[0]
    # The sign of a column is what QR makes it; a random one makes directions uniform.
    directions *= rng.choice([-1.0, 1.0], size=(sets, 1, size))
    joined = np.moveaxis(directions, 1, 0).reshape(n_columns, sets * size)[:, :width]
    return np.asarray(joined * np.sqrt(rng.chisquare(n_columns, width)))


def _sobol(n_columns: int, width: int, rng: np.random.Generator) -> FloatArray:
    """Normal vectors (d, width) from the first points of a scrambled Sobol sequence."""
    points = Sobol(n_columns, rng=rng).random_base2((width - 1).bit_length())[:width]
    # A point may lie on the edge, whose normal is infinite: so into the middle of its cell.
    return np.asarray(ndtri(points + 2.0**-31)).T


_NORMAL = {"independent": _independent, "orthogonal": _orthogonal, "sobol": _sobol}


def _mapped(kernel: str, gamma: float, normal: FloatArray) -> FloatArray:
    """Standard normal coordinates as coordinates of the kernel's frequencies."""
    if kernel == "gaussian":
        return np.asarray(sqrt(2 * gamma) * normal)
    lower = ndtr(-np.abs(normal))  # the nearer tail, where no digit is lost
    if kernel == "laplacian":
        return np.asarray(np.copysign(gamma / np.tan(np.pi * lower), normal))
    return np.asarray(np.copysign(-sqrt(gamma) * np.log(2 * lower), normal))


def _maclaurin(
    kernel: str,
    gamma: float,
    n_columns: int,
    width: int,
    n_features: int,
    rng: np.random.Generator,
) -> Maclaurin:
    """Degrees are geometric, q_n = 2^-(n+1), for a polynomial as far as it goes."""
    degrees = rng.geometric(0.5, width) - 1
    total = 1.0
    if kernel == "polynomial":
        total = 1 - 0.5 ** (_DEGREE + 1)
        while (too_high := degrees > _DEGREE).any():
            degrees[too_high] = rng.geometric(0.5, int(too_high.sum())) - 1
    degrees = np.sort(degrees)[::-1]
    coefficients = [
        (comb(_DEGREE, n) if kernel == "polynomial" else 1 / factorial(n)) * gamma**n
        for n in range(int(degrees[0]) + 1)
    ]
    chances = 0.5 ** (degrees + 1) / total
    scales = np.sqrt(np.array(coefficients)[degrees] / chances / n_features)
    signs = [
        rng.choice([-1.0, 1.0], size=(n_columns, int((degrees > j).sum())))
        for j in range(int(degrees[0]))
    ]
    return Maclaurin(scales, tuple(signs))
