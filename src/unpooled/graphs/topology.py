"""Graphs of users: the whole graph with its Laplacian, and a block of users' view of it.

A :class:`Topology` is the whole graph, known from the plan that every user shares. A
:class:`Neighbourhood` is what one host sees of it: the users it carries and the links they have,
inside the block and across its border.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from unpooled.kernels.linalg.products import dot
from unpooled.parallel import in_chunks
from unpooled.types import BoolArray, FloatArray, IntArray

_EXACT_DIAMETER_UP_TO = 512
_ALL_EIGENVALUES_UP_TO = 1024


@dataclass(frozen=True)
class Topology:
    """An undirected graph over users 0..m-1 as a sparse matrix of ones without a diagonal."""

    adjacency: sp.csr_array

    @property
    def n_users(self) -> int:
        return int(self.adjacency.shape[0])

    @cached_property
    def degrees(self) -> IntArray:
        return np.asarray(np.diff(self.adjacency.indptr), dtype=np.int64)

    @cached_property
    def edges(self) -> IntArray:
        """Each edge once, (n_edges, 2) with the lower user first."""
        upper = sp.triu(self.adjacency, k=1).tocoo()
        return np.column_stack([upper.row, upper.col]).astype(np.int64)

    @cached_property
    def laplacian(self) -> sp.csr_array:
        """L = D - A."""
        return sp.csr_array(sp.diags_array(self.degrees.astype(np.float64)) - self.adjacency)

    @cached_property
    def components(self) -> IntArray:
        """The connected component of each user."""
        _, labels = sp.csgraph.connected_components(self.adjacency, directed=False)
        return np.asarray(labels, dtype=np.int64)

    @cached_property
    def reach(self) -> int:
        """Exchanges after which news of every user has surely reached all that it can reach.

        The diameter where it is cheap to find, else twice the eccentricity of one user of each
        component, which bounds it.
        """
        if len(self.edges) == 0:
            return 0
        if self.n_users <= _EXACT_DIAMETER_UP_TO:
            return int(self._hops(np.arange(self.n_users)).max())
        return 2 * int(self._hops(np.unique(self.components, return_index=True)[1]).max())

    @cached_property
    def widest_branches(self) -> IntArray:
        """By hops from the root, the most users in a branch that begins there, itself included.

        The tree is the breadth-first one whose root is the lowest user; a user's parent is the
        lowest of its neighbours that are one hop nearer. Users that the root cannot reach have
        trees of their own.
        """
        roots = np.unique(self.components, return_index=True)[1]
        reached = sp.csgraph.dijkstra(
            self.adjacency, directed=False, indices=roots, unweighted=True, min_only=True
        )
        hops: IntArray = np.asarray(reached, dtype=np.int64)
        user, other = self.adjacency.nonzero()
        nearer = hops[other] == hops[user] - 1
        parents = np.full(self.n_users, self.n_users)
        np.minimum.at(parents, user[nearer], other[nearer])
        sizes = np.ones(self.n_users + 1, dtype=np.int64)
        for level in range(int(hops.max(initial=0)), 0, -1):
            senders = np.flatnonzero(hops == level)
            np.add.at(sizes, parents[senders], sizes[senders])
        widest = np.zeros(int(hops.max(initial=0)) + 1, dtype=np.int64)
        np.maximum.at(widest, hops, sizes[: self.n_users])
        return widest

    @cached_property
    def mixing(self) -> sp.csr_array:
        """D_w - (w_ij) with w_ij = 1 / max(deg_i, deg_j): see `kernels.polynomials`."""
        everybody = self.neighbourhood(np.arange(self.n_users))
        return -everybody.mixing(np.ones_like(everybody.holder, dtype=bool)).sorted_indices()

    @cached_property
    def mixing_spectrum(self) -> FloatArray | None:
        """The eigenvalues of ``mixing``, ascending; None where finding them takes long."""
        if self.n_users > _ALL_EIGENVALUES_UP_TO:
            return None
        return np.asarray(np.linalg.eigvalsh(self.mixing.toarray()))

    @cached_property
    def mixing_bounds(self) -> tuple[float, float]:
        """What the eigenvalues of ``mixing`` of a connected graph, but the 0, lie between."""
        start = np.random.default_rng(0).normal(size=self.n_users)
        # Lanczos finds extreme eigenvalues fast at the upper end: the spectrum lies in [0, 2], and
        # turned around, the 0 and the smallest but one are the two largest.
        turned = 2 * sp.eye_array(self.n_users) - self.mixing
        low = 2 - sp.linalg.eigsh(turned, 2, v0=start, tol=1e-4, return_eigenvectors=False).min()
        low = max(low - 4e-4, 1e-6)  # the tolerance is one of 2 - low
        high = sp.linalg.eigsh(self.mixing, 1, v0=start, tol=1e-4, return_eigenvectors=False).max()
        return 0.99 * float(low), min(2.0, 1.01 * float(high))

    def _hops(self, users: IntArray) -> FloatArray:
        hops: FloatArray = np.asarray(
            sp.csgraph.dijkstra(self.adjacency, directed=False, indices=users, unweighted=True)
        )
        return hops[np.isfinite(hops)]

    def disagreement(self, centers: FloatArray) -> float:
        """1/2 <x, (L kron I) x>: half the squared distance over every edge, each counted once."""

        def squares(span: slice) -> float:
            across = (centers[self.edges[span, 0]] - centers[self.edges[span, 1]]).reshape(-1)
            return dot(across, across)

        return 0.5 * sum(in_chunks(squares, (len(self.edges), centers[0].size)))

    def neighbourhood(self, users: IntArray) -> Neighbourhood:
        """What the host of ``users`` sees."""
        rows = self.adjacency[users]
        neighbours = np.unique(rows.indices)
        outer = np.setdiff1d(neighbours, users).astype(np.int64)
        place = np.full(self.n_users, -1, dtype=np.int64)
        place[users] = np.arange(len(users))
        place[outer] = len(users) + np.arange(len(outer))
        # Columns are renumbered, but each row keeps the order of the global numbers: a sum over
        # neighbours then adds in the same order however the users are split over hosts.
        links = _links(place[rows.indices], rows.indptr, len(users) + len(outer))
        own, partner = np.repeat(self.degrees[users], np.diff(rows.indptr)), rows.indices
        largest = np.zeros(len(users), dtype=np.int64)
        of_link = np.repeat(np.arange(len(users)), np.diff(rows.indptr))
        np.maximum.at(largest, of_link, own + self.degrees[partner])
        weights = 1.0 / np.maximum(own, self.degrees[partner])
        return Neighbourhood(np.asarray(users), outer, links, largest, weights)


@dataclass(frozen=True)
class Neighbourhood:
    """The links of a block of users.

    ``links`` is (n, n + len(outer)): row ``i`` has a one for every neighbour of the block's user
    ``i``, first the block's own users, then the outer ones. ``edge_degrees`` is what each user
    knows of max over edges (deg_i + deg_j), which bounds the largest eigenvalue of the Laplacian.
    ``weights`` has 1 / max(deg_i, deg_j) for every link: both ends know it, and a user's add up to
    at most 1.
    """

    users: IntArray
    outer: IntArray
    links: sp.csr_array
    edge_degrees: IntArray
    weights: FloatArray

    @cached_property
    def degrees(self) -> IntArray:
        """How many links each user has."""
        return np.asarray(np.diff(self.links.indptr), dtype=np.int64)

    @cached_property
    def holder(self) -> IntArray:
        """The user of every link, by its place in the block."""
        return np.repeat(np.arange(len(self.users)), self.degrees)

    @cached_property
    def ends(self) -> tuple[IntArray, IntArray]:
        """The two users of every link, by global number: the block's own, then the neighbour."""
        own = self.users[self.holder]
        return own, np.concatenate([self.users, self.outer])[self.links.indices]

    def keep(self, alive: BoolArray) -> sp.csr_array:
        """``links`` with only the entries marked, for an exchange in which some carried nothing."""
        if alive.all():
            return self.links
        return self._marked(alive, np.ones(int(alive.sum())))

    def mixing(self, used: BoolArray) -> sp.csr_array:
        """In the form of ``links``, the weights of those that are marked, and in the place of a
        user itself, which comes first, minus what they add up to."""
        return self._everyone_mixing if used.all() else self._mixing(used)

    @cached_property
    def _everyone_mixing(self) -> sp.csr_array:
        return self._mixing(np.ones(len(self.weights), dtype=bool))

    def _mixing(self, used: BoolArray) -> sp.csr_array:
        n, weights = len(self.users), self.weights[used]
        links = self._marked(used, weights)
        held = np.bincount(self.holder[used], weights, n)
        # One entry more in every row, before the others: the diagonal.
        values = np.insert(weights, links.indptr[:-1], -held)
        columns = np.insert(links.indices, links.indptr[:-1], np.arange(n))
        return sp.csr_array((values, columns, links.indptr + np.arange(n + 1)), shape=links.shape)

    def _marked(self, links: BoolArray, values: FloatArray) -> sp.csr_array:
        count = np.concatenate([[0], np.cumsum(links)])
        columns, indptr = self.links.indices[links], count[self.links.indptr]
        return sp.csr_array((values, columns, indptr), shape=self.links.shape)


def _links(columns: IntArray, indptr: IntArray, width: int) -> sp.csr_array:
    """A matrix of ones in these places."""
    return sp.csr_array((np.ones(len(columns)), columns, indptr), shape=(len(indptr) - 1, width))
