"""Kernel k-means by Nyström's approximation: some rows stand for all (Wang et al. 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from unpooled.baselines.base import EmbeddedKMeans, Embedding, ScaledKernel, roots
from unpooled.checks import whole
from unpooled.errors import InputError
from unpooled.kernels.linalg.products import gram, matmul
from unpooled.types import FloatArray

_LANDMARKS = 1000


class NystromKMeans(EmbeddedKMeans):
    """Kernel k-means on a matrix of rank s near K, from c rows drawn uniformly.

    With C = k(X, landmarks) and W = k(landmarks, landmarks), K is near C W^+ C' = F F', where F = C
    W^{+½} (N x c). The best matrix of rank s for *that*, not for W, is made of the s leading
    singular vectors of F = P Σ Q': rows are embedded as P_s Σ_s = C W^{+½} Q_s and clustered by
    k-means. The larger c, the nearer this is to :class:`ExactKernelKMeans`; with all rows as
    landmarks it is the same. Takes 8 N c bytes and of the order of N c² steps.

    Wang, Gittens & Mahoney 2019, Scalable kernel k-means clustering with Nyström approximation.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_landmarks : int or None, default=None
        c; None: 1,000 or ``n_components``, whichever is more, or all rows if fewer.
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
        The sum of squared distances in that space, which is another for every method and every c:
        no measure to compare them by.
    embedding_ : array of shape (N, s)
        The embedded rows.
    eigenvalues_ : array of shape (s,)
        Those of C W^+ C', the largest first; zero, like the column of ``embedding_``, beyond the
        rank.
    gamma_ : float
        The kernel's scale.
    anchors_ : array of shape (c, d)
        The landmarks.
    map_ : array of shape (c, s)
        W^{+½} Q_s.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (d,)
        Names of the columns, where ``X`` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from unpooled.baselines import NystromKMeans
    >>> rows = np.concatenate([np.linspace(0, 1, 50), np.linspace(8, 9, 50)])[:, None]
    >>> model = NystromKMeans(n_clusters=2, n_landmarks=10, random_state=0).fit(rows)
    >>> first, second = model.predict([[0.5], [8.5]])
    >>> bool((model.labels_[:50] == first).all() and (model.labels_[50:] == second).all())
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_landmarks: Any = None,
        kernel: str = "gaussian",
        gamma: Any = "mean-distance",
        n_components: Any = None,
        n_init: int = 10,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            n_clusters,
            kernel=kernel,
            gamma=gamma,
            n_components=n_components,
            n_init=n_init,
            random_state=random_state,
        )
        self.n_landmarks = n_landmarks

    def _embedding(
        self, rows: FloatArray, kernel: ScaledKernel, n_components: int, rng: np.random.Generator
    ) -> Embedding:
        n, c = len(rows), self._count(len(rows), n_components)
        landmarks = rows[np.sort(rng.choice(n, c, replace=False))]
        values, vectors = eigh(kernel.matrix(landmarks, landmarks))
        factor = vectors * roots(values, c)[1]  # W^{+½}, but for a rotation
        f = kernel.onto(rows, landmarks, factor)
        # F' F = Q Σ² Q' has as many digits as K itself would have: its eigenvalues are K's.
        values, right = eigh(gram(f), subset_by_index=[c - n_components, c - 1])
        values, right = values[::-1], right[:, ::-1]
        root, inverse = roots(values, n)
        right = right * (inverse > 0)
        return Embedding(landmarks, matmul(factor, right), matmul(f, right), np.square(root))

    def _count(self, n: int, n_components: int) -> int:
        if self.n_landmarks is None:
            return min(n, max(_LANDMARKS, n_components))
        count = whole("n_landmarks", self.n_landmarks, 1)
        if count > n:
            raise InputError(f"n_landmarks={count} is more than the {n} rows; draw at most {n}.")
        if count < n_components:
            raise InputError(
                f"n_landmarks={count} is fewer than the {n_components} components wanted; draw "
                "more landmarks or ask for fewer components."
            )
        return count
