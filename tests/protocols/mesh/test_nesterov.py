"""DGC with momentum: the plain loops, the fixed points of plain DGC, in far fewer rounds."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.datasets import load_iris

from tests.protocols import reference
from tests.protocols.mesh.test_dgc import PAIRS, problem
from tests.sentences import refuses
from unpooled import DGC, losses, partition
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.protocols.mesh import dgc
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import Options, UserDown, run_mesh
from unpooled.types import Body

RING = nx.cycle_graph(10)


def plain_loops(
    loss: reference.PlainLoss,
    rows: list[np.ndarray],
    weights: list[np.ndarray],
    adjacency: np.ndarray,
    start: np.ndarray,
    *,
    rho: float,
    rounds: int,
    inner_steps: int,
) -> tuple[np.ndarray, int]:
    """Centres after ``rounds`` rounds, and how often a centre's momentum started again."""
    m, K, _ = start.shape
    largest = max(w.sum() for w in weights)
    alpha = 1 / (loss.smoothness * largest / rho + reference.bound_on_lambda(adjacency))
    x, y, age, restarts = start.copy(), start.copy(), np.ones((m, K)), 0
    for _ in range(rounds):
        labels = [reference.assign(loss, rows[i], y[i]) for i in range(m)]
        for _ in range(inner_steps):
            ahead = y.copy()
            for i in range(m):
                for k in range(K):
                    gradient = adjacency[i] @ (y[i, k] - y[:, k])
                    for r, row in enumerate(rows[i]):
                        if labels[i][r] == k:
                            gradient = gradient + weights[i][r] * loss.gradient(y[i, k], row) / rho
                    new = y[i, k] - alpha * gradient
                    way = new - x[i, k]
                    if gradient @ way >= 0:
                        age[i, k] = 1
                        restarts += 1
                    older = (1 + np.sqrt(1 + 4 * age[i, k] ** 2)) / 2
                    ahead[i, k] = new + (age[i, k] - 1) / older * way
                    x[i, k], age[i, k] = new, older
            y = ahead
    return x, restarts


@pytest.mark.parametrize("name", ["k-means", "huber", "logistic, mahalanobis"])
@pytest.mark.parametrize("inner_steps", [1, 3])
def test_equals_the_plain_loops(name: str, inner_steps: int) -> None:
    loss, plain = PAIRS[name]
    rows, weights, graph, start = problem(0)
    expected, restarts = plain_loops(
        plain(1, 1), rows, weights, nx.to_numpy_array(graph), start,
        rho=7.0, rounds=20, inner_steps=inner_steps,
    )  # fmt: skip
    assert restarts > 0
    model = DGC(
        3, loss=loss, metric=loss.metric, rho=7.0, graph=graph, init=start, solver="nesterov",
        inner_steps=inner_steps, max_rounds=20, tol=0,
    ).fit(rows, sample_weight=weights)  # fmt: skip
    np.testing.assert_allclose(model.peer_centers_, expected, rtol=0, atol=1e-9)


