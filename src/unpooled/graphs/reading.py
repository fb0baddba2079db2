"""Every form of graph that users pass, read into a :class:`Topology` or refused.

Parties are the nodes. A graph over several parties must be connected, since users that have no path
to each other never agree; ``None``, no link at all, is the one exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from unpooled.errors import GraphError
from unpooled.graphs.topology import Topology
from unpooled.types import IntArray, PartyId

NAMED_GRAPHS: dict[str, Callable[[int], tuple[IntArray, IntArray]]] = {
    "ring": lambda m: (np.arange(m), (np.arange(m) + 1) % m),
    "path": lambda m: (np.arange(m - 1), np.arange(1, m)),
    "star": lambda m: (np.zeros(m - 1, dtype=np.int64), np.arange(1, m)),
    "complete": lambda m: np.triu_indices(m, 1),
}
"""The two ends of every edge of a graph over m users."""


def topology(graph: Any, names: Sequence[PartyId]) -> Topology:
    """Reads every form of ``graph`` that the estimators take, for the parties in ``names``.

    ``"ring"``, ``"path"``, ``"star"``, ``"complete"``; a networkx graph or a symmetric adjacency
    matrix, whose nodes are 0..m-1 in party order or the party names; ``None`` for no link at all.
    Edge weights and self-loops are ignored. One party has no edge whatever is asked for.
    """
    m = len(names)
    if graph is None:
        return Topology(_adjacency(np.empty((0, 2), dtype=np.int64), m))
    if isinstance(graph, str):
        if graph not in NAMED_GRAPHS:
            raise GraphError(
                f"graph={graph!r} is not known; give one of {_listed(NAMED_GRAPHS)}, a networkx "
                "graph, an adjacency matrix or None."
            )
        edges = np.column_stack(NAMED_GRAPHS[graph](m))
    elif m == 1:
        edges = np.empty((0, 2), dtype=np.int64)
    elif _is_networkx(graph):
        edges = _edges_of_networkx(graph, names)
    else:
        edges = _edges_of_matrix(graph, names)
    found = Topology(_adjacency(edges, m))
    _refuse_disconnected(found, names)
    return found


def _is_networkx(graph: Any) -> bool:
    import networkx as nx  # takes a while, and most graphs are named

    return isinstance(graph, nx.Graph)


def _edges_of_networkx(graph: Any, names: Sequence[PartyId]) -> IntArray:
    if graph.is_directed():
        raise GraphError(
            "The graph is directed, but links carry both ways; give graph.to_undirected()."
        )
    if graph.number_of_nodes() != len(names):
        raise GraphError(_wrong_size(graph.number_of_nodes(), len(names)))
    nodes = set(graph.nodes)
    if nodes == set(range(len(names))):
        place = {node: node for node in nodes}
    elif {str(node) for node in nodes} == set(names):
        numbers = {name: i for i, name in enumerate(names)}
        place = {node: numbers[str(node)] for node in nodes}
    else:
        parties = set(names)
        unknown = [node for node in graph.nodes if str(node) not in parties]
        wrong = f"a node {unknown[0]!r} that is no party" if unknown else "two nodes of one name"
        raise GraphError(
            f"The graph has {wrong}; name its nodes 0..{len(names) - 1} in party order or after "
            f"the parties ({_listed(names)})."
        )
    pairs = [(place[a], place[b]) for a, b in graph.edges()]
    return np.asarray(pairs, dtype=np.int64).reshape(-1, 2)


def _edges_of_matrix(graph: Any, names: Sequence[PartyId]) -> IntArray:
    m = len(names)
    graph = _in_party_order(graph, names)
    try:
        if np.iscomplexobj(graph):  # NumPy would drop the imaginary part with a warning only
            raise TypeError
        matrix = (
            sp.coo_array(graph) if sp.issparse(graph) else sp.coo_array(np.asarray(graph, float))
        )
    except (TypeError, ValueError):
        raise GraphError(
            f"graph is a {type(graph).__name__}; give a name ({_listed(NAMED_GRAPHS)}), a networkx "
            "graph, an adjacency matrix or None."
        ) from None
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"The adjacency matrix has shape {matrix.shape}; it must be square.")
    if matrix.shape[0] != m:
        raise GraphError(_wrong_size(matrix.shape[0], m))
    if not np.isfinite(matrix.data).all():
        raise GraphError("The adjacency matrix has a NaN or infinite entry; use 0 for no link.")
    if abs(matrix - matrix.T).sum() != 0:
        raise GraphError("The adjacency matrix is not symmetric, but links carry both ways.")
    linked = matrix.data != 0
    return np.column_stack([matrix.row[linked], matrix.col[linked]]).astype(np.int64)


def _in_party_order(graph: Any, names: Sequence[PartyId]) -> Any:
    """A labelled matrix (a pandas DataFrame) with its lines and columns in party order."""
    if not hasattr(graph, "index") or not hasattr(graph, "columns"):
        return graph
    order = []
    for labels in (list(graph.index), list(graph.columns)):
        if labels == list(range(len(labels))):
            return graph
        if sorted(map(str, labels)) != sorted(names):
            raise GraphError(
                f"The adjacency matrix is labelled {_listed(labels)}; label it after the parties "
                f"({_listed(names)}) or pass a plain array in party order."
            )
        place = {str(label): i for i, label in enumerate(labels)}
        order.append([place[name] for name in names])
    return np.asarray(graph)[np.ix_(*order)]


def _adjacency(edges: IntArray, m: int) -> sp.csr_array:
    """The symmetric matrix of ones for the edges, without loops or repetitions."""
    edges = edges[edges[:, 0] != edges[:, 1]]
    both = np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)
    return sp.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(m, m))


def _refuse_disconnected(found: Topology, names: Sequence[PartyId]) -> None:
    labels = found.components
    if labels.max(initial=0) == 0:
        return
    smallest = int(np.argmin(np.bincount(labels)))
    members = [names[int(i)] for i in np.flatnonzero(labels == smallest)]
    word, verb = ("party", "has") if len(members) == 1 else ("parties", "have")
    raise GraphError(
        f"The graph is disconnected: {word} {_listed(members)} {verb} no path to the others; add "
        "an edge, or pass graph=None to cluster every party by itself."
    )


def _wrong_size(nodes: int, parties: int) -> str:
    return (
        f"The graph has {nodes} nodes but there are {parties} parties; "
        "give it one node per party, in party order."
    )


def _listed(names: Iterable[Any], most: int = 6) -> str:
    shown = [repr(name) for name in names]
    rest = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {rest} more" if rest > 0 else "")
