"""Values of NumPy, SciPy and networkx: scalars, arrays of objects, matrices, graphs, generators.

Where a library trusts what it is given (indices, positions), it is checked here.
"""

from __future__ import annotations

from math import prod
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from unpooled.persistence.kinds import Kind, Unreadable, Unwritable, exactly
from unpooled.types import Array


def is_row(value: Any) -> bool:
    """Whether this is a list of vectors of one type, as labels of many parties are.

    They are kept in one array: a hundred thousand of their own would take long to open.
    """
    if type(value) is not list or len(value) < 2:
        return False
    if not all(type(item) is np.ndarray and item.ndim == 1 for item in value):
        return False
    dtype = value[0].dtype
    same = all(item.dtype == dtype for item in value)
    return same and dtype.isnative and dtype.kind in "biuf"


def _row(parts: list[Any]) -> list[Array]:
    sizes, joined = parts
    if min(sizes) < 0 or sum(sizes) != len(joined):
        raise Unreadable("has vectors of more or fewer values than they share; save it again")
    return np.split(joined, np.cumsum(sizes)[:-1])


def _objects(parts: list[Any]) -> Array:
    shape, values = parts
    if prod(shape) != len(values):
        raise Unreadable("has an array of more or fewer values than its shape; save it again")
    # One by one: assigned together, values that are lists would become further axes.
    return np.fromiter(values, dtype=object, count=len(values)).reshape(shape)


_COMPRESSED = ("csr", "csc", "bsr")
_SPARSE = {
    "coo": ("data", "coords"),
    "dia": ("data", "offsets"),
    **dict.fromkeys(_COMPRESSED, ("data", "indices", "indptr")),
}


def _sparse_apart(matrix: Any) -> list[Any]:
    # The two formats for building matrices, dok and lil, are made of Python objects.
    held = matrix if matrix.format in _SPARSE else matrix.tocsr()
    suffix = "array" if isinstance(matrix, sp.sparray) else "matrix"
    arrays = tuple(getattr(held, name) for name in _SPARSE[held.format])
    return [matrix.format, held.format, suffix, tuple(map(int, matrix.shape)), arrays]


def _sparse(parts: list[Any]) -> Any:
    form, held, suffix, shape, arrays = parts
    built = held == "csr" and form in ("dok", "lil")
    if held not in _SPARSE or suffix not in ("array", "matrix") or (form != held and not built):
        raise Unreadable(f"holds a sparse {held}_{suffix}, which is not known; upgrade unpooled")
    matrix = getattr(sp, f"{held}_{suffix}")(arrays, shape=shape)
    if held in _COMPRESSED:
        matrix.check_format(full_check=True)  # compiled code follows the indices wherever
    return matrix.asformat(form)


_GRAPHS = {kind.__name__: kind for kind in (nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph)}


def _graph_apart(graph: Any) -> list[Any]:
    keys = {"keys": True} if graph.is_multigraph() else {}
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True, **keys))
    return [type(graph).__name__, graph.graph, nodes, edges]


def _graph(parts: list[Any]) -> Any:
    name, attributes, nodes, edges = parts
    graph = _GRAPHS[name]()
    graph.graph.update(attributes)
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    return graph


_BITS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def _bits(state: dict[str, Any]) -> Any:
    """A bit generator of the kind that the state is of."""
    if state["bit_generator"] not in _BITS:
        raise Unreadable(
            f"holds a generator {state['bit_generator']!r}, which is not known; upgrade unpooled"
        )
    # NumPy would take any position, and read there.
    if not 0 <= state["state"].get("pos", 0) <= 624 or not 0 <= state.get("buffer_pos", 0) <= 4:
        raise Unreadable("holds a random state that points outside itself; save the model again")
    return getattr(np.random, state["bit_generator"])()


def _state(random: Any) -> dict[str, Any]:
    """The state of a Generator or RandomState."""
    legacy = isinstance(random, np.random.RandomState)
    state: dict[str, Any] = random.get_state(legacy=False) if legacy else random.bit_generator.state
    if state["bit_generator"] not in _BITS:
        raise Unwritable(f"a generator {state['bit_generator']!r} that is not NumPy's")
    return state


def _generator(state: dict[str, Any]) -> np.random.Generator:
    bits = _bits(state)
    bits.state = state
    return np.random.Generator(bits)


def _random_state(state: dict[str, Any]) -> np.random.RandomState:
    made = np.random.RandomState(_bits(state))
    made.set_state(state)
    return made


KINDS = {
    "row": Kind(is_row, lambda row: [list(map(len, row)), np.concatenate(row)], _row),
    "scalar": Kind(lambda value: isinstance(value, np.generic), np.asarray, lambda a: a[()]),
    "objects": Kind(
        lambda value: type(value) is np.ndarray and value.dtype == object,
        lambda array: [array.shape, array.ravel().tolist()],
        _objects,
    ),
    "sparse": Kind(sp.issparse, _sparse_apart, _sparse),
    "graph": Kind(exactly(*_GRAPHS.values()), _graph_apart, _graph),
    "generator": Kind(exactly(np.random.Generator), _state, _generator),
    "random_state": Kind(exactly(np.random.RandomState), _state, _random_state),
}
