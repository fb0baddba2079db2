"""A party's rows from its own file: npz, csv or parquet.

Whatever is refused is named as its owner would look for it: a csv by the line that an editor shows,
other files by the row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unpooled.data.file_columns import READERS, FileColumn, quoted
from unpooled.data.parties import Parties
from unpooled.data.tables import Expected, Table, read
from unpooled.errors import InputError
from unpooled.types import FloatArray, PartyId

_MISSING = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", ".", "*"])
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([,' ]\d{3})+(\.\d+)?")
_SEPARATOR = re.compile(r"[,' ]")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


class Names(NamedTuple):
    """What names rows, or whose they are, at home; it never travels."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Naming:
    """The columns of a site's file that are no features: a weight, a name, a person for a row."""

    weights: str | None = None
    id: str | None = None
    person: str | None = None


@dataclass(frozen=True)
class OwnRows:
    """A party's table, and the names of its rows and persons if it has any."""

    table: Table
    naming: Naming = Naming()
    ids: Names | None = None
    persons: Names | None = None

    @property
    def parties(self) -> Parties:
        """What takes part in a run."""
        return self.table.parties

    def chosen(self, columns: Sequence[str]) -> FloatArray:
        """The rows with these columns only."""
        assert self.table.columns is not None  # they come from a file with named columns
        places = [self.table.columns.index(column) for column in columns]
        return self.parties.rows[:, places]


def read_rows(
    path: Path,
    name: PartyId,
    columns: tuple[str, ...],
    naming: Naming = Naming(),  # noqa: B008 (frozen)
) -> OwnRows:
    """These columns of the party's table, as the estimators would read them."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"Party {name} gives {path} as its data; give a file ending in {', '.join(READERS)}."
        )
    if not path.is_file():
        raise InputError(f"Party {name} has no file {path}; give its data with --data.")
    for called, what in ((naming.id, "rows"), (naming.person, "persons")):
        if called in columns:
            raise InputError(
                f"Party {name} names its {what} by {called!r}, which is a column of the plan, but "
                f"what names {what} never travels; name another column, or none."
            )
    wanted = (*columns, *((naming.weights,) if naming.weights is not None else ()))
    named = tuple(dict.fromkeys(n for n in (naming.id, naming.person) if n is not None))
    found = reader(path, name, wanted, named)
    table = {column: _finite_numbers(found[column], path, name, column) for column in wanted}
    for column in wanted[1:]:
        if len(table[column]) != len(table[wanted[0]]):
            raise InputError(
                f"Party {name} has {len(table[column])} values of {column!r} in {path}, but "
                f"{len(table[wanted[0]])} of {wanted[0]!r}; every row needs a value of each."
            )
    n_rows = len(table[wanted[0]])
    if not n_rows:
        raise InputError(
            f"Party {name} has no rows in {path}, only names of columns; give a file with rows."
        )
    own = {name: np.column_stack([table[column] for column in columns])}
    weight = None if naming.weights is None else {name: table[naming.weights]}
    return OwnRows(
        read(own, None, weight, Expected("A party", columns=columns)),
        naming,
        _names(found, path, name, naming.id, n_rows, once=True),
        _names(found, path, name, naming.person, n_rows, once=False),
    )


def _finite_numbers(column: FileColumn, path: Path, name: PartyId, called: str) -> FloatArray:
    values = column.values
    if values is not None and np.isfinite(values).all():
        return values
    numbers = []
    for place, text in column.written():
        number = _finite(text)
        if number is None:
            raise _no_number(text, place, path, name, called)
        numbers.append(number)
    return np.array(numbers, dtype=np.float64)  # in quotes, or between blanks


def _finite(text: str) -> float | None:
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _no_number(text: str, place: str, path: Path, name: PartyId, column: str) -> InputError:
    bare = text.strip()
    if bare.lower() in _MISSING:
        remedy = "fill in or drop rows without a value first"
    elif _THOUSANDS.fullmatch(bare):
        remedy = f"write it without separators, as {_SEPARATOR.sub('', bare)}"
    elif _DECIMAL_COMMA.fullmatch(bare):
        remedy = f"write it with a decimal point, as {bare.replace(',', '.')}"
    else:
        remedy = "make it a finite number, or leave the column out of the plan"
    what = quoted(text) if bare else "no value"
    return InputError(
        f"Party {name} has {what} in {place} of {path}, where column {column!r} needs a number; "
        f"{remedy}."
    )


def _names(
    found: Mapping[str, FileColumn],
    path: Path,
    name: PartyId,
    called: str | None,
    n_rows: int,
    *,
    once: bool,
) -> Names | None:
    """What names every row, each by a name of its own, or every row's person."""
    if called is None:
        return None
    what, key = ("the row", "id") if once else ("the row's person", "person")
    values, seen = [], dict[str, str]()
    for place, text in found[called].written():
        if not text.strip():
            raise InputError(
                f"Party {name} has no {called!r} in {place} of {path}, which is to name {what}; "
                f"fill it in, or name another column as {key}."
            )
        if once and text in seen:
            raise InputError(
                f"Party {name} has the {called!r} {quoted(text)} in {seen[text]} and in {place} "
                f"of {path}, but it is to name one row; name another column as id, or none."
            )
        seen[text] = place
        values.append(text)
    if len(values) != n_rows:
        raise InputError(
            f"Party {name} has {len(values)} values of {called!r} in {path}, but {n_rows} rows; "
            "every row needs one."
        )
    return Names(called, tuple(values))
