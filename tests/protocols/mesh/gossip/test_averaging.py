"""Gossip and sums along a tree both find the mean, on any graph."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from tests.graphs.test_topology import connected
from tests.protocols.mesh.parts import graph_of, network, run_part
from unpooled.data.parties import Parties
from unpooled.kernels.linalg.polynomials import residual
from unpooled.messages.message import Post, sealed
from unpooled.messages.release import Columns, Release
from unpooled.privacy.policy import STUDY
from unpooled.protocols.mesh.base import Block, Heard, Peer
from unpooled.protocols.mesh.gossip.averaging import THETA, Averaging, PolynomialGossip, TreeSums
from unpooled.protocols.mesh.shared.spanning_tree import TREE_RELEASES, find_tree
from unpooled.types import Body

SUMS = Release("sums", ("sums",), ("sums",), "sums", shapes={"sums": (2, Columns(plus=1))})


def cycles(
    block: Block, averaging: Averaging, values: np.ndarray, count: int = 1
) -> Peer[np.ndarray]:
    """What users know after so many cycles with nothing new after the first."""
    own = values[block.neighbourhood.users]
    z = p = np.zeros_like(own)
    for cycle in range(count):
        z = averaging.begin(z, own, own if cycle == 0 else np.zeros_like(own))
        for n in range(averaging.length):
            p, to = averaging.outgoing(n, z, p)
            heard = yield Post("sums", cycle * averaging.length + n, {"sums": p}, to=to)
            z = averaging.update(n, z, p, heard, heard.received(block.neighbourhood))
    return z


def averaged(
    graph: nx.Graph,
    make: Callable[[Block], Averaging],
    values: np.ndarray,
    *,
    blocks: int = 1,
    count: int = 1,
) -> tuple[np.ndarray, Averaging]:
    made = []

    def does(block: Block) -> Peer[Body]:
        made.append(make(block))
        return {"z": (yield from cycles(block, made[-1], values, count))}

    run = run_part(does, [SUMS], graph, blocks=blocks)
    assert run.traffic.rounds == count * made[0].length
    return run.result["z"], made[0]


def values_of(m: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(m, 2, 2)) * 10.0 ** (seed % 5)


def off(z: np.ndarray) -> np.ndarray:
    """How far users are from their mean, column by column."""
    return np.sqrt(((z - z.mean(axis=0)) ** 2).sum(axis=0))


WAYS = {
    "planned": lambda block: PolynomialGossip.planned(block, "sums"),
    "between": lambda block: PolynomialGossip.between(
        block, block.graph.mixing_spectrum[1], 2.0, "sums"
    ),
}


@pytest.mark.parametrize("way", WAYS)
@given(graph=connected(), seed=st.integers(0, 99), blocks=st.sampled_from([1, 2, 14]))
@settings(max_examples=20)
def test_gossip_contracts_as_declared(way: str, graph: nx.Graph, seed: int, blocks: int) -> None:
    values = values_of(graph.number_of_nodes(), seed)
    z, made = averaged(graph, WAYS[way], values, blocks=blocks)
    scale = np.abs(values).max()
    np.testing.assert_allclose(z.mean(axis=0), values.mean(axis=0), atol=1e-11 * scale)
    assert (off(z) <= made.contraction * off(values) * (1 + 1e-6) + 1e-9 * scale).all()
    assert made.contraction <= THETA * (1 + 1e-6)
    twice, _ = averaged(graph, WAYS[way], values, count=2)  # a running mean goes on
    assert (off(twice) <= made.contraction**2 * off(values) * (1 + 1e-6) + 1e-9 * scale).all()


@given(graph=connected(), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_after_a_fault_differences_never_grow_and_the_mean_stays(
    graph: nx.Graph, seed: int
) -> None:
    values = values_of(graph.number_of_nodes(), seed)
    make = lambda block: PolynomialGossip.after_faults(block, "sums")  # noqa: E731
    before = values
    for count in (1, 2, 4):
        z, made = averaged(graph, make, values, count=count)
        np.testing.assert_allclose(z.mean(axis=0), values.mean(axis=0), rtol=1e-9, atol=1e-9)
        assert (off(z) <= off(before) * (1 + 1e-9) + 1e-9).all()
        before = z
    assert made.contraction == 1.0
    m = graph.number_of_nodes()
    assert made.window >= m - 1  # a message comes through the users one after the other
    assert made.window % made.length == 0


def test_in_a_large_network_after_a_fault_four_times_the_reach_has_to_do() -> None:
    graph = network("ring", 400)
    parties = Parties.of([np.zeros((1, 1))] * 400)
    block = Block.of(parties, graph, np.arange(400), 0, STUDY)
    assert (
        PolynomialGossip.after_faults(block, "sums").window == 400
    )  # 399 users one after the other
    hub = network("star", 400)
    block = Block.of(parties, hub, np.arange(400), 0, STUDY)
    assert PolynomialGossip.after_faults(block, "sums").window == 64


def test_windows_are_whole_cycles_and_long_enough() -> None:
    for graph in (nx.path_graph(9), nx.cycle_graph(12), nx.star_graph(6), graph_of(14, 2)):
        m = graph.number_of_nodes()
        block = Block.of(Parties.of([np.zeros((1, 1))] * m), network(graph), np.arange(m), 0, STUDY)
        for made in (
            PolynomialGossip.planned(block, "sums"),
            PolynomialGossip.after_faults(block, "sums"),
            PolynomialGossip.between(block, 1.9, 2.0, "sums"),  # cycles shorter than the way across
        ):
            assert made.window >= nx.diameter(graph)
            assert made.window % made.length == 0
    assert PolynomialGossip.between(block, 1.9, 2.0, "sums").length < nx.diameter(graph)


def test_a_graph_beyond_all_eigenvalues_is_averaged_between_bounds() -> None:
    graph = nx.random_regular_graph(4, 1100, seed=0)
    values = values_of(1100, 3)
    z, made = averaged(graph, WAYS["planned"], values)
    assert 0 < made.contraction <= THETA
    assert (off(z) <= THETA * off(values)).all()


def test_nobody_to_average_with() -> None:
    values, made = values_of(1, 0), []

    def does(block: Block) -> Peer[Body]:
        made.append(PolynomialGossip.planned(block, "sums"))
        return {"z": (yield from cycles(block, made[0], values))}

    assert np.array_equal(run_part(does, [SUMS], nx.empty_graph(1)).result["z"], values)
    assert (made[0].length, made[0].contraction) == (1, 0.0)


@given(connected(), st.data())
@settings(max_examples=30)
def test_sums_are_conserved_whichever_links_are_used(graph: nx.Graph, data: st.DataObject) -> None:
    """Also if these change from one exchange to the next, as long as both ends use them."""
    m = graph.number_of_nodes()
    net = network(graph)
    block = Block.of(Parties.of([np.zeros((1, 1))] * m), net, np.arange(m), 0, STUDY)
    near = block.neighbourhood
    own, other = near.ends
    gossip = PolynomialGossip.planned(block, "sums")
    values = values_of(m, data.draw(st.integers(0, 99)))
    z, p = values, np.zeros_like(values)
    for n in range(gossip.length):
        edges = st.sets(st.sampled_from(sorted(map(frozenset, graph.edges), key=sorted)))
        kept = data.draw(edges)
        used = np.array([frozenset((a, b)) in kept for a, b in zip(own, other, strict=True)], bool)
        p, _ = gossip.outgoing(n, z, p)
        everyone = np.ones((2, len(own)), dtype=bool)
        awake = np.ones(m, dtype=bool)
        heard = Heard(near.links, sealed({"sums": p}), {}, awake, everyone[0], ~everyone[1])
        z = gossip.update(n, z, p, heard, used)
    scale = np.abs(values).max()
    np.testing.assert_allclose(z.sum(axis=0), values.sum(axis=0), atol=1e-9 * scale * m)


def test_the_polynomial_is_the_plans() -> None:
    """Over the dense matrix with the plan's coefficients the same comes out."""
    graph = graph_of(9, 5)
    values = values_of(9, 4)
    z, made = averaged(graph, WAYS["planned"], values)
    assert isinstance(made, PolynomialGossip)
    eigenvalues, vectors = np.linalg.eigh(network(graph).mixing.toarray())
    shrunk = residual(made._coefficients, eigenvalues)[:, None] * (
        vectors.T @ values.reshape(9, -1)
    )
    np.testing.assert_allclose(z.reshape(9, -1), vectors @ shrunk, atol=1e-9)


