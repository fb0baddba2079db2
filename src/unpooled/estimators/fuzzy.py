"""The front door to federated fuzzy c-means."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.checks import number, one_of, whole, whole_or_none
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.kernels.fuzzy import fuzzy_cost, memberships
from unpooled.protocols import fuzzy
from unpooled.tables import Table
from unpooled.types import Body, FloatArray, Parties, PerRow


class FuzzyCMeans(StarEstimator):
    """Federated fuzzy c-means (Stallmann & Wilbik 2022).

    Every party sends at most ``n_clusters`` x (d + 1) numbers a round; see
    :mod:`unpooled.protocols.fuzzy`. ``labels_`` and ``predict`` give the nearest centre,
    ``memberships`` the degrees.

    Parameters
    ----------
    n_clusters : number of clusters
    fuzzifier : the exponent m > 1 of memberships; near 1 they are all but crisp. In many
        dimensions, where all distances are alike, 2 makes centres coincide; take 1.1 or 1.2 there
    merge : "average" (parties' centres by index, weighted by support) or "kmeans" (of all of them)
    max_rounds : most rounds; 1 is one-shot
    tol : stop when no centre moves by more than this times the largest distance between centres
    local_steps : iterations at a party in each round; None: until its centres stay. With 1 and
        ``merge="average"`` the rounds are those of fuzzy c-means on the pooled rows
    n_init : starts of the k-means that ``merge="kmeans"`` makes
    policy : what parties let out: "study", "deployment", a policy, or one for each party
    random_state : seed

    Attributes
    ----------
    converged_ : whether ``tol`` was reached within ``max_rounds``
    cluster_centers_, labels_, inertia_, n_rounds_, history_, traffic_, remarks_, n_features_in_
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        fuzzifier: float = 2.0,
        merge: str = "kmeans",
        max_rounds: int = 10,
        tol: float = 1e-4,
        local_steps: int | None = None,
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.fuzzifier = fuzzifier
        self.merge = merge
        self.max_rounds = max_rounds
        self.tol = tol
        self.local_steps = local_steps
        self.n_init = n_init
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> fuzzy.FuzzyCMeans:
        return fuzzy.FuzzyCMeans(
            n_clusters,
            fuzzifier=number("fuzzifier", self.fuzzifier, above=1.0, most=100.0),
            merge=one_of("merge", self.merge, fuzzy.MERGES),
            max_rounds=whole("max_rounds", self.max_rounds, 1),
            tol=number("tol", self.tol),
            local_steps=whole_or_none("local_steps", self.local_steps, 1),
            n_init=options.starts(self.n_init),
        )

    def memberships(self, X: Any) -> PerRow[FloatArray]:
        """The degree to which each row belongs to each cluster.

        Parameters
        ----------
        X : array, data frame, or list, tuple or dict of these
            New rows, with the columns that ``fit`` saw.

        Returns
        -------
        degrees : array of shape (n, K), or list, tuple or dict of these
            A line for each row, which adds up to 1, in the container of ``X``.
        """
        table = self._read_new(X)
        degrees = memberships(table.parties.rows, self.cluster_centers_, float(self.fuzzifier))
        return table.restore(degrees)

    def _cost(self, table: Table) -> float:
        m = float(self.fuzzifier)
        return fuzzy_cost(table.parties.rows, table.parties.weights, self.cluster_centers_, m)

    def _keep(self, result: Body) -> None:
        self.converged_ = bool(result["converged"])
        self.n_iter_ = int(result["rounds"])
