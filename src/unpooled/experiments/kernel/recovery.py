"""How near an embedding's kernel matrix is to the best one of its rank."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import eigsh
from sklearn.metrics.pairwise import rbf_kernel

from unpooled.types import FloatArray


def leading_part(X: FloatArray, gamma: float, n_components: int) -> FloatArray:
    """F (N, s) with F F' = K~, the Gaussian kernel matrix cut to its s largest eigenvalues.

    In single precision, since 20,000 rows make 400 million entries; errors of 1e-6 do not matter
    where K_t is off by 1e-4.
    """
    K = rbf_kernel(X.astype(np.float32), gamma=gamma)
    values, vectors = eigsh(K, n_components, v0=np.ones(len(K), dtype=np.float32))
    return np.asarray(vectors * np.sqrt(values), dtype=float)


def recovery_error(H: FloatArray, F: FloatArray) -> float:
    """|H H' - F F'|² / N², from s x s matrices, without either N x N one.

    |H H' - F F'|² = |H' H|² + |F' F|² - 2 |H' F|².
    """
    squares = [float(np.square(a.T @ b).sum()) for a, b in ((H, H), (F, F), (H, F))]
    return (squares[0] + squares[1] - 2 * squares[2]) / len(H) ** 2
