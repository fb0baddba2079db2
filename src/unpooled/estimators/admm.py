"""The estimator of peer-to-peer k-means by ADMM, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any

from unpooled.checks import number, number_or, whole
from unpooled.estimators.mesh import MeshEstimator
from unpooled.losses import Loss, SquaredEuclidean
from unpooled.protocols.mesh import admm
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters


class ADMMKMeans(MeshEstimator):
    """Peer-to-peer k-means by ADMM (Forero et al. 2011): users come to agree exactly.

    See :mod:`unpooled.protocols.mesh.admm`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    eta : float or "auto", default="auto"
        Weighs agreement against fit while users are on the way; it changes the path, not the fixed
        points. "auto" is the weight of a cluster at the largest user.
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
        ``cost`` (of k-means with the users' own centres, without a penalty; it may rise now and
        then), ``consensus`` (how far users are apart), ``changed`` (rows that changed cluster) and
        ``movement``, one per round.
    traffic_ : Traffic
        What was sent: see :class:`unpooled.privacy.Traffic`.
    remarks_ : dict of lists
        Which of their rows parties left out, and why.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (d,)
        Names of the columns, where ``X`` has them.
    """

    penalised = False

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        eta: Any = "auto",
        graph: Any = "ring",
        init: Any = "tree",
        init_rounds: int = 3,
        max_rounds: int = 1000,
        tol: float = 1e-6,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.eta = eta
        self.graph = graph
        self.init = init
        self.init_rounds = init_rounds
        self.max_rounds = max_rounds
        self.tol = tol
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self) -> Loss:
        return SquaredEuclidean()

    def _protocol(self, start: InitialCenters, loss: Loss) -> admm.ADMMKMeans:
        return admm.ADMMKMeans(
            start=start,
            eta=number_or("auto", "eta", self.eta),
            max_rounds=whole("max_rounds", self.max_rounds, 1),
            tol=number("tol", self.tol),
        )
