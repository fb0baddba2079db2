"""What keeps a cell from being about one person: sums over cells, and whose rows dominate them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from unpooled.errors import InputError
from unpooled.privacy.cell_table import Table, squares_about, sums_of
from unpooled.privacy.sizes import ROUNDING, effective_sizes, enough
from unpooled.types import BoolArray, FloatArray, IntArray

_HALF = 0.5 * (1 + ROUNDING)
"""Of a scatter: what no person's rows may have more of."""
FEW = 50
"""One in so many rows may be held back for a column's total. Where columns are many and mostly
zero, as of images, nearly every row has a value of its own in some column: totals of such columns
are not kept then, and the rows stay."""


class CellSums(NamedTuple):
    """The first fields of `unpooled.privacy.cells.Cells`."""

    means: FloatArray
    observed: IntArray
    counts: IntArray
    weights: FloatArray
    scatter: FloatArray


class _Column(NamedTuple):
    """One column of the rows that are in cells, in units of the table."""

    mean: FloatArray
    """(C,) NaN where the column counts as missing."""
    observed: IntArray
    """(C,) how many rows have a value."""
    values: FloatArray
    """Of each row; NaN where missing."""
    squares: FloatArray
    """w (x - mean)² of each row, 0 where the value is missing or the deviation is rounding."""


class _Members(NamedTuple):
    """The rows of a table that are in cells, numbered from 0."""

    inside: BoolArray
    """Which they are."""
    cells: IntArray
    weights: FloatArray
    n_cells: int
    persons: IntArray | None
    """Whose each row is; None if nobody has several. All rows of a person are in one cell."""

    @classmethod
    def of(cls, table: Table, found: IntArray) -> _Members:
        inside, n_cells = found >= 0, int(found.max(initial=-1)) + 1
        persons = table.persons[inside] if table.several else None
        return cls(inside, found[inside], table.weights[inside], n_cells, persons)

    def parts(self, squares: FloatArray) -> FloatArray:
        """What each row's person has of a scatter, with all rows of theirs."""
        if self.persons is None:
            return squares
        return np.asarray(np.bincount(self.persons, squares)[self.persons])


def sums_of_cells(table: Table, found: IntArray) -> CellSums:
    """Means, counts, weights and scatter of the cells ``found``, numbered from 0."""
    members, d = _Members.of(table, found), table.rows.shape[1]
    cells, n_cells = members.cells, members.n_cells
    counts = np.bincount(cells, minlength=n_cells)
    weights = sums_of(cells, members.weights, n_cells) * table.weight_unit
    means, scatter = np.empty((n_cells, d)), np.zeros(d)
    observed = np.zeros((n_cells, d), dtype=np.int64)
    with np.errstate(over="ignore"):
        for j, column in enumerate(_columns(table, members)):
            means[:, j] = column.mean * table.units[j]
            observed[:, j] = column.observed
            total = column.squares.sum()
            if members.parts(column.squares).max(initial=0.0) <= _HALF * total:  # none dominates it
                scatter[j] = total * table.weight_unit * table.units[j] * table.units[j]
    if not np.isfinite(scatter).all():
        j = int(np.flatnonzero(~np.isfinite(scatter))[0])
        raise InputError(
            f"Column {j} has values up to {table.units[j]:.0e}, whose squares cannot be added up: "
            "divide the column by that."
        )
    return CellSums(means, observed, counts, weights, scatter)


