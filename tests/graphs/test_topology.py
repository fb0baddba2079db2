"""Graphs in every form, and what blocks see of them."""

from __future__ import annotations

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given

from unpooled.errors import GraphError
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology


def names(m: int) -> list[str]:
    return [f"p{i}" for i in range(m)]


@st.composite
def connected(draw: st.DrawFn) -> nx.Graph:
    m = draw(st.integers(2, 14))
    tree = nx.random_labeled_tree(m, seed=draw(st.integers(0, 10_000)))
    extra = draw(st.lists(st.tuples(st.integers(0, m - 1), st.integers(0, m - 1)), max_size=10))
    tree.add_edges_from((a, b) for a, b in extra if a != b)
    return tree


@pytest.mark.parametrize("name", ["ring", "path", "star", "complete"])
@pytest.mark.parametrize("m", [1, 2, 3, 7])
def test_named_graphs(name: str, m: int) -> None:
    found = topology(name, names(m))
    expected = {
        "ring": {1: 0, 2: 1}.get(m, m),
        "path": m - 1,
        "star": m - 1,
        "complete": m * (m - 1) // 2,
    }[name]
    assert len(found.edges) == expected
    assert found.degrees.sum() == 2 * expected


@given(connected())
def test_all_forms_say_the_same(graph: nx.Graph) -> None:
    m = graph.number_of_nodes()
    dense = nx.to_numpy_array(graph, nodelist=range(m))
    plain = topology(graph, names(m))
    forms = [dense, sp.csr_array(3.5 * dense), dense.tolist(), dense + np.eye(m)]
    forms.append(nx.relabel_nodes(graph, {i: f"p{i}" for i in range(m)}))
    for form in forms:
        assert (topology(form, names(m)).adjacency != plain.adjacency).nnz == 0
    np.testing.assert_array_equal(
        plain.laplacian.toarray(), nx.laplacian_matrix(graph, range(m)).toarray()
    )
    assert plain.reach == nx.diameter(graph)


@given(connected())
def test_edge_degrees_bound_the_laplacian(graph: nx.Graph) -> None:
    found = topology(graph, names(graph.number_of_nodes()))
    near = found.neighbourhood(np.arange(found.n_users))
    largest = np.linalg.eigvalsh(found.laplacian.toarray())[-1]
    assert near.edge_degrees.max() >= largest - 1e-9
    for user, value in enumerate(near.edge_degrees):
        assert value == max(graph.degree[user] + graph.degree[v] for v in graph[user])


@given(connected(), st.data())
def test_a_block_sees_its_users_links(graph: nx.Graph, data: st.DataObject) -> None:
    m = graph.number_of_nodes()
    found = topology(graph, names(m))
    users = np.array(sorted(data.draw(st.sets(st.integers(0, m - 1), min_size=1))))
    near = found.neighbourhood(users)
    seen = np.concatenate([near.users, near.outer])
    for row, user in enumerate(users):
        columns = near.links.indices[near.links.indptr[row] : near.links.indptr[row + 1]]
        assert seen[columns].tolist() == sorted(graph[user])
    own, other = near.ends
    alive = np.array(data.draw(st.lists(st.booleans(), min_size=len(own), max_size=len(own))))
    kept = near.keep(alive.astype(bool))
    assert kept.nnz == alive.sum()
    pairs = {(users[r], seen[c]) for r, c in zip(*kept.nonzero(), strict=True)}
    assert pairs == set(zip(own[alive.astype(bool)], other[alive.astype(bool)], strict=True))


def test_a_labelled_matrix_is_read_by_its_labels() -> None:
    hub = pd.DataFrame([[0, 1, 1], [1, 0, 0], [1, 0, 0]], index=list("cab"), columns=list("cab"))
    assert topology(hub, ["a", "b", "c"]).degrees.tolist() == [1, 1, 2]
    plain = pd.DataFrame(hub.to_numpy())
    assert topology(plain, ["a", "b", "c"]).degrees.tolist() == [2, 1, 1]
    with pytest.raises(GraphError, match="labelled 'c', 'a', 'b'; label it after the parties"):
        topology(hub, ["x", "y", "z"])


def test_disagreement_is_the_quadratic_form_of_the_laplacian() -> None:
    found = topology(nx.petersen_graph(), names(10))
    x = np.random.default_rng(0).normal(size=(10, 3, 2))
    quadratic = sum(
        x[:, k, j] @ found.laplacian.toarray() @ x[:, k, j] for k in range(3) for j in range(2)
    )
    assert found.disagreement(x) == pytest.approx(quadratic / 2)


def test_reach_of_a_large_graph_is_a_bound() -> None:
    assert topology("ring", names(2000)).reach >= 1000
    assert topology(None, names(2000)).reach == 0


