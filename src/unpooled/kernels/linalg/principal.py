"""Principal components of a weighted table."""

from __future__ import annotations

import numpy as np

from unpooled.kernels.linalg.products import gram, lengths, matmul, matmul_by_rows, matmul_tn
from unpooled.types import FloatArray


def principal_coordinates(rows: FloatArray, weights: FloatArray, count: int) -> FloatArray:
    """The rows (n, d) in the coordinates of their first principal components, (n, count).

    With A = W^½ (X - 1 μ'), the components are eigenvectors of A'A, or A' times those of A A',
    whichever matrix is smaller. Rows that equal each other get equal coordinates, wherever they
    stand. Rows of so few columns, or whose squares are too large for a number, are given back.
    """
    n, d = rows.shape
    if count >= min(n, d):
        return rows
    with np.errstate(over="ignore", invalid="ignore"):
        moved = rows - matmul(weights, rows) / weights.sum()
        scaled = np.sqrt(weights)[:, None] * moved
        small = gram(scaled) if d <= n else gram(scaled.T)
    if not np.isfinite(small).all():
        return rows
    vectors = np.linalg.eigh(small)[1][:, : -count - 1 : -1]
    if d > n:
        vectors = matmul_tn(scaled, vectors)
        vectors /= np.maximum(lengths(vectors.T), np.finfo(float).tiny)
    return matmul_by_rows(moved, vectors)
