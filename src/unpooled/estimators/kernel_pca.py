"""The front door to k-means on distributed kernel PCA."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from unpooled.checks import number_or, one_of, whole
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.embedding import EmbeddingEstimator
from unpooled.kernels.features import KERNELS
from unpooled.protocols.coreset import CoresetKMeans
from unpooled.protocols.kernel import Kernel
from unpooled.protocols.kernel_pca import KernelPCAKMeans as Protocol
from unpooled.types import Body, Parties


class KernelPCAKMeans(EmbeddingEstimator):
    """k-means on a coreset of rows embedded by distributed kernel PCA (Balcan et al. 2016).

    Parties draw rows that matter, first by leverage scores and then by what the first leave
    unexplained, and show them to everybody; rows are embedded by the ``n_components`` directions
    of most spread that lie in the span of these. See :mod:`unpooled.protocols.kernel_pca`. **The
    rows drawn leave as they are, for all to see, and the fitted model holds them**;
    policy="deployment" refuses that.

    Parameters
    ----------
    n_clusters : number of clusters
    kernel, gamma : as in :class:`unpooled.KernelKMeans`
    n_features : D, by which leverage scores are found
    n_components : directions, at most ``n_points``; None: ``n_clusters``
    n_points : rows drawn in all, a fifth of them by leverage; fewer if rows are repeated or few
    sketch : t, the numbers that stand for a row where leverage scores are found
    width : p, the columns into which a party adds up what it says of all its rows
    coreset_size : embedded rows drawn in all
    n_init : starts of each clustering
    policy : what parties let out: "study", a policy, or one for each party
    random_state : seed

    Attributes
    ----------
    cluster_centers_ : (K, s), in the space of the embedding
    embedding_ : the embedded rows, in the container of X
    eigenvalues_ : of the (approximate) kernel matrix, s of them, the largest first
    gamma_ : γ
    embedding_by_ : what new rows are embedded by: γ, the points and the map
    history_ : ``points``, after the first draws and after all, ``residual``, what the first leave
        unexplained; and that of the coreset
    labels_, inertia_, n_rounds_, traffic_, remarks_, n_features_in_

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

    def _protocol(self, n_clusters: int, parties: Parties) -> Protocol:
        name = one_of("kernel", self.kernel, KERNELS)
        # As published: independent frequencies with phases, so that their number may be odd.
        kernel = Kernel(name, whole("n_features", self.n_features, 1), "independent", "phase")
        size, n_init = whole("coreset_size", self.coreset_size, 1), options.starts(self.n_init)
        n_points = whole("n_points", self.n_points, 1)
        return Protocol(
            kernel,
            number_or("mean-distance", "gamma", self.gamma),
            CoresetKMeans(n_clusters, size, n_init=n_init),
            self._n_components(n_clusters, n_points),
            n_points,
            whole("sketch", self.sketch, 1),
            whole("width", self.width, 1),
        )

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
        super()._keep(result)
        self.eigenvalues_ = np.array(result["eigenvalues"])
