"""What keeps a cell from being about one row: sums over cells, and which rows dominate them.

All sums are made in the order of the table, which is sorted: the same rows in another order give
the same bits. Columns are divided by a power of two near their largest value before anything is
squared, which changes no digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unpooled.errors import InputError
from unpooled.privacy.sizes import ROUNDING, effective_sizes, enough
from unpooled.types import BoolArray, FloatArray, IntArray

_NO_DEVIATION = 2.0**-46
"""Of a column's largest value: a deviation from a mean that rounding can make."""

_HALF = 0.5 * (1 + ROUNDING)
"""Of a scatter: what no row may have more of."""
FEW = 50
"""One in so many rows may be held back for a column's total. Where columns are many and mostly
zero, as of images, nearly every row has a value of its own in some column: totals of such columns
are not kept then, and the rows stay."""
_STRIP = 2
"""Columns to copy at a time: a processor reads eight, but there is not room for as many."""
_AT_ONCE = 4096
"""Rows to copy at a time."""

SingleArray: TypeAlias = NDArray[np.float32]


class CellSums(NamedTuple):
    """The first fields of `unpooled.privacy.cells.Cells`."""

    means: FloatArray
    observed: IntArray
    counts: IntArray
    weights: FloatArray
    scatter: FloatArray


class Scales(NamedTuple):
    """Of each column, in units of the table; spread and width are 0 where all values are alike."""

    centres: FloatArray
    """Weighted means."""
    spreads: FloatArray
    """Standard deviations, (Σ w z² / Σ w)^(1/2): by these a row's part in a scatter is measured."""
    widths: FloatArray
    """(Σ w |z|³ / Σ w)^(1/3), by which columns are divided before rows are grouped. Where values
    are spread evenly that is near the standard deviation. It is larger where few rows have most of
    the scatter: divided by its standard deviation, a column in which one row of a hundred has
    another value would keep these rows apart from all that are otherwise like them."""

    def much_wider_than(self, others: Scales) -> bool:
        """Whether a column that still varies was twice as wide: an outlier has gone."""
        return bool(((others.widths > 0) & (self.widths > 2 * others.widths)).any())


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

    @classmethod
    def of(cls, table: Table, found: IntArray) -> _Members:
        inside, n_cells = found >= 0, int(found.max(initial=-1)) + 1
        return cls(inside, found[inside], table.weights[inside], n_cells)