def iris(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Iris dealt out to ten users, and starting centres near those of the classes."""
    X, y = load_iris(return_X_y=True)
    groups = partition.balanced(y, n_parties=10, random_state=seed)
    means = np.stack([X[y == k].mean(axis=0) for k in range(3)])
    noise = np.random.default_rng(seed).normal(size=means.shape)
    return [X[groups == i] for i in range(10)], means + 0.1 * X.std(axis=0) * noise


def fixed_point(rows: list[np.ndarray], model: DGC) -> np.ndarray:
    """The lowest J_rho on a ring of ten for the model's clusters, from (W/rho + L) x = S/rho."""
    L = nx.laplacian_matrix(RING).toarray()
    members = [np.eye(3)[labels] for labels in model.labels_]
    W = np.stack([member.sum(axis=0) for member in members])
    S = np.stack([member.T @ table for member, table in zip(members, rows, strict=True)])
    solved = [
        np.linalg.solve(np.diag(W[:, k]) / model.rho + L, S[:, k] / model.rho) for k in range(3)
    ]
    return np.stack(solved, axis=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rho", "rounds", "seeds"), [(10.0, 60, 5), (100.0, 200, 3), (1000.0, 500, 1)]
)
def test_rounds_grow_with_the_root_of_rho(rho: float, rounds: int, seeds: int) -> None:
    left: dict[str, list[float]] = {solver: [] for solver in dgc.SOLVERS}
    for seed in range(seeds):
        rows, start = iris(seed)
        given = {"rho": rho, "init": start, "max_rounds": rounds, "tol": 0}
        for solver, errors in left.items():
            model = DGC(3, solver=solver, **given).fit(rows)
            target = fixed_point(rows, model)
            error = np.linalg.norm(model.peer_centers_ - target)
            errors.append(error / np.linalg.norm(start - target))
    assert np.median(left["nesterov"]) < 1e-6
    assert max(left["nesterov"]) < 1e-5
    assert min(left["plain"]) > 1e-3


@pytest.mark.parametrize(("rho", "rounds", "inner_steps"), [(10.0, 80, 1), (100.0, 200, 2)])
def test_stops_neither_early_nor_late(rho: float, rounds: int, inner_steps: int) -> None:
    for seed in range(3):
        rows, start = iris(seed)
        model = DGC(3, rho=rho, init=start, solver="nesterov", inner_steps=inner_steps).fit(rows)
        assert model.converged_
        assert model.n_rounds_ <= rounds
        spread = max(np.sqrt(table.var(axis=0).sum()) for table in rows)
        assert np.abs(model.peer_centers_ - fixed_point(rows, model)).max() < 3e-6 * spread


def settled(loss: losses.Loss, solver: str, start: np.ndarray) -> Body:
    rows, weights, graph, _ = problem(1)
    parties = Parties.of(rows, weights=weights)
    protocol = dgc.DGC(
        InitialCenters(3, start), loss=loss, solver=solver, tol=1e-8, max_rounds=4000
    )
    result = run_mesh(protocol, parties, topology(graph, parties.names)).result
    assert not result["running"].any()
    return result


@pytest.mark.long
@pytest.mark.parametrize("name", ["k-means", "huber", "fair"])
def test_ends_where_plain_dgc_ends(name: str) -> None:
    rows = problem(1)[0]
    start = np.array([rows[2][0], rows[2][5], rows[5][3]])
    plain, nesterov = (settled(PAIRS[name][0], solver, start) for solver in dgc.SOLVERS)
    np.testing.assert_allclose(nesterov["centers"], plain["centers"], rtol=0, atol=1e-6)
    assert nesterov["rounds"].max() < plain["rounds"].max() / 3


@pytest.mark.parametrize("name", ["bregman, mahalanobis", "generalised kl", "logistic"])
def test_plain_dgc_stays_where_it_ends(name: str) -> None:
    loss, (*_, start) = PAIRS[name][0], problem(1)
    end = settled(loss, "nesterov", start)["centers"]
    np.testing.assert_allclose(settled(loss, "plain", end)["centers"], end, rtol=0, atol=1e-6)


@pytest.mark.bits
@pytest.mark.parametrize("name", ["k-means", "logistic", "itakura-saito"])
def test_users_split_over_hosts_give_the_same_bits(name: str) -> None:
    loss, _ = PAIRS[name]
    rows, weights, graph, _ = problem(3)
    parties = Parties.of(rows, weights=weights)
    protocol = dgc.DGC(
        InitialCenters(3), loss=loss, solver="nesterov", max_rounds=40, inner_steps=2
    )
    faults = Options(faults=(UserDown(2, 20, 40),))
    whole, *split = (
        run_mesh(
            protocol, parties, topology(graph, parties.names), seed=4, blocks=blocks, options=faults
        )
        for blocks in (1, 2, 6)
    )
    for other in split:
        assert np.array_equal(whole.result["centers"], other.result["centers"])
        assert np.array_equal(whole.traffic.table, other.traffic.table)


@pytest.mark.parametrize("fault", [UserDown(3, 12, 60), UserDown(3, 30, 31)])
def test_a_user_that_was_down_leaves_no_trace(fault: UserDown) -> None:
    rows, start = iris(0)
    parties = Parties.of(rows)
    protocol = dgc.DGC(InitialCenters(3, start), rho=30.0, solver="nesterov", tol=1e-9)
    undisturbed, disturbed = (
        run_mesh(protocol, parties, topology(RING, parties.names), options=Options(faults=faults))
        for faults in ((), (fault,))
    )
    found, expected = disturbed.result, undisturbed.result
    assert not found["running"].any()
    np.testing.assert_allclose(found["centers"], expected["centers"], rtol=0, atol=1e-7)


def test_centres_never_leave_the_domain() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.uniform(0.1, 5.0, size=(20, 3)) for _ in range(4)]
    everything = np.concatenate(rows)
    given = {"init": everything[:3], "solver": "nesterov", "max_rounds": 40}
    for loss in (losses.Bregman.itakura_saito(), losses.Bregman.generalised_kl()):
        centers = DGC(3, loss=loss, **given).fit(rows).peer_centers_
        assert (centers >= everything.min(axis=0)).all()
        assert (centers <= everything.max(axis=0)).all()
        assert (DGC(3, loss=loss, step_size=50.0, **given).fit(rows).peer_centers_ > 0).all()


def test_unknown_solver() -> None:
    rows = [np.array([[0.0], [1.0]])] * 2
    refuses(lambda: DGC(2, solver="newton").fit(rows), "solver='newton' is not known")
