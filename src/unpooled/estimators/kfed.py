"""The estimator of k-FED, a one-shot k-means, a thin layer over its protocol."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, Literal

from unpooled.checks import whole_or_none
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.protocols.star import kfed


class KFED(StarEstimator):
    """k-FED, one-shot clustering for parties that hold few of the clusters (Dennis et al. 2021).

    Every party sends, once, at most ``local_clusters`` x d numbers; see
    :mod:`unpooled.protocols.star.kfed`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    local_clusters : int or None, default=None
        Clusters that parties look for; None: the square root of ``n_clusters`` (what the paper's
        theory allows), or as many as it takes to receive ``n_clusters`` at all.
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
        The centres.
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
