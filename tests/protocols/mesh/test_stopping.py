"""All users stop in the same round, by local information, and it is counted."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from tests.protocols.mesh.parts import published_dgc
from tests.protocols.mesh.test_dgc import blobs, problem
from unpooled import ADMMKMeans, KarSwenson
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.protocols.mesh import dgc
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import LinkLost, Options, run_mesh


@pytest.mark.parametrize(
    "graph",
    [nx.path_graph(6), nx.cycle_graph(6), nx.star_graph(5), nx.barbell_graph(2, 2)],
    ids=["path", "ring", "star", "barbell"],
)
@pytest.mark.parametrize("inner_steps", [1, 3])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_all_users_stop_in_the_same_round(graph: nx.Graph, inner_steps: int, seed: int) -> None:
    rows, weights, _, _ = problem(seed)
    parties = Parties.of(rows, weights=weights)
    protocol = dgc.DGC(
        InitialCenters(3), rho=3.0, inner_steps=inner_steps, max_rounds=20_000, tol=1e-3
    )
    for blocks in (1, 6):
        run = run_mesh(protocol, parties, topology(graph, parties.names), blocks=blocks)
        assert len(set(run.result["rounds"].tolist())) == 1
        assert run.result["rounds"][0] < 20_000


@pytest.mark.parametrize("method", [published_dgc, KarSwenson, ADMMKMeans])
def test_users_are_at_rest_when_they_stop_and_not_long_before(method: type) -> None:
    rows, corners = blobs()
    spread = max(np.sqrt(table.var(axis=0).sum()) for table in rows)
    model = method(3, init=corners, tol=1e-4, max_rounds=10_000).fit(rows)
    assert model.converged_
    assert (model.history_["movement"][-5:] <= 1e-4 * spread).all()
    assert (model.history_["changed"][-5:] == 0).all()
    strict = method(3, init=corners, tol=1e-8, max_rounds=20_000).fit(rows)
    assert strict.n_rounds_ > model.n_rounds_
    longer = method(3, init=corners, tol=0, max_rounds=2 * strict.n_rounds_).fit(rows)
    gap = np.abs(model.peer_centers_ - longer.peer_centers_).max()
    assert gap <= 20 * 1e-4 * spread
    assert model.n_rounds_ == len(model.history_["cost"])


def test_stopping_costs_one_number_per_message_and_nothing_without_tol() -> None:
    rows, corners = blobs()
    each = 3 * 2
    silent = published_dgc(3, init=corners, tol=0, max_rounds=30, step_size=0.05).fit(rows)
    assert set(silent.traffic_.by_kind) == {"centers"}
    assert silent.traffic_.floats_up == 30 * 10 * each
    auto = published_dgc(3, init=corners, tol=0, max_rounds=30).fit(rows)
    assert auto.traffic_.by_kind["limits"]["floats_up"] == 2 * 10 * 2  # diameter 2, two numbers
    stopping = published_dgc(3, init=corners, tol=1e-3, max_rounds=5000).fit(rows)
    expected = stopping.n_rounds_ * 10 * (each + 1)
    assert stopping.traffic_.by_kind["centers"]["floats_up"] == expected
    assert stopping.traffic_.rounds == stopping.n_rounds_ + 2


def test_traffic_counts_edges_and_inner_steps() -> None:
    rows, _ = blobs()
    model = published_dgc(3, graph="star", inner_steps=4, max_rounds=5, tol=0, random_state=0).fit(
        rows
    )
    traffic = model.traffic_
    assert traffic.by_kind["start"]["messages"] == 3 * 8
    assert traffic.by_kind["centers"]["messages"] == 5 * 4 * 8
    assert traffic.rounds == 3 + 2 + 20  # start, limits (diameter 2), rounds
    assert traffic.table["messages"].tolist() == [25 * 4, 25, 25, 25, 25]


def test_rows_without_spread_stop_when_nothing_moves() -> None:
    rows = [np.zeros((3, 1)), np.ones((3, 1))]
    model = published_dgc(2, init=np.array([[0.0], [1.0]]), rho=1e9, max_rounds=500).fit(rows)
    assert model.n_rounds_ < 500


def test_users_that_hold_one_row_each_stop_too() -> None:
    rows = [row[None] for row in np.random.default_rng(0).normal(size=(30, 2))]
    model = published_dgc(2, rho=1.0, init="random", max_rounds=20_000, random_state=0).fit(rows)
    assert model.converged_


def test_a_large_rho_does_not_pass_for_rest() -> None:
    """Centres that agree creep along when rho is large; that is not standing still."""
    rows, corners = blobs()
    for rho in (1e4, 1e6):
        model = published_dgc(3, rho=rho, init=corners + 2.0, max_rounds=300).fit(rows)
        assert not model.converged_
        assert model.n_rounds_ == 300


def test_neighbours_go_on_with_the_last_post_of_a_user_that_has_stopped() -> None:
    """One lost exchange near the end lets users stop at different times, but they still agree."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(8, 2)) + (i % 3) * 6 for i in range(6)]
    start = np.array([[0.0, 0.0], [6.0, 6.0], [12.0, 12.0]])
    parties, protocol = (
        Parties.of(rows),
        dgc.DGC(InitialCenters(3, start), max_rounds=5000, tol=1e-5),
    )
    ring = topology("ring", parties.names)
    plain = run_mesh(protocol, parties, ring)
    last = plain.traffic.rounds
    differ = False
    for lost in range(last - 5, last):
        options = Options(faults=(LinkLost(3, 4, lost, lost + 1),))
        one, many = (
            run_mesh(protocol, parties, ring, blocks=blocks, options=options) for blocks in (1, 6)
        )
        differ = differ or len(set(one.result["rounds"].tolist())) > 1
        np.testing.assert_allclose(one.result["centers"], plain.result["centers"], atol=1e-3)
        assert np.array_equal(one.result["centers"], many.result["centers"])
        assert np.array_equal(one.traffic.table, many.traffic.table)
    assert differ  # else nothing was tested
