"""Ten thousand users in one process: peer-to-peer k-means against pooled mini-batch k-means.

    python benchmarks/gossip.py [users]

Users of 100 rows in 16 columns, 10 clusters in unlike parts, on a random 4-regular graph, each
knowing its own links only (``topology="private"``). Reported are the cost over that of
scikit-learn's MiniBatchKMeans on the pooled rows, run until it improves no more, and the time of an
exchange, everything included that is done between exchanges (labels, sums, costs), over that of the
sparse product without which no exchange can do: all users' sums added up over neighbours. The two
take turns.
"""

from __future__ import annotations

import sys
from collections import Counter
from time import perf_counter

import networkx as nx
import numpy as np
from sklearn.cluster import MiniBatchKMeans

from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.kernels.assignment.centers import cost, label
from unpooled.messages.message import Message
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.simulate import Options, run_mesh
from unpooled.types import FloatArray

ROWS, WIDTH, CLUSTERS = 100, 16, 10


def main(n_users: int) -> None:
    parties = users(n_users)
    graph = topology(nx.random_regular_graph(4, n_users, seed=1), parties.names)
    clock = Clock(graph)
    began = perf_counter()
    run = run_mesh(
        GossipKMeans(CLUSTERS, topology="private"), parties, graph, options=Options(watch=clock)
    )
    whole = perf_counter() - began
    centers = run.result["centers"]
    agreed = centers.mean(axis=0)
    spent, product = np.mean(clock.exchanges), np.mean(clock.products)
    print(f"{n_users} users, {len(parties.rows)} rows, reach {graph.reach}")
    for kind, number in clock.kinds.items():
        print(f"  {number:4d} exchanges of {kind!r}")
    print(f"  stopped by themselves: {not run.result['running'].any()}")
    print(f"  largest disagreement of users: {np.abs(centers - agreed).max():.1e}")
    print(f"  cost over pooled mini-batch k-means: {pooled_cost(parties, agreed):.4f}")
    print(
        f"  an exchange takes {1e3 * spent:.1f} ms, {spent / product:.2f} sparse products of "
        f"{1e3 * product:.1f} ms (median exchange {np.median(clock.exchanges) / product:.2f})"
    )
    print(f"  all of it: {whole:.0f} s, of which exchanges of sums {sum(clock.exchanges):.0f} s")


class Clock:
    """Measures exchanges of sums, and between any two of them a sparse product.

    Taking turns they meet the same machine: on a shared one, memory is now faster, now slower.
    """

    def __init__(self, graph: Topology) -> None:
        self.kinds: Counter[str] = Counter()
        self.exchanges: list[float] = []
        self.products: list[float] = []
        self._graph = graph
        self._sums = np.random.default_rng(0).normal(size=(graph.n_users, CLUSTERS * (WIDTH + 1)))
        self._since: float | None = None

    def __call__(self, sender: str, message: Message) -> None:
        now = perf_counter()
        self.kinds[message.kind] += 1
        if message.kind == "sums":
            if self._since is not None:
                self.exchanges.append(now - self._since)
            self._graph.adjacency @ self._sums
            self._since = perf_counter()
            self.products.append(self._since - now)


def users(n_users: int) -> Parties:
    """Clusters that overlap, a few of them at each user."""
    rng = np.random.default_rng(0)
    centers = 0.8 * rng.normal(size=(CLUSTERS, WIDTH))
    shares = rng.dirichlet(np.full(CLUSTERS, 0.3), size=n_users)
    tables = [
        centers[rng.choice(CLUSTERS, size=ROWS, p=own)] + rng.normal(size=(ROWS, WIDTH))
        for own in shares
    ]
    return Parties.of(tables)


def pooled_cost(parties: Parties, centers: FloatArray) -> float:
    """The cost of these centres over that of the best of three mini-batch fits."""
    rows, weights = parties.rows, parties.weights
    fits = [
        MiniBatchKMeans(
            CLUSTERS, batch_size=4096, max_iter=100, max_no_improvement=200, random_state=seed
        ).fit(rows)
        for seed in range(3)
    ]
    found = [fit.cluster_centers_ for fit in fits]
    costs = [cost(rows, weights, own, label(rows, own)) for own in (centers, *found)]
    return float(costs[0] / min(costs[1:]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
