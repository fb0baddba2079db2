"""The estimator of matched averaging, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.data.parties import Parties
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.protocols.star import matched


class MatchedAveraging(StarEstimator):
    """The mean of local centroids that are paired by optimal matching, in one shot.

    Every party sends, once, at most ``n_clusters`` x d numbers; see
    :mod:`unpooled.protocols.star.matched`. A baseline: it assumes that every party holds every
    cluster.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
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
