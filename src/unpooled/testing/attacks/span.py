"""Rows in the span of everything that was sent, by somebody who knows which rows each sum is over.

Sums over groups are A x, with a line of zeros and ones for each group and a column for each row. A
row is recovered exactly if its unit vector is a combination of the lines of A; the same
combination of the sums is the row. Which rows a sum is over is worked out from the rows: those
nearest to the centre that the question had, or to the mean that was sent. Sums that this does not
explain to the last digit are left out: they are over something else than these groups of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.testing.attacks.statements import Groups, counted, groups_of, points
from unpooled.testing.attacks.target import Said
from unpooled.types import BoolArray, FloatArray

_FULL = 1 - 1e-6
"""Leverage from which a row counts as a combination of the lines."""
_NOTHING = 1e-9


def in_span(said: Iterable[Said], rows: FloatArray, tolerance: float) -> BoolArray:
    """Which rows are linear combinations of what was sent."""
    found = np.zeros(len(rows), dtype=bool)
    explained = list(_explained(said, rows, tolerance))
    if not explained:
        return found
    lines = np.concatenate([line for line, _ in explained]).astype(np.float64)
    sums = np.concatenate([group.sums for _, group in explained])
    _, first = np.unique(lines, axis=0, return_index=True)
    lines, sums = lines[first], sums[first]
    values, vectors = np.linalg.eigh(lines.T @ lines)
    range_of = vectors[:, values > _NOTHING * values[-1]]
    leverage = np.square(range_of).sum(axis=1)
    candidates = np.flatnonzero(leverage > _FULL)
    if len(candidates):
        solved = np.linalg.pinv(lines)[candidates] @ sums
        near = np.linalg.norm(solved - rows[candidates], axis=1) <= tolerance
        found[candidates[near]] = True
    return found


def _explained(
    said: Iterable[Said], rows: FloatArray, tolerance: float
) -> Iterator[tuple[BoolArray, Groups]]:
    """The groups whose rows are known, with a line of A for each."""
    d = rows.shape[1]
    for one in said:
        if not counted(one):
            continue
        group = groups_of(one, d)
        if group is None or not len(group.counts):
            continue
        for centers in _centers(one, group, d):
            if len(centers) != len(group.counts):
                continue
            labels = cdist(rows, centers).argmin(axis=1)
            lines = labels == np.arange(len(centers))[:, None]
            off = np.linalg.norm(lines @ rows - group.sums, axis=1)
            fits = (off <= tolerance) & (np.abs(lines.sum(axis=1) - group.counts) < _NOTHING)
            if fits.any():
                yield lines[fits], Groups(group.sums[fits], group.counts[fits])
                break


def _centers(said: Said, group: Groups, d: int) -> Iterator[FloatArray]:
    """The points by which rows may have been grouped."""
    if "centers" in said.question:
        question = Said(said.kind, said.round, {"centers": said.question["centers"]}, said.question)
        yield points([question], d)
    if (np.abs(group.counts) > _NOTHING).all():
        yield group.means
