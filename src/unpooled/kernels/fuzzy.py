"""Fuzzy c-means of one table (Bezdek 1981)."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.types import FloatArray


def memberships(rows: FloatArray, centers: FloatArray, fuzzifier: float) -> FloatArray:
    """u_rk = 1 / Σ_j (|x_r - c_k|² / |x_r - c_j|²)^(1 / (m - 1)), (rows, centres).

    A row that lies on centres belongs to these alone, to each of them alike.
    """
    squared = cdist(rows, centers, "sqeuclidean")
    nearest = squared.min(axis=1, keepdims=True)
    at_center = squared == 0
    # Relative to the nearest centre: no power of a distance overflows.
    with np.errstate(divide="ignore", invalid="ignore"):
        closeness = (nearest / squared) ** (1.0 / (fuzzifier - 1.0))
    closeness = np.where(nearest > 0, closeness, at_center)
    return np.asarray(closeness / closeness.sum(axis=1, keepdims=True))


def weighted_means(
    rows: FloatArray, degrees: FloatArray, centers: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σ_r g_rk x_r / Σ_r g_rk for each k, and the divisor; a centre without any weight stays."""
    support = degrees.sum(axis=0)
    filled = support > 0
    means = (degrees.T @ rows) / np.where(filled, support, 1.0)[:, None]
    return np.where(filled[:, None], means, centers), support


def fuzzy_c_means(
    rows: FloatArray,
    weights: FloatArray,
    centers: FloatArray,
    fuzzifier: float,
    steps: int,
    tol: float,
) -> tuple[FloatArray, FloatArray]:
    """Alternates the two until no centre moves further than ``tol``; the degrees w u^m behind."""
    for _ in range(steps):
        degrees = weights[:, None] * memberships(rows, centers, fuzzifier) ** fuzzifier
        fresh, _ = weighted_means(rows, degrees, centers)
        movement = np.sqrt(np.square(fresh - centers).sum(axis=1).max(initial=0.0))
        centers = fresh
        if movement <= tol:
            break
    return centers, degrees
