"""The front door to DGC."""

from __future__ import annotations

from typing import Any

from unpooled.checks import number, number_or, one_of, whole
from unpooled.estimators import options
from unpooled.estimators.mesh import MeshEstimator
from unpooled.losses import Loss, resolve
from unpooled.protocols import dgc
from unpooled.protocols.starts import Start
from unpooled.types import Parties


class DGC(MeshEstimator):
    """Peer-to-peer gradient clustering: users keep their rows and talk to their neighbours.

    Lowers J_rho = 1/rho (what rows pay for their user's centres) + 1/2 (squared distance of
    centres over the graph's edges); see :mod:`unpooled.protocols.dgc`.

    Parameters
    ----------
    n_clusters : number of clusters
    loss : "kmeans", "huber", "logistic", "fair", or an object of :mod:`unpooled.losses`
    metric : "euclidean" or ``losses.Mahalanobis(A)``
    rho : how much users agree; centres differ by O(1/rho), and rounds needed grow with rho
    graph : "ring", "path", "star", "complete", a networkx graph, an adjacency matrix, or None for
        users that cluster in isolation
    init : "dkm+c", "tree", "k-means++", "random", or starting centres (K, d) or (m, K, d); "tree"
        merges parties' own clusters along a tree into centres from which all start alike
    init_rounds : exchanges of "dkm+c"
    align : whether parties whose starts differ number their centres alike before the first round,
        each by matching them with those of its parent in a tree; False is "dkm+c" as published
    inner_steps : steps (each with an exchange) per assignment
    step_size : "auto" for a step by which the cost never rises, or a number
    solver : "plain" for the method as published; "nesterov" for the same cost and the same messages
        with momentum, which needs far fewer rounds where rho is large; the cost may rise meanwhile
    max_rounds : most rounds
    tol : stop when no row changes cluster and no centre has further to go, as far as a user can
        tell, than this times the largest spread of a party's rows; 0 runs all rounds
    policy : what parties let out: "study", "deployment" (no rows, so ``init`` is "tree", whose
        clusters have its minimum count then, or one array (K, d); sums over few rows cannot be
        kept back in the rounds of a mesh), or a policy
    random_state : seed

    Attributes
    ----------
    cluster_centers_ : (K, d), the mean of users' centres by index (absent with ``graph=None``)
    peer_centers_ : (m, K, d), every user's own
    labels_ : by a user's own centres, in the container of ``X``
    inertia_ : weighted sum of squared distances of rows to their user's nearest centre
    converged_ : whether ``tol`` was reached within ``max_rounds``
    n_rounds_, history_, traffic_, n_features_in_

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
        rho: float = 10.0,
        graph: Any = "ring",
        init: Any = "dkm+c",
        init_rounds: int = 3,
        align: bool = False,
        inner_steps: int = 1,
        step_size: Any = "auto",
        solver: str = "plain",
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

    def _start(self, n_clusters: int, parties: Parties) -> Start:
        return options.start(self.init, self.init_rounds, n_clusters, parties, self.align)

    def _loss(self) -> Loss:
        return resolve(self.loss, self.metric)

    def _protocol(self, start: Start, loss: Loss) -> dgc.DGC:
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
