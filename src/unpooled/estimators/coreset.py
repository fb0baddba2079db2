"""The estimator of k-means and k-median on distributed coresets, a thin layer over its protocol."""

from __future__ import annotations

from typing import Any, Literal

from unpooled.checks import one_of, whole
from unpooled.data.parties import Parties
from unpooled.data.tables import Table
from unpooled.estimators import options
from unpooled.estimators.star import StarEstimator
from unpooled.graphs.reading import topology
from unpooled.graphs.trees import SpanningTree
from unpooled.kernels.lloyd.coreset import row_costs
from unpooled.protocols.star import coreset
from unpooled.protocols.star.base import StarProtocol
from unpooled.simulate import Options, Run, run_star
from unpooled.types import Body


class CoresetKMeans(StarEstimator):
    """k-means or k-median on a weighted sample that stands for all rows (Balcan et al. 2013).

    Parties send the cost of their own clustering, then draw rows in proportion to it. These
    ``coreset_size`` rows in all, and at most ``n_clusters`` centres of each party, are weighted so
    that every clustering costs on average what it costs on all rows; see
    :mod:`unpooled.protocols.star.coreset`. **The rows drawn leave as they are**; under
    policy="deployment" they are means of cells.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    coreset_size : int, default=500
        Rows drawn in all, with replacement; errors fall as its square root.
    objective : {"kmeans", "kmedian"}, default="kmeans"
        The cost of a row: its squared distance, or its distance.
    graph : str, networkx graph, adjacency matrix or None, default=None
        None for a coordinator that all parties send to; else "ring", "path", "star", "complete" or
        a graph, along whose lowest breadth-first tree everything is passed on to the party at its
        root, seen by the parties on the way: the same result, see :mod:`unpooled.simulate.relay`.
    n_init : int or "auto", default=10
        Starts of every clustering, the parties' and the last one; "auto" makes 10.
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
        The cost of all rows: the sum of w times squared distances, for k-median of distances;
        ``score`` is minus that.
    coreset_ : array of shape (n, d)
        The sample.
    coreset_weights_ : array of shape (n,)
        Its weights, some of which may be negative.
    n_rounds_ : int
        Rounds of messages.
    history_ : dict of arrays
        ``received``, the size of the coreset with centres, and its ``cost``.
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
    >>> from unpooled import CoresetKMeans
    >>> hospitals = {"A": np.array([[0.0], [1.0], [9.0]]), "B": np.array([[0.5], [10.0]])}
    >>> model = CoresetKMeans(n_clusters=2, random_state=0).fit(hospitals)
    >>> sorted(float(center) for center in model.cluster_centers_[:, 0].round(6))
    [0.5, 9.5]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        coreset_size: int = 500,
        objective: str = "kmeans",
        graph: Any = None,
        n_init: int | Literal["auto"] = 10,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.coreset_size = coreset_size
        self.objective = objective
        self.graph = graph
        self.n_init = n_init
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> coreset.CoresetKMeans:
        return coreset.CoresetKMeans(
            n_clusters,
            coreset_size=whole("coreset_size", self.coreset_size, 1),
            objective=one_of("objective", self.objective, tuple(coreset.OBJECTIVES)),
            n_init=options.starts(self.n_init),
        )

    def _run(
        self, protocol: StarProtocol, parties: Parties, seed: int, how: Options, history: Any
    ) -> Run:
        tree = None
        if self.graph is not None:
            tree = SpanningTree.of(topology(self.graph, parties.names))
        watch = history.record
        return run_star(protocol, parties, seed=seed, options=how, observe=watch, tree=tree)

    def _keep(self, result: Body) -> None:
        self.coreset_ = result["rows"]
        self.coreset_weights_ = result["weights"]

    def _set_labels(self, table: Table) -> None:
        super()._set_labels(table)
        self.inertia_ = self._cost(table)

    def _cost(self, table: Table) -> float:
        if self.objective == "kmeans":
            return super()._cost(table)
        costs, _ = row_costs(table.parties.rows, self.cluster_centers_, 1)
        return float((table.parties.weights * costs).sum())
