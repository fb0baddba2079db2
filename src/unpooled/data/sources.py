"""A party's rows from its own file: npz, csv or parquet.

Whatever is refused is named as its owner would look for it: a csv by the line that an editor shows,
other files by the row.
"""

from __future__ import annotations

import math
import re
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


class Ids(NamedTuple):
    """What names the rows at home; it never travels."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class OwnRows:
    """A party's table, and its rows' names if it has any."""

    table: Table
    ids: Ids | None = None

    @property
    def parties(self) -> Parties:
        """What takes part in a run."""
        return self.table.parties


def read_rows(
    path: Path,
    name: PartyId,
    columns: tuple[str, ...],
    weights: str | None = None,
    identity: str | None = None,
) -> OwnRows:
    """The plan's columns of the party's table, as the estimators would read them."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"Party {name} gives {path} as its data; give a file ending in {', '.join(READERS)}."
        )
    if not path.is_file():
        raise InputError(f"Party {name} has no file {path}; give its data with --data.")
    if identity in columns:
        raise InputError(
            f"Party {name} names its rows by {identity!r}, which is a column of the plan, but what "
            "names rows never travels; name another column as id, or none."
        )
    wanted = (*columns, *((weights,) if weights is not None else ()))
    found = reader(path, name, wanted, identity)
    table = {column: _finite_numbers(found[column], path, name, column) for column in wanted}
    for column in wanted[1:]:
        if len(table[column]) != len(table[wanted[0]]):
            raise InputError(
                f"Party {name} has {len(table[column])} values of {column!r} in {path}, but "
                f"{len(table[wanted[0]])} of {wanted[0]!r}; every row needs a value of each."
            )
    if not len(table[wanted[0]]):
        raise InputError(
            f"Party {name} has no rows in {path}, only names of columns; give a file with rows."
        )
    ids = None
    if identity is not None:
        ids = _ids(found[identity], path, name, identity, len(table[wanted[0]]))
    own = {name: np.column_stack([table[column] for column in columns])}
    weight = None if weights is None else {name: table[weights]}
    return OwnRows(read(own, None, weight, Expected("A party", columns=columns)), ids)


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


def _ids(column: FileColumn, path: Path, name: PartyId, called: str, n_rows: int) -> Ids:
    seen: dict[str, str] = {}
    for place, text in column.written():
        if not text.strip():
            raise InputError(
                f"Party {name} has no {called!r} in {place} of {path}, which is to name the row; "
                "fill it in, or name another column as id."
            )
        if text in seen:
            raise InputError(
                f"Party {name} has the {called!r} {quoted(text)} in {seen[text]} and in {place} "
                f"of {path}, but it is to name one row; name another column as id, or none."
            )
        seen[text] = place
    if len(seen) != n_rows:
        raise InputError(
            f"Party {name} has {len(seen)} values of {called!r} in {path}, but {n_rows} rows; "
            "every row needs one."
        )
    return Ids(called, tuple(seen))
