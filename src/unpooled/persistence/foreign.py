"""Values of NumPy, SciPy and networkx in a model's file: scalars, objects, sparse, graphs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from unpooled.persistence.values import ValueKind
from unpooled.types import Array


def _are_vectors(value: Any) -> bool:
    """Whether this is a list of vectors of one type, as labels of many parties are.

    They are kept in one array: a hundred thousand of their own would take long to open.
    """
    if type(value) is not list or not all(type(v) is np.ndarray and v.ndim == 1 for v in value):
        return False
    dtypes = {vector.dtype for vector in value}
    return len(dtypes) == 1 and all(dtype.isnative and dtype.kind in "biuf" for dtype in dtypes)


def _vectors(parts: list[Any]) -> list[Array]:
    sizes, joined = parts
    return np.split(joined, np.cumsum(sizes)[:-1])


def _objects(parts: list[Any]) -> Array:
    shape, values = parts
    # One by one: assigned together, values that are lists would become further axes.
    return np.fromiter(values, dtype=object, count=len(values)).reshape(shape)


def _sparse_apart(matrix: Any) -> list[Any]:
    rows = matrix.tocsr()
    return [isinstance(rows, sp.sparray), rows.shape, rows.data, rows.indices, rows.indptr]


def _sparse(parts: list[Any]) -> Any:
    """The matrix in csr form, whatever it had: others can take far more memory than the file."""
    is_array, shape, data, indices, indptr = parts
    matrix = (sp.csr_array if is_array else sp.csr_matrix)((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)  # compiled code follows the indices wherever
    return matrix


@cache
def _graphs() -> dict[str, Any]:
    import networkx as nx  # takes a while, and most models have none

    return {kind.__name__: kind for kind in (nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph)}


def _is_graph(value: Any) -> bool:
    return type(value).__module__.startswith("networkx.") and type(value) in _graphs().values()


def _graph_apart(graph: Any) -> list[Any]:
    keys = {"keys": True} if graph.is_multigraph() else {}
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True, **keys))
    return [type(graph).__name__, graph.graph, nodes, edges]


def _graph(parts: list[Any]) -> Any:
    name, attributes, nodes, edges = parts
    graph = _graphs()[name]()
    graph.graph.update(attributes)
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    return graph


KINDS = {
    "vectors": ValueKind(_are_vectors, lambda v: [list(map(len, v)), np.concatenate(v)], _vectors),
    "scalar": ValueKind(lambda value: isinstance(value, np.generic), np.asarray, lambda a: a[()]),
    "objects": ValueKind(
        lambda value: type(value) is np.ndarray and value.dtype == object,
        lambda array: [array.shape, array.ravel().tolist()],
        _objects,
    ),
    "sparse": ValueKind(lambda v: sp.issparse(v) and v.ndim == 2, _sparse_apart, _sparse),
    "graph": ValueKind(_is_graph, _graph_apart, _graph),
}
