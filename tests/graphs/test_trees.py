"""Spanning trees, compared with networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from tests.graphs.test_topology import connected, names
from tests.sentences import refuses
from unpooled.errors import GraphError
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.graphs.trees import SpanningTree


def network(graph: object, m: int) -> Topology:
    return topology(graph, names(m))


@given(connected())
def test_parties_are_as_near_to_the_root_as_in_the_graph(graph: nx.Graph) -> None:
    m = graph.number_of_nodes()
    for root in range(m):
        tree = SpanningTree.of(network(graph, m), root)
        hops = nx.single_source_shortest_path_length(graph, root)
        assert tree.depths.tolist() == [hops[i] for i in range(m)]
        assert tree.root == root
        assert tree.height == max(hops.values())
        for child, parent in enumerate(tree.parents):
            assert child == root or graph.has_edge(child, int(parent))
            path = tree.path(child)
            assert (path[0], path[-1], len(path)) == (child, root, hops[child] + 1)
        assert tree.n_children.sum() == m - 1


@given(connected())
def test_the_root_makes_the_tree_lowest(graph: nx.Graph) -> None:
    m = graph.number_of_nodes()
    height = nx.eccentricity(graph)
    expected = min(range(m), key=lambda party: (height[party], party))
    assert SpanningTree.of(network(graph, m)).root == expected


def test_by_hand() -> None:
    ring = SpanningTree.of(network("ring", 6))
    assert ring.parents.tolist() == [-1, 0, 1, 2, 5, 0]
    assert ring.n_children.tolist() == [2, 1, 1, 0, 0, 1]
    path = SpanningTree.of(network("path", 5))
    assert (path.root, path.height, path.parents.tolist()) == (2, 2, [1, 2, -1, 2, 3])
    alone = SpanningTree.of(network("ring", 1))
    assert (alone.root, alone.height, len(alone)) == (0, 0, 1)


def test_the_root_of_a_large_graph_is_in_the_middle() -> None:
    assert SpanningTree.of(network("path", 1001)).height == 500
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(26, 20))
    tree = SpanningTree.of(network(grid, 520))
    assert nx.radius(grid) <= tree.height <= nx.diameter(grid)


def test_a_party_that_is_down_cuts_off_those_below() -> None:
    tree = SpanningTree.of(network("path", 5), root=0)
    up = np.array([True, True, False, True, True])
    assert tree.reached(up).tolist() == [True, True, False, False, False]
    assert tree.reached(np.ones(5, dtype=bool)).all()
    assert not tree.reached(np.arange(5) > 0).any()


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ([0, 0], "0 parties have no parent"),
        ([-1, -1], "2 parties have no parent"),
        ([-1, 2, 1], "Party number 1 does not reach the tree's root"),
        ([-1, 7], "numbers from 0 to 1"),
    ],
)
def test_what_is_no_tree_is_refused(parents: list[int], words: str) -> None:
    refuses(lambda: SpanningTree(np.array(parents)), words, GraphError)


def test_a_tree_needs_a_connected_graph_and_a_root_in_it() -> None:
    refuses(lambda: SpanningTree.of(network(None, 3)), "no tree spans it", GraphError)
    refuses(lambda: SpanningTree.of(network("ring", 3), root=3), "root=3 is no party", GraphError)
