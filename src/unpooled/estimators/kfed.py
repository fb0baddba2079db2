"""The front door to k-FED."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, Literal

from unpooled.checks import whole_or_none
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.protocols import kfed
from unpooled.types import Parties


class KFED(StarEstimator):
    """k-FED, one-shot clustering for parties that hold few of the clusters (Dennis et al. 2021).

    Every party sends, once, at most ``local_clusters`` x d numbers; see
    :mod:`unpooled.protocols.kfed`.

    Parameters
    ----------
    n_clusters : number of clusters
    local_clusters : clusters that parties look for; None: the square root of ``n_clusters`` (what
        the paper's theory allows), or as many as it takes to hear of ``n_clusters`` at all
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
        local_clusters: int | None = None,
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.local_clusters = local_clusters
        self.n_init = n_init
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> kfed.KFED:
        local = whole_or_none("local_clusters", self.local_clusters, 1)
        if local is None:
            local = max(ceil(sqrt(n_clusters)), ceil(n_clusters / len(parties)))
        if local * len(parties) < n_clusters:
            raise InputError(
                f"local_clusters={local} at {len(parties)} parties makes fewer than n_clusters="
                f"{n_clusters} centroids; ask for at least {ceil(n_clusters / len(parties))}."
            )
        return kfed.KFED(n_clusters, local, options.starts(self.n_init))
