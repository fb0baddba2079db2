"""DGC against the plain loops, and what theory says of it."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from sklearn.cluster import KMeans

from tests.protocols import reference
from tests.protocols.mesh.parts import published_dgc
from unpooled import losses
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.graphs.reading import topology
from unpooled.protocols.mesh import dgc
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import run_mesh

A = np.array([[2.0, 0.4, 0.0], [0.4, 1.0, -0.2], [0.0, -0.2, 0.5]])
PAIRS: dict[str, tuple[losses.Loss, Callable[[float, float], reference.PlainLoss]]] = {
    "k-means": (losses.SquaredEuclidean(), lambda lo, hi: reference.distance_loss("kmeans")),
    "huber": (losses.Huber(0.7), lambda lo, hi: reference.distance_loss("huber", 0.7)),
    "logistic": (losses.Logistic(), lambda lo, hi: reference.distance_loss("logistic")),
    "fair": (losses.Fair(0.8), lambda lo, hi: reference.distance_loss("fair", 0.8)),
    "bregman, euclidean": (
        losses.Bregman.squared_euclidean(),
        lambda lo, hi: reference.distance_loss("kmeans"),
    ),
    "bregman, mahalanobis": (
        losses.Bregman.mahalanobis(A),
        lambda lo, hi: reference.distance_loss("kmeans", A=A),
    ),
    "itakura-saito": (losses.Bregman.itakura_saito(), reference.itakura_saito),
    "generalised kl": (losses.Bregman.generalised_kl(), reference.generalised_kl),
}
for _name, _parameter in (("kmeans", 1.0), ("huber", 0.7), ("logistic", 1.0), ("fair", 0.8)):
    PAIRS[f"{_name}, mahalanobis"] = (
        {"huber": losses.Huber(0.7), "fair": losses.Fair(0.8)}.get(
            _name, losses.NAMED[_name]
        ).under(losses.Mahalanobis(A)),
        lambda lo, hi, n=_name, p=_parameter: reference.distance_loss(n, p, A),
    )


def problem(seed: int) -> tuple[list[np.ndarray], list[np.ndarray], nx.Graph, np.ndarray]:
    """Unequal parties (one smaller than K) with weights, on a random connected graph."""
    rng = np.random.default_rng(seed)
    m, K = 6, 3
    corners = rng.uniform(1.0, 4.0, size=(K, 3))
    sizes = [2, 7, 11, 5, 3, 8]
    rows = [corners[rng.integers(K, size=n)] + rng.uniform(0, 1.5, size=(n, 3)) for n in sizes]
    weights = [rng.uniform(0.2, 2.0, size=n) for n in sizes]
    weights[1][0] = 0.0
    seeds = range(1000 * seed, 1000 * seed + 1000)
    graphs = (nx.gnp_random_graph(m, 0.45, seed=s) for s in seeds)
    graph = next(g for g in graphs if nx.is_connected(g))
    start = np.stack([rows[i][rng.integers(len(rows[i]), size=K)] for i in range(m)])
    return rows, weights, graph, start


@pytest.mark.parametrize("inner_steps", [1, 5])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_plain_loops(name: str, inner_steps: int, seed: int) -> None:
    loss, plain = PAIRS[name]
    rows, weights, graph, start = problem(seed)
    everything = np.concatenate([*rows, *start])
    box = everything.min(axis=0), everything.max(axis=0)
    smoothness = max(plain(lo, hi).smoothness for lo, hi in zip(*box, strict=True))
    other = reference.PlainLoss(plain(1, 1).value, plain(1, 1).gradient, smoothness)
    expected, costs = reference.dgc(
        other, rows, weights, nx.to_numpy_array(graph), start,
        rho=7.0, rounds=12, inner_steps=inner_steps,
    )  # fmt: skip
    protocol = dgc.DGC(
        InitialCenters(3, start),
        loss=loss,
        rho=7.0,
        inner_steps=inner_steps,
        max_rounds=12,
        tol=0.0,
    )
    parties = Parties.of(rows, weights=weights)
    found = run_mesh(protocol, parties, topology(graph, parties.names))
    np.testing.assert_allclose(found.result["centers"], expected, rtol=0, atol=1e-9)
    if isinstance(loss, losses.DistanceLoss):
        model = published_dgc(
            3, loss=loss, metric=loss.metric, rho=7.0, graph=graph, init=start,
            inner_steps=inner_steps, max_rounds=12, tol=0,
        ).fit(rows, sample_weight=weights)  # fmt: skip
        np.testing.assert_allclose(model.peer_centers_, expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.history_["cost"], costs, rtol=1e-9)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("inner_steps", [1, 5])
def test_cost_never_rises(name: str, inner_steps: int) -> None:
    loss, _ = PAIRS[name]
    for seed in range(3):
        rows, weights, graph, _ = problem(seed)
        model = published_dgc(
            3, graph=graph, rho=5.0, inner_steps=inner_steps, max_rounds=60, tol=0,
            loss=loss, metric=getattr(loss, "metric", "euclidean"),
            init="k-means++", random_state=seed,
        ).fit(rows, sample_weight=weights)  # fmt: skip
        cost = model.history_["cost"]
        assert np.diff(cost).max() <= 1e-12 * cost[0]
        assert cost[-1] < cost[0]


@pytest.mark.bits
@pytest.mark.parametrize("name", PAIRS)
def test_users_split_over_hosts_give_the_same_bits(name: str) -> None:
    loss, _ = PAIRS[name]
    rows, weights, graph, _ = problem(3)
    parties = Parties.of(rows, weights=weights)
    protocol = dgc.DGC(InitialCenters(3), loss=loss, max_rounds=30, inner_steps=2)
    network = topology(graph, parties.names)
    whole, *split = (
        run_mesh(protocol, parties, network, seed=4, blocks=blocks) for blocks in (1, 3, 6)
    )
    for other in split:
        assert np.array_equal(whole.result["centers"], other.result["centers"])
        assert np.array_equal(whole.traffic.table, other.traffic.table)


def blobs(seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Well separated clusters, unevenly spread over parties."""
    rng = np.random.default_rng(seed)
    corners = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 9.0]])
    rows = [
        np.concatenate([corners[k] + rng.normal(size=(n, 2)) for k, n in enumerate(counts)])
        for counts in ([8, 3, 1], [1, 9, 4], [5, 0, 7], [2, 6, 2], [4, 4, 4])
    ]
    return rows, corners