@dataclass(frozen=True)
class Table:
    """The rows of positive weight, sorted."""

    rows: FloatArray
    order: IntArray
    """The numbers of the rows that are meant, by which the other fields are sorted, too."""
    weights: FloatArray
    """Divided by ``weight_unit``, a power of two."""
    persons: IntArray
    """Numbered from 0."""
    fresh: BoolArray
    min_count: int
    weight_unit: float

    @classmethod
    def of(
        cls,
        rows: FloatArray,
        weights: FloatArray,
        persons: IntArray | None,
        fresh: BoolArray | None,
        min_count: int,
    ) -> Table:
        """Sorted by values, then by what else distinguishes rows, and last by row number.

        A person is fresh if all rows of theirs are: one that is not was in an earlier cell.
        """
        if persons is not None and fresh is not None:
            fresh = ~np.isin(persons, persons[~fresh])
        live = np.flatnonzero(weights > 0)
        among = slice(None) if len(live) == len(rows) else live  # a slice copies nothing
        keys = [key[among] for key in (persons, fresh) if key is not None]
        order = live[np.lexsort([*keys, weights[among], *rows[among].T[::-1]])]
        if persons is None:
            codes = np.arange(len(order))
        else:
            codes = np.unique(persons[order], return_inverse=True)[1].astype(np.int64)
        unit = _power_of_two(weights.max(initial=0.0))
        counted = np.ones(len(order), np.bool_) if fresh is None else np.asarray(fresh[order], bool)
        return cls(rows, order, weights[order] / unit, codes, counted, min_count, unit)

    def of_persons(self, among: BoolArray) -> Table:
        """One row for each person: the mean of these rows of theirs, with their weight."""
        n_people = int(self.persons.max(initial=-1)) + 1
        means = np.empty((n_people, len(self.units)))
        for j, x in enumerate(self.columns()):
            seen = among & ~np.isnan(x)
            at, w = self.persons[seen], self.weights[seen]
            mass, sums = np.bincount(at, w, n_people), np.bincount(at, w * x[seen], n_people)
            mean = np.divide(sums, mass, out=np.full(n_people, np.nan), where=mass > 0)
            means[:, j] = mean * self.units[j]
        weights = _sums(self.persons[among], self.weights[among], n_people)
        fresh = np.zeros(n_people, dtype=np.bool_)
        fresh[self.persons] = self.fresh
        return Table.of(means, weights, None, fresh, self.min_count)

    @cached_property
    def units(self) -> FloatArray:
        """A power of two near the largest value of each column."""
        largest = np.zeros(self.rows.shape[1])
        for at in range(0, len(self.order), _AT_ONCE):
            some = np.abs(self.rows[self.order[at : at + _AT_ONCE]])
            np.fmax(largest, np.fmax.reduce(some, axis=0), out=largest)
        return np.array([_power_of_two(x) for x in largest])

    def columns(self) -> Iterator[FloatArray]:
        """Values in units, sorted, column by column; several are read from memory at a time."""
        for j in range(0, len(self.units), _STRIP):
            yield from self._strip(j)

    def _strip(self, j: int) -> FloatArray:
        """Some columns from the j-th on."""
        n, units = len(self.order), self.units[j : j + _STRIP]
        strip = np.empty((len(units), n))
        for at in range(0, n, _AT_ONCE):
            some = self.rows[self.order[at : at + _AT_ONCE], j : j + _STRIP]
            strip[:, at : at + _AT_ONCE] = (some / units).T
        return strip

    def scales(self, among: BoolArray) -> Scales:
        """Those of the observed values of these rows."""
        out = np.zeros((3, self.rows.shape[1]))
        for j, x in enumerate(self.columns()):
            seen = among & ~np.isnan(x)
            x, w = x[seen], self.weights[seen]
            if len(x):
                shares = w / w.sum()
                mean = (shares * x).sum()
                mean += (shares * (x - mean)).sum()
                squares = _squares(x, shares, mean)
                cubes = squares * np.abs(x - mean)
                out[:, j] = mean, np.sqrt(squares.sum()), np.cbrt(cubes.sum())
        return Scales(*out)

    def scaled(self, by: Scales) -> SingleArray:
        """Columns to group rows by: a missing value is the column's mean."""
        out = np.zeros((len(self.order), self.rows.shape[1]), dtype=np.float32)
        for j, x in enumerate(self.columns()):
            if by.widths[j] > 0:
                x[np.isnan(x)] = by.centres[j]
                out[:, j] = (x - by.centres[j]) / by.widths[j]
        return out

    def enough(self, among: BoolArray) -> bool:
        """Whether these rows could be a cell."""
        one = np.zeros(np.count_nonzero(among), dtype=np.int64)
        return len(one) > 0 and bool(_large_enough(self, among, one, 1)[0])


def sums_of_cells(table: Table, found: IntArray) -> CellSums:
    """Means, counts, weights and scatter of the cells ``found``, numbered from 0."""
    members, d = _Members.of(table, found), table.rows.shape[1]
    cells, n_cells = members.cells, members.n_cells
    counts = np.bincount(cells, minlength=n_cells)
    weights = _sums(cells, members.weights, n_cells) * table.weight_unit
    means, scatter = np.empty((n_cells, d)), np.empty((n_cells, d))
    observed = np.zeros((n_cells, d), dtype=np.int64)
    with np.errstate(over="ignore"):
        for j, column in enumerate(_columns(table, members)):
            means[:, j] = column.mean * table.units[j]
            observed[:, j] = column.observed
            sums = np.bincount(cells, column.squares, n_cells) * table.weight_unit
            if column.squares.max(initial=0.0) > _HALF * column.squares.sum():
                sums[:] = 0.0  # a row dominates it: such a total is not kept
            scatter[:, j] = sums * table.units[j] * table.units[j]
    if not np.isfinite(scatter).all():
        j = int(np.flatnonzero(~np.isfinite(scatter).all(axis=0))[0])
        raise InputError(
            f"Column {j} has values up to {table.units[j]:.0e}, whose squares cannot be added up: "
            "divide the column by that."
        )
    return CellSums(means, observed, counts, weights, scatter)


