"""Which of its user's centres a row belongs to, without looking at rows that cannot have changed.

A row whose nearest centre is at d_1 and whose second nearest is at d_2 keeps its cluster until
centres have moved by (d_2 - d_1) / 2, wherever they went: the triangle inequality allows no less.
So a row is looked at again once its user's centres have, step by step, come that far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unpooled.kernels.assignment.nearest import all_pairs, in_cache
from unpooled.parallel import in_chunks
from unpooled.types import FloatArray, IntArray

Squared = Callable[[FloatArray], FloatArray]

_ROUNDING = 1e-9
"""Relative to the distances: what is nearer than that to a change is looked at."""


class LazyNearest:
    """Labels as :func:`unpooled.kernels.assignment.nearest.nearest` finds them, from call to call.

    ``squared`` is the squared length of differences in the metric.
    """

    def __init__(self, rows: FloatArray, owner: IntArray, n_users: int, squared: Squared) -> None:
        self._rows, self._owner, self._squared = rows, owner, squared
        self._labels: IntArray = np.zeros(len(rows), dtype=np.int64)
        self._drift: FloatArray = np.zeros(n_users)
        """How far a user's centres have come."""
        self._due: FloatArray = np.full(len(rows), -np.inf)
        """How far they must have come for the row to be looked at."""
        self._centers: FloatArray | None = None

    def __call__(self, centers: FloatArray) -> IntArray:
        """The labels for these centres, (users, K, d)."""
        if self._centers is not None:
            moves = centers - self._centers
            lengths = self._squared(moves.reshape(-1, moves.shape[-1])).reshape(moves.shape[:2])
            self._drift += np.sqrt(lengths.max(axis=1))
        self._centers = centers
        drift = self._drift[self._owner]
        looked_at = np.flatnonzero(~(drift < self._due))  # also what is beyond all numbers
        labels, width = self._labels.copy(), self._rows.shape[1]

        def look(span: slice) -> None:
            for part in in_cache(span, width):
                rows = looked_at[part]
                labels[rows], room = self._look(rows, centers)
                self._due[rows] = drift[rows] + room

        in_chunks(look, (len(looked_at), width))
        self._labels = labels
        return labels

    def _look(self, rows: IntArray, centers: FloatArray) -> tuple[IntArray, FloatArray]:
        """The rows' labels, and how far centres may go before these can change."""
        squared = all_pairs(
            self._rows[rows], self._owner[rows], centers, lambda x, y: self._squared(x - y)
        )
        labels = squared.argmin(axis=1)
        if centers.shape[1] == 1:
            return labels, np.full(len(rows), np.inf)
        nearest, second = np.sqrt(np.partition(squared, 1, axis=1)[:, :2].T)
        return labels, 0.5 * (second - nearest) - _ROUNDING * second
