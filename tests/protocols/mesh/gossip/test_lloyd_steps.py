"""Every cycle is a Lloyd step of the pooled rows, and the end a point that no step moves."""

from __future__ import annotations

import numpy as np
import pytest

from tests.protocols.mesh.gossip.problems import (
    FIXED,
    ROBUST,
    K,
    M,
    at_rest,
    labelled,
    lloyd,
    problem,
    run,
)
from tests.protocols.mesh.parts import graph_of
from unpooled.messages.message import Note
from unpooled.protocols.mesh.gossip import GossipKMeans


@pytest.mark.parametrize("name", FIXED | ROBUST)
@pytest.mark.parametrize("averaging", ["gossip", "tree"])
def test_every_cycle_is_a_lloyd_step_of_the_pooled_rows(name: str, averaging: str) -> None:
    """Where averages are exact, as on a ring and along a tree."""
    loss = (FIXED | ROBUST)[name]
    tables, weights, init = problem(1)
    notes: list[Note] = []
    protocol = GossipKMeans(K, init, loss=loss, averaging=averaging, tol=0.0, max_rounds=15)
    run(protocol, tables, weights=weights, notes=notes)
    assert len(notes) == 15
    x, moved = init, 0.0
    rows, pooled = np.concatenate(tables), np.concatenate(weights)
    for note in notes:
        new = lloyd(rows, pooled, x, loss)
        labels = labelled(rows, x, loss)
        moved = max(moved, np.abs(new - x).max())
        np.testing.assert_allclose(
            note.body["centers"], np.broadcast_to(new, (M, *new.shape)), atol=1e-9
        )
        cost = (pooled * loss.value(new[labels], rows)).sum()
        assert note.body["cost"].sum() == pytest.approx(cost)
        np.testing.assert_allclose(
            note.body["movement"], np.linalg.norm(new - x, axis=1).max(), atol=1e-9
        )
        x = new
    assert moved > 0.1  # else nothing was tested


@pytest.mark.parametrize("name", FIXED | ROBUST)
@pytest.mark.parametrize("graph", ["path", "star", "complete", "random"])
def test_the_end_is_a_fixed_point_on_any_graph(name: str, graph: str) -> None:
    loss = (FIXED | ROBUST)[name]
    tables, weights, init = problem(2)
    protocol = GossipKMeans(K, init, loss=loss, tol=1e-9)
    net = graph_of(M, 4) if graph == "random" else graph
    found = run(protocol, tables, net, weights=weights)
    at_rest(found, tables, weights=weights, loss=loss, atol=1e-7)
    assert len(set(found.result["rounds"].tolist())) == 1


@pytest.mark.parametrize("name", ROBUST)
def test_the_end_is_a_stationary_point_no_costlier_than_the_start(name: str) -> None:
    loss = ROBUST[name]
    for seed in range(2):
        tables, weights, init = problem(seed)
        rows, pooled = np.concatenate(tables), np.concatenate(weights)
        found = run(GossipKMeans(K, init, loss=loss, tol=1e-10), tables, weights=weights)
        x = found.result["centers"][0]
        labels = labelled(rows, x, loss)
        pulls = pooled[:, None] * loss.gradient(x[labels], rows)
        for k in range(K):
            assert np.abs(pulls[labels == k].sum(axis=0)).max() < 1e-6 * np.abs(pulls).sum()
        before = (pooled * loss.value(init[labelled(rows, init, loss)], rows)).sum()
        assert (pooled * loss.value(x[labels], rows)).sum() < before


@pytest.mark.parametrize("name", FIXED)
def test_the_cost_never_rises_where_averages_are_exact(name: str) -> None:
    tables, weights, init = problem(3)
    notes: list[Note] = []
    run(GossipKMeans(K, init, loss=FIXED[name]), tables, weights=weights, notes=notes)
    costs = [note.body["cost"].sum() for note in notes]
    assert np.diff(costs).max() <= 1e-9 * costs[0]
