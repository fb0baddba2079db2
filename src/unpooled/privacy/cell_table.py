"""A party's rows as they are put into cells: sorted, and gone through column by column.

Columns are divided by a power of two near their largest value before anything is squared, which
changes no digit. All sums are made in the order of the table, which is sorted: the same rows in
another order give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unpooled.types import BoolArray, FloatArray, IntArray

_NO_DEVIATION = 2.0**-46
"""Of a value: its deviation from a mean that rounding can make."""

_STRIP = 2
"""Columns to copy at a time: a processor reads eight, but there is not room for as many."""
_AT_ONCE = 4096
"""Rows to copy at a time."""

SingleArray: TypeAlias = NDArray[np.float32]


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
        weights = sums_of(self.persons[among], self.weights[among], n_people)
        fresh = np.zeros(n_people, dtype=np.bool_)
        fresh[self.persons] = self.fresh
        return Table.of(means, weights, None, fresh, self.min_count)

    @cached_property
    def several(self) -> bool:
        """Whether anybody has several rows."""
        return int(self.persons.max(initial=-1)) + 1 < len(self.persons)

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
                squares = squares_about(x, shares, mean)
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


def squares_about(values: FloatArray, weights: FloatArray, mean: float | FloatArray) -> FloatArray:
    """w (x - mean)², and 0 for what rounding can make."""
    squares = values - mean
    squares[np.abs(squares) <= _NO_DEVIATION * np.abs(values)] = 0.0
    squares *= squares
    squares *= weights
    return squares


def sums_of(groups: IntArray, values: FloatArray, n_groups: int) -> FloatArray:
    """Of each group, in the order of the rows."""
    return np.asarray(np.bincount(groups, values, n_groups), dtype=np.float64)


def _power_of_two(value: float) -> float:
    """At most the value and more than half of it; 1 for 0."""
    return float(2.0 ** (np.frexp(value)[1] - 1)) if value > 0 else 1.0
