"""Average consensus in a fixed number of exchanges: by polynomial gossip, or along a tree.

Both keep an array z with one entry per user of the block, and may keep a second one, p. A cycle
begins with :meth:`Averaging.begin`. Exchange n of it sends :meth:`Averaging.outgoing` and ends with
:meth:`Averaging.update`. After ``length`` exchanges z is a multiple of the mean, and users differ
by at most ``contraction`` times as much as before. Methods work on all of the block's users; the
caller keeps the results for those that it wants.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil

import numpy as np

from unpooled.kernels.linalg.polynomials import chebyshev, passes_needed, residual, shortest, widest
from unpooled.protocols.mesh.base import Block, Heard, only
from unpooled.protocols.mesh.shared.spanning_tree import BreadthFirstTree
from unpooled.types import BoolArray, FloatArray

THETA = 0.03
"""The most that a cycle leaves of users' differences: a smaller one takes more exchanges per cycle,
a larger one more cycles."""
_THETA_UNKNOWN = 0.1
_NONE = _EXACT = 1e-12
_MIN_CONTRACTION = 1e-3
"""No better is relied on where the spectrum is an estimate."""


def longest_cycle(block: Block) -> int:
    """The most exchanges that a cycle takes in a graph whose spectrum is not known exactly."""
    return 4 * block.reach + 8


class Averaging(ABC):
    """A way to average."""

    length: int
    """Exchanges of a cycle."""
    window: int
    """Exchanges, in whole cycles, after which a message from any user has reached all."""
    contraction: float
    """The share of users' differences that a cycle leaves, at most."""

    @property
    def exact(self) -> bool:
        """Whether a cycle leaves nothing of users' differences but rounding."""
        return self.contraction <= _EXACT

    @property
    def residual_per_move(self) -> float:
        """The residual that a move by 1 leaves, where the question is whether users agree.

        When all know that all stood still, they have averaged the same sums twice, so they differ
        by contraction^2 of their last move. That is to be 1/4000 of the tolerance: once rows stay
        in their clusters, it is not worth saving a cycle.
        """
        return 0.0 if self.exact else min(4000 * self.contraction**2, 1000.0)

    @abstractmethod
    def begin(self, z: FloatArray, own: FloatArray, change: FloatArray) -> FloatArray:
        """z as a cycle begins, from each user's ``own`` value and its ``change`` since the last."""

    @abstractmethod
    def outgoing(self, n: int, z: FloatArray, p: FloatArray) -> tuple[FloatArray, BoolArray | None]:
        """What users send in exchange n, which is the next p, and on which links (None: all)."""

    @abstractmethod
    def update(
        self, n: int, z: FloatArray, p: FloatArray, heard: Heard, used: BoolArray
    ) -> FloatArray:
        """The next z; ``used`` marks the links whose messages count."""


class PolynomialGossip(Averaging):
    """By a polynomial of the mixing matrix: see :mod:`unpooled.kernels.linalg.polynomials`.

    The sum of z over users does not change, whichever links are used, as long as both ends use
    them. So a cycle may go on from the mean of the cycle before: z + change.
    """

    def __init__(
        self, block: Block, coefficients: FloatArray, contraction: float, reach: int, field: str
    ) -> None:
        self.length = len(coefficients)
        self.window = self.length * max(1, ceil(reach / self.length))
        self.contraction = contraction
        self._near = block.neighbourhood
        self._coefficients = coefficients
        self._field = field

    @classmethod
    def planned(cls, block: Block, field: str) -> PolynomialGossip:
        """For the graph of the plan."""
        graph = block.graph
        if not len(graph.edges):
            return cls(block, np.zeros((1, 2)), 0.0, 0, field)
        spectrum = graph.mixing_spectrum
        if spectrum is None:
            return cls.between(block, *graph.mixing_bounds, field)
        coefficients = shortest(spectrum, THETA)
        left = float(np.abs(residual(coefficients, spectrum[spectrum > _NONE])).max())
        return cls(block, coefficients, left, block.reach, field)

    @classmethod
    def between(cls, block: Block, low: float, high: float, field: str) -> PolynomialGossip:
        """For a graph whose non-zero eigenvalues lie between these."""
        # A graph with narrow passages would need very long cycles; it takes more of them instead.
        passes = min(passes_needed(low, high, THETA), longest_cycle(block))
        coefficients = chebyshev(low, high, passes)
        left = float(np.abs(residual(coefficients, np.array([low, high]))).max())
        return cls(block, coefficients, max(left, _MIN_CONTRACTION), block.reach, field)

    @classmethod
    def after_faults(cls, block: Block, field: str) -> PolynomialGossip:
        """For a graph of which nothing is known but how many users it has at most.

        A message from anybody has reached everybody after m - 1 exchanges in any case. In a network
        of more than 64 users windows would be too long: there 4 times the reach of the plan's graph
        must do.
        """
        passes, m = max(4, block.reach), block.graph.n_users
        reach = max(block.reach, min(m - 1, max(64, 4 * block.reach)))
        return cls(block, widest(passes, _THETA_UNKNOWN), 1.0, reach, field)

    def begin(self, z: FloatArray, own: FloatArray, change: FloatArray) -> FloatArray:
        return z + change

    def outgoing(self, n: int, z: FloatArray, p: FloatArray) -> tuple[FloatArray, BoolArray | None]:
        b = self._coefficients[n, 1]
        return (z if b == 0 else z + b * p), None

    def update(
        self, n: int, z: FloatArray, p: FloatArray, heard: Heard, used: BoolArray
    ) -> FloatArray:
        step = heard.mixed(self._near, self._field, used)
        step *= self._coefficients[n, 0]
        step += z
        return step


class TreeSums(Averaging):
    """Convergecast of sums up a tree, then broadcast of the total: exact, the same bits for all.

    In exchange n < height of the tree, the level height - n sends the sum of its branches to its
    parents. In the other half of the cycle the total comes down, level by level.
    """

    contraction = 0.0

    def __init__(self, block: Block, tree: BreadthFirstTree, height: int, field: str) -> None:
        self._height = max(1, height)
        self.length = self.window = 2 * self._height
        self._near, self._tree, self._field = block.neighbourhood, tree, field

    def begin(self, z: FloatArray, own: FloatArray, change: FloatArray) -> FloatArray:
        return own

    def outgoing(self, n: int, z: FloatArray, p: FloatArray) -> tuple[FloatArray, BoolArray | None]:
        tree, level, links = self._tree, self._height - n, self._tree.to_parent
        if n >= self._height:
            level, links = -level, tree.to_children
        return z, links & (tree.hops == level)[self._near.holder]

    def update(
        self, n: int, z: FloatArray, p: FloatArray, heard: Heard, used: BoolArray
    ) -> FloatArray:
        going_up, tree = n < self._height, self._tree
        links = self._near.keep(used & (tree.to_children if going_up else tree.to_parent))
        everyone = heard.everyone(self._field)
        received = (links @ everyone.reshape(len(everyone), -1)).reshape(z.shape)
        if going_up:
            return np.asarray(z + received)
        return only(np.diff(links.indptr) > 0, received, z)  # users that heard their parent
