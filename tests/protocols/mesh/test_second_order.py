"""The second-order method against plain loops, exact solutions, DGC, and figures on Iris."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

from tests.protocols import reference
from tests.protocols.mesh.parts import published_dgc
from tests.protocols.mesh.test_dgc import A, blobs, problem
from unpooled import losses, partition
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.kernels.assignment.nearest import nearest
from unpooled.protocols.mesh.second_order import SecondOrder
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import Deaf, Options, Run, UserDown, run_mesh

X, Y = load_iris(return_X_y=True)


def run(
    rows: list[np.ndarray],
    graph: Any,
    start: np.ndarray,
    weights: list[np.ndarray] | None = None,
    *,
    faults: tuple[Any, ...] = (),
    blocks: int = 1,
    **given: Any,
) -> tuple[Run, np.ndarray, Parties, Topology]:
    """The run, and every round's centres."""
    parties = Parties.of(rows, weights=weights)
    network = topology(graph, parties.names)
    protocol = SecondOrder(InitialCenters(start.shape[-2], start), **given)
    path = [np.broadcast_to(start, (len(rows), *start.shape[-2:]))]
    options = Options(faults=faults)
    found = run_mesh(
        protocol, parties, network, blocks=blocks, options=options,
        observe=lambda note: path.append(note.body["centers"]),
    )  # fmt: skip
    return found, np.array(path), parties, network


def exact(parties: Parties, network: Topology, x: np.ndarray, rho: float) -> np.ndarray:
    """The solution of (W/rho + L) x = S/rho for the clusters that x makes."""
    labels = nearest(parties.rows, parties.owner, x)
    solution = np.empty_like(x)
    for k in range(x.shape[1]):
        own = np.where(labels == k, parties.weights, 0.0)
        mass = np.bincount(parties.owner, own, len(parties)) / rho
        sums = np.zeros((len(parties), x.shape[2]))
        np.add.at(sums, parties.owner, own[:, None] * parties.rows / rho)
        solution[:, k] = np.linalg.solve(np.diag(mass) + network.laplacian.toarray(), sums)
    return solution


def slope(
    loss: losses.Loss, parties: Parties, network: Topology, x: np.ndarray, rho: float
) -> float:
    """The largest entry of the gradient of J_rho, times rho."""
    labels = nearest(parties.rows, parties.owner, x, loss.dissimilarity)
    gradient = rho * (network.laplacian @ x.reshape(len(x), -1)).reshape(x.shape)
    terms = loss.gradient(x[parties.owner, labels], parties.rows)
    np.add.at(gradient, (parties.owner, labels), parties.weights[:, None] * terms)
    return float(np.abs(gradient).max())


def cost(parties: Parties, network: Topology, x: np.ndarray, rho: float) -> float:
    labels = nearest(parties.rows, parties.owner, x)
    squares = ((x[parties.owner, labels] - parties.rows) ** 2).sum(axis=1)
    return float(parties.weights @ squares) / (2 * rho) + network.disagreement(x)


def iris(seed: int, m: int = 10) -> tuple[list[np.ndarray], np.ndarray]:
    """Every user has an equal share of each class; all start at centres of a sample."""
    groups = partition.balanced(Y, n_parties=m, random_state=seed)
    sample = X[np.random.default_rng(seed).choice(len(X), 45, replace=False)]
    start = KMeans(3, n_init=3, random_state=seed).fit(sample).cluster_centers_
    return [X[groups == i] for i in range(m)], start


