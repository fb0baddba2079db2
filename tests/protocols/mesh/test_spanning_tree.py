"""The tree of the lowest number against a breadth-first search; the largest of all values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings

from tests.graphs.test_topology import connected
from tests.protocols.mesh.parts import graph_of, network, parents_of, recorder, run_part
from unpooled.messages.message import Post
from unpooled.messages.release import Release
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.shared.max_consensus import max_consensus
from unpooled.protocols.mesh.shared.spanning_tree import TREE_RELEASES, find_tree
from unpooled.simulate.faults import LinkLost, UserDown
from unpooled.types import Body

LARGEST = Release("largest", ("largest",), ("model",), "a maximum", shapes={"largest": (3,)})


def tree(block: Block) -> Peer[Body]:
    found = yield from find_tree(block)
    return {
        "hops": found.hops,
        "up": found.to_parent,
        "down": found.to_children,
        "broken": found.broken,
    }


def same_as_bfs(found: Body, graph: nx.Graph, living: nx.Graph, root: int) -> None:
    """Hops, parents and children of those that live are those of the search from the root."""
    own, other = network(graph).neighbourhood(np.arange(graph.number_of_nodes())).ends
    hops, parents = parents_of(living, root)
    up = {(int(a), int(b)) for a, b in zip(own[found["up"]], other[found["up"]], strict=True)}
    down = {(int(a), int(b)) for a, b in zip(own[found["down"]], other[found["down"]], strict=True)}
    here = set(living)
    assert {user: int(found["hops"][user]) for user in here} == hops
    assert {(a, b) for a, b in up if a in here} == set(parents.items())
    assert {(b, a) for a, b in down if a in here} == set(parents.items())


@given(connected(), st.integers(0, 2))
@settings(max_examples=30)
def test_it_is_the_breadth_first_tree(graph: nx.Graph, split: int) -> None:
    m = graph.number_of_nodes()
    messages: list[tuple[str, Any]] = []
    run = run_part(tree, TREE_RELEASES, graph, blocks=(1, 2, m)[split], watch=recorder(messages))
    same_as_bfs(run.result, graph, graph, 0)
    assert not run.result["broken"].any()
    reach, links = nx.diameter(graph), 2 * graph.number_of_edges()
    assert run.traffic.rounds == reach + 1
    assert run.traffic.by_kind["tree"]["floats_up"] == 2 * links * reach
    assert run.traffic.by_kind["echo"]["floats_up"] == links
    assert {message.kind for _, message in messages} == {"tree", "echo"}


@given(connected(), st.integers(1, 14))
@settings(max_examples=30)
def test_the_lowest_that_lives_is_the_root(graph: nx.Graph, blocks: int) -> None:
    m = graph.number_of_nodes()
    assume(m > 2)
    living = graph.subgraph(range(1, m))
    assume(nx.is_connected(living) and nx.diameter(living) <= nx.diameter(graph))
    run = run_part(tree, TREE_RELEASES, graph, blocks=blocks, faults=[UserDown(0, 0)])
    same_as_bfs(run.result, graph, living, 1)
    # Those next to it have missed it, and so has it itself.
    assert set(np.flatnonzero(run.result["broken"])) == {0, *graph[0]}


def test_a_link_that_is_lost_is_not_in_the_tree() -> None:
    graph = nx.complete_graph(5)
    run = run_part(tree, TREE_RELEASES, nx.cycle_graph(5), faults=[LinkLost(0, 4, 0)])
    # By the path 0-1-2-3-4, but news of 0 needs four exchanges to 4 and has two.
    assert run.result["hops"].tolist()[:3] == [0, 1, 2]
    assert run.result["broken"].tolist() == [True, False, False, False, True]
    run = run_part(tree, TREE_RELEASES, graph, faults=[LinkLost(0, 4, 0)])
    assert run.result["hops"].tolist() == [0, 1, 1, 1, 1]  # reach is 1: 4 has heard of 1 only
    own, other = network(graph).neighbourhood(np.arange(5)).ends
    assert other[run.result["up"] & (own == 4)].tolist() == [1]
    assert run.result["broken"].tolist() == [True, False, False, False, True]


def lying(liar: int, seen: tuple[int, int]) -> Callable[[Block], Peer[Body]]:
    """As ``tree``, but one user sends that it has seen this."""

    def does(block: Block) -> Peer[Body]:
        peer = tree(block)
        heard = None
        while True:
            try:
                post = peer.send(heard)  # type: ignore[arg-type]
            except StopIteration as end:
                return end.value
            assert isinstance(post, Post)
            if post.kind == "tree":
                sent = np.array(post.body["seen"])
                sent[block.neighbourhood.users == liar] = seen
                post = replace(post, body={"seen": sent})
            heard = yield post

    return does


HUGE = np.iinfo(np.int64).max


@pytest.mark.parametrize(
    "seen",
    [(-1, 0), (0, -1), (0, -2), (-1, -1), (0, HUGE), (0, 2**31), (0, 12), (HUGE, 0), (-HUGE, 0)],
    ids=str,
)
def test_what_cannot_be_is_not_heard(seen: tuple[int, int]) -> None:
    """No way to the root leads through a user that sends nonsense; all others have theirs."""
    tested = 0
    for seed in range(8):
        graph = graph_of(12, seed, extra=10)
        living = graph.subgraph(set(graph) - {5})
        if not nx.is_connected(living) or nx.diameter(living) > nx.diameter(graph):
            continue
        tested += 1
        run = run_part(lying(5, seen), TREE_RELEASES, graph, blocks=12)
        hops, parents = parents_of(living, 0)
        own, other = network(graph).neighbourhood(np.arange(12)).ends
        up = run.result["up"] & (own != 5)
        assert {user: run.result["hops"][user] for user in living} == hops
        assert dict(zip(own[up], other[up], strict=True)) == parents
    assert tested > 1


@given(connected(), st.integers(1, 14), st.integers(0, 100))
@settings(max_examples=20)
def test_everybody_knows_the_largest(graph: nx.Graph, blocks: int, seed: int) -> None:
    m = graph.number_of_nodes()
    values = np.random.default_rng(seed).normal(size=(m, 3))

    def does(block: Block) -> Peer[Body]:
        own = values[block.neighbourhood.users]
        return {"largest": (yield from max_consensus(block, "largest", own))}

    run = run_part(does, [LARGEST], graph, blocks=blocks)
    assert np.array_equal(run.result["largest"], np.tile(values.max(axis=0), (m, 1)))
    assert run.traffic.rounds == nx.diameter(graph)
    assert run.traffic.floats_up == 3 * 2 * graph.number_of_edges() * nx.diameter(graph)


def test_what_a_user_that_is_down_has_stays() -> None:
    values = np.arange(12.0).reshape(4, 3)

    def does(block: Block) -> Peer[Body]:
        own = values[block.neighbourhood.users]
        return {"largest": (yield from max_consensus(block, "largest", own))}

    run = run_part(does, [LARGEST], nx.complete_graph(4), faults=[UserDown(3, 0)])
    assert run.result["largest"].tolist() == [*[values[2].tolist()] * 3, values[3].tolist()]
