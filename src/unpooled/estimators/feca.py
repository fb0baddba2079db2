"""The front door to FeCA."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.checks import flag, one_of, whole_or_none
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.protocols import feca
from unpooled.types import Body, Parties


class FeCA(StarEstimator):
    """One-shot k-means from refined local centroids and their radii (Xu et al. 2024).

    Every party sends, once, at most ``local_clusters`` x (d + 1) numbers; see
    :mod:`unpooled.protocols.feca` for the algorithm and for every case the paper leaves open.

    Parameters
    ----------
    n_clusters : number of clusters
    local_clusters : clusters that parties look for; None: ``n_clusters``
    radius : "empirical" (Algorithm 4) or "theoretical" (Algorithm 3)
    merge : whether the close pair that justified a removal becomes one centroid; False is the
        loop as printed, which also deletes good centroids
    n_init : starts of each party's k-means
    policy : what parties let out: "study", "deployment", a policy, or one for each party
    random_state : seed

    Attributes
    ----------
    cluster_centers_ : (K, d), first the means of groups, then centroids added to make up K
    n_groups_ : how many centres are means of groups
    labels_, inertia_, n_rounds_, history_, traffic_, remarks_, n_features_in_

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
        merge: bool = True,
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.local_clusters = local_clusters
        self.radius = radius
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
        )

    def _keep(self, result: Body) -> None:
        self.n_groups_ = int(result["n_groups"])
