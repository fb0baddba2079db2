"""Exact kernel k-means: the whole kernel matrix and its leading eigenvectors."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from unpooled.baselines.base import EmbeddedKMeans, Embedding, ScaledKernel, roots
from unpooled.errors import InputError
from unpooled.types import FloatArray

MOST_ROWS = 30_000
"""Rows: their kernel matrix takes 7.2 GB."""
_SMALL = 500
"""Rows up to which a dense solver is as fast as an iterative one."""


class ExactKernelKMeans(EmbeddedKMeans):
    """Kernel k-means on the N x N kernel matrix: nothing is left out but what lies beyond s.

    With the s leading eigenpairs of K = U Λ U', rows are embedded as U_s Λ_s^½ (Zha et al. 2001,
    Ding & He 2004) and clustered by k-means. A new row is embedded as k(x, X) U_s Λ_s^-½, which for
    the rows of X is the same. Takes 8 N² bytes and of the order of N² (d + s) steps, so N is at
    most 30,000.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    kernel : str, default="gaussian"
        "gaussian", "laplacian", "cauchy", "polynomial" or "exponential"; see
        :mod:`unpooled.kernels.linalg.features`.
    gamma : float or "mean-distance", default="mean-distance"
        The kernel's scale, or N² / (2 Σ_ij |x_i - x_j|²), for the Laplacian kernel (γ / d)^½ with
        that γ.
    n_components : int or None, default=None
        s; None: ``n_clusters``.
    n_init : int, default=10
        Starts of k-means.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, s)
        The centres, in the space of the embedding.
    labels_ : array of shape (N,)
        The cluster of each row.
    inertia_ : float
        The sum of squared distances in that space; on φ(x) it is larger by at most tr K - Σ λ.
    embedding_ : array of shape (N, s)
        The embedded rows.
    eigenvalues_ : array of shape (s,)
        The largest first; zero, like the column of ``embedding_``, beyond the rank.
    gamma_ : float
        The kernel's scale.
    anchors_ : array of shape (N, d)
        X.
    map_ : array of shape (N, s)
        U_s Λ_s^-½.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (d,)
        Names of the columns, where ``X`` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from unpooled.baselines import ExactKernelKMeans
    >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    >>> ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> rings = np.concatenate([ring, 4 * ring])
    >>> model = ExactKernelKMeans(n_clusters=2, gamma=0.2, random_state=0).fit(rings)
    >>> len(set(model.labels_[:100])), len(set(model.labels_[100:])), len(set(model.labels_))
    (1, 1, 2)
    """

    def _embedding(
        self, rows: FloatArray, kernel: ScaledKernel, n_components: int, rng: np.random.Generator
    ) -> Embedding:
        n = len(rows)
        if n > MOST_ROWS:
            raise InputError(
                f"The kernel matrix of {n} rows would take {8 * n**2 / 1e9:.1f} GB; for more than "
                f"{MOST_ROWS} rows use NystromKMeans."
            )
        values, vectors = _leading(kernel.matrix(rows, rows), n_components, rng)
        root, inverse = roots(values, n)
        return Embedding(rows, vectors * inverse, vectors * root, np.square(root))


def _leading(
    matrix: FloatArray, count: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The ``count`` largest eigenvalues and their eigenvectors, the largest first."""
    n = len(matrix)
    if n <= _SMALL or 10 * count > n:
        found = eigh(matrix, subset_by_index=[n - count, n - 1], overwrite_a=True)
    else:
        found = eigsh(matrix, count, which="LA", v0=rng.uniform(-1, 1, n))
    order = np.argsort(found[0])[::-1]
    return found[0][order], found[1][:, order]
