"""The toy method's estimator. One estimator file."""

from __future__ import annotations

from typing import Any

from tests.catalog import toy_protocol
from unpooled.data.parties import Parties
from unpooled.estimators.star import StarEstimator


class ToyMean(StarEstimator):
    """Centres at the mean of all rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
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
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> toy_protocol.ToyMean:
        return toy_protocol.ToyMean(n_clusters)
