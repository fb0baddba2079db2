"""Kar & Swenson's method and ADMM against plain loops and against theory."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.cluster import KMeans

from tests.protocols import reference
from tests.protocols.mesh.test_dgc import blobs, problem
from unpooled import ADMMKMeans, KarSwenson


@pytest.mark.parametrize("seed", range(4))
def test_kar_swenson_equals_the_plain_loops(seed: int) -> None:
    rows, weights, graph, start = problem(seed)
    adjacency = nx.to_numpy_array(graph)
    expected = reference.kar_swenson(rows, weights, adjacency, start, rho=4.0, rounds=15)
    model = KarSwenson(3, rho=4.0, graph=graph, init=start, max_rounds=15, tol=0)
    model.fit(rows, sample_weight=weights)
    np.testing.assert_allclose(model.peer_centers_, expected, atol=1e-9)
    assert np.diff(model.history_["cost"]).max() <= 1e-12 * model.history_["cost"][0]


@pytest.mark.parametrize("seed", range(4))
def test_admm_equals_the_plain_loops_with_a_dual_per_edge_side(seed: int) -> None:
    rows, weights, graph, start = problem(seed)
    adjacency = nx.to_numpy_array(graph)
    expected = reference.admm(rows, weights, adjacency, start, eta=0.8, rounds=15)
    model = ADMMKMeans(3, eta=0.8, graph=graph, init=start, max_rounds=15, tol=0)
    model.fit(rows, sample_weight=weights)
    np.testing.assert_allclose(model.peer_centers_, expected, atol=1e-9)


@pytest.mark.parametrize("graph", ["ring", "path", "star", "complete"])
def test_admm_ends_in_a_lloyd_point_of_the_pooled_rows(graph: str) -> None:
    rows, corners = blobs()
    lloyd = KMeans(3, init=corners, n_init=1, tol=0).fit(np.concatenate(rows)).cluster_centers_
    model = ADMMKMeans(3, graph=graph, init=corners, max_rounds=3000, tol=1e-12).fit(rows)
    np.testing.assert_allclose(
        model.peer_centers_, np.broadcast_to(lloyd, model.peer_centers_.shape), atol=1e-8
    )


def test_alone_both_are_lloyd() -> None:
    rows, corners = blobs()
    pooled = np.concatenate(rows)
    lloyd = KMeans(3, init=corners, n_init=1, tol=0).fit(pooled).cluster_centers_
    for method in (KarSwenson, ADMMKMeans):
        model = method(3, init=corners, max_rounds=20).fit(pooled)
        np.testing.assert_allclose(model.cluster_centers_, lloyd, atol=1e-9)
