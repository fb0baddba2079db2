"""The estimator of the peer-to-peer method of Kar & Swenson, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any

from unpooled.checks import number, number_or, whole
from unpooled.estimators.mesh import MeshEstimator
from unpooled.losses import Loss, SquaredEuclidean
from unpooled.protocols.mesh import kar_swenson
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters


class KarSwenson(MeshEstimator):
    """Peer-to-peer k-means of Kar & Swenson (2019): DGC with a step per user and cluster.

    See :mod:`unpooled.protocols.mesh.kar_swenson`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    rho : float, default=100.0
        How much users agree; centres differ by O(1/rho), and rounds needed grow with rho. It weighs
        against the number of rows: with 10, users of some hundred rows each fit their own ones.
    graph : str, networkx graph, adjacency matrix or None, default="ring"
        Which users are neighbours: "ring", "path", "star", "complete" or a graph; None for users
        that cluster in isolation.
    init : str or array of shape (K, d) or (m, K, d), default="tree"
        Where centres start: "tree", "dkm+c", "k-means++", "random", or given for all users alike or
        for each. "tree" makes centres of all parties' own clusters, which go along a tree, and all
        start alike; the others, as published, draw rows, and centres of one number may start far
        apart: users then end far above the cost of pooled k-means.
    init_rounds : int, default=3
        Exchanges of "dkm+c".
    step_size : float or "auto", default="auto"
        The alpha of :mod:`unpooled.protocols.mesh.kar_swenson`.
    max_rounds : int, default=1000
        Most rounds.
    tol : float, default=1e-6
        Stop when no row changes cluster and no centre, as far as a user knows, has further to go
        than this times the largest spread of a party's rows; 0 runs all rounds.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out. Under "deployment" a party is its cells: what leaves, as rows drawn
        for a start too, are means of at least ten persons.
    verbose : int, default=0
        Whether to print what is noted of every round.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Attributes
    ----------
    cluster_centers_ : array of shape (K, d)
        The mean of users' centres by index (absent with ``graph=None``).
    peer_centers_ : array of shape (m, K, d)
        Every user's own.
    labels_ : array of shape (n,), or list, tuple or dict of these
        By a user's own centres, in the container of ``X``.
    inertia_ : float
        The weighted sum of squared distances of rows to their user's nearest centre. ``score`` goes
        by ``cluster_centers_`` and by the loss, squared distances for "kmeans".
    loss_ : Loss
        The loss in its metric.
    converged_ : bool
        Whether ``tol`` was reached within ``max_rounds``.
    n_rounds_ : int
        Rounds.
    n_iter_ : int
        The same as ``n_rounds_``.
    history_ : dict of arrays
        ``cost``, ``consensus`` (how far users are apart), ``changed`` (rows that changed cluster)
        and ``movement``, one per round.
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
        rho: float = 100.0,
        graph: Any = "ring",
        init: Any = "tree",
        init_rounds: int = 3,
        step_size: Any = "auto",
        max_rounds: int = 1000,
        tol: float = 1e-6,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.rho = rho
        self.graph = graph
        self.init = init
        self.init_rounds = init_rounds
        self.step_size = step_size
        self.max_rounds = max_rounds
        self.tol = tol
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self) -> Loss:
        return SquaredEuclidean()

    def _protocol(self, start: InitialCenters, loss: Loss) -> kar_swenson.KarSwenson:
        return kar_swenson.KarSwenson(
            start=start,
            rho=number("rho", self.rho, above=0.0),
            step_size=number_or("auto", "step_size", self.step_size),
            max_rounds=whole("max_rounds", self.max_rounds, 1),
            tol=number("tol", self.tol),
        )
