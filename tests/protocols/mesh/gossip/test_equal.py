"""The same results as other methods, with weights as with repeated rows, on any hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.protocols.mesh.gossip.problems import (
    SIZES,
    K,
    M,
    at_rest,
    problem,
    run,
)
from tests.protocols.mesh.parts import blobs, graph_of
from unpooled import FederatedKMeans, losses
from unpooled import GossipKMeans as Estimator
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.simulate.faults import LinkLost, UserDown


@pytest.mark.parametrize("graph", ["ring", "path", "star", "complete"])
@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}], ids=str)
def test_from_the_same_start_it_is_federated_k_means(graph: str, options: dict[str, Any]) -> None:
    tables, weights, init = problem(0)
    star = FederatedKMeans(K, init=init, tol=1e-12).fit(tables, sample_weight=weights)
    mesh = Estimator(K, init=init, graph=graph, tol=1e-9, **options)
    mesh.fit(tables, sample_weight=weights)
    np.testing.assert_allclose(mesh.cluster_centers_, star.cluster_centers_, atol=1e-8)
    assert np.abs(mesh.peer_centers_ - mesh.cluster_centers_).max() < 1e-8
    for own, other in zip(mesh.labels_, star.labels_, strict=True):
        assert np.array_equal(own, other)
    assert mesh.inertia_ == pytest.approx(star.inertia_)


@pytest.mark.parametrize("seed", range(2))
def test_along_a_tree_it_is_the_same_where_both_are_exact(seed: int) -> None:
    tables, _, _ = problem(seed)
    gossip, tree = (
        Estimator(K, tol=1e-9, random_state=seed, averaging=averaging).fit(tables)
        for averaging in ("gossip", "tree")
    )
    for own, other in zip(gossip.labels_, tree.labels_, strict=True):
        assert np.array_equal(own, other)
    np.testing.assert_allclose(gossip.peer_centers_, tree.peer_centers_, atol=1e-8)
    assert (tree.peer_centers_ == tree.peer_centers_[0]).all()  # to the bit


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_from_a_found_start_it_ends_in_a_lloyd_point(seed: int, options: dict[str, Any]) -> None:
    """Not in the same one in every way: averages that are not exact take other steps to it."""
    tables, weights, _ = problem(seed)
    protocol = GossipKMeans(K, n_init=2, tol=1e-9, **options)
    found = run(protocol, tables, graph_of(M, seed), weights=weights, seed=seed)
    at_rest(found, tables, weights=weights)


@pytest.mark.parametrize("loss", ["kmeans", "huber"])
def test_weights_are_multiplicities(loss: str) -> None:
    tables, _, init = problem(4)
    rng = np.random.default_rng(0)
    times = [rng.integers(0, 4, size=n) for n in SIZES]
    times[0][0] = 1
    repeated = [np.repeat(rows, n, axis=0) for rows, n in zip(tables, times, strict=True)]
    for options in ({}, {"averaging": "tree"}):
        model = Estimator(K, init=init, loss=loss, tol=1e-9, **options)
        weighted = model.fit(tables, sample_weight=[n.astype(float) for n in times]).peer_centers_
        listed = model.fit(repeated).peer_centers_
        np.testing.assert_allclose(weighted, listed, atol=1e-9)


@pytest.mark.parametrize(
    "protocol",
    [
        GossipKMeans(K, n_init=1),
        GossipKMeans(K, n_init=1, topology="private", loss=losses.Huber(0.5)),
        GossipKMeans(K, n_init=1, averaging="tree"),
    ],
    ids=["gossip", "private, huber", "tree"],
)
def test_hosting_changes_nothing(protocol: GossipKMeans) -> None:
    tables, weights, _ = problem(5)
    for faults in ((), (UserDown(0, 4), LinkLost(5, 6, 20, 31))):
        cut = replace(protocol, max_rounds=5)
        one, *others = (
            run(cut, tables, graph_of(M, 3), weights=weights, faults=faults, blocks=blocks)
            for blocks in (1, 3)
        )
        for other in others:
            for name, value in one.result.items():
                assert np.array_equal(value, other.result[name])
            assert np.array_equal(one.traffic.table, other.traffic.table)


@pytest.mark.parametrize("options", [{"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_hosting_changes_nothing_where_the_start_was_cut_in_two(options: dict[str, Any]) -> None:
    tables = blobs((9,) * 8, 1, apart=4.0)
    cut = (LinkLost(4, 5, since=7, until=60),)
    protocol = GossipKMeans(K, n_init=1, max_rounds=40, **options)
    one, several = (
        run(protocol, tables, nx.path_graph(8), faults=cut, blocks=blocks, seed=1)
        for blocks in (1, 4)
    )
    for name, value in one.result.items():
        assert np.array_equal(value, several.result[name])
