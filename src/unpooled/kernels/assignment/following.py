"""One table's clusters while their centres move, from round to round at the cost of what changes.

**Labels.** Let a row be nearer to its own centre than to any other by g. Its own centre comes
nearer or goes away by no more than the way it has gone since, the others come nearer by no more
than the way that the fastest of them has gone: until both ways together are g, the row keeps its
label (Hamerly 2010, with his two bounds in one number). So every centre has a clock, which shows
both ways added up over all rounds, and every row a time on its centre's clock when it is *due*.
Rows that are not due are not looked at.

**Sums.** Of each cluster's rows there are Σ w x, Σ w |x - a|² and Σ w, where the anchor a is the
centre of the round in which they were added up. A row that changes its cluster is taken from one
and added to the other, and for a centre c,

    Σ w |x - c|² = Σ w |x - a|² - 2 (c - a).(Σ w x - a Σ w) + |c - a|² Σ w.

Both lose digits: where what came and went, or the terms of the formula, are large by what is left,
all is added up anew.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unpooled.kernels.assignment.centers import nearest, squared_to_own
from unpooled.kernels.linalg.products import dots, lengths
from unpooled.kernels.linalg.segments import sums_by_label
from unpooled.parallel import in_chunks
from unpooled.types import Array, Body, FloatArray, IntArray, Rows, take_rows

Labels: TypeAlias = NDArray[np.int32]
"""Short ones: they are kept on disk between rounds."""

_LOSS = 16.0
"""How many times larger than a result the numbers may be from which it is found."""
_MANY = 0.25
"""The share of rows beyond which it is quicker to add up all of them than those that have moved."""
_MOST = 0.75
"""The share of rows beyond which it is quicker to look at all of them than at those due."""


class Nearness(NamedTuple):
    """Which of K centres is nearest to each of n rows, and until when that is certain."""

    labels: Labels
    """(n)"""
    due: NDArray[np.float32]
    """(n) Rounded down to few digits, by more than rounding may have put a clock wrong."""
    clock: FloatArray
    """(K) How far each centre has come, and the fastest of the others with it."""
    centers: FloatArray
    """(K, d) Where the centres are."""

    @classmethod
    def of(cls, state: Body, rows: Rows, centers: FloatArray) -> Nearness | None:
        """What is remembered of a round with as many centres, if anything is."""
        n, k = len(rows), len(centers)
        parts = _fitting(state, cls._fields, ((n,), (n,), (k,), centers.shape), range(k))
        return cls(*parts) if parts else None


class Contents(NamedTuple):
    """What is in the clusters."""

    members: Labels
    """(n) The cluster of each row; -1 for none."""
    anchors: FloatArray
    """(K, d)"""
    totals: FloatArray
    """(K, d + 2) Σ w x, Σ w |x - a|² and Σ w."""
    passed: FloatArray
    """(K, 2) The latter two of all rows that came or went since they were added up."""

    @classmethod
    def of(cls, state: Body, rows: Rows, centers: FloatArray) -> Contents | None:
        """What is remembered of a round with as many centres, if anything is."""
        (n, d), k = rows.shape, len(centers)
        if "labels" in state and "members" not in state:
            state = {**state, "members": state["labels"]}
        shapes = ((n,), centers.shape, (k, d + 2), (k, 2))
        parts = _fitting(state, cls._fields, shapes, range(-1, k))
        return cls(*parts) if parts else None


def _fitting(
    state: Body, names: tuple[str, ...], shapes: tuple[tuple[int, ...], ...], labels: range
) -> list[Array]:
    """The arrays of these names, the first of them made of ``labels``; none if they do not fit."""
    parts = [state[name] for name in names if name in state]
    if tuple(part.shape for part in parts) != shapes:
        return []
    # Compiled code follows labels wherever they point.
    lowest, highest = (parts[0].min(initial=labels.start), parts[0].max(initial=labels.start))
    return parts if lowest in labels and highest in labels else []


def remembered(near: Nearness, found: Contents) -> dict[str, Array]:
    """Both as arrays by name; members that are the labels are not kept twice."""
    kept = {**near._asdict(), **found._asdict()}
    if found.members is near.labels:
        del kept["members"]
    return kept


def followed(rows: Rows, centers: FloatArray, last: Nearness | None) -> Nearness:
    """The labels for these centres: those of :func:`unpooled.kernels.assignment.centers.label`."""
    if last is None:
        last = Nearness(
            np.zeros(len(rows), dtype=np.int32),
            np.full(len(rows), -np.inf, dtype=np.float32),
            np.zeros(len(centers)),
            centers,
        )
    clock = last.clock + _ways(centers - last.centers)
    due = np.flatnonzero(~(clock[last.labels] < last.due))  # also if a number is beyond all bounds
    if not len(due):
        return last._replace(clock=clock, centers=centers)
    if len(due) > _MOST * len(rows):
        found, gaps = nearest(rows, centers)
        times = _rounded_down(clock[found] + gaps)
        return Nearness(found.astype(np.int32), times, clock, centers)
    labels, times = last.labels.copy(), last.due.copy()
    found, gaps = nearest(rows, centers, due)
    labels[due], times[due] = found, _rounded_down(clock[found] + gaps)
    return Nearness(labels, times, clock, centers)


def _ways(moves: FloatArray) -> FloatArray:
    """How far each centre has gone, and the fastest of the others with it."""
    own = lengths(moves)
    *_, second, fastest = np.sort(np.append(own, 0.0))
    return np.asarray(own + np.where(own == fastest, second, fastest))


def _rounded_down(times: FloatArray) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.nextafter(times.astype(np.float32), np.float32(-np.inf))


def contents(
    rows: Rows,
    weights: FloatArray,
    labels: Labels,
    centers: FloatArray,
    last: Contents | None,
) -> tuple[Contents, FloatArray]:
    """What is in the clusters with these labels, and Σ w |x - c|² of each; -1 is no cluster."""
    if last is not None:
        moved = np.flatnonzero(last.members != labels)
        if len(moved) <= _MANY * len(rows):
            now = _after(rows, weights, labels, moved, last)
            scatter = _scatter(now, centers)
            if scatter is not None:
                return now, scatter
    totals = np.zeros((len(centers), rows.shape[1] + 2))
    for part in in_chunks(
        lambda span: _totals(rows[span], weights[span], labels[span], centers), rows.shape
    ):
        totals += part
    return Contents(labels, centers, totals, np.zeros((len(centers), 2))), totals[:, -2]


def _after(
    rows: Rows, weights: FloatArray, labels: Labels, moved: IntArray, last: Contents
) -> Contents:
    """Once some rows have gone from one cluster to another."""
    totals, passed = last.totals.copy(), last.passed.copy()

    def part(span: slice) -> tuple[FloatArray, FloatArray]:
        some = moved[span]
        own, weight = take_rows(rows, some), weights[some]
        return (
            _totals(own, weight, last.members[some], last.anchors),
            _totals(own, weight, labels[some], last.anchors),
        )

    for went, came in in_chunks(part, (len(moved), rows.shape[1])):
        totals += came
        totals -= went
        passed += came[:, -2:] + went[:, -2:]
    return Contents(labels, last.anchors, totals, passed)


def _totals(
    rows: FloatArray, weights: FloatArray, members: Labels, anchors: FloatArray
) -> FloatArray:
    """Σ w x, Σ w |x - a|² and Σ w of each cluster."""
    labels = members.astype(np.int64)
    sums, counts = sums_by_label(rows, weights, labels, len(anchors))
    squared = weights * squared_to_own(rows, anchors, labels)
    # One place further, for the label -1.
    squares = np.bincount(labels + 1, squared, len(anchors) + 1)[1:]
    return np.column_stack([sums, squares, counts])


def _scatter(found: Contents, centers: FloatArray) -> FloatArray | None:
    """Σ w |x - c|² of each cluster; None if too many digits are lost, here or in the totals."""
    anchors, squares, counts = found.anchors, found.totals[:, -2], found.totals[:, -1]
    moves = centers - anchors
    way, length = lengths(moves), lengths(anchors)
    about = found.totals[:, :-2] - counts[:, None] * anchors
    scatter = squares - 2.0 * dots(moves, about) + counts * way**2
    terms = squares + found.passed[:, 0] + counts * way * (way + 4.0 * length)
    sure = (terms <= _LOSS * scatter) & (found.passed[:, 1] <= _LOSS * counts)
    return np.asarray(scatter) if sure.all() else None
