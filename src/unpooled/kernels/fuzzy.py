"""Fuzzy c-means of one table (Bezdek 1981)."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.kernels.centers import movement
from unpooled.kernels.segments import means_or_keep
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


def fuzzy_c_means(
    rows: FloatArray,
    weights: FloatArray,
    centers: FloatArray,
    fuzzifier: float,
    steps: int,
    tol: float,
) -> tuple[FloatArray, FloatArray]:
    """Alternates u and c_k = Σ w u^m x / Σ w u^m until no centre moves further than ``tol``.

    The centres, and the divisors that belong to them; a centre without any weight stays.
    """
    for _ in range(steps):
        degrees = weights[:, None] * memberships(rows, centers, fuzzifier) ** fuzzifier
        support = degrees.sum(axis=0)
        fresh = means_or_keep(degrees.T @ rows, support, centers)
        moved = movement(centers, fresh)
        centers = fresh
        if moved <= tol:
            break
    return centers, support
