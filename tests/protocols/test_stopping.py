"""All users stop in the same round, by local information, and it is counted."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from tests.protocols.test_dgc import blobs, problem
from unpooled import DGC, ADMMKMeans, KarSwenson
from unpooled.drivers.local import run_mesh
from unpooled.graphs import topology
from unpooled.protocols import dgc
from unpooled.protocols.starts import Start
from unpooled.types import Parties


@pytest.mark.parametrize(
    "graph",
    [nx.path_graph(6), nx.cycle_graph(6), nx.star_graph(5), nx.barbell_graph(2, 2)],
    ids=["path", "ring", "star", "barbell"],
)
@pytest.mark.parametrize("inner_steps", [1, 3])
def test_all_users_stop_in_the_same_round(graph: nx.Graph, inner_steps: int) -> None:
    for seed in range(3):
        rows, weights, _, _ = problem(seed)
        parties = Parties.of(rows, weights=weights)
        protocol = dgc.DGC(Start(3), rho=3.0, inner_steps=inner_steps, max_rounds=20_000, tol=1e-5)
        for blocks in (1, 6):
            run = run_mesh(protocol, parties, topology(graph, parties.names), blocks=blocks)
            assert len(set(run.result["rounds"].tolist())) == 1
            assert run.result["rounds"][0] < 20_000


@pytest.mark.parametrize("method", [DGC, KarSwenson, ADMMKMeans])
def test_users_are_at_rest_when_they_stop_and_not_long_before(method: type) -> None:
    rows, corners = blobs()
    spread = max(np.sqrt(table.var(axis=0).sum()) for table in rows)
    model = method(3, init=corners, tol=1e-4, max_rounds=10_000).fit(rows)
    resting = (model.history_["movement"] <= 1e-4 * spread) & (model.history_["changed"] == 0)
    diameter = 2
    first = int(np.argmax(resting))
    assert resting[-diameter - 1 :].all()
    assert model.n_rounds_ <= first + 2 * diameter + 2
    assert model.n_rounds_ == len(model.history_["cost"])


def test_stopping_costs_one_number_per_message_and_nothing_without_tol() -> None:
    rows, corners = blobs()
    each = 3 * 2
    silent = DGC(3, init=corners, tol=0, max_rounds=30, step_size=0.05).fit(rows)
    assert set(silent.traffic_.by_kind) == {"centers"}
    assert silent.traffic_.floats_up == 30 * 10 * each
    auto = DGC(3, init=corners, tol=0, max_rounds=30).fit(rows)
    assert auto.traffic_.by_kind["limits"]["floats_up"] == 2 * 10 * 4  # diameter 2
    stopping = DGC(3, init=corners, tol=1e-3, max_rounds=5000).fit(rows)
    expected = stopping.n_rounds_ * 10 * (each + 1)
    assert stopping.traffic_.by_kind["centers"]["floats_up"] == expected
    assert stopping.traffic_.rounds == stopping.n_rounds_ + 2


def test_traffic_counts_edges_and_inner_steps() -> None:
    rows, _ = blobs()
    model = DGC(3, graph="star", inner_steps=4, max_rounds=5, tol=0, random_state=0).fit(rows)
    traffic = model.traffic_
    assert traffic.by_kind["start"]["messages"] == 3 * 8
    assert traffic.by_kind["centers"]["messages"] == 5 * 4 * 8
    assert traffic.rounds == 3 + 2 + 20  # start, limits (diameter 2), rounds
    assert traffic.by_party["messages"].tolist() == [25 * 4, 25, 25, 25, 25]


def test_rows_without_spread_stop_when_nothing_moves() -> None:
    rows = [np.zeros((3, 1)), np.ones((3, 1))]
    model = DGC(2, init=np.array([[0.0], [1.0]]), rho=1e9, max_rounds=500).fit(rows)
    assert model.n_rounds_ < 500
