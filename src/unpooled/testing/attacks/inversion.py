"""Rows from their random features: nonlinear least squares from many starts at once.

Everybody knows the features z(x). Whoever knows a matrix P with z(x) P = 0 for a party's rows, or
the values h = z(x) M of a single row, has more equations than a row has columns, and solves them by
Levenberg's and Marquardt's method. Starts are drawn where rows plausibly lie.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unpooled.types import FloatArray

Residuals = Callable[[FloatArray], FloatArray]
"""Of points (n, d) the equations that are left, (n, m)."""

_STEPS = 60


def solutions(
    residuals: Residuals, starts: FloatArray, scale: float, tolerance: float
) -> FloatArray:
    """Where descents from these starts end with nothing left of the equations."""
    x = starts.copy()
    damping: FloatArray = np.full(len(x), 1e-2)
    left = residuals(x)
    cost = np.square(left).sum(axis=1)
    for _ in range(_STEPS):
        slopes = _slopes(residuals, x, 1e-5 * scale)
        normal = np.einsum("nim,njm->nij", slopes, slopes)
        gradient = np.einsum("nim,nm->ni", slopes, left)
        size = np.trace(normal, axis1=1, axis2=2) / x.shape[1] + 1e-300
        ridge = (damping * size)[:, None, None] * np.eye(x.shape[1])
        trial = x - np.linalg.solve(normal + ridge, gradient[..., None])[..., 0]
        after = residuals(trial)
        fresh = np.square(after).sum(axis=1)
        better = fresh < cost
        x[better], left[better], cost[better] = trial[better], after[better], fresh[better]
        damping = np.where(better, damping / 5, damping * 4)
    return np.asarray(x[cost <= tolerance])


def _slopes(residuals: Residuals, x: FloatArray, step: float) -> FloatArray:
    """Derivatives by every column, (n, d, m)."""
    parts = []
    for j in range(x.shape[1]):
        shift = np.zeros(x.shape[1])
        shift[j] = step
        parts.append((residuals(x + shift) - residuals(x - shift)) / (2 * step))
    return np.stack(parts, axis=1)
