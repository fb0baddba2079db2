"""Two ways for users to find the mean of what each of them has, in a fixed number of exchanges.

Both keep an array z with one entry per user of the block, and may keep a second one, p. A cycle
begins with :meth:`Averaging.begin`; exchange n of it sends :meth:`Averaging.words` and ends with
:meth:`Averaging.hear`, and after ``length`` of them z is a multiple of the mean, the same one at
all users up to ``left`` of how much they differed. Methods work on all of the block's users; the
caller keeps the results for those that it wants.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil

import numpy as np

from unpooled.kernels.linalg.polynomials import chebyshev, passes_needed, residual, shortest, widest
from unpooled.protocols.mesh.base import Block, Heard, only
from unpooled.protocols.mesh.shared.spanning_tree import Tree
from unpooled.types import BoolArray, FloatArray

THETA = 0.03
"""What is left of users' differences after a cycle, at most: less takes more exchanges a cycle,
more takes more cycles."""
_THETA_UNKNOWN = 0.1
_NONE = _EXACT = 1e-12
_LEAST = 1e-3
"""What is said to be left at least, where the spectrum is an estimate."""


def longest(block: Block) -> int:
    """The most exchanges that a cycle takes in a graph whose spectrum is not known exactly."""
    return 4 * block.reach + 8


class Averaging(ABC):
    """A way to average; ``window`` is as many exchanges, in whole cycles, as tell all of all."""

    length: int
    window: int
    left: float

    @property
    def exact(self) -> bool:
        """Whether nothing is left of users' differences but rounding."""
        return self.left <= _EXACT

    @property
    def apart(self) -> float:
        """How restless a move by 1 leaves users about whether they agree.

        When all know that all stood still, they have averaged the same sums twice, so left^2 of
        what they last moved by is between them. That is to be 1/4000 of the tolerance: once rows
        stay, a cycle more is not worth saving.
        """
        return 0.0 if self.exact else min(4000 * self.left**2, 1000.0)

    @abstractmethod
    def begin(self, z: FloatArray, own: FloatArray, news: FloatArray) -> FloatArray:
        """z as a cycle begins: ``own`` is what each user has, ``news`` what is new in it."""

    @abstractmethod
    def words(self, n: int, z: FloatArray, p: FloatArray) -> tuple[FloatArray, BoolArray | None]:
        """What users say in exchange n, the next p; and the links it goes out on, None for all."""

    @abstractmethod
    def hear(
        self, n: int, z: FloatArray, p: FloatArray, heard: Heard, used: BoolArray
    ) -> FloatArray:
        """The next z; ``used`` are the links that what was said on counts."""


class Gossip(Averaging):
    """By a polynomial of the mixing matrix: see :mod:`unpooled.kernels.linalg.polynomials`.

    What z adds up to over users does not change, whichever links are used, as long as both ends
    use them. So a mean may go on from that of the cycle before: z + news.
    """

    def __init__(
        self, block: Block, coefficients: FloatArray, left: float, reach: int, field: str
    ) -> None:
        self.length = len(coefficients)
        self.window = self.length * max(1, ceil(reach / self.length))
        self.left = left
        self._near = block.neighbourhood
        self._coefficients = coefficients
        self._field = field

    @classmethod
    def planned(cls, block: Block, field: str) -> Gossip:
        """For the graph of the plan."""
        graph = block.graph
        if not len(graph.edges):
            return cls(block, np.zeros((1, 2)), 0.0, 0, field)
        spectrum = graph.mixing_spectrum
        if spectrum is None:
            return cls.between(block, *graph.mixing_bounds, field)
        coefficients = shortest(spectrum, THETA)
        left = np.abs(residual(coefficients, spectrum[spectrum > _NONE])).max()
        return cls(block, coefficients, float(left), block.reach, field)

    @classmethod
    def between(cls, block: Block, low: float, high: float, field: str) -> Gossip:
        """For a graph whose eigenvalues but the 0 lie between these."""
        # A graph with narrow passages would take very long cycles; it takes more of them instead.
        passes = min(passes_needed(low, high, THETA), longest(block))
        coefficients = chebyshev(low, high, passes)
        left = float(np.abs(residual(coefficients, np.array([low, high]))).max())
        return cls(block, coefficients, max(left, _LEAST), block.reach, field)

    @classmethod
    def after_faults(cls, block: Block, field: str) -> Gossip:
        """For a graph of which nothing is known but how many users it has at most.

        A word from anybody has reached everybody after m - 1 exchanges in any case; in a network
        of more than 64 users, 4 times the reach of the plan's graph has to do.
        """
        passes, m = max(4, block.reach), block.graph.n_users
        reach = max(block.reach, min(m - 1, max(64, 4 * block.reach)))
        return cls(block, widest(passes, _THETA_UNKNOWN), 1.0, reach, field)

    def begin(self, z: FloatArray, own: FloatArray, news: FloatArray) -> FloatArray:
        return z + news

    def words(self, n: int, z: FloatArray, p: FloatArray) -> tuple[FloatArray, BoolArray | None]:
        b = self._coefficients[n, 1]
        return (z if b == 0 else z + b * p), None

    def hear(
        self, n: int, z: FloatArray, p: FloatArray, heard: Heard, used: BoolArray
    ) -> FloatArray:
        step = heard.mixed(self._near, self._field, used)
        step *= self._coefficients[n, 0]
        step += z
        return step


class TreeSums(Averaging):
    """By sums that go up a tree, whose total comes down: exact, and the same bits for all.

    ``height`` is that of the tree. In exchange n < height the level height - n sends what it and
    those below it have; in the other half the total goes back.
    """

    left = 0.0

    def __init__(self, block: Block, tree: Tree, height: int, field: str) -> None:
        self._height = max(1, height)
        self.length = self.window = 2 * self._height
        self._near, self._tree, self._field = block.neighbourhood, tree, field

    def begin(self, z: FloatArray, own: FloatArray, news: FloatArray) -> FloatArray:
        return own

    def words(self, n: int, z: FloatArray, p: FloatArray) -> tuple[FloatArray, BoolArray | None]:
        tree, level, links = self._tree, self._height - n, self._tree.up
        if n >= self._height:
            level, links = -level, tree.down
        return z, links & (tree.hops == level)[self._near.holder]

    def hear(
        self, n: int, z: FloatArray, p: FloatArray, heard: Heard, used: BoolArray
    ) -> FloatArray:
        links = self._near.keep(used & (self._tree.down if n < self._height else self._tree.up))
        everyone = heard.everyone(self._field)
        told = (links @ everyone.reshape(len(everyone), -1)).reshape(z.shape)
        if n < self._height:
            return np.asarray(z + told)
        return only(np.diff(links.indptr) > 0, told, z)
