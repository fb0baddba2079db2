"""The estimator of k-means on distributed kernel PCA, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from unpooled.checks import number_or, one_of, whole
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.embedding import EmbeddingEstimator
from unpooled.kernels.linalg.features import KERNELS
from unpooled.protocols.prepare.kernel import Kernel
from unpooled.protocols.prepare.kernel_pca import KernelPCA
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.types import Body


class KernelPCAKMeans(EmbeddingEstimator):
    """k-means on a coreset of rows embedded by distributed kernel PCA (Balcan et al. 2016).

    Parties draw rows that matter, first by leverage scores and then by what the first leave
    unexplained, and show them to everybody; rows are embedded by the ``n_components`` directions
    of most spread that lie in the span of these. See :mod:`unpooled.protocols.prepare.kernel_pca`.
    **The rows drawn leave as they are, for all to see, and the fitted model holds them**; under
    policy="deployment" they are means of cells.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    kernel : str, default="gaussian"
        As in :class:`unpooled.KernelKMeans`.
    gamma : float or "mean-distance", default="mean-distance"
        As in :class:`unpooled.KernelKMeans`.
    n_features : int, default=200
        D, by which leverage scores are found.
    n_components : int or None, default=None
        Directions, at most ``n_points``; None: ``n_clusters``.
    n_points : int, default=500
        Rows drawn in all, a fifth of them by leverage; fewer if rows are repeated or few.
    sketch : int, default=50
        t, the numbers that stand for a row where leverage scores are found.
    width : int, default=250
        p, the columns into which a party adds up what it sends about all its rows.
    coreset_size : int, default=1000
        Embedded rows drawn in all.
    n_init : int or "auto", default=10
        Starts of each clustering; "auto" makes 10.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out.
    verbose : int, default=0
        Whether to print what is noted of every round.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, s)
        The centres, in the space of the embedding.
    labels_ : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    inertia_ : float
        The weighted sum of squared distances in the space of the embedding, which is another for
        every kernel, scale and number of directions.
    embedding_ : array of shape (n, s), or list, tuple or dict of these
        The embedded rows, in the container of ``X``.
    eigenvalues_ : array of shape (s,)
        Those of the (approximate) kernel matrix, the largest first.
    gamma_ : float
        The kernel's scale, γ.
    embedding_by_ : dict of arrays
        What new rows are embedded by: γ, the points and the map.
    n_rounds_ : int
        Rounds of messages.
    history_ : dict of arrays
        ``points``, after the first draws and after all, ``residual``, what the first leave
        unexplained; and that of the coreset.
    traffic_ : Traffic
        What was sent: see :class:`unpooled.privacy.Traffic`.
    remarks_ : dict of lists
        Which of their rows parties left out, and why.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (d,)
        Names of the columns, where ``X`` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> from unpooled import KernelPCAKMeans
    >>> X, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    >>> hospitals = np.arange(400) % 4
    >>> model = KernelPCAKMeans(2, gamma=4.0, random_state=0).fit(X, groups=hospitals)
    >>> bool((model.labels_ == ring).all() or (model.labels_ != ring).all())
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: str = "gaussian",
        gamma: Any = "mean-distance",
        n_features: int = 200,
        n_components: Any = None,
        n_points: int = 500,
        sketch: int = 50,
        width: int = 250,
        coreset_size: int = 1000,
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.n_features = n_features
        self.n_components = n_components
        self.n_points = n_points
        self.sketch = sketch
        self.width = width
        self.coreset_size = coreset_size
        self.n_init = n_init
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> Then:
        name = one_of("kernel", self.kernel, KERNELS)
        # As published: independent frequencies with phases, so that their number may be odd.
        kernel = Kernel(name, whole("n_features", self.n_features, 1), "independent", "phase")
        size, n_init = whole("coreset_size", self.coreset_size, 1), options.starts(self.n_init)
        n_points = whole("n_points", self.n_points, 1)
        preparation = KernelPCA(
            kernel,
            number_or("mean-distance", "gamma", self.gamma),
            self._n_components(n_clusters, n_points),
            n_points,
            whole("sketch", self.sketch, 1),
            whole("width", self.width, 1),
        )
        return Then(preparation, CoresetKMeans(n_clusters, size, n_init=n_init))

    def _n_components(self, n_clusters: int, n_points: int) -> int:
        given = self.n_components
        s = n_clusters if given is None else whole("n_components", given, 1)
        if s > n_points:
            raise InputError(
                f"n_points={n_points} is fewer than the {s} components wanted; draw more points or "
                "ask for fewer components."
            )
        return s

    def _keep(self, result: Body) -> None:
        self.eigenvalues_ = np.array(result["eigenvalues"])