def test_one_party_has_no_edge_whatever_the_graph_says() -> None:
    for graph in ("ring", nx.cycle_graph(5), np.ones((3, 3)), None):
        assert len(topology(graph, ["only"]).edges) == 0


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ("circle", "graph='circle' is not known"),
        (nx.path_graph(3), "The graph has 3 nodes but there are 4 parties"),
        (np.ones((5, 5)), "The graph has 5 nodes but there are 4 parties"),
        (nx.DiGraph([(0, 1), (1, 2), (2, 3)]), "directed"),
        (np.triu(np.ones((4, 4))), "not symmetric"),
        (np.ones((4, 3)), "square"),
        (np.full((4, 4), np.nan), "NaN"),
        (object(), "graph is a object"),
        (nx.relabel_nodes(nx.path_graph(4), {0: "p0", 1: "p1", 2: "p2", 3: "x"}), "a node 'x'"),
        (nx.Graph([("p0", 1), (1, "1"), ("1", 2)]), "a node 1 that is no party"),
        (np.ones((4, 4)) * 1j, "graph is a ndarray"),
        (nx.Graph([(0, 1), (2, 3)]), "disconnected: parties 'p0', 'p1' have no path"),
        (np.diag(np.ones(2), k=2) + np.diag(np.ones(2), k=-2), "disconnected: parties"),
        (np.pad(1 - np.eye(3), ((0, 1), (0, 1))), "disconnected: party 'p3' has no path"),
    ],
)  # fmt: skip
def test_bad_graphs_are_refused_in_one_sentence(graph: object, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        topology(graph, names(4))


def test_a_topology_can_be_made_from_its_matrix() -> None:
    assert Topology(topology("ring", names(4)).adjacency).reach == 2


def dense_mixing(graph: nx.Graph, used: set[frozenset[int]] | None = None) -> np.ndarray:
    """D_w - (w_ij) by the definition; the weights are the whole graph's whatever is used."""
    m = graph.number_of_nodes()
    found = np.zeros((m, m))
    for a, b in graph.edges:
        if used is None or frozenset((a, b)) in used:
            weight = 1 / max(graph.degree[a], graph.degree[b])
            found[a, b] = found[b, a] = -weight
            found[a, a] += weight
            found[b, b] += weight
    return found


@given(connected())
def test_the_mixing_matrix(graph: nx.Graph) -> None:
    found = topology(graph, names(graph.number_of_nodes()))
    dense = found.mixing.toarray()
    np.testing.assert_allclose(dense, dense_mixing(graph), atol=1e-15)
    assert np.array_equal(dense, dense.T)
    np.testing.assert_allclose(dense.sum(axis=1), 0.0, atol=1e-14)
    values = found.mixing_spectrum
    assert values is not None
    np.testing.assert_allclose(values, np.linalg.eigvalsh(dense_mixing(graph)), atol=1e-12)
    assert abs(values[0]) < 1e-12
    assert 0 < values[1] <= values[-1] <= 2 + 1e-12


@pytest.mark.parametrize(
    "graph",
    [nx.random_regular_graph(4, 300, seed=0), nx.barabasi_albert_graph(300, 3, seed=1)],
    ids=["regular", "hubs"],
)
def test_bounds_hold_the_spectrum_of_a_larger_graph(graph: nx.Graph) -> None:
    assert topology("ring", names(1025)).mixing_spectrum is None
    found = topology(graph, names(graph.number_of_nodes()))
    values = np.linalg.eigvalsh(found.mixing.toarray())
    low, high = found.mixing_bounds
    assert 0.95 * values[1] < low <= values[1]
    assert values[-1] <= high < 1.05 * values[-1]
    assert high <= 2


@given(connected(), st.data())
def test_a_block_mixes_over_the_links_that_are_used(graph: nx.Graph, data: st.DataObject) -> None:
    m = graph.number_of_nodes()
    found = topology(graph, names(m))
    users = np.array(sorted(data.draw(st.sets(st.integers(0, m - 1), min_size=1))))
    used = {frozenset(edge) for edge in data.draw(st.sets(st.sampled_from(sorted(graph.edges))))}
    near = found.neighbourhood(users)
    own, other = near.ends
    pairs = list(zip(own, other, strict=True))
    largest = [max(graph.degree[a], graph.degree[b]) for a, b in pairs]
    np.testing.assert_array_equal(near.weights, 1 / np.array(largest))
    sums = np.bincount(near.holder, near.weights, len(users))
    assert (sums <= 1 + 1e-12).all()
    marks = np.array([frozenset((a, b)) in used for a, b in pairs], dtype=bool)
    mixing = near.mixing(marks)
    assert mixing.shape == near.links.shape
    columns = np.concatenate([near.users, near.outer])
    expected = dense_mixing(graph, used)
    found = mixing.toarray()
    np.testing.assert_allclose(found.diagonal(), -expected.diagonal()[users], atol=1e-15)
    np.fill_diagonal(expected, 0.0)
    np.fill_diagonal(found, 0.0)
    np.testing.assert_array_equal(found, -expected[np.ix_(users, columns)])
    kept = near.keep(marks)
    assert kept.nnz == marks.sum()
    np.testing.assert_array_equal(kept.toarray(), expected[np.ix_(users, columns)] < 0)
