"""The estimator of peer-to-peer k-means by gossiped sums, a thin layer over its protocols."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from unpooled.checks import number, one_of, whole
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.estimators import options
from unpooled.estimators.mesh import MeshEstimator
from unpooled.losses import Bregman, DistanceLoss, Loss, resolve
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.mesh.gossip import GossipKMeans as Consensus
from unpooled.protocols.mesh.second_order import SecondOrder
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters


class GossipKMeans(MeshEstimator):
    """Peer-to-peer k-means at the quality of pooled rows.

    Users pass clusters of their rows up a tree, whose root makes a common start of them, then
    gossip the sums and weights of their clusters between Lloyd steps: all of them end with the same
    centres, a Lloyd point of all rows. Exchanges are tens where every user is a few links from
    every other; they grow with the graph's diameter, on a ring of m users to about (3 + n) m/2 for
    n Lloyd steps. See
    :mod:`unpooled.protocols.mesh.gossip` for how, what holds when users fail, and what neighbours
    can read. With a finite ``rho`` users keep centres of their own, as near to each other as
    ``rho`` asks for: the problem that :class:`unpooled.DGC` solves, in far fewer exchanges (see
    :mod:`unpooled.protocols.mesh.second_order`).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    loss : {"kmeans", "huber", "logistic", "fair"} or Loss, default="kmeans"
        The cost of a row at the centre nearest to it; objects are those of :mod:`unpooled.losses`.
    metric : "euclidean" or losses.Mahalanobis, default="euclidean"
        How distances are measured.
    graph : str, networkx graph, adjacency matrix or None, default="ring"
        Which users are neighbours: "ring", "path", "star", "complete" or a graph; None for users
        that cluster in isolation.
    rho : float or None, default=None
        None for users that agree, or how much they do, as in :class:`unpooled.DGC`.
    topology : {"shared", "private"}, default="shared"
        How averages are found: by the graph's eigenvalues, as it is known from the plan, or by what
        users find out about it together, each knowing its own links (both for ``rho=None``; for the
        merged start only, from given centres nothing is found out).
    averaging : {"gossip", "tree"}, default="gossip"
        "tree" makes exact sums along a spanning tree, which sends far fewer numbers in up to twice
        the exchanges (of use with ``rho=None`` only).
    init : "tree" or array of shape (K, d), default="tree"
        Where centres start; an array is known to all users, and from it the method takes Lloyd's
        own steps and ends, where means are exact (rings, paths, stars, small graphs, "tree"), at
        the centres of :class:`unpooled.FederatedKMeans`.
    n_init : int or "auto", default=10
        Restarts of k-means on a user's own rows; "auto" makes 10.
    max_rounds : int, default=1000
        Most Lloyd steps, each of several exchanges; with a finite ``rho`` most exchanges.
    tol : float, default=1e-6
        Stop when no row changes cluster and no centre moves further than this times the spread of
        the rows; 0 runs all rounds.
    policy : {"study", "deployment"}, policy, or dict of one for each party, default="study"
        What parties let out. Under "deployment" a party is its cells: what neighbours can solve
        messages for are sums of means of at least ten persons.
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
        Lloyd steps; ``traffic_.rounds`` are the exchanges.
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

    def _start(self, n_clusters: int, parties: Parties) -> InitialCenters:
        n_init = options.starts(self.n_init)
        if isinstance(self.init, str):
            one_of("init", self.init, ("tree",))
            return InitialCenters(n_clusters, "tree", n_init=n_init)
        return InitialCenters(
            n_clusters, options.given_centers(self.init, n_clusters, parties, "tree")
        )

    def _protocol(self, start: InitialCenters, loss: Loss) -> MeshProtocol:
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
