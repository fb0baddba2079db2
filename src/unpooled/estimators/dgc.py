"""The estimator of DGC, peer-to-peer gradient clustering, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any

from unpooled.checks import number, number_or, one_of, whole
from unpooled.data.parties import Parties
from unpooled.estimators import options
from unpooled.estimators.mesh import MeshEstimator
from unpooled.losses import Loss, resolve
from unpooled.protocols.mesh import dgc
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters


class DGC(MeshEstimator):
    """Peer-to-peer gradient clustering: users keep their rows and exchange centres with neighbours.

    Lowers J_rho = 1/rho (the cost of rows at their user's centres) + 1/2 (squared distance of
    centres over the graph's edges); see :mod:`unpooled.protocols.mesh.dgc`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    loss : {"kmeans", "huber", "logistic", "fair"} or Loss, default="kmeans"
        The cost of a row at the centre nearest to it; objects are those of :mod:`unpooled.losses`.
    metric : "euclidean" or losses.Mahalanobis, default="euclidean"
        How distances are measured.
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
    align : bool, default=False
        Whether parties whose starts differ number their centres alike before the first round, each
        by matching them with those of its parent in a tree; False is "dkm+c" as published, and
        after "tree" there is nothing to align.
    inner_steps : int, default=1
        Steps (each with an exchange) per assignment.
    step_size : float or "auto", default="auto"
        "auto" for a step by which the cost never rises.
    solver : {"nesterov", "plain"}, default="nesterov"
        The method as published ("plain"), or the same cost and the same messages with momentum,
        which needs far fewer rounds where rho is large; the cost may rise meanwhile.
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

    Examples
    --------
    >>> import numpy as np
    >>> from unpooled import DGC
    >>> hospitals = {"A": np.array([[0.0], [1.0], [9.0]]), "B": np.array([[0.5], [10.0]])}
    >>> model = DGC(n_clusters=2, rho=100.0, random_state=0).fit(hospitals)
    >>> sorted(float(center) for center in model.cluster_centers_[:, 0].round(1))
    [0.5, 9.5]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        loss: Any = "kmeans",
        metric: Any = "euclidean",
        rho: float = 100.0,
        graph: Any = "ring",
        init: Any = "tree",
        init_rounds: int = 3,
        align: bool = False,
        inner_steps: int = 1,
        step_size: Any = "auto",
        solver: str = "nesterov",
        max_rounds: int = 1000,
        tol: float = 1e-6,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.loss = loss
        self.metric = metric
        self.rho = rho
        self.graph = graph
        self.init = init
        self.init_rounds = init_rounds
        self.align = align
        self.inner_steps = inner_steps
        self.step_size = step_size
        self.solver = solver
        self.max_rounds = max_rounds
        self.tol = tol
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _start(self, n_clusters: int, parties: Parties) -> InitialCenters:
        return options.start(self.init, self.init_rounds, n_clusters, parties, self.align)

    def _loss(self) -> Loss:
        return resolve(self.loss, self.metric)

    def _protocol(self, start: InitialCenters, loss: Loss) -> dgc.DGC:
        return dgc.DGC(
            start=start,
            loss=loss,
            rho=number("rho", self.rho, above=0.0),
            inner_steps=whole("inner_steps", self.inner_steps, 1),
            step_size=number_or("auto", "step_size", self.step_size),
            solver=one_of("solver", self.solver, dgc.SOLVERS),
            max_rounds=whole("max_rounds", self.max_rounds, 1),
            tol=number("tol", self.tol),
        )
