"""The estimator of FeCA, one-shot k-means by radii, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.checks import flag, one_of, whole_or_none
from unpooled.data.parties import Parties
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.protocols.star import feca
from unpooled.types import Body


class FeCA(StarEstimator):
    """One-shot k-means from refined local centroids and their radii (Xu et al. 2024).

    Every party sends, once, at most ``local_clusters`` x (d + 1) numbers; see
    :mod:`unpooled.protocols.star.feca` for the algorithm and for every case the paper leaves open.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    local_clusters : int or None, default=None
        Clusters that parties look for; None: ``n_clusters``.
    radius : {"empirical", "theoretical"}, default="empirical"
        How radii are found: Algorithm 4 or Algorithm 3.
    remove : bool, default=True
        Whether parties remove centroids that fit many clusters (Algorithm 2); False is the paper's
        ablation, which sends all of them.
    merge : bool, default=True
        Whether the close pair that justified a removal becomes one centroid; False is the loop as
        printed, which also deletes good centroids.
    n_init : int or "auto", default=10
        Starts of each party's own k-means; "auto" makes 10.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out.
    verbose : int, default=0
        Whether to print what is noted of every round.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, d)
        First the means of groups, then centroids added to make up K.
    n_groups_ : int
        How many centres are means of groups.
    labels_ : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    inertia_ : float
        The weighted sum of squared distances of rows to their nearest centre.
    n_rounds_ : int
        Rounds of messages.
    history_ : dict of arrays
        ``received``, the number of centroids that came.
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
    >>> from unpooled import FeCA
    >>> north, south = np.array([[0.0], [1.0], [9.0], [10.0]]), np.array([[0.5], [9.0], [11.0]])
    >>> model = FeCA(n_clusters=2, random_state=0).fit({"north": north, "south": south})
    >>> sorted(float(center) for center in model.cluster_centers_[:, 0])
    [0.5, 9.75]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        local_clusters: int | None = None,
        radius: str = "empirical",
        remove: bool = True,
        merge: bool = True,
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.local_clusters = local_clusters
        self.radius = radius
        self.remove = remove
        self.merge = merge
        self.n_init = n_init
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> feca.FeCA:
        return feca.FeCA(
            n_clusters,
            local_clusters=whole_or_none("local_clusters", self.local_clusters, 1) or n_clusters,
            radius=one_of("radius", self.radius, feca.RADII),
            merge=flag("merge", self.merge),
            n_init=options.starts(self.n_init),
            remove=flag("remove", self.remove),
        )

    def _keep(self, result: Body) -> None:
        self.n_groups_ = int(result["n_groups"])
