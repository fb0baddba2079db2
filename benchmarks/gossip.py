"""Ten thousand users in one process: peer-to-peer k-means against pooled mini-batch k-means.

    python benchmarks/gossip.py [users]

Users of 100 rows in 16 columns, 10 clusters in unlike parts, on a random 4-regular graph, each
knowing its own links only (``topology="private"``). Reported are the cost over that of
scikit-learn's MiniBatchKMeans on the pooled rows, run until it improves no more, and the time of an
exchange, everything included that is done between exchanges (labels, sums, costs), over that of the
sparse product without which no exchange can do: all users' sums added up over neighbours.
"""

from __future__ import annotations

import sys
from time import perf_counter

import networkx as nx
import numpy as np
from sklearn.cluster import MiniBatchKMeans

from unpooled.drivers.local import Options, run_mesh
from unpooled.graphs import Topology, topology
from unpooled.kernels.centers import cost, label
from unpooled.protocols.gossip import GossipKMeans
from unpooled.types import FloatArray, Parties
from unpooled.wire.message import Message

ROWS, WIDTH, CLUSTERS = 100, 16, 10


def main(n_users: int) -> None:
    parties = users(n_users)
    graph = topology(nx.random_regular_graph(4, n_users, seed=1), parties.names)
    times: dict[str, list[float]] = {}

    def watch(sender: str, message: Message) -> None:
        times.setdefault(message.kind, []).append(perf_counter())

    began = perf_counter()
    run = run_mesh(
        GossipKMeans(CLUSTERS, topology="private"), parties, graph, options=Options(watch=watch)
    )
    whole = perf_counter() - began
    centers = run.result["centers"]
    agreed = centers.mean(axis=0)
    exchanges = np.array(times["sums"])
    spent = (exchanges[-1] - exchanges[0]) / (len(exchanges) - 1)
    product = sparse_product(graph)
    print(f"{n_users} users, {len(parties.rows)} rows, reach {graph.reach}")
    for kind, moments in times.items():
        print(f"  {len(moments):4d} exchanges of {kind!r}")
    print(f"  stopped by themselves: {not run.result['running'].any()}")
    print(f"  largest disagreement of users: {np.abs(centers - agreed).max():.1e}")
    print(f"  cost over pooled mini-batch k-means: {pooled_cost(parties, agreed):.4f}")
    print(
        f"  an exchange takes {1e3 * spent:.1f} ms, {spent / product:.2f} sparse products of "
        f"{1e3 * product:.1f} ms (median exchange {np.median(np.diff(exchanges)) / product:.2f})"
    )
    print(f"  all of it: {whole:.0f} s, of which cycles {exchanges[-1] - exchanges[0]:.0f} s")


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


def sparse_product(graph: Topology) -> float:
    """Seconds of one product of the graph's matrix with all users' sums, the median of many."""
    sums = np.random.default_rng(0).normal(size=(graph.n_users, CLUSTERS * (WIDTH + 1)))
    times = []
    for _ in range(50):
        began = perf_counter()
        graph.adjacency @ sums
        times.append(perf_counter() - began)
    return float(np.median(times))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
