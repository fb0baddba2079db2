"""Spanning trees: how parties reach one of them over the links that they have.

A breadth-first tree is as low as a tree with its root can be: every party is as many hops from the
root as it is in the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from unpooled.errors import GraphError
from unpooled.graphs.topology import Topology
from unpooled.types import BoolArray, IntArray

_ALL_ROOTS_UP_TO = 512


@dataclass(frozen=True)
class SpanningTree:
    """A rooted tree over parties 0..m-1: ``parents[i]`` is i's parent, -1 for the root."""

    parents: IntArray

    def __post_init__(self) -> None:
        parents = np.asarray(self.parents, dtype=np.int64)
        object.__setattr__(self, "parents", parents)
        if parents.ndim != 1 or not (((parents >= -1) & (parents < len(parents))).all()):
            raise GraphError(
                f"The parents of a tree must be numbers from 0 to {len(parents) - 1}, and -1 for "
                "the root; give one per party."
            )
        if (parents == -1).sum() != 1:
            raise GraphError(
                f"A tree has one root, but {(parents == -1).sum()} parties have no parent (-1)."
            )
        if (self.depths < 0).any():
            stray = int(np.flatnonzero(self.depths < 0)[0])
            raise GraphError(f"Party number {stray} does not reach the tree's root by its parents.")

    @classmethod
    def of(cls, graph: Topology, root: int | None = None) -> SpanningTree:
        """The breadth-first tree of a connected graph; neighbours are visited in party order.

        The root is by default the party that makes the tree lowest, the first of equals. In a graph
        of more than 512 parties, where trying all takes long, it is the middle of a longest path
        found by going to the farthest party twice; the tree is then at most twice as high.
        """
        if graph.components.max(initial=0) > 0:
            raise GraphError(
                "The graph is disconnected, so no tree spans it; add an edge between its parts."
            )
        if root is None:
            root = _lowest_root(graph)
        elif not 0 <= root < graph.n_users:
            raise GraphError(
                f"root={root} is no party; give a number from 0 to {graph.n_users - 1}."
            )
        return cls(_breadth_first(graph, root))

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def root(self) -> int:
        return int(np.flatnonzero(self.parents == -1)[0])

    @cached_property
    def depths(self) -> IntArray:
        """Hops from the root to each party (-1 where parents run in a circle)."""
        depths = np.full(len(self), -1, dtype=np.int64)
        level, depth = self.parents == -1, 0
        while level.any():
            depths[level] = depth
            # A circle is never reached, as its members' parents all lie on it.
            level = (self.parents >= 0) & level[self.parents]
            depth += 1
        return depths

    @cached_property
    def height(self) -> int:
        """Hops from the root to the farthest party."""
        return int(self.depths.max())

    @cached_property
    def n_children(self) -> IntArray:
        """How many children each party has."""
        return np.bincount(self.parents[self.parents >= 0], minlength=len(self)).astype(np.int64)

    def path(self, party: int) -> list[int]:
        """The parties from ``party`` to the root, both included."""
        found = [party]
        while self.parents[found[-1]] >= 0:
            found.append(int(self.parents[found[-1]]))
        return found

    def reached(self, up: BoolArray) -> BoolArray:
        """Which parties are connected to the root by parties that are up: one that is down cuts off
        all those below it."""
        reached: BoolArray = up & (self.parents == -1)
        for depth in range(1, self.height + 1):
            reached |= up & (self.depths == depth) & reached[self.parents]
        return reached


def _breadth_first(graph: Topology, root: int) -> IntArray:
    _, parents = sp.csgraph.breadth_first_order(graph.adjacency, root, directed=False)
    return np.where(parents < 0, -1, parents).astype(np.int64)


def _lowest_root(graph: Topology) -> int:
    if graph.n_users <= _ALL_ROOTS_UP_TO:
        hops = sp.csgraph.dijkstra(graph.adjacency, directed=False, unweighted=True)
        return int(hops.max(axis=1, initial=0.0).argmin())
    far = SpanningTree(_breadth_first(graph, 0)).depths.argmax()
    tree = SpanningTree(_breadth_first(graph, int(far)))
    path = tree.path(int(tree.depths.argmax()))
    return path[len(path) // 2]
