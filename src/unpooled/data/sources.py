"""A party's rows from its own file: npz, csv or parquet.

Whatever is refused is named as its owner would look for it: a csv by the line that an editor
shows, other files by the row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unpooled.data import csv_lines
from unpooled.data.tables import Expected, Table, read
from unpooled.errors import InputError
from unpooled.types import Array, FloatArray, Parties, PartyId

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


class _Column(NamedTuple):
    """One column of a file: its values, and the same as text with where each stands, in order."""

    values: Array | None
    """None if they cannot be taken as they are."""
    written: Callable[[], Iterable[tuple[str, str]]]


def read_rows(
    path: Path,
    name: PartyId,
    columns: tuple[str, ...],
    weights: str | None = None,
    identity: str | None = None,
) -> OwnRows:
    """The plan's columns of the party's table, as the estimators would read them."""
    readers = {".npz": _from_npz, ".csv": _from_csv, ".parquet": _from_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"Party {name} gives {path} as its data; give a file ending in {', '.join(readers)}."
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
    table = {column: _numbers(found[column], path, name, column) for column in wanted}
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


def _numbers(column: _Column, path: Path, name: PartyId, called: str) -> FloatArray:
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
    what = _quoted(text) if bare else "no value"
    return InputError(
        f"Party {name} has {what} in {place} of {path}, where column {column!r} needs a number; "
        f"{remedy}."
    )


def _ids(column: _Column, path: Path, name: PartyId, called: str, n_rows: int) -> Ids:
    seen: dict[str, str] = {}
    for place, text in column.written():
        if not text.strip():
            raise InputError(
                f"Party {name} has no {called!r} in {place} of {path}, which is to name the row; "
                "fill it in, or name another column as id."
            )
        if text in seen:
            raise InputError(
                f"Party {name} has the {called!r} {_quoted(text)} in {seen[text]} and in {place} "
                f"of {path}, but it is to name one row; name another column as id, or none."
            )
        seen[text] = place
    if len(seen) != n_rows:
        raise InputError(
            f"Party {name} has {len(seen)} values of {called!r} in {path}, but {n_rows} rows; "
            "every row needs one."
        )
    return Ids(called, tuple(seen))


def _from_npz(
    path: Path, name: PartyId, wanted: tuple[str, ...], identity: str | None
) -> Mapping[str, _Column]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            members = {key: archive[key] for key in archive.files}
    except Exception as error:
        raise _unreadable(path, name, error) from None
    # What is no array comes as bytes.
    arrays = {key: value for key, value in members.items() if isinstance(value, np.ndarray)}
    named = [column for column in wanted if column not in arrays]
    X = arrays.get("X")
    if named and (X is None or X.ndim != 2 or X.shape[1] != len(named)):
        raise InputError(
            f"Party {name} has {path} with {_listed(arrays)}; it must have an array for every "
            f"column of the plan ({_listed(wanted)}), or one called X with these columns in order."
        )
    if X is not None:
        arrays |= {column: X[:, place] for place, column in enumerate(named)}
    found = {}
    for column in wanted:
        values = _vector(arrays[column], path, name, column, "biuf", "a column has one number")
        found[column] = _Column(values.astype(np.float64), _by_row(values))
    if identity is not None:
        if identity not in arrays:
            raise _no_column(path, name, identity, arrays)
        values = _vector(
            arrays[identity], path, name, identity, "iuU", "ids have one text or whole"
        )
        found[identity] = _Column(None, _by_row(values))
    return found


def _vector(values: Array, path: Path, name: PartyId, column: str, kinds: str, needs: str) -> Array:
    if values.ndim != 1 or values.dtype.kind not in kinds:
        raise InputError(
            f"Party {name} has an array {column!r} of shape {values.shape} and type "
            f"{values.dtype} in {path}; {needs} per row."
        )
    return values


def _from_csv(
    path: Path, name: PartyId, wanted: tuple[str, ...], identity: str | None
) -> Mapping[str, _Column]:
    needed = (*wanted, *((identity,) if identity is not None else ()))
    try:
        header = csv_lines.header(path)
    except Exception as error:  # bytes that are no text, fields without end
        raise _unreadable(path, name, error) from None
    if not header:
        raise InputError(
            f"Party {name} has {path}, which is empty; give a csv whose first line names the "
            "columns."
        )
    if separator := csv_lines.other_separator(header, needed):
        raise InputError(
            f"Party {name} has {path}, whose columns are separated by {separator!r}; save it with "
            "commas between columns, and points, not commas, in numbers."
        )
    for column in needed:
        if column not in header:
            raise _no_column(path, name, column, header)
        if header.count(column) > 1:
            raise InputError(
                f"Party {name} has the column {column!r} {header.count(column)} times in {path}; "
                "rename or drop all but one."
            )
    try:
        frame = _polars(path, name, "read_csv", infer_schema_length=None)
    except InputError as error:
        raise _too_long(path, name, len(header)) or error from None
    if len(frame.columns) != len(header):
        raise _unreadable(path, name, ValueError())
    found = {}
    for column in needed:
        index = header.index(column)

        def written(index: int = index) -> Iterator[tuple[str, str]]:
            return csv_lines.column(path, index, len(header))

        found[column] = _Column(_as_numbers(frame[frame.columns[index]]), written)
    return found


def _too_long(path: Path, name: PartyId, n_columns: int) -> InputError | None:
    """The refusal of a line of more values than columns, which polars does not read."""
    try:
        found = csv_lines.first_too_long(path, n_columns)
    except Exception:  # what is wrong is something else
        return None
    if found is None:
        return None
    return InputError(
        f"Party {name} has {_quoted(found.text)} in {found.place} of {path}, which are "
        f"{found.size} values for {n_columns} columns; put text with a comma in quotes, and write "
        "numbers without one."
    )


def _from_parquet(
    path: Path, name: PartyId, wanted: tuple[str, ...], identity: str | None
) -> Mapping[str, _Column]:
    frame = _polars(path, name, "read_parquet")
    found = {}
    for column in (*wanted, *((identity,) if identity is not None else ())):
        if column not in frame.columns:
            raise _no_column(path, name, column, frame.columns)
        found[column] = _Column(_as_numbers(frame[column]), _by_row(frame[column]))
    return found


def _polars(path: Path, name: PartyId, reader: str, **how: Any) -> Any:
    try:
        import polars as pl
    except ImportError:
        raise InputError(
            f"Reading {path} needs polars; run pip install 'unpooled[network]', or give an npz."
        ) from None
    try:
        return getattr(pl, reader)(path, **how)
    except (Exception, pl.exceptions.PanicException) as error:
        raise _unreadable(path, name, error) from None


def _as_numbers(values: Any) -> FloatArray | None:
    import polars as pl

    if values.null_count() or not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        return None
    numbers: FloatArray = values.cast(pl.Float64).to_numpy()
    return numbers


def _by_row(values: Iterable[Any]) -> Callable[[], Iterator[tuple[str, str]]]:
    """The values as text, counted from 1."""

    def written() -> Iterator[tuple[str, str]]:
        for row, value in enumerate(values, start=1):
            yield f"row {row}", "" if value is None else str(value)

    return written


def _no_column(path: Path, name: PartyId, column: str, there: Iterable[str]) -> InputError:
    return InputError(
        f"Party {name} has no column {column!r} in {path}; it has {_listed(there)}: rename one, or "
        "change the plan."
    )


def _unreadable(path: Path, name: PartyId, error: BaseException) -> InputError:
    return InputError(
        f"Party {name} has {path}, which cannot be read as {path.suffix[1:]} "
        f"({type(error).__name__}); check that it is whole and of that kind."
    )


def _quoted(text: str, most: int = 40) -> str:
    return repr(text if len(text) <= most else text[:most] + "...")


def _listed(names: Iterable[Any], most: int = 6) -> str:
    shown = [str(name) if str(name).isprintable() else repr(name) for name in names]
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return (", ".join(shown[:most]) or "nothing") + rest
