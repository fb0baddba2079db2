"""Fuzzy c-means of one table (Bezdek 1981)."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.kernels.assignment.centers import movement
from unpooled.kernels.linalg.products import dot, matmul
from unpooled.kernels.linalg.segments import means_or_keep
from unpooled.parallel import in_chunks
from unpooled.types import FloatArray


def memberships(rows: FloatArray, centers: FloatArray, fuzzifier: float) -> FloatArray:
    """u_rk = 1 / Σ_j (|x_r - c_k|² / |x_r - c_j|²)^(1 / (m - 1)), (rows, centres).

    A row that lies on centres belongs to these alone, to each of them alike.
    """
    closeness, _ = _closeness(rows, centers, fuzzifier)
    closeness /= closeness.sum(axis=0)
    return np.ascontiguousarray(closeness.T)


def fuzzy_c_means(
    rows: FloatArray,
    weights: FloatArray,
    centers: FloatArray,
    fuzzifier: float,
    steps: int,
    tol: float,
) -> tuple[FloatArray, FloatArray]:
    """Alternates u and c_k = Σ w u^m x / Σ w u^m until no centre moves further than ``tol``.

    Returns the centres and the divisors they were found with; a centre without any weight stays.
    Centres to begin with that are not finite raise a ValueError.
    """
    centers = np.asarray_chkfinite(centers)
    for _ in range(steps):
        total, support = _sums(rows, weights, centers, fuzzifier)
        fresh = means_or_keep(total, support, centers)
        moved = movement(centers, fresh)
        centers = fresh
        if moved <= tol:
            break
    return centers, support


def fuzzy_cost(
    rows: FloatArray, weights: FloatArray, centers: FloatArray, fuzzifier: float
) -> float:
    """Σ w Σ_k u^m |x - c_k|²: what fuzzy c-means lowers."""

    def part(span: slice) -> float:
        costs = _degrees(rows[span], centers, fuzzifier)
        costs *= cdist(centers, rows[span], "sqeuclidean")
        return dot(costs.sum(axis=0), weights[span])

    return sum(in_chunks(part, (len(rows), rows.shape[1] + 4 * len(centers))))


def _sums(
    rows: FloatArray, weights: FloatArray, centers: FloatArray, fuzzifier: float
) -> tuple[FloatArray, FloatArray]:
    """Σ w u^m x and Σ w u^m, in one pass over the rows."""

    def add(span: slice) -> tuple[FloatArray, FloatArray]:
        degrees = _degrees(rows[span], centers, fuzzifier)
        degrees *= weights[span]
        return matmul(degrees, rows[span]), degrees.sum(axis=1)

    # Four arrays with a number for every row and centre are made on the way.
    (total, support), *rest = in_chunks(add, (len(rows), rows.shape[1] + 4 * len(centers)))
    for more_total, more_support in rest:
        total += more_total
        support += more_support
    return total, support


def _degrees(rows: FloatArray, centers: FloatArray, fuzzifier: float) -> FloatArray:
    """u^m, (centres, rows)."""
    closeness, ratios = _closeness(rows, centers, fuzzifier)
    with np.errstate(over="ignore"):
        norms = closeness.sum(axis=0) ** fuzzifier
    # With a = 1 / (m - 1), q^a is the closeness, and q^(a m) = q^a q: no other power is needed.
    closeness *= ratios
    closeness /= norms
    return closeness


def _closeness(
    rows: FloatArray, centers: FloatArray, fuzzifier: float
) -> tuple[FloatArray, FloatArray]:
    """q^(1 / (m - 1)) and q, the nearest centre's squared distance over a centre's.

    Both (centres, rows): adding up a row's is then one operation for many rows at a time. Relative
    to the nearest centre no power of a distance overflows.
    """
    ratios = cdist(centers, rows, "sqeuclidean")
    nearest = ratios.min(axis=0)
    on = nearest == 0
    alone = ratios[:, on] == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(nearest, ratios, out=ratios)
    ratios[:, on] = alone
    return ratios ** (1.0 / (fuzzifier - 1.0)), ratios