def offenders(
    table: Table, found: IntArray, spreads: FloatArray, with_sizes: bool = False
) -> BoolArray:
    """Rows of persons who dominate their cell, or, if these are few, a column's total.

    With sizes in place of totals: all rows of cells that are too small or in which a person has too
    much weight.
    """
    members = _Members.of(table, found)
    inside, cells, n_cells = members.inside, members.cells, members.n_cells
    tops, of_rows = np.zeros(len(cells), dtype=np.bool_), np.zeros(len(cells))
    for j, column in enumerate(_columns(table, members)):
        if spreads[j] > 0:
            tops |= False if with_sizes else _tops(column, members)
            of_rows += column.squares / spreads[j] ** 2
    of_cells = sums_of(cells, of_rows, n_cells)
    bad = members.parts(of_rows) > _HALF * of_cells[cells]
    if np.count_nonzero(tops) <= max(1, len(cells) // FEW):
        bad |= tops
    out = np.zeros(len(found), dtype=np.bool_)
    out[inside] = bad
    if with_sizes and n_cells:
        there = np.bincount(cells, minlength=n_cells) > 0
        small = ~_large_enough(table, inside, cells, n_cells) & there
        out[inside] |= small[cells]
    return out


def overweight(table: Table) -> BoolArray:
    """Rows without which no person has more than 2 / ``min_count`` of all weight: the heaviest ones
    of such a person, and none where the others are too few."""
    held, share = np.zeros(len(table.order), dtype=np.bool_), 2 / table.min_count
    while share < 1 and not held.all():
        masses = np.bincount(table.persons[~held], table.weights[~held])
        person, total = int(masses.argmax()), float(masses.sum())
        if masses[person] <= share * total * (1 + ROUNDING):
            break
        own = np.flatnonzero((table.persons == person) & ~held)
        own = own[np.argsort(table.weights[own], kind="stable")]
        room = share / (1 - share) * (total - masses[person])
        held[own[np.cumsum(table.weights[own]) > room]] = True
    return held if could_be_a_cell(table, ~held) else np.zeros_like(held)


def could_be_a_cell(table: Table, among: BoolArray) -> bool:
    """Whether these rows are enough."""
    one = np.zeros(np.count_nonzero(among), dtype=np.int64)
    return len(one) > 0 and bool(_large_enough(table, among, one, 1)[0])


def _columns(table: Table, members: _Members) -> Iterator[_Column]:
    """The sums of each column in turn."""
    inside, cells, weights, n_cells, _ = members
    for x in table.columns():
        x = x[inside]
        seen = ~np.isnan(x)
        at, y, w = cells, x, weights
        if not seen.all():
            among = inside.copy()
            among[inside] = seen
            seen &= _large_enough(table, among, cells[seen], n_cells)[cells]
            at, y, w = cells[seen], x[seen], weights[seen]
        mass = np.bincount(at, w, n_cells)
        some = mass > 0
        mean = np.full(n_cells, np.nan)
        mean[some] = np.bincount(at, w * y, n_cells)[some] / mass[some]
        # Once more about the mean: values that are all alike have themselves as their mean.
        mean[some] += np.bincount(at, w * (y - mean[at]), n_cells)[some] / mass[some]
        squares = squares_about(y, w, mean[at])
        if len(squares) < len(x):
            squares, seen_only = np.zeros(len(x)), squares
            squares[seen] = seen_only
        yield _Column(mean, np.bincount(at, minlength=n_cells), x, squares)


def _large_enough(table: Table, among: BoolArray, cells: IntArray, n_cells: int) -> BoolArray:
    """Which cells would have enough persons, and none too heavy, if they had only these rows."""
    if table.min_count <= 1:
        return np.ones(n_cells, dtype=np.bool_)
    persons, own = table.persons[among], table.weights[among]
    counted = own * table.fresh[among]
    if table.several:
        n_persons = int(table.persons.max()) + 1
        pairs, codes = np.unique(cells * n_persons + persons, return_inverse=True)
        cells = pairs // n_persons
        own, counted = (sums_of(codes, values, len(pairs)) for values in (own, counted))
    sizes = effective_sizes(cells, counted, n_cells)
    heaviest, masses = np.zeros(n_cells), np.bincount(cells, own, n_cells)
    np.maximum.at(heaviest, cells, own)
    light = heaviest * table.min_count <= 2 * (1 + ROUNDING) * masses
    return np.asarray(enough(sizes, table.min_count) & light)


def _tops(column: _Column, members: _Members) -> BoolArray:
    """Rows of persons who in turn make up more than half of the column's scatter, each without
    those before.

    Without a person the mean of their cell is another one, and with it the scatter of its rows.
    """
    cells, weights = members.cells, members.weights
    bad, squares = np.zeros(len(cells), dtype=np.bool_), column.squares
    while (total := float(squares.sum())) > 0:
        parts = members.parts(squares)
        top = int(parts.argmax())
        if parts[top] <= _HALF * total:
            break
        if members.persons is None:
            bad[top] = True
        else:
            bad |= members.persons == members.persons[top]
        rest = np.flatnonzero((cells == cells[top]) & ~bad & ~np.isnan(column.values))
        squares = np.where(bad, 0.0, squares)
        if len(rest):
            w, y = weights[rest], column.values[rest]
            squares[rest] = squares_about(y, w, float((w * y).sum() / w.sum()))
    return bad
