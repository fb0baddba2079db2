"""A party's rows in cells: groups of at least ``min_count`` persons, made once.

Where cells stand in for the rows, all that others can ever compute of a party is made of its cells'
means, counts and weights, and of one total scatter per column. So any linear combination of what
left is about at least ``min_count`` persons, over any number of runs.

A cell's size is that of its *effective* persons, (Σ w)² / Σ w² over persons, with w a person's
weight in the cell; only rows that are *fresh* count, those of persons that are in no earlier cell.
Four things would make a mean or a total one about a single person, and no cell has them:

- a person with more than 2 / ``min_count`` of the cell's weight;
- a person whose rows have more than half of the cell's scatter, Σ w |x - mean|² in scaled columns:
  the mean is then drawn towards them, and how far tells where they are;
- a person whose rows have more than half of the scatter of a column over all cells, as these totals
  leave (if such rows are many, as where most columns are mostly zero, the total is not kept
  instead);
- a column of which fewer than ``min_count`` effective persons of the cell have a value: it counts
  as missing for the whole cell.

All rows of a person are in one cell, or in none. Two persons of a cell who are far from all others
may each have less than half of its scatter: then the mean tells either of them where the other is.

Rows that offend are held back and the cells they were in are made anew; cells that offend to the
last are dropped. Cells depend on the rows, their weights and persons, and ``min_count`` alone, not
on the order of the rows: they are sorted first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.errors import InputError
from unpooled.privacy.cell_rules import could_be_a_cell, offenders, overweight, sums_of_cells
from unpooled.privacy.cell_table import Scales, Table
from unpooled.types import BoolArray, FloatArray, IntArray, in_c_order

REBUILDS = 6
"""How often rows are held back and cells made anew before cells that offend are dropped."""


@dataclass(frozen=True)
class Cells:
    """Groups of a party's rows, made once: all that others can ever learn of the rows."""

    means: FloatArray
    """(C, d) weighted means of observed values; NaN where the column is missing for the cell."""
    observed: IntArray
    """(C, d) rows that have a value: none, or those of ``min_count`` effective persons."""
    counts: IntArray
    """(C,) rows."""
    weights: FloatArray
    """(C,) summed weights."""
    scatter: FloatArray
    """(d,) the total of Σ w (x - mean)² over cells and their observed values; 0 where one row makes
    up more than half of it."""
    labels: IntArray
    """(n,) the cell of each row, -1 for none."""
    held_back: BoolArray
    """(n,) rows in no cell because they would dominate one, by scatter or by weight."""


def make_cells(
    rows: FloatArray,
    weights: FloatArray,
    min_count: int,
    persons: IntArray | None = None,
    fresh: BoolArray | None = None,
) -> Cells:
    """The cells of these rows.

    Parameters
    ----------
    rows : array of shape (n, d)
        NaN where a value is missing.
    weights : array of shape (n,)
        From 0 on; rows of weight 0 are in no cell.
    min_count : int
        Effective persons that a cell has at least; 1: every row is a cell.
    persons : array of shape (n,) or None, default=None
        A number for each row's person; None: every row is a person of its own.
    fresh : array of shape (n,) or None, default=None
        Which rows count towards ``min_count``; None: all. With persons: only those of persons all
        of whose rows are fresh count.

    Returns
    -------
    cells : Cells
        None, if all rows together are too few.
    """
    rows, weights = in_c_order(np.asarray(rows, dtype=np.float64)), np.asarray(weights, np.float64)
    _refuse_what_has_no_mean(rows, weights)
    held_back, labels = np.zeros(len(rows), dtype=np.bool_), np.full(len(rows), -1)
    table = Table.of(rows, weights, persons, fresh, min_count)
    if min_count <= 1:
        found = np.arange(len(table.order))
    else:
        held = overweight(table)
        found = (_grouped if persons is None else _grouped_by_person)(table, held)
        found = _without_offending_cells(table, held, found)
        held_back[table.order] = held
    found = _by_first_row(found)
    labels[table.order] = found
    return Cells(*sums_of_cells(table, found), labels, held_back)


def _grouped(table: Table, held: BoolArray) -> IntArray:
    """The cell of each row of the table; marks further rows as held back."""
    found = np.full(len(held), -1)
    if not could_be_a_cell(table, ~held):
        return found
    from unpooled.kernels.compiled.cells import Blocks  # imports numba, which takes a while

    by: Scales | None = None
    for _ in range(REBUILDS + 1):
        now = table.scales(~held)
        if by is None or by.much_wider_than(now):
            by = now
            stretch = np.divide(by.widths, by.spreads, out=by.widths * 0, where=by.spreads > 0)
            blocks = Blocks.of(
                table.scaled(by), stretch, table.weights, table.fresh, ~held, table.min_count
            )
            dirty = np.arange(len(blocks))
        blocks.group(dirty, ~held, found)
        offending = offenders(table, found, now.spreads)
        if not offending.any():
            return found
        dirty = blocks.holding(offending)
        held |= offending
        found[held] = -1
    return found


def _grouped_by_person(table: Table, held: BoolArray) -> IntArray:
    """The same with all rows of a person in one cell: their mean is grouped in their place.

    What is the same in all rows of a person, a birth year say, would cancel out between two cells
    that have most of their persons in common, and leave the few that they have not.
    """
    found = np.full(len(held), -1)
    for _ in range(REBUILDS + 1):
        people = table.of_persons(~held)
        alone = overweight(people)
        cells = _grouped(people, alone)
        of_person, out = np.full(len(people.rows), -1), np.zeros(len(people.rows), dtype=np.bool_)
        of_person[people.order], out[people.order] = cells, alone
        held |= out[table.persons]
        found = np.where(held, -1, of_person[table.persons])
        offending = offenders(table, found, table.scales(~held).spreads)
        if not offending.any():
            return found
        held |= offending
    return np.where(held, -1, found)


def _without_offending_cells(table: Table, held: BoolArray, found: IntArray) -> IntArray:
    """Drops cells until none offends: without rows held back they may be too small, or others'
    parts be too large. Also whatever the kernels, which round, may have let pass."""
    while True:
        bad = offenders(table, found, table.scales(~held).spreads, with_sizes=True)
        if not bad.any():
            return found
        dropped = np.isin(found, found[bad])
        held |= dropped
        found = np.where(dropped, -1, found)


def _by_first_row(found: IntArray) -> IntArray:
    """Cells numbered from 0 in the order of their first rows."""
    numbers, first, codes = np.unique(found, return_index=True, return_inverse=True)
    first = np.where(numbers < 0, -1, first)
    rank = np.empty(len(numbers), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(numbers))
    ranked = rank[codes] - (1 if (numbers < 0).any() else 0)
    return np.asarray(ranked, dtype=np.int64)


def _refuse_what_has_no_mean(rows: FloatArray, weights: FloatArray) -> None:
    """Rows and weights must be numbers that sums can be made of."""
    if np.isinf(rows).any():
        at, column = np.argwhere(np.isinf(rows))[0]
        raise InputError(f"Column {column} is infinite in row {at}: leave the value out (NaN).")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        at = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise InputError(f"The weight of row {at} is {weights[at]}: pass a number from 0 on.")
