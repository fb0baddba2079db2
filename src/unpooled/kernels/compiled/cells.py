"""Rows in groups that are as compact as a least number of them in each lets them be.

Rows are cut in two until blocks of about a thousand are left
(:mod:`unpooled.kernels.compiled.cell_cuts`). Each block is cut further, down to cells, between
which rows then move for as long as that makes cells more compact
(:mod:`unpooled.kernels.compiled.cell_moves`); small ones that a row dominates are merged
(:mod:`unpooled.kernels.compiled.cell_merges`). Blocks have nothing to do with each other: all cores
work on them, and one that loses a row is grouped anew without the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.kernels.compiled._jit import jit, waits_explained
from unpooled.kernels.compiled.cell_cuts import allowed, split
from unpooled.kernels.compiled.cell_merges import LARGEST, merge_dominated
from unpooled.kernels.compiled.cell_moves import refine
from unpooled.kernels.compiled.distances import SingleArray
from unpooled.parallel import in_chunks
from unpooled.types import BoolArray, FloatArray, IntArray

BLOCK, SMALLER_BLOCK = 1000, 500
"""Rows of a block at most, where they can be cut, and in a long table: cells are then a little less
compact and take half the time."""
LONG = 50_000
"""Rows of a long table."""


@dataclass(frozen=True)
class Blocks:
    """Rows in blocks that are grouped one by one.

    Rows (scaled columns, no missing values), their weights (above 0), and whether they count
    towards the minimum.
    """

    rows: SingleArray
    stretch: SingleArray
    """Of each column: by what to multiply it before a row's part in a scatter is measured."""
    weights: FloatArray
    fresh: BoolArray
    min_count: int
    order: IntArray
    """The rows' numbers, block after block, sorted in each."""
    starts: IntArray
    """Where blocks begin in ``order``, and last its length."""

    @classmethod
    def of(
        cls,
        rows: SingleArray,
        stretch: FloatArray,
        weights: FloatArray,
        fresh: BoolArray,
        among: BoolArray,
        min_count: int,
    ) -> Blocks:
        """Those of the rows ``among`` all."""
        order = np.flatnonzero(among)
        stop = SMALLER_BLOCK if len(order) > LONG else BLOCK
        with waits_explained():
            starts = split(rows, weights, fresh, order, min_count, stop)
        return cls(rows, stretch.astype(np.float32), weights, fresh, min_count, order, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def holding(self, rows: BoolArray) -> IntArray:
        """The blocks that have any of these rows."""
        return np.flatnonzero(np.logical_or.reduceat(rows[self.order], self.starts[:-1]))

    def group(self, blocks: IntArray, among: BoolArray, labels: IntArray) -> None:
        """Writes a cell for each row of these blocks, if it is ``among`` those that may have one.

        Rows that are too few for a cell get -1. Cells of different blocks have different numbers.
        """

        def work(span: slice) -> None:
            for block in blocks[span]:
                low, high = self.starts[block], self.starts[block + 1]
                members = self.order[low:high]
                labels[members] = -1
                members = members[among[members]]
                cells = self._cells(members)
                labels[members] = np.where(cells < 0, -1, cells + low)

        largest = int(np.diff(self.starts).max(initial=1))
        with waits_explained():
            in_chunks(work, (len(blocks), largest * largest))

    def _cells(self, members: IntArray) -> IntArray:
        """The cell of each of these rows."""
        if not len(members):
            return members
        rows, weights, fresh = self.rows[members], self.weights[members], self.fresh[members]
        plain = bool(fresh.all() and np.ptp(weights) == 0)
        cells = _cells_of_block(rows, weights, fresh, self.min_count, plain)
        if 2 * self.min_count <= LARGEST and cells[0] >= 0:
            merge_dominated(rows * self.stretch, weights, cells, int(cells.max()) + 1)
        return np.asarray(cells)


@jit
def _cells_of_block(
    rows: SingleArray,
    weights: FloatArray,
    fresh: BoolArray,
    min_count: int,
    plain: bool,
) -> IntArray:
    """The cell of each row; -1 if all together are too few. Moves the rows to about their mean."""
    n, d = rows.shape
    cells = np.full(n, -1)
    counted = squares = total = heaviest = 0.0
    for i in range(n):
        total += weights[i]
        heaviest = max(heaviest, weights[i])
        if fresh[i]:
            counted += weights[i]
            squares += weights[i] ** 2
    if not allowed(counted, squares, total, heaviest, min_count):
        return cells
    for j in range(d):
        mean = 0.0
        for i in range(n):
            mean += weights[i] * rows[i, j]
        for i in range(n):
            rows[i, j] -= mean / total
    order = np.arange(n)
    starts = split(rows, weights, fresh, order, min_count, 0)
    for c in range(len(starts) - 1):
        cells[order[starts[c] : starts[c + 1]]] = c
    refine(rows, weights, fresh, cells, len(starts) - 1, min_count, plain)
    return cells