@pytest.mark.parametrize(
    ("rho", "gap"), [(10.0, 0.1), pytest.param(100.0, 0.01, marks=pytest.mark.long)]
)
def test_large_rho_approaches_a_lloyd_point_of_the_pooled_rows(rho: float, gap: float) -> None:
    """To O(1/rho): ten times the rho, a fifth of the distance or less."""
    rows, corners = blobs()
    pooled = np.concatenate(rows)
    lloyd = KMeans(3, init=corners, n_init=1, tol=0).fit(pooled).cluster_centers_
    near, nearer = (
        np.abs(
            published_dgc(3, rho=own, init=corners, max_rounds=60_000, tol=1e-10)
            .fit(rows)
            .peer_centers_
            - lloyd
        ).max()
        for own in (rho, 10 * rho)
    )
    assert nearer < gap
    assert nearer < near / 5


def test_one_party_is_gradient_clustering_of_pooled_rows() -> None:
    rows, corners = blobs()
    pooled = np.concatenate(rows)
    expected, _ = reference.dgc(
        reference.distance_loss("kmeans"), [pooled], [np.ones(len(pooled))], np.zeros((1, 1)),
        corners[None], rho=10.0, rounds=15,
    )  # fmt: skip
    model = published_dgc(3, init=corners, max_rounds=15, tol=0).fit(pooled)
    np.testing.assert_allclose(model.cluster_centers_, expected[0], atol=1e-9)
    assert model.traffic_.messages == 0
    assert model.traffic_.rounds == 0


def test_no_graph_is_gradient_clustering_of_each_party_by_itself() -> None:
    rows, corners = blobs()
    model = published_dgc(3, graph=None, init=corners).fit(rows)
    alone = [published_dgc(3, init=corners).fit(table) for table in rows]
    for own, other in zip(model.peer_centers_, alone, strict=True):
        assert np.array_equal(own, other.cluster_centers_)
    assert model.n_rounds_ == max(other.n_rounds_ for other in alone)
    assert len({other.n_rounds_ for other in alone}) > 1  # each stops by itself
    assert not hasattr(model, "cluster_centers_")
    assert model.traffic_.messages == 0
    with pytest.raises(InputError, match="graph=None"):
        model.predict(rows)


def test_users_in_isolation_each_have_a_box_of_their_own() -> None:
    rng = np.random.default_rng(0)
    rows = [scale * rng.uniform(1.0, 2.0, size=(9, 2)) for scale in (1.0, 10.0)]
    given = {"loss": losses.Bregman.generalised_kl(), "max_rounds": 30, "tol": 0}
    given.update(init="k-means++", graph=None, random_state=0)
    parties = Parties.of(rows)
    protocol = dgc.DGC(InitialCenters(2, "k-means++"), loss=given["loss"], max_rounds=30, tol=0.0)
    one, two = (
        run_mesh(protocol, parties, topology(None, parties.names), blocks=b).result["centers"]
        for b in (1, 2)
    )
    assert np.array_equal(one, two)
    both = published_dgc(2, **given).fit(rows)
    alone = published_dgc(2, **given).fit(rows[:1])
    assert np.array_equal(both.peer_centers_[0], alone.peer_centers_[0])


