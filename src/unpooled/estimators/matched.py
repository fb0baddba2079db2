"""The front door to matched averaging."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.protocols import matched
from unpooled.types import Parties


class MatchedAveraging(StarEstimator):
    """The mean of local centroids that are paired by optimal matching, in one shot.

    Every party sends, once, at most ``n_clusters`` x d numbers; see
    :mod:`unpooled.protocols.matched`. A baseline: it assumes that every party holds every cluster.

    Parameters
    ----------
    n_clusters : number of clusters
    n_init : starts of each party's k-means
    policy : what parties let out: "study", "deployment", a policy, or one for each party
    random_state : seed

    Attributes
    ----------
    cluster_centers_, labels_, inertia_, n_rounds_, history_, traffic_, remarks_, n_features_in_
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> matched.MatchedAveraging:
        return matched.MatchedAveraging(n_clusters, options.starts(self.n_init))
