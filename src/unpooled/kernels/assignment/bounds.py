"""Bounds with which most rows are skipped: a label stays until centres have moved far enough.

A row whose nearest centre is at d_1 and whose second nearest is at d_2 keeps its label until
centres have moved by (d_2 - d_1) / 2 each, wherever they went, by the triangle inequality
(Elkan 2003, Hamerly 2010). There is a *drift*, the sum of the lengths of the steps of those centres
that matter to a row, and for every row a *bound*: the drift from which on it must be checked. Both
classes below have ``assign``, which finds the labels for new centres:

- :class:`UserBounds`: every row has its user's centres, in any metric. A user has one drift, by the
  fastest of its centres in each step.
- :class:`CenterBounds`: one table and one set of centres. Let a row be nearer to its own centre
  than to any other by g. The distance to its own centre grows by no more than that centre moves,
  the distances to the others fall by no more than the fastest of these moves. The drift of a centre
  adds up both, so a row must be checked when it has grown by g (Hamerly's two bounds in one).

Labels are those of measuring every row: a row is checked where rounding leaves it in doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unpooled.kernels.assignment.centers import labels_and_gaps
from unpooled.kernels.assignment.nearest import all_pairs, in_cache
from unpooled.kernels.linalg.products import lengths
from unpooled.parallel import in_chunks
from unpooled.types import Array, Body, FloatArray, IntArray, Rows

Squared = Callable[[FloatArray], FloatArray]
Labels: TypeAlias = NDArray[np.int32]
"""Short ones: they are kept on disk between rounds."""

_ROUNDING = 1e-9
"""Of a distance: more than its rounding error."""
_MOST = 0.75
"""The share of rows to check beyond which it is quicker to measure all rows."""


def rows_to_check(drift: FloatArray, bounds: Array) -> IntArray:
    """The rows whose bound the drift has reached, and those where either is not a number."""
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
        checked = rows_to_check(drift, self._bounds)
        labels, width = self._labels.copy(), self._rows.shape[1]

        def check(span: slice) -> None:
            for part in in_cache(span, width):
                rows = checked[part]
                labels[rows], room = self._check(rows, centers)
                self._bounds[rows] = drift[rows] + room

        in_chunks(check, (len(checked), width))
        self._labels = labels
        return labels

    def _check(self, rows: IntArray, centers: FloatArray) -> tuple[IntArray, FloatArray]:
        """The rows' labels, and how far centres may drift before these can change."""
        squared = all_pairs(
            self._rows[rows], self._owner[rows], centers, lambda x, y: self._squared(x - y)
        )
        labels = squared.argmin(axis=1)
        if centers.shape[1] == 1:
            return labels, np.full(len(rows), np.inf)
        first, second = np.sqrt(np.partition(squared, 1, axis=1)[:, :2].T)
        return labels, 0.5 * (second - first) - _ROUNDING * second


class CenterBounds(NamedTuple):
    """The nearest of K centres to each of n rows, and up to which drift that is certain."""

    labels: Labels
    """(n)"""
    bounds: NDArray[np.float32]
    """(n) Rounded down to single precision: by more than the rounding error of a drift."""
    drift: FloatArray
    """(K) Of each centre: for every step its own length and that of the longest other one."""
    centers: FloatArray
    """(K, d) Where the centres are."""

    @classmethod
    def kept(cls, state: Body, rows: Rows, centers: FloatArray) -> CenterBounds:
        """Those of a state with as many rows and centres; if there are none, bounds by which every
        row must be checked."""
        n, k = len(rows), len(centers)
        parts = fitting(state, cls._fields, ((n,), (n,), (k,), centers.shape), range(k))
        if parts:
            return cls(*parts)
        nothing = np.full(n, -np.inf, dtype=np.float32)
        return cls(np.zeros(n, dtype=np.int32), nothing, np.zeros(k), centers)

    def assign(self, rows: Rows, centers: FloatArray) -> CenterBounds:
        """The same for these centres; labels are those of :func:`.centers.label`."""
        drift = self.drift + _drifts(centers - self.centers)
        checked = rows_to_check(drift[self.labels], self.bounds)
        if not len(checked):
            return self._replace(drift=drift, centers=centers)
        if len(checked) > _MOST * len(rows):
            found, gaps = labels_and_gaps(rows, centers)
            bounds = _rounded_down(drift[found] + gaps)
            return CenterBounds(found.astype(np.int32), bounds, drift, centers)
        labels, bounds = self.labels.copy(), self.bounds.copy()
        found, gaps = labels_and_gaps(rows, centers, checked)
        labels[checked], bounds[checked] = found, _rounded_down(drift[found] + gaps)
        return CenterBounds(labels, bounds, drift, centers)


def fitting(
    state: Body, names: tuple[str, ...], shapes: tuple[tuple[int, ...], ...], labels: range
) -> list[Array]:
    """The arrays of these names, the first of them made of ``labels``; none if they do not fit."""
    parts = [state[name] for name in names if name in state]
    if tuple(part.shape for part in parts) != shapes:
        return []
    # Labels are used as places in arrays, by compiled code too, which does not check them.
    lowest, highest = (parts[0].min(initial=labels.start), parts[0].max(initial=labels.start))
    return parts if lowest in labels and highest in labels else []


def _drifts(moves: FloatArray) -> FloatArray:
    """What these moves add to the drift of each centre."""
    own = lengths(moves)
    *_, second, fastest = np.sort(np.append(own, 0.0))
    return np.asarray(own + np.where(own == fastest, second, fastest))


def _rounded_down(bounds: FloatArray) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))