def offenders(
    table: Table, found: IntArray, spreads: FloatArray, with_sizes: bool = False
) -> BoolArray:
    """Rows that dominate their cell, or, if these are few, a column's total.

    With sizes in place of totals: all rows of cells that are too small or in which a person has too
    much weight.
    """
    members = _Members.of(table, found)
    inside, cells, weights, n_cells = members
    tops, of_rows = np.zeros(len(cells), dtype=np.bool_), np.zeros(len(cells))
    for j, column in enumerate(_columns(table, members)):
        if spreads[j] > 0:
            tops |= False if with_sizes else _tops(column, cells, weights)
            of_rows += column.squares / spreads[j] ** 2
    of_cells = _sums(cells, of_rows, n_cells)
    bad = of_rows > _HALF * of_cells[cells]
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
    return held if table.enough(~held) else np.zeros_like(held)


def _columns(table: Table, members: _Members) -> Iterator[_Column]:
    """The sums of each column in turn."""
    inside, cells, weights, n_cells = members
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
        squares = _squares(y, w, mean[at])
        if len(squares) < len(x):
            squares, seen_only = np.zeros(len(x)), squares
            squares[seen] = seen_only
        yield _Column(mean, np.bincount(at, minlength=n_cells), x, squares)


def _large_enough(table: Table, among: BoolArray, cells: IntArray, n_cells: int) -> BoolArray:
    """Which cells would have enough persons, and none too heavy, if they had only these rows."""
    if table.min_count <= 1:
        return np.ones(n_cells, dtype=np.bool_)
    persons, own = table.persons[among], table.weights[among]
    counted, n_persons = own * table.fresh[among], int(table.persons.max(initial=-1)) + 1
    if n_persons < len(table.persons):  # someone has several rows
        pairs, codes = np.unique(cells * n_persons + persons, return_inverse=True)
        cells = pairs // n_persons
        own, counted = (_sums(codes, values, len(pairs)) for values in (own, counted))
    sizes = effective_sizes(cells, counted, n_cells)
    heaviest, masses = np.zeros(n_cells), np.bincount(cells, own, n_cells)
    np.maximum.at(heaviest, cells, own)
    light = heaviest * table.min_count <= 2 * (1 + ROUNDING) * masses
    return np.asarray(enough(sizes, table.min_count) & light)


def _tops(column: _Column, cells: IntArray, weights: FloatArray) -> BoolArray:
    """Rows that in turn make up more than half of the column's scatter, each without those before.

    Without a row the mean of its cell is another one, and with it the scatter of all its rows.
    """
    bad, squares = np.zeros(len(cells), dtype=np.bool_), column.squares
    while (total := float(squares.sum())) > 0:
        top = int(squares.argmax())
        if squares[top] <= _HALF * total:
            break
        bad[top] = True
        rest = np.flatnonzero((cells == cells[top]) & ~bad & ~np.isnan(column.values))
        squares = np.where(bad, 0.0, squares)
        if len(rest):
            w, y = weights[rest], column.values[rest]
            squares[rest] = _squares(y, w, float((w * y).sum() / w.sum()))
    return bad


def _squares(values: FloatArray, weights: FloatArray, mean: float | FloatArray) -> FloatArray:
    """w (x - mean)², and 0 for what rounding can make."""
    squares = values - mean
    squares[np.abs(squares) <= _NO_DEVIATION] = 0.0
    squares *= squares
    squares *= weights
    return squares


def _sums(groups: IntArray, values: FloatArray, n_groups: int) -> FloatArray:
    """Of each group, in the order of the rows."""
    return np.asarray(np.bincount(groups, values, n_groups), dtype=np.float64)


def _power_of_two(value: float) -> float:
    """At most the value and more than half of it; 1 for 0."""
    return float(2.0 ** (np.frexp(value)[1] - 1)) if value > 0 else 1.0
