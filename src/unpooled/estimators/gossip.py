"""The front door to peer-to-peer k-means by gossiped sums."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from unpooled.checks import number, one_of, whole
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.mesh import MeshEstimator
from unpooled.losses import Bregman, DistanceLoss, Loss, resolve
from unpooled.protocols.gossip import GossipKMeans as Consensus
from unpooled.protocols.mesh import MeshProtocol
from unpooled.protocols.second_order import SecondOrder
from unpooled.protocols.starts import Start
from unpooled.types import Parties


class GossipKMeans(MeshEstimator):
    """Peer-to-peer k-means at the quality of pooled rows, in tens of exchanges.

    Users merge a common start along a tree, then gossip the sums and weights of their clusters
    between Lloyd steps: all of them end with the same centres, a Lloyd point of all rows. See
    :mod:`unpooled.protocols.gossip` for how, what holds when users fail, and what neighbours can
    read. With a finite ``rho`` users keep centres of their own, as near to each other as ``rho``
    says: the problem that :class:`~unpooled.DGC` solves, in far fewer exchanges (see
    :mod:`unpooled.protocols.second_order`).

    Parameters
    ----------
    n_clusters : number of clusters
    loss : "kmeans", "huber", "logistic", "fair", or an object of :mod:`unpooled.losses`
    metric : "euclidean" or ``losses.Mahalanobis(A)``
    graph : "ring", "path", "star", "complete", a networkx graph, an adjacency matrix, or None for
        users that cluster in isolation
    rho : None for users that agree, or how much they do, as in DGC
    topology : "shared" averages by the graph's eigenvalues, as it is known from the plan;
        "private" by what users find out about it together, each knowing its own links (both for
        ``rho=None``; for the merged start only, from given centres nothing is found out)
    averaging : "gossip", or "tree" for exact sums along a spanning tree, which sends far fewer
        numbers in up to twice the exchanges (of use with ``rho=None`` only)
    init : "tree", or centres (K, d) that all users know; from these it takes Lloyd's own steps and
        ends, where means are exact (rings, paths, stars, small graphs, "tree"), at the centres of
        :class:`~unpooled.FederatedKMeans`
    n_init : restarts of k-means on a user's own rows
    max_rounds : most Lloyd steps, each of several exchanges; with a finite ``rho`` most exchanges
    tol : stop when no row changes cluster and no centre moves further than this times the spread
        of the rows; 0 runs all rounds
    policy : what parties let out: "study", "deployment" (the start's clusters have its minimum
        count then; sums over few rows cannot be kept back in a mesh), or a policy
    random_state : seed

    Attributes
    ----------
    cluster_centers_ : (K, d), the mean of users' centres
    peer_centers_ : (m, K, d), every user's own
    labels_ : by a user's own centres, in the container of ``X``
    inertia_ : weighted sum of squared distances of rows to their user's nearest centre
    converged_ : whether ``tol`` was reached within ``max_rounds``
    n_rounds_ : Lloyd steps; ``traffic_.rounds`` are the exchanges
    history_, traffic_, n_features_in_

    Examples
    --------
    >>> import numpy as np
    >>> from unpooled import GossipKMeans
    >>> hospitals = {"A": np.array([[0.0], [1.0], [9.0]]), "B": np.array([[0.5], [10.0]])}
    >>> model = GossipKMeans(n_clusters=2, random_state=0).fit(hospitals)
    >>> sorted(float(center) for center in model.cluster_centers_[:, 0])
    [0.5, 9.5]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        loss: Any = "kmeans",
        metric: Any = "euclidean",
        graph: Any = "ring",
        rho: float | None = None,
        topology: str = "shared",
        averaging: str = "gossip",
        init: Any = "tree",
        n_init: int | Literal["auto"] = 10,
        max_rounds: int = 1000,
        tol: float = 1e-6,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.loss = loss
        self.metric = metric
        self.graph = graph
        self.rho = rho
        self.topology = topology
        self.averaging = averaging
        self.init = init
        self.n_init = n_init
        self.max_rounds = max_rounds
        self.tol = tol
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    @property
    def penalised(self) -> bool:  # type: ignore[override]
        return self.rho is not None

    def _loss(self) -> Loss:
        loss = resolve(self.loss, self.metric)
        if isinstance(loss, DistanceLoss) or (self.rho is None and isinstance(loss, Bregman)):
            return loss
        raise InputError(
            f"GossipKMeans takes losses of the distance{' and Bregman losses' * (self.rho is None)}"
            f", and {loss.name} is none; use DGC for it."
        )

    def _start(self, n_clusters: int, parties: Parties) -> Start:
        n_init = options.starts(self.n_init)
        if isinstance(self.init, str):
            one_of("init", self.init, ("tree",))
            return Start(n_clusters, "tree", n_init=n_init)
        return Start(n_clusters, options.given_centers(self.init, n_clusters, parties, "tree"))

    def _protocol(self, start: Start, loss: Loss) -> MeshProtocol:
        max_rounds, tol = whole("max_rounds", self.max_rounds, 1), number("tol", self.tol)
        topology = one_of("topology", self.topology, ("shared", "private"))
        averaging = one_of("averaging", self.averaging, ("gossip", "tree"))
        if self.rho is not None:
            assert isinstance(loss, DistanceLoss)
            rho = number("rho", self.rho, above=0.0)
            return SecondOrder(start, loss=loss, rho=rho, max_rounds=max_rounds, tol=tol)
        return Consensus(
            start.n_clusters,
            None if isinstance(start.init, str) else np.asarray(start.init),
            loss=loss,
            topology=topology,
            averaging=averaging,
            n_init=start.n_init,
            max_rounds=max_rounds,
            tol=tol,
        )
