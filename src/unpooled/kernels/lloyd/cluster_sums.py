"""Sums of one table's clusters, kept up to date as rows change their labels.

For each cluster there are Σ w x, Σ w |x - a|² and Σ w over its rows, where the anchor a is the
centre of the round in which all rows were last added up. A row that changes its cluster is taken
off the sums of one and added to those of the other. For a centre c,

    Σ w |x - c|² = Σ w |x - a|² - 2 (c - a).(Σ w x - a Σ w) + |c - a|² Σ w.

Both lose digits where what came and went, or a term of this formula, is large compared with the
result. There all rows are added up again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unpooled.kernels.assignment.bounds import Labels, fitting
from unpooled.kernels.assignment.centers import squared_to_own
from unpooled.kernels.linalg.products import dots, lengths
from unpooled.kernels.linalg.segments import sums_by_label
from unpooled.parallel import in_chunks
from unpooled.types import Body, FloatArray, IntArray, Rows, take_rows

_CANCELLATION = 16.0
"""How many times larger than a result the numbers may be whose difference it is."""
_MANY = 0.25
"""The share of rows beyond which it is quicker to add up all of them than those that have moved."""


class KeptSums(NamedTuple):
    """The sums of all clusters, and which rows they are of."""

    members: Labels
    """(n) The cluster of each row; -1 for none."""
    anchors: FloatArray
    """(K, d)"""
    totals: FloatArray
    """(K, d + 2) Σ w x, Σ w |x - a|² and Σ w."""
    passed: FloatArray
    """(K, 2) Σ w |x - a|² and Σ w over all rows that came or went since all were added up."""

    @classmethod
    def kept(cls, state: Body, rows: Rows, centers: FloatArray) -> KeptSums | None:
        """Those of a state with as many rows and centres, if it has any."""
        (n, d), k = rows.shape, len(centers)
        if "labels" in state and "members" not in state:
            state = {**state, "members": state["labels"]}
        shapes = ((n,), centers.shape, (k, d + 2), (k, 2))
        parts = fitting(state, cls._fields, shapes, range(-1, k))
        return cls(*parts) if parts else None


def updated_sums(
    rows: Rows,
    weights: FloatArray,
    labels: Labels,
    centers: FloatArray,
    last: KeptSums | None,
) -> tuple[KeptSums, FloatArray]:
    """The sums of clusters with these labels, and Σ w |x - c|² of each; -1 is no cluster."""
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
    return KeptSums(labels, centers, totals, np.zeros((len(centers), 2))), totals[:, -2]


def _after(
    rows: Rows, weights: FloatArray, labels: Labels, moved: IntArray, last: KeptSums
) -> KeptSums:
    """The sums after the ``moved`` rows have gone from one cluster to another."""
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
    return KeptSums(labels, last.anchors, totals, passed)


def _totals(
    rows: FloatArray, weights: FloatArray, members: Labels, anchors: FloatArray
) -> FloatArray:
    """Σ w x, Σ w |x - a|² and Σ w of each cluster."""
    labels = members.astype(np.int64)
    sums, counts = sums_by_label(rows, weights, labels, len(anchors))
    squared = weights * squared_to_own(rows, anchors, labels)
    # Counted from label -1 on, which is left out.
    squares = np.bincount(labels + 1, squared, len(anchors) + 1)[1:]
    return np.column_stack([sums, squares, counts])


def _scatter(found: KeptSums, centers: FloatArray) -> FloatArray | None:
    """Σ w |x - c|² of each cluster; None if too many digits are lost, here or in the totals."""
    anchors, squares, counts = found.anchors, found.totals[:, -2], found.totals[:, -1]
    moves = centers - anchors
    moved, length = lengths(moves), lengths(anchors)
    about = found.totals[:, :-2] - counts[:, None] * anchors
    scatter = squares - 2.0 * dots(moves, about) + counts * moved**2
    terms = squares + found.passed[:, 0] + counts * moved * (moved + 4.0 * length)
    sure = (terms <= _CANCELLATION * scatter) & (found.passed[:, 1] <= _CANCELLATION * counts)
    return np.asarray(scatter) if sure.all() else None
