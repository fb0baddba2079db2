"""Empty clusters, one cluster, one party, no graph, no rows, no spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.protocols.mesh.gossip.problems import (
    K,
    M,
    at_rest,
    lloyd,
    problem,
    run,
)
from tests.protocols.mesh.parts import graph_of
from unpooled import GossipKMeans as Estimator
from unpooled.protocols.mesh.gossip import GossipKMeans


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_the_centre_of_an_empty_cluster_stays(options: dict[str, Any]) -> None:
    tables, _, init = problem(0)
    far = np.concatenate([init, [[1e3, 1e3]]])
    for graph in ("ring", graph_of(M, 2)):
        model = Estimator(4, init=far, graph=graph, **options).fit(tables)
        assert model.converged_
        assert (model.peer_centers_[:, 3] == far[3]).all()
        others = Estimator(3, init=init, graph=graph, **options).fit(tables)
        np.testing.assert_allclose(model.peer_centers_[:, :3], others.peer_centers_, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_one_cluster_is_the_mean_of_all_rows(options: dict[str, Any]) -> None:
    tables, weights, _ = problem(0)
    model = Estimator(1, graph=graph_of(M, 1), tol=1e-9, **options)
    mean = np.average(np.concatenate(tables), axis=0, weights=np.concatenate(weights))
    found = model.fit(tables, sample_weight=weights).peer_centers_
    np.testing.assert_allclose(found, np.broadcast_to(mean, found.shape), atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_one_party_alone(options: dict[str, Any]) -> None:
    tables, _, init = problem(0)
    rows = np.concatenate(tables)
    for start in ("tree", init):
        model = Estimator(K, init=start, random_state=0, **options).fit(rows)
        x = model.cluster_centers_
        np.testing.assert_allclose(lloyd(rows, np.ones(len(rows)), x), x, atol=1e-9)
        assert model.traffic_.messages == 0
        assert model.converged_


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_no_graph_is_everybody_alone(options: dict[str, Any]) -> None:
    tables, _, init = problem(0)
    model = Estimator(K, graph=None, init=init, tol=1e-9, **options).fit(tables)
    for own, rows in zip(model.peer_centers_, tables, strict=True):
        alone = Estimator(K, init=init, tol=1e-9, **options).fit(rows)
        np.testing.assert_allclose(own, alone.cluster_centers_, atol=1e-12)
        np.testing.assert_allclose(lloyd(rows, np.ones(len(rows)), own), own, atol=1e-9)
    assert not hasattr(model, "cluster_centers_")
    assert model.traffic_.messages == 0
    found = Estimator(2, graph=None, random_state=0, **options).fit(tables)
    assert len({center.tobytes() for center in found.peer_centers_}) == M


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_two_parties(options: dict[str, Any]) -> None:
    tables, _, _ = problem(0)
    pair = [np.concatenate(tables[:4]), np.concatenate(tables[4:])]
    found = run(GossipKMeans(K, n_init=2, tol=1e-9, **options), pair, "path")
    at_rest(found, pair)


def test_users_without_rows() -> None:
    tables, _, _ = problem(0)
    tables = [tables[0][:0], *tables[1:4], tables[4][:0], *tables[5:]]
    for options in ({}, {"averaging": "tree"}, {"topology": "private"}):
        found = run(GossipKMeans(K, n_init=1, tol=1e-9, **options), tables)
        at_rest(found, tables)


def test_rows_without_spread() -> None:
    tables = [np.full((3, 2), 4.0), np.full((2, 2), 4.0), np.full((1, 2), 4.0)]
    found = run(GossipKMeans(1), tables)
    assert (found.result["centers"] == 4.0).all()
    assert not found.result["running"].any()
