"""Bounds that spare most rows a look: a row keeps its label until centres have moved far enough.

A row whose nearest centre is at d_1 and whose second nearest is at d_2 keeps its label until
centres have moved by (d_2 - d_1) / 2 each, wherever they went: the triangle inequality allows no
less (Elkan 2003, Hamerly 2010). So there is a *drift*, how far the centres that matter to a row
have come in all rounds, and for every row a *bound*, the drift at which it is looked at again. Both
kinds below have ``assign``, which gives the labels for new centres:

- :class:`UserBounds`: every row has its user's centres, in any metric; one drift per user, by the
  fastest of its centres.
- :class:`CenterBounds`: one table and one set of centres. Let a row be nearer to its own centre
  than
  to any other by g. Its own centre goes away by no more than it has moved, the others come nearer
  by no more than the fastest of them has: every centre has a drift that adds up both, which must
  exceed g (Hamerly's two bounds in one number).

Labels are those of the plain kernels, always: what rounding leaves in doubt is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unpooled.kernels.assignment.centers import nearest
from unpooled.kernels.assignment.nearest import all_pairs, in_cache
from unpooled.kernels.linalg.products import lengths
from unpooled.parallel import in_chunks
from unpooled.types import Array, Body, FloatArray, IntArray, Rows

Squared = Callable[[FloatArray], FloatArray]
Labels: TypeAlias = NDArray[np.int32]
"""Short ones: they are kept on disk between rounds."""

_DOUBT = 1e-9
"""Relative to the distances: what is nearer than that to a change is looked at."""
_MOST = 0.75
"""The share of rows beyond which it is quicker to look at all of them than at those due."""


def due_rows(drift: FloatArray, bounds: Array) -> IntArray:
    """The rows whose bound the drift has reached; also where either is beyond all numbers."""
    return np.flatnonzero(~(drift < bounds))


class UserBounds:
    """Labels as :func:`unpooled.kernels.assignment.nearest.nearest` finds them, from call to call.

    ``squared`` is the squared length of differences in the metric.
    """

    def __init__(self, rows: FloatArray, owner: IntArray, n_users: int, squared: Squared) -> None:
        self._rows, self._owner, self._squared = rows, owner, squared
        self._labels: IntArray = np.zeros(len(rows), dtype=np.int64)
        self._drift: FloatArray = np.zeros(n_users)
        self._bounds: FloatArray = np.full(len(rows), -np.inf)
        self._centers: FloatArray | None = None

    def assign(self, centers: FloatArray) -> IntArray:
        """The labels for these centres, (users, K, d)."""
        if self._centers is not None:
            moves = centers - self._centers
            moved = self._squared(moves.reshape(-1, moves.shape[-1])).reshape(moves.shape[:2])
            self._drift += np.sqrt(moved.max(axis=1))
        self._centers = centers
        drift = self._drift[self._owner]
        due = due_rows(drift, self._bounds)
        labels, width = self._labels.copy(), self._rows.shape[1]

        def look(span: slice) -> None:
            for part in in_cache(span, width):
                rows = due[part]
                labels[rows], room = self._look(rows, centers)
                self._bounds[rows] = drift[rows] + room

        in_chunks(look, (len(due), width))
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
        first, second = np.sqrt(np.partition(squared, 1, axis=1)[:, :2].T)
        return labels, 0.5 * (second - first) - _DOUBT * second


class CenterBounds(NamedTuple):
    """Which of K centres is nearest to each of n rows, and until when that is certain."""

    labels: Labels
    """(n)"""
    bounds: NDArray[np.float32]
    """(n) Rounded down to few digits, by more than rounding may have put a drift wrong."""
    drift: FloatArray
    """(K) How far each centre has come, and the fastest of the others with it."""
    centers: FloatArray
    """(K, d) Where the centres are."""

    @classmethod
    def kept(cls, state: Body, rows: Rows, centers: FloatArray) -> CenterBounds:
        """What a state has of a round with as many centres; where it has nothing, all is due."""
        n, k = len(rows), len(centers)
        parts = fitting(state, cls._fields, ((n,), (n,), (k,), centers.shape), range(k))
        if parts:
            return cls(*parts)
        nothing = np.full(n, -np.inf, dtype=np.float32)
        return cls(np.zeros(n, dtype=np.int32), nothing, np.zeros(k), centers)

    def assign(self, rows: Rows, centers: FloatArray) -> CenterBounds:
        """The same for these centres; labels are those of :func:`.centers.label`."""
        drift = self.drift + _moves(centers - self.centers)
        due = due_rows(drift[self.labels], self.bounds)
        if not len(due):
            return self._replace(drift=drift, centers=centers)
        if len(due) > _MOST * len(rows):
            found, gaps = nearest(rows, centers)
            bounds = _rounded_down(drift[found] + gaps)
            return CenterBounds(found.astype(np.int32), bounds, drift, centers)
        labels, bounds = self.labels.copy(), self.bounds.copy()
        found, gaps = nearest(rows, centers, due)
        labels[due], bounds[due] = found, _rounded_down(drift[found] + gaps)
        return CenterBounds(labels, bounds, drift, centers)


def fitting(
    state: Body, names: tuple[str, ...], shapes: tuple[tuple[int, ...], ...], labels: range
) -> list[Array]:
    """The arrays of these names, the first of them made of ``labels``; none if they do not fit."""
    parts = [state[name] for name in names if name in state]
    if tuple(part.shape for part in parts) != shapes:
        return []
    # Compiled code follows labels wherever they point.
    lowest, highest = (parts[0].min(initial=labels.start), parts[0].max(initial=labels.start))
    return parts if lowest in labels and highest in labels else []


def _moves(moves: FloatArray) -> FloatArray:
    """How far each centre has gone, and the fastest of the others with it."""
    own = lengths(moves)
    *_, second, fastest = np.sort(np.append(own, 0.0))
    return np.asarray(own + np.where(own == fastest, second, fastest))


def _rounded_down(bounds: FloatArray) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))