def test_the_centre_of_an_empty_cluster_stays_when_nobody_pulls_it() -> None:
    far = np.array([[0.0, 0.0], [1e3, 1e3]])
    model = published_dgc(2, init=far, max_rounds=5, tol=0).fit(np.arange(8.0).reshape(4, 2))
    assert np.array_equal(model.cluster_centers_[1], far[1])


def test_weights_are_multiplicities() -> None:
    rows, corners = blobs()
    rng = np.random.default_rng(1)
    times = [rng.integers(1, 4, size=len(table)) for table in rows]
    repeated = [np.repeat(t, n, axis=0) for t, n in zip(rows, times, strict=True)]
    given = {"init": corners, "max_rounds": 50, "tol": 0}
    weighted = published_dgc(3, **given).fit(rows, sample_weight=[n.astype(float) for n in times])
    listed = published_dgc(3, **given).fit(repeated)
    np.testing.assert_allclose(weighted.peer_centers_, listed.peer_centers_, atol=1e-9)


def test_scaling_weights_is_scaling_rho() -> None:
    rows, corners = blobs()
    n = sum(map(len, rows))
    given = {"init": corners, "max_rounds": 50, "tol": 0}
    plain = published_dgc(3, rho=10.0, **given).fit(rows)
    scaled = published_dgc(3, rho=10.0 / n, **given).fit(
        rows, sample_weight=[np.full(len(table), 1 / n) for table in rows]
    )
    np.testing.assert_allclose(plain.peer_centers_, scaled.peer_centers_, atol=1e-9)


@pytest.mark.parametrize(
    "loss", [losses.Bregman.itakura_saito(), losses.Bregman.generalised_kl()], ids=["is", "kl"]
)
def test_steps_stay_in_the_domain(loss: losses.Bregman) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.uniform(0.1, 5.0, size=(20, 3)) for _ in range(4)]
    model = published_dgc(
        3, loss=loss, step_size=50.0, init="random", max_rounds=20, random_state=0
    )
    assert (model.fit(rows).peer_centers_ > 0).all()


def test_auto_step_is_refused_without_a_smoothness_bound() -> None:
    rows = [np.array([[0.0, 1.0], [2.0, 3.0], [1.0, 5.0]])] * 2
    init = np.array([[1.0, 1.0], [2.0, 4.0]])
    loss = losses.Bregman.generalised_kl()
    with pytest.raises(InputError, match=r"Generalised KL has none there \(column 0 .* down to 0"):
        published_dgc(2, loss=loss, init=init).fit(rows)
    unknown = losses.Bregman(loss.psi, loss.grad, loss.hvp, None, domain=(0.0, np.inf))
    with pytest.raises(InputError, match="none is known"):
        published_dgc(2, loss=unknown, init=init).fit(rows)
    model = published_dgc(2, loss=loss, init=init, step_size=1e-3, max_rounds=20).fit(rows)
    assert (model.peer_centers_ > 0).all()


def test_a_loss_of_ones_own() -> None:
    class Quartic(losses.Loss):
        """f = |x - y|^4 / 4, smooth on a box only."""

        needs_box = True

        def value(self, x, y):  # type: ignore[no-untyped-def]
            return np.vecdot(x - y, x - y) ** 2 / 4

        def gradient(self, x, y):  # type: ignore[no-untyped-def]
            return np.vecdot(x - y, x - y)[:, None] * (x - y)

        def smoothness(self, low, high):  # type: ignore[no-untyped-def]
            return float(3 * np.sum((high - low) ** 2))

    class Cosh(losses.DistanceLoss):
        """f = log cosh t."""

        beta = 1.0

        def of_distance(self, t):  # type: ignore[no-untyped-def]
            return np.logaddexp(t, -t) - np.log(2)

        def weight(self, t):  # type: ignore[no-untyped-def]
            return np.divide(np.tanh(t), t, out=np.ones_like(t), where=t > 0)

    rows, corners = blobs()
    for loss in (Quartic(), Cosh()):
        model = published_dgc(3, loss=loss, init=corners, max_rounds=200).fit(rows)
        assert np.diff(model.history_["cost"]).max() <= 1e-12 * model.history_["cost"][0]
        assert np.abs(model.cluster_centers_ - corners).max() < 2.0
    metric = losses.Mahalanobis(np.diag([1.0, 4.0]))
    assert (
        published_dgc(3, loss=Cosh(), metric=metric, init=corners).fit(rows).loss_.metric is metric
    )


def test_a_step_size_that_is_too_large_is_named() -> None:
    rows, corners = blobs()
    with pytest.raises(InputError, match="step size that was given is too large"):
        published_dgc(3, init=corners, step_size=1e3, max_rounds=1000).fit(rows)
