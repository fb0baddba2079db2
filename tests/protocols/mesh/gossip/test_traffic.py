"""Rounds, the history of a fit, and how many numbers travel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.protocols.mesh.gossip.problems import (
    KMEANS,
    SIZES,
    K,
    M,
    lloyd,
    problem,
)
from tests.protocols.mesh.parts import blobs, graph_of
from unpooled import GossipKMeans as Estimator
from unpooled.protocols.mesh.shared.convergecast import most_local


def test_without_tolerance_all_rounds_are_run() -> None:
    tables, _, init = problem(0)
    for averaging in ("gossip", "tree"):
        model = Estimator(K, init=init, tol=0, max_rounds=23, averaging=averaging).fit(tables)
        assert model.n_rounds_ == 23
        assert not model.converged_
        assert {len(values) for values in model.history_.values()} == {23}
        assert (model.history_["changed"][-5:] == 0).all()


def test_one_round_is_one_lloyd_step() -> None:
    tables, _, init = problem(0)
    model = Estimator(K, init=init, max_rounds=1).fit(tables)
    rows = np.concatenate(tables)
    step = lloyd(rows, np.ones(len(rows)), init)
    np.testing.assert_allclose(model.cluster_centers_, step, atol=1e-9)
    assert not model.converged_
    assert model.n_rounds_ == 1
    assert {len(values) for values in model.history_.values()} == {1}


def test_history_is_of_rounds() -> None:
    tables, _, init = problem(6)
    model = Estimator(K, init=init, graph=graph_of(M, 1)).fit(tables)
    assert model.converged_
    assert 2 < model.n_rounds_ < 100
    assert {len(values) for values in model.history_.values()} == {model.n_rounds_}
    assert model.history_["changed"][0] == sum(SIZES)  # all rows are new
    assert model.history_["changed"][-1] == 0
    rows = np.concatenate(tables)
    cost = KMEANS.value(model.cluster_centers_[np.concatenate(model.labels_)], rows).sum()
    assert model.history_["cost"][-1] == pytest.approx(cost)
    assert model.history_["cost"][-1] == pytest.approx(model.inertia_ / 2)


@pytest.mark.parametrize("m", [3, 8, 13])
def test_traffic_on_a_ring(m: int) -> None:
    tables = blobs((12,) * m, 1)
    model = Estimator(K, random_state=0).fit(tables)
    traffic, d, reach = model.traffic_, 2, m // 2
    messages = {
        "tree": 2 * m * reach,
        "echo": 2 * m,
        "clusters": m - 1,
        "start": 2 * (m if m == 2 * reach else m - 2) - 2 * (m == 2 * reach),
        "sums": 2 * m * (model.n_rounds_ * (m // 2) + 1),
    }
    floats = {
        "tree": 2,
        "echo": 1,
        "start": K * d + 3 + 1,
        "sums": K * (d + 1) + 2,
    }
    # Two halves of the ring, in which whoever is nearer to the root has more users below it.
    widest = {level: reach + 1 - level for level in range(1, reach + 1)}
    levels = [*range(1, (m - 1) // 2 + 1), *range(1, m // 2 + 1)]
    sent = sum(min(widest[level], 6) * most_local(K) * (d + 1) + 2 for level in levels)
    assert traffic.by_kind["clusters"]["messages"] == messages["clusters"] == len(levels)
    assert traffic.by_kind["clusters"]["floats_up"] == sent
    for kind, each in floats.items():
        assert traffic.by_kind[kind]["messages"] == messages[kind], kind
        assert traffic.by_kind[kind]["floats_up"] == messages[kind] * each, kind
    assert set(traffic.by_kind) == set(messages)
    # Tree and echo, up and down, m/2 exchanges a cycle, and the last post.
    assert traffic.rounds == 3 * reach + 1 + model.n_rounds_ * (m // 2) + 1


def test_traffic_along_a_tree() -> None:
    tables, _, _ = problem(0)
    graph = graph_of(M, 2)
    model = Estimator(K, graph=graph, averaging="tree", random_state=0).fit(tables)
    links = 2 * graph.number_of_edges()
    sums = model.traffic_.by_kind["sums"]
    # Up and down every link of the tree once a cycle; the last post goes everywhere.
    assert sums["messages"] == model.n_rounds_ * 2 * (M - 1) + links
    gossip = Estimator(K, graph=graph, random_state=0).fit(tables)
    assert sums["floats_up"] < gossip.traffic_.by_kind["sums"]["floats_up"] / 2


def test_a_given_start_needs_no_tree() -> None:
    tables, _, init = problem(0)
    assert set(Estimator(K, init=init).fit(tables).traffic_.by_kind) == {"sums"}
    tree = Estimator(K, init=init, averaging="tree").fit(tables)
    assert set(tree.traffic_.by_kind) == {"sums", "tree", "echo"}
    private = Estimator(K, init=init, topology="private").fit(tables)
    assert set(private.traffic_.by_kind) == {"sums"}
