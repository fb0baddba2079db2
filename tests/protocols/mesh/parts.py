"""A part of a mesh protocol as a protocol of its own, and graphs and rows to run it on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from unpooled import DGC
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.messages.message import Post
from unpooled.messages.release import Release
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.runtime.run import Run
from unpooled.simulate import Options, run_mesh
from unpooled.simulate.faults import Fault
from unpooled.types import Body

published_dgc = partial(DGC, rho=10.0, init="dkm+c", solver="plain")
"""DGC as in its paper; the estimator's defaults are ours."""


@dataclass(frozen=True)
class Part(MeshProtocol):
    """Whatever ``does`` makes of a block."""

    does: Callable[[Block], Peer[Body]]
    declared: tuple[Release, ...]
    name = "part"

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.declared

    def peer(self, block: Block) -> Peer[Body]:
        return self.does(block)


def graph_of(m: int, seed: int, extra: int = 3) -> nx.Graph:
    """A random tree whose users are numbered at random, with some more links."""
    rng = np.random.default_rng(seed)
    graph = nx.random_labeled_tree(m, seed=seed)
    for a, b in rng.integers(m, size=(extra, 2)):
        if a != b:
            graph.add_edge(int(a), int(b))
    return graph


def network(graph: nx.Graph | str, m: int | None = None) -> Topology:
    size = graph.number_of_nodes() if isinstance(graph, nx.Graph) else m
    assert size is not None
    return topology(graph, [str(i) for i in range(size)])


def blobs(sizes: Sequence[int], seed: int = 0, *, apart: float = 8.0, width: int = 2) -> list:
    """Rows about three places, unevenly spread over users."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0.0, apart, size=(3, width)) + 5.0
    shares = rng.dirichlet(np.ones(3), size=len(sizes))
    return [
        places[rng.choice(3, p=share, size=n)] + rng.normal(size=(n, width))
        for n, share in zip(sizes, shares, strict=True)
    ]


def run_part(
    does: Callable[[Block], Peer[Body]],
    releases: Iterable[Release],
    graph: nx.Graph | str,
    tables: Sequence[np.ndarray] | None = None,
    *,
    weights: Sequence[np.ndarray] | None = None,
    faults: Iterable[Fault] = (),
    seed: int = 0,
    blocks: int = 1,
    **options: Any,
) -> Run:
    """Runs a part on the graph; what its users' rows are may not matter."""
    if tables is None:
        assert isinstance(graph, nx.Graph)
        tables = [np.array([[0.0], [1.0]])] * graph.number_of_nodes()
    parties = Parties.of(tables, weights=weights)
    how = Options(faults=tuple(faults), **options)
    net = network(graph, len(parties))
    return run_mesh(
        Part(does, tuple(releases)), parties, net, seed=seed, blocks=blocks, options=how
    )


def recorder(messages: list[tuple[str, Any]]) -> Callable[[str, Any], None]:
    """A ``watch`` that writes down who posted what."""

    def watch(who: str, message: Any) -> None:
        assert isinstance(message, Post)
        messages.append((who, message))

    return watch


def parents_of(graph: nx.Graph, root: int) -> tuple[dict[int, int], dict[int, int]]:
    """Hops to the root and, one hop nearer, the lowest neighbour: by breadth-first search."""
    hops = dict(nx.single_source_shortest_path_length(graph, root))
    parents = {
        user: min(other for other in graph[user] if hops[other] == far - 1)
        for user, far in hops.items()
        if far
    }
    return hops, parents
