"""The front door to federated k-means."""

from __future__ import annotations

from typing import Any

from unpooled.checks import number, whole
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.protocols import federated
from unpooled.protocols.oneshot import OneShotKMeans
from unpooled.types import Body, FloatArray, Parties


class FederatedKMeans(StarEstimator):
    """Lloyd's iteration on all parties' rows from sums and counts: equal to pooled k-means.

    Every party sends what the start sends, and ``n_clusters`` x (d + 2) numbers a round; see
    :mod:`unpooled.protocols.federated`. Successive sums can be subtracted from each other: under
    the "study" policy that recovers rows; under "deployment" it does not.

    Parameters
    ----------
    n_clusters : number of clusters
    init : "one-shot" (as :class:`~unpooled.OneShotKMeans`, sends no row) or centres (K, d)
    n_init : starts of each party's k-means for "one-shot"
    max_rounds : most rounds after the start
    tol : stop when no centre moves by more than this times the root mean square distance of a row
        to its centre
    policy : what parties let out: "study", "deployment", a policy, or one for each party
    random_state : seed

    Attributes
    ----------
    converged_ : whether ``tol`` was reached within ``max_rounds``
    history_ : ``cost`` (of the centres that a round began with) and ``movement``, one per round
    cluster_centers_, labels_, inertia_, n_rounds_, traffic_, remarks_, n_features_in_
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "one-shot",
        n_init: int = 10,
        max_rounds: int = 100,
        tol: float = 1e-4,
        policy: Any = "study",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_rounds = max_rounds
        self.tol = tol
        self.policy = policy
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> federated.FederatedKMeans:
        n_init = whole("n_init", self.n_init, 1)
        start: OneShotKMeans | FloatArray
        if isinstance(self.init, str):
            if self.init != "one-shot":
                raise InputError(
                    f"init={self.init!r} is not known; give 'one-shot' or an array of starting "
                    "centres."
                )
            start = OneShotKMeans(n_clusters, n_clusters, n_init=n_init)
        else:
            start = options.given_centers(self.init, n_clusters, parties)
        return federated.FederatedKMeans(
            start, whole("max_rounds", self.max_rounds, 1), number("tol", self.tol)
        )

    def _keep(self, result: Body) -> None:
        self.converged_ = bool(result["converged"])
