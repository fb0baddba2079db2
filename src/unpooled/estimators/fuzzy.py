"""The estimator of federated fuzzy c-means, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.checks import number, one_of, whole, whole_or_none
from unpooled.data.parties import Parties
from unpooled.data.tables import Table
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.kernels.lloyd.fuzzy import fuzzy_cost, memberships
from unpooled.protocols.star import fuzzy
from unpooled.types import Body, FloatArray, PerRow


class FuzzyCMeans(StarEstimator):
    """Federated fuzzy c-means (Stallmann & Wilbik 2022).

    Every party sends at most ``n_clusters`` x (d + 1) numbers a round; see
    :mod:`unpooled.protocols.star.fuzzy`. ``labels_`` and ``predict`` give the nearest centre,
    ``memberships`` the degrees.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    fuzzifier : float, default=2.0
        The exponent m > 1 of memberships; near 1 they are all but crisp. In many dimensions, where
        all distances are alike, 2 makes centres coincide; take 1.1 or 1.2 there.
    merge : {"average", "kmeans"}, default="kmeans"
        How parties' centres become common ones: averaged by index, weighted by support, or by
        k-means of all of them.
    max_rounds : int, default=10
        Most rounds; 1 is one-shot.
    tol : float, default=1e-4
        Stop when no centre moves by more than this times the largest distance between centres.
    local_steps : int or None, default=None
        Iterations at a party in each round; None: until its centres stay. With 1 and
        ``merge="average"`` the rounds are those of fuzzy c-means on the pooled rows.
    n_init : int or "auto", default=10
        Starts of the k-means that ``merge="kmeans"`` makes; "auto" makes 10.
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
        The weighted sum of squared distances of rows to their nearest centre. ``score`` counts as
        the method does: memberships to the power m times squared distances.
    converged_ : bool
        Whether ``tol`` was reached within ``max_rounds``.
    n_iter_ : int
        The same as ``n_rounds_``.
    n_rounds_ : int
        Rounds of messages.
    history_ : dict of arrays
        ``received``, the number of centres that came first, and ``movement``, one per further
        round.
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
        degrees = memberships(table.parties.rows, self._centers, float(self.fuzzifier))
        return table.restore(degrees)

    def _cost(self, table: Table) -> float:
        m = float(self.fuzzifier)
        return fuzzy_cost(table.parties.rows, table.parties.weights, self.cluster_centers_, m)

    def _keep(self, result: Body) -> None:
        self.converged_ = bool(result["converged"])
        self.n_iter_ = int(result["rounds"])
