"""Landmarks: some rows Y, and the kernel k(x, Y) of every row with them.

With φ the kernel's own features, k(x, y) = φ(x) · φ(y), all that is used of φ(x) is k(x, Y). It is
computed exactly and a chunk of rows at a time, so that no more of k(X, Y) is in memory at once than
is asked for.

**The span of φ(Y)** (:class:`Span`). With K = k(Y, Y) and R = K^{-½}, φ(Y) R is an orthonormal
basis of the span, since R' φ(Y)' φ(Y) R = R' K R is the identity. In it a row has the coordinates
π(x) = R' k(Y, x), of squared length |π(x)|² = k(x, Y) K^+ k(Y, x), and the rest of φ(x), which is
orthogonal to the span, has the squared length k(x, x) - |π(x)|².

**A sketch** (:class:`CountSketch`; Clarkson & Woodruff 2013) adds up n rows of weights w in p
places: T (n, p) has in row i one entry, w_i^½ s_i in column c_i, with a random sign s_i and a
random c_i. So (T T')_ij = (w_i w_j)^½ s_i s_j where c_i = c_j, and

    E[T T'] = diag(w),    E |A T T' A' - A diag(w) A'|² <= (2 / p) |A diag(w)^½|⁴

for any A with a column for every row, in the Frobenius norm: only pairs i ≠ j are off, each with
probability 1 / p. Where no two rows share a column, nothing is off.

**Leverage** (:func:`whitening`). Of embedded rows e(x), the columns of E, w e(x)' (E diag(w) E')^+
e(x) is the leverage score: how much of some direction is in that row alone. The scores add up to
the rank. With a sketch E T = B Σ A' and F = Σ^+ B', the score is near w |F e(x)|², since
F' F = (B Σ² B')^+ = (E T T' E')^+.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt

import numpy as np

from unpooled.errors import InputError
from unpooled.kernels.linalg.features import SHIFT_INVARIANT, exact
from unpooled.kernels.linalg.lanczos import above_rounding
from unpooled.kernels.linalg.products import matmul_by_rows, matmul_nt, norm, squared_lengths
from unpooled.kernels.linalg.segments import sums_by_label
from unpooled.parallel import add_in_chunks, in_chunks
from unpooled.types import FloatArray, IntArray

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Span:
    """The span of φ(y) over some points y; rows may be any."""

    kernel: str
    gamma: float
    points: FloatArray

    def similarities(self, rows: FloatArray) -> FloatArray:
        """k(x, Y) for every row."""
        return self._for_each(rows, (len(self.points),), lambda values: values)

    def onto(self, rows: FloatArray, map_: FloatArray) -> FloatArray:
        """k(x, Y) M for every row."""
        return self._for_each(rows, map_.shape[1:], lambda values: matmul_by_rows(values, map_))

    def sketched(self, rows: FloatArray, sketch: CountSketch) -> FloatArray:
        """T' k(X, Y), (p, |Y|)."""
        total = np.zeros((sketch.width, len(self.points)))

        def part(span: slice) -> FloatArray:
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
                return sketch.of(self._values(rows[span]), span)

        add_in_chunks(total, part, self._shape(rows))
        return refuse_overflow(total, self.kernel, self.gamma)

    @cached_property
    def root(self) -> FloatArray:
        """R, for which φ(Y) R is an orthonormal basis of the span, with zeros beyond its rank.

        It is D (D K D)^{-½}, with K = k(Y, Y) and D = diag(K)^-½: the points brought to length 1,
        since a short one would be lost in the rounding of long ones. The root is the symmetric one,
        and so the same for everybody, whatever signs a solver gives eigenvectors.
        """
        scale = 1 / np.sqrt(self._lengths(self.points))
        gram = scale[:, None] * self.similarities(self.points) * scale
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        kept = above_rounding(values, len(values))
        root = matmul_nt(vectors[:, kept] / np.sqrt(values[kept]), vectors[:, kept])
        return np.asarray(scale[:, None] * root)

    def residuals(self, rows: FloatArray) -> FloatArray:
        """k(x, x) - |π(x)|² for every row; exactly 0 where half its digits are lost.

        For a row in the span all are lost, and rows must not be drawn by rounding errors.
        """
        own, root = self._lengths(rows), self.root
        inside = self._for_each(
            rows, (), lambda values: squared_lengths(matmul_by_rows(values, root))
        )
        beyond = own - inside
        return np.where(beyond > sqrt(_EPS) * own, beyond, 0.0)

    def _for_each(
        self, rows: FloatArray, shape: tuple[int, ...], finish: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """What becomes of k(x, Y), an array of this shape for every row."""
        out = np.empty((len(rows), *shape))

        def fill(span: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
                out[span] = finish(self._values(rows[span]))

        in_chunks(fill, self._shape(rows))
        return refuse_overflow(out, self.kernel, self.gamma)

    def _values(self, rows: FloatArray) -> FloatArray:
        return exact(self.kernel, self.gamma, rows, self.points)

    def _shape(self, rows: FloatArray) -> tuple[int, int]:
        return len(rows), len(self.points)

    def _lengths(self, rows: FloatArray) -> FloatArray:
        """k(x, x) for every row."""
        if self.kernel in SHIFT_INVARIANT:
            return np.ones(len(rows))
        # Of x and y a dot-product kernel sees x·y alone, and |x|² · 1 is as good.
        with np.errstate(over="ignore", invalid="ignore"):
            squared = squared_lengths(rows)[:, None]
            own = exact(self.kernel, self.gamma, squared, np.ones((1, 1)))[:, 0]
        return refuse_overflow(own, self.kernel, self.gamma)


@dataclass(frozen=True)
class CountSketch:
    """T: the column that each row is added to, and the factor it is multiplied by."""

    width: int
    columns: IntArray
    factors: FloatArray

    @classmethod
    def drawn(cls, weights: FloatArray, width: int, rng: np.random.Generator) -> CountSketch:
        """One for rows of these weights."""
        columns = rng.integers(width, size=len(weights))
        return cls(width, columns, np.sqrt(weights) * rng.choice([-1.0, 1.0], len(weights)))

    def of(self, values: FloatArray, places: slice) -> FloatArray:
        """T' V for the values (m, c) of the rows at these places, (p, c)."""
        return sums_by_label(values, self.factors[places], self.columns[places], self.width)[0]


def whitening(sketches: FloatArray) -> FloatArray:
    """F = Σ^+ B', without zeros, of the sketch B Σ A', whose columns are rows of ``sketches``."""
    singular, right = leading(sketches)
    return np.asarray(right / singular[:, None])


def leading(matrix: FloatArray, count: int | None = None) -> tuple[FloatArray, FloatArray]:
    """The ``count`` largest singular values, or all, and their right vectors as rows.

    Those that are nothing but rounding are left out.
    """
    _, singular, right = np.linalg.svd(matrix, full_matrices=False)
    kept = np.flatnonzero(above_rounding(singular, max(matrix.shape)))[:count]
    return singular[kept], right[kept]


def refuse_overflow(values: FloatArray, kernel: str, gamma: float) -> FloatArray:
    """The values, unless the kernel or what was made of it is too large for a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = norm(values)
    if not isfinite(size):
        raise InputError(
            f"The {kernel} kernel of gamma={gamma:g} overflows on these rows; give a smaller gamma "
            "or scale the rows."
        )
    return values
