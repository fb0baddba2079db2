"""What users find out together about how fast their graph averages, against the eigenvalues."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.protocols.mesh.parts import blobs, graph_of, network, recorder, run_part
from unpooled.data.parties import Parties
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.protocols.mesh.gossip.spectral_gap import PROBE_RELEASE, estimate_gap, probe_spectrum
from unpooled.protocols.mesh.shared.convergecast import MOST_USERS, most_local
from unpooled.simulate import Options, run_mesh
from unpooled.types import Body

GRAPHS = {
    "ring 8": nx.cycle_graph(8),
    "ring 31": nx.cycle_graph(31),
    "path 15": nx.path_graph(15),
    "star": nx.star_graph(9),
    "complete": nx.complete_graph(6),
    "two": nx.path_graph(2),
    "barbell": nx.barbell_graph(6, 3),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 6)),
    "regular": nx.random_regular_graph(4, 40, seed=2),
    "hubs": nx.barabasi_albert_graph(50, 2, seed=1),
    **{f"random {seed}": graph_of(14, seed, extra=6) for seed in range(3)},
}


def sums(block: Block) -> Peer[Body]:
    return {"own": (yield from probe_spectrum(block)).own}


def second(graph: nx.Graph) -> float:
    spectrum = network(graph).mixing_spectrum
    assert spectrum is not None
    return float(spectrum[1])


@pytest.mark.parametrize("name", GRAPHS)
def test_the_estimate_is_near_and_rather_low(name: str) -> None:
    graph = GRAPHS[name]
    ratios = []
    for seed in range(4):
        run = run_part(sums, [PROBE_RELEASE], graph, seed=seed)
        found = estimate_gap(run.result["own"].sum(axis=0))
        assert found.shape == (1,)
        ratios.append(found[0] / second(graph))
    assert min(ratios) >= 0.5
    assert max(ratios) <= 1.2


@pytest.mark.parametrize("name", ["ring 8", "hubs", "random 1", "two"])
def test_equals_the_plain_recurrence(name: str) -> None:
    graph, seed = GRAPHS[name], 3
    m, steps = graph.number_of_nodes(), max(4, 2 * nx.diameter(graph))
    mixing = network(graph).mixing.toarray()
    v = np.array([np.random.default_rng([seed, user, 3]).normal(size=2) for user in range(m)])
    shifted = mixing - np.eye(m)
    u = [mixing @ v]
    u.append(shifted @ u[0])
    for _ in range(steps - 1):
        u.append(2 * shifted @ u[-1] - u[-2])
    expected = np.column_stack(
        [(u[j // 2] * u[(j + 1) // 2]).sum(axis=1) for j in range(2 * steps)]
    )
    for blocks in (1, 2, m):
        run = run_part(sums, [PROBE_RELEASE], graph, seed=seed, blocks=blocks)
        np.testing.assert_allclose(run.result["own"], expected, rtol=1e-7, atol=1e-9)
    assert run.traffic.rounds == steps + 1
    assert run.traffic.floats_up == (steps + 1) * 2 * 2 * graph.number_of_edges()
    # The same by a dense matrix: the smallest Ritz value of M on the span of the first u's.
    left, sizes, _ = np.linalg.svd(_stacked(u[: steps - 1]), full_matrices=False)
    basis = left[:, sizes > 1e-5 * sizes[0]]
    ritz = np.linalg.eigvalsh(basis.T @ np.kron(np.eye(2), mixing) @ basis)[0]
    assert estimate_gap(expected.sum(axis=0))[0] == pytest.approx(0.8 * ritz, rel=1e-3)


def _stacked(u: list[np.ndarray]) -> np.ndarray:
    """Both probes one below the other."""
    return np.column_stack([each.T.reshape(-1) for each in u])


def test_nobody_to_mix_with() -> None:
    assert estimate_gap(np.zeros(8)).tolist() == [2.0]
    run = run_part(sums, [PROBE_RELEASE], nx.empty_graph(1))
    assert estimate_gap(run.result["own"].sum(axis=0)).tolist() == [2.0]


def test_nothing_about_rows_and_no_link_leaves() -> None:
    """Posts do not depend on rows, and have two numbers per user."""
    graph = GRAPHS["grid"]
    m = graph.number_of_nodes()
    heard: list[list[tuple[str, Any]]] = [[], []]
    for seed, messages in enumerate(heard):
        run_part(sums, [PROBE_RELEASE], graph, blobs((4,) * m, seed), watch=recorder(messages))
    for (_, one), (_, other) in zip(*heard, strict=True):
        assert one.kind == "probe"
        assert list(one.body) == ["probe"]
        assert one.body["probe"].shape == (m, 2)
        assert one.body["probe"].dtype == np.float64
        assert np.array_equal(one.body["probe"], other.body["probe"])


def test_a_private_run_sends_what_it_declares() -> None:
    graph = GRAPHS["random 0"]
    protocol = GossipKMeans(3, topology="private", n_init=1)
    messages: list[tuple[str, Any]] = []
    run_mesh(
        protocol, Parties.of(blobs((9,) * 14)), network(graph), blocks=14,
        options=Options(watch=recorder(messages)),
    )  # fmt: skip
    shapes: dict[str, set[tuple[str, tuple[int, ...], str]]] = {}
    for _, post in messages:
        for name, value in post.body.items():
            shapes.setdefault(post.kind, set()).add((name, value.shape[1:], value.dtype.kind))
    steps = max(4, 2 * nx.diameter(graph))
    levels = set(nx.single_source_shortest_path_length(graph, 0).values()) - {0}
    widths = {min(14 - level, MOST_USERS) * most_local(3) for level in levels}
    assert shapes == {
        "tree": {("seen", (2,), "i")},
        "echo": {("parent", (), "i")},
        "probe": {("probe", (2,), "f")},
        "clusters": {
            # By level, room for all users but those on the way to the root: no link follows.
            *(("points", (width, 2), "f") for width in widths),
            *(("weights", (width,), "f") for width in widths),
            ("scale", (2,), "f"),
            ("added", (2 * steps,), "f"),
        },
        "start": {("centers", (3, 2), "f"), ("place", (3,), "i"), ("scale", (2,), "f")},
        "sums": {("sums", (3, 3), "f"), ("unrest", (), "f"), ("epoch", (), "i")},
    }
    # The bound that the root makes of it is the same number for all.
    estimates = {float(post.body["scale"][0, 1]) for _, post in messages if post.kind == "start"}
    assert len(estimates) == 1
    assert 0.5 * second(graph) <= estimates.pop() <= 1.2 * second(graph)