def plain(
    loss: reference.PlainLoss,
    rows: list[np.ndarray],
    weights: list[np.ndarray],
    graph: nx.Graph,
    start: np.ndarray,
    rho: float,
    rounds: int,
) -> np.ndarray:
    m, K, _ = start.shape
    degree = [graph.degree[i] for i in range(m)]
    w = loss.smoothness * max(u.sum() for u in weights) / (K * rho)
    R = np.mean(degree) / w
    s = np.sqrt((1 - np.cos(np.pi / max(4, nx.diameter(graph)))) / 2)
    Q = 1 + R * (1 + s**2) + np.sqrt((1 + 2 * R) * (1 + 2 * R * s**2))
    b, t = R * (1 - s) ** 2 / Q, R * (1 + s) ** 2 / Q
    tau, nu = 1 - t, (1 - t) / 10
    mu = 2 / (1 - b + 4 * R / (Q * (1 + t)))
    x, p, next_assignment = start.copy(), np.zeros_like(start), 0
    labels: list[list[int]] = []
    for n in range(rounds):
        if n == next_assignment:
            labels = [reference.assign(loss, rows[i], x[i]) for i in range(m)]
            next_assignment = n + 1 + n // 10
        new = x.copy()
        for i in range(m):
            for k in range(K):
                apart = sum(x[i, k] - x[j, k] for j in graph[i])
                a = apart - p[i, k]
                p[i, k] += tau * a
                force, mass = p[i, k] + nu * (1 - tau) * a, 0.0
                for r, y in enumerate(rows[i]):
                    if labels[i][r] == k:
                        mass += weights[i][r]
                        force = force + weights[i][r] * loss.gradient(x[i, k], y) / rho
                links = (nu + (1 - nu) * tau / (2 - tau)) * degree[i]
                new[i, k] -= force / (mu * (loss.smoothness * mass / (2 * rho) + links))
        x = new
    return x


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("metric", [None, A], ids=["euclidean", "mahalanobis"])
@pytest.mark.parametrize("name", ["kmeans", "huber", "logistic", "fair"])
def test_equals_the_plain_loops(name: str, metric: np.ndarray | None, seed: int) -> None:
    rows, weights, graph, start = problem(seed)
    loss = {"huber": losses.Huber(0.7), "fair": losses.Fair(0.8)}.get(name, losses.NAMED[name])
    loss = loss if metric is None else loss.under(losses.Mahalanobis(metric))
    other = reference.distance_loss(name, {"huber": 0.7, "fair": 0.8}.get(name, 1.0), metric)
    expected = plain(other, rows, weights, graph, start, 7.0, 13)
    found, *_ = run(rows, graph, start, weights, loss=loss, rho=7.0, max_rounds=13, tol=0.0)
    np.testing.assert_allclose(found.result["centers"], expected, rtol=0, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(("rho", "most"), [(10.0, 35), (100.0, 55), (1000.0, 60)])
def test_exchanges_on_iris(rho: float, most: int) -> None:
    """Until the distance to the exact solution is 1e-6 of the initial one, and until all stop."""
    needed, stopped, costs, baseline = [], [], [], []
    for seed in range(6):
        rows, start = iris(seed)
        _, path, parties, network = run(rows, "ring", start, rho=rho, max_rounds=120, tol=0.0)
        goal = exact(parties, network, path[-1], rho)
        error = np.sqrt(((path - goal) ** 2).sum(axis=(1, 2, 3)))
        needed.append(int(np.flatnonzero(error > 1e-6 * error[0])[-1]) + 1)
        found, path, *_ = run(rows, "ring", start, rho=rho)
        assert not found.result["running"].any()
        assert len(set(found.result["rounds"].tolist())) == 1
        np.testing.assert_allclose(path[-1], goal, rtol=0, atol=1e-6)
        stopped.append(int(found.result["rounds"][0]))
        if rho == 10.0:
            costs.append(cost(parties, network, path[-1], rho))
            dgc = published_dgc(3, rho=rho, init=start, max_rounds=3000, tol=1e-6).fit(rows)
            baseline.append(cost(parties, network, dgc.peer_centers_, rho))
    assert np.median(needed) <= most
    assert np.median(stopped) <= most + 20
    assert rho != 10.0 or np.mean(costs) <= np.mean(baseline)


LOSSES: dict[str, losses.Loss] = {
    "k-means": losses.SquaredEuclidean(),
    "huber": losses.Huber(0.7),
    "logistic": losses.Logistic(),
    "fair": losses.Fair(0.8),
    "mahalanobis": losses.Huber(0.7).under(losses.Mahalanobis(A)),
    "generalised kl": losses.Bregman.generalised_kl(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_ends_where_the_cost_is_stationary(name: str) -> None:
    rows, weights, graph, _ = problem(0)
    start, loss = np.array([[1.5, 2.0, 2.5], [3.0, 3.0, 3.0], [4.0, 2.0, 1.0]]), LOSSES[name]
    for rho in (3.0, 300.0):
        found, path, parties, network = run(
            rows, graph, start, weights, loss=loss, rho=rho, tol=1e-8, max_rounds=3000
        )
        assert not found.result["running"].any()
        assert slope(loss, parties, network, path[-1], rho) < 1e-4


@pytest.mark.parametrize(
    "graph",
    [
        nx.path_graph(10),
        nx.star_graph(9),
        nx.complete_graph(10),
        nx.barbell_graph(5, 0),
        nx.random_regular_graph(4, 50, seed=1),
        nx.path_graph(2),
    ],
    ids=["path", "star", "complete", "barbell", "regular", "pair"],
)
def test_every_graph_settles(graph: nx.Graph) -> None:
    for seed, rho in enumerate((1.0, 10.0, 1000.0)):
        rows, start = iris(seed, len(graph))
        found, path, parties, network = run(rows, graph, start, rho=rho)
        assert not found.result["running"].any()
        assert found.result["rounds"].max() < 300
        goal = exact(parties, network, path[-1], rho)
        np.testing.assert_allclose(path[-1], goal, rtol=0, atol=2e-5)


def test_alone_it_is_lloyd() -> None:
    rows, corners = blobs()
    pooled = np.concatenate(rows)
    lloyd = KMeans(3, init=corners, n_init=1, tol=0).fit(pooled).cluster_centers_
    found, path, *_ = run([pooled], "ring", corners)
    np.testing.assert_allclose(path[-1][0], lloyd, atol=1e-9)
    assert found.traffic.messages == 0
    apart = run(rows, None, corners)[0].result["centers"]
    for table, own in zip(rows, apart, strict=True):
        assert np.array_equal(own, run([table], "ring", corners)[0].result["centers"][0])


@pytest.mark.bits
def test_users_split_over_hosts_give_the_same_bits() -> None:
    rows, weights, graph, start = problem(3)
    rows[2], weights[2] = rows[2][:0], weights[2][:0]
    for loss in LOSSES.values():
        whole, *split = (
            run(rows, graph, start, weights, loss=loss, blocks=blocks, max_rounds=40)[0]
            for blocks in (1, 2, len(rows))
        )
        for other in split:
            assert np.array_equal(whole.result["centers"], other.result["centers"])
            assert np.array_equal(whole.traffic.table, other.traffic.table)


def test_users_without_rows_and_clusters_without_any() -> None:
    rows, corners = blobs()
    rows[1], far = rows[1][:0], np.concatenate([corners, [[500.0, 500.0]]])
    found, path, _, network = run(rows, "ring", far, rho=50.0)
    assert not found.result["running"].any()
    assert np.array_equal(path[-1][:, 3], np.tile(far[3], (5, 1)))
    parties = Parties.of(rows)
    goal = exact(parties, network, path[-1][:, :3], 50.0)
    np.testing.assert_allclose(path[-1][:, :3], goal, rtol=0, atol=1e-4)


def test_weights_are_multiplicities() -> None:
    rows, corners = blobs()
    times = [np.random.default_rng(i).integers(1, 4, size=len(t)) for i, t in enumerate(rows)]
    repeated = [np.repeat(t, n, axis=0) for t, n in zip(rows, times, strict=True)]
    given = {"max_rounds": 30, "tol": 0.0}
    _, weighted, *_ = run(rows, "ring", corners, [n.astype(float) for n in times], **given)
    _, listed, *_ = run(repeated, "ring", corners, **given)
    np.testing.assert_allclose(weighted, listed, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "fault", [UserDown(2, 12, 25), Deaf(1, 0, 10, 14), UserDown(4, 8, 9)], ids=lambda f: str(f)
)
def test_converges_after_a_fault(fault: Any) -> None:
    rows, corners = blobs()
    for blocks in (1, 5):
        found, path, parties, network = run(
            rows, "ring", corners, rho=30.0, faults=(fault,), blocks=blocks, tol=1e-9
        )
        assert not found.result["running"].any()
        goal = exact(parties, network, path[-1], 30.0)
        np.testing.assert_allclose(path[-1], goal, rtol=0, atol=1e-6)


def test_messages_are_no_larger_than_those_of_dgc() -> None:
    rows, corners = blobs()
    found, *_ = run(rows, "ring", corners, tol=0.0, max_rounds=30)
    assert found.traffic.by_kind["centers"]["floats_up"] == 30 * 10 * 6
    assert found.traffic.by_kind["limits"]["floats_up"] == 2 * 10 * 1