# Along a tree


def along_tree(graph: nx.Graph, values: np.ndarray, blocks: int, count: int = 1):  # type: ignore[no-untyped-def]
    height = max(nx.single_source_shortest_path_length(graph, 0).values())

    def does(block: Block) -> Peer[Body]:
        tree = yield from find_tree(block)
        sums = TreeSums(block, tree, height, "sums")
        assert sums.length == sums.window == 2 * max(1, height)
        return {"z": (yield from cycles(block, sums, values, count))}

    return run_part(does, [SUMS, *TREE_RELEASES], graph, blocks=blocks)


@given(connected(), st.integers(0, 99), st.sampled_from([1, 2, 14]))
@settings(max_examples=30)
def test_a_tree_gives_all_users_the_same_exact_total(
    graph: nx.Graph, seed: int, blocks: int
) -> None:
    m = graph.number_of_nodes()
    values = values_of(m, seed)
    run = along_tree(graph, values, blocks)
    z = run.result["z"]
    assert (z == z[0]).all()
    np.testing.assert_allclose(
        z[0], values.sum(axis=0), rtol=1e-12, atol=1e-11 * np.abs(values).max()
    )
    whole = np.round(values)  # whole numbers add up exactly in any order
    assert (along_tree(graph, whole, blocks).result["z"] == whole.sum(axis=0)).all()
    # Twice over every link of the tree, and nothing else.
    assert run.traffic.by_kind["sums"]["messages"] == 2 * (m - 1)
    assert run.traffic.by_kind["sums"]["floats_up"] == 2 * (m - 1) * values[0].size


def test_a_tree_begins_anew_with_every_cycle() -> None:
    graph, values = graph_of(9, 1), np.round(values_of(9, 3))
    z = along_tree(graph, values, 1, count=3).result["z"]
    assert (z == values.sum(axis=0)).all()
