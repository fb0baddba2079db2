"""The five problems, and what is measured of a run on them.

Exchanges are those of the start and of the cycles, with the one in which users terminate; those
that find the tree are counted beside them. A cost is that of all rows with the mean of users'
centres, over the cost of scikit-learn's k-means on the pooled rows (best of ten starts). The bars
are our own. Data: s1.npz, s2.npz and mnist.npz in the folder that UNPOOLED_DATA names; the others
come with scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.utils import Bunch

from unpooled import datasets, partition
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.privacy.traffic import Traffic
from unpooled.types import FloatArray, IntArray

FIRST_SEED = 7000
"""A run's seed is that of the split, of the graph where it is random, and of the method."""
DIGITS = 7
ROWS_PER_DIGIT = 1000
TREE_KINDS = ("tree", "echo")


@dataclass(frozen=True)
class Bars:
    """What a problem is to be solved in: exchanges (median and worst) and mean cost."""

    median: int
    worst: int
    cost: float


@dataclass(frozen=True)
class Problem:
    """Rows of a file, split over users on a graph; ``alpha`` is None for balanced classes."""

    title: str
    file: str
    n_clusters: int
    n_users: int
    bars: Bars
    alpha: float | None = None
    degree: int | None = None
    """Of a random regular graph; None for the ring."""

    @cached_property
    def data(self) -> Bunch:
        """The rows."""
        return rows_of(self.file)

    @cached_property
    def pooled(self) -> float:
        """The cost of k-means on the pooled rows."""
        return pooled_cost(self.data.X, self.n_clusters)

    def groups(self, seed: int) -> IntArray:
        """Who holds which row."""
        y, m = self.data.y, self.n_users
        if self.alpha is None:
            return partition.balanced(y, n_parties=m, random_state=seed)
        return partition.dirichlet(y, n_parties=m, alpha=self.alpha, random_state=seed)

    def graph(self, seed: int) -> Any:
        """Which users are neighbours, as estimators take it."""
        if self.degree is None:
            return "ring"
        return nx.random_regular_graph(self.degree, self.n_users, seed=seed)

    def network(self, seed: int) -> tuple[Parties, Topology]:
        """Users with their rows, and their links, as drivers take them."""
        groups = self.groups(seed)
        parties = Parties.of([self.data.X[groups == user] for user in range(self.n_users)])
        return parties, topology(self.graph(seed), parties.names)

    def fitted(self, model: Any, seed: int) -> Any:
        """The estimator, fitted over this seed's users and graph."""
        model.set_params(n_clusters=self.n_clusters, graph=self.graph(seed), random_state=seed)
        return model.fit(self.data.X, groups=self.groups(seed))


def rows_of(file: str) -> Bunch:
    """A data set; of MNIST the first 1000 images of each of the digits 0 to 6, pixels up to 1."""
    found = datasets.load(file)
    if file != "mnist":
        return found
    kept = [np.flatnonzero(found.y == digit)[:ROWS_PER_DIGIT] for digit in range(DIGITS)]
    rows = np.concatenate(kept)
    return Bunch(X=found.X[rows] / 255.0, y=found.y[rows])


IRIS = Problem("Iris, ring 10", "iris", 3, 10, Bars(45, 70, 1.0005))
S1 = Problem("S1 Dir(.3), ring 10", "s1", 15, 10, Bars(45, 60, 1.0005), alpha=0.3)
DIGITS_RING = Problem("digits Dir(.3), ring 20", "digits", 10, 20, Bars(150, 260, 1.006), alpha=0.3)
DIGITS_REGULAR = Problem(
    "digits Dir(.3), 4-reg. 50", "digits", 10, 50, Bars(110, 200, 1.006), alpha=0.3, degree=4
)
MNIST_RING = Problem("MNIST 0-6, ring 10", "mnist", DIGITS, 10, Bars(110, 140, 1.0005))
PROBLEMS = (IRIS, S1, DIGITS_RING, DIGITS_REGULAR, MNIST_RING)


def pooled_cost(rows: FloatArray, n_clusters: int) -> float:
    """The reference: the best of ten starts on all rows."""
    return float(KMeans(n_clusters, n_init=10, random_state=0).fit(rows).inertia_)


def center_cost(rows: FloatArray, centers: FloatArray) -> float:
    """The sum of squared distances of rows to their nearest centre."""
    return float(np.square(cdist(rows, centers).min(axis=1)).sum())


def lloyd_step(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """The means of the rows nearest to each centre; where there are none, the centre."""
    nearest = cdist(rows, centers).argmin(axis=1)
    return np.stack(
        [
            rows[nearest == k].mean(axis=0) if (nearest == k).any() else x
            for k, x in enumerate(centers)
        ]
    )


def largest_disagreement(peer_centers: FloatArray) -> float:
    """How far the coordinate of a user's centre is from that of the mean over users, at most."""
    from_first = peer_centers - peer_centers[0]
    return float(np.abs(from_first - from_first.mean(axis=0)).max())


def tree_exchanges(traffic: Traffic) -> int:
    """The exchanges that find the tree."""
    return sum(kind in TREE_KINDS for kind, _ in traffic.by_round)


@dataclass(frozen=True)
class GossipRun:
    """What one fit came to; ``floats`` are those that a user sends in all, on average.

    Those of the exchange in which users terminate are spread over the cycles.
    """

    exchanges: int
    tree: int
    cycles: int
    floats: float
    floats_per_cycle: float
    cost: float
    apart: float
    step: float
    """The largest change of a coordinate by one more Lloyd step of the pooled rows."""
    converged: bool


def gossip_run(model: Any, problem: Problem, seed: int) -> GossipRun:
    """One fit over the users of this seed."""
    problem.fitted(model, seed)
    x, rows, traffic = model.cluster_centers_, problem.data.X, model.traffic_
    tree = tree_exchanges(traffic)
    return GossipRun(
        exchanges=traffic.rounds - tree,
        tree=tree,
        cycles=model.n_rounds_,
        floats=traffic.floats_up / problem.n_users,
        floats_per_cycle=traffic.by_kind["sums"]["floats_up"] / problem.n_users / model.n_rounds_,
        cost=center_cost(rows, x) / problem.pooled,
        apart=largest_disagreement(model.peer_centers_),
        step=float(np.abs(lloyd_step(rows, x) - x).max()),
        converged=model.converged_,
    )
