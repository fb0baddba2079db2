"""The estimator of k-means on random features, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.checks import number_or, one_of, whole
from unpooled.data.parties import Parties
from unpooled.estimators import options
from unpooled.estimators.embedding import EmbeddingEstimator, feature_count
from unpooled.kernels.linalg.features import FORMS, FREQUENCIES, KERNELS
from unpooled.protocols.prepare.kernel import Kernel
from unpooled.protocols.prepare.kernel_map import RandomFeatures
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.coreset import CoresetKMeans


class RandomFeatureKMeans(EmbeddingEstimator):
    """k-means on a coreset of random features (Chitta, Jin & Jain 2012, on Balcan et al. 2013).

    Rows are embedded by the D features themselves and clustered there: no direction among them is
    sought, and every row of the coreset is D wide. See
    :class:`unpooled.protocols.prepare.kernel_map.RandomFeatures`. **The rows drawn leave as
    features, which can be solved for the rows**; under policy="deployment" these are means of
    cells.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    kernel : str, default="gaussian"
        As in :class:`unpooled.KernelKMeans`.
    gamma : float or "mean-distance", default="mean-distance"
        As in :class:`unpooled.KernelKMeans`.
    n_features : int, default=200
        D.
    coreset_size : int, default=500
        Rows drawn in all.
    frequencies : {"independent", "orthogonal", "sobol"}, default="independent"
        How they are drawn.
    form : {"phase", "cos-sin"}, default="phase"
        Of the features.
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
    cluster_centers_ : array of shape (K, D)
        The centres, in the space of the features.
    labels_ : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    inertia_ : float
        The weighted sum of squared distances in the space of the features, which is another for
        every kernel, scale and number of features.
    embedding_ : array of shape (n, D), or list, tuple or dict of these
        The features of the rows, in the container of ``X``.
    gamma_ : float
        The kernel's scale, γ.
    embedding_by_ : dict of arrays
        What new rows are embedded by.
    n_rounds_ : int
        Rounds of messages.
    history_ : dict of arrays
        ``received``, the size of the coreset with centres, and its ``cost``.
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
    >>> from unpooled import RandomFeatureKMeans
    >>> X, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    >>> model = RandomFeatureKMeans(2, gamma=4.0, random_state=0).fit(X, groups=np.arange(400) % 4)
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
        coreset_size: int = 500,
        frequencies: str = "independent",
        form: str = "phase",
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.n_features = n_features
        self.coreset_size = coreset_size
        self.frequencies = frequencies
        self.form = form
        self.n_init = n_init
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> Then:
        name = one_of("kernel", self.kernel, KERNELS)
        form = one_of("form", self.form, FORMS)
        count = feature_count(whole("n_features", self.n_features, 1), 1, name, form)
        kernel = Kernel(name, count, one_of("frequencies", self.frequencies, FREQUENCIES), form)
        size, n_init = whole("coreset_size", self.coreset_size, 1), options.starts(self.n_init)
        gamma = number_or("mean-distance", "gamma", self.gamma)
        inner = CoresetKMeans(n_clusters, size, n_init=n_init)
        return Then(RandomFeatures(kernel, gamma), inner)
