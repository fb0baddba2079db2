"""Reads single columns of npz, csv and parquet files, with where each value stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unpooled.data import csv_lines
from unpooled.errors import InputError
from unpooled.types import Array, FloatArray, PartyId


class FileColumn(NamedTuple):
    """One column of a file: its values, and the same as text with where each stands, in order."""

    values: Array | None
    """None if they cannot be taken as they are."""
    written: Callable[[], Iterable[tuple[str, str]]]


def _npz_columns(
    path: Path, name: PartyId, wanted: tuple[str, ...], naming: tuple[str, ...]
) -> Mapping[str, FileColumn]:
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
            f"Party {name} has {path} with {_some_of(arrays)}; it must have an array for every "
            f"column of the plan ({_some_of(wanted)}), or one called X with these columns in "
            "order."
        )
    if X is not None:
        arrays |= {column: X[:, place] for place, column in enumerate(named)}
    found = {}
    for column in wanted:
        values = _one_per_row(arrays[column], path, name, column, "biuf", "a column has one number")
        found[column] = FileColumn(values.astype(np.float64), _by_row(values))
    for column in naming:
        if column not in arrays:
            raise _no_column(path, name, column, arrays)
        values = _one_per_row(
            arrays[column], path, name, column, "iuU", "ids have one text or whole number"
        )
        found[column] = FileColumn(None, _by_row(values))
    return found


def _one_per_row(
    values: Array, path: Path, name: PartyId, column: str, kinds: str, needs: str
) -> Array:
    if values.ndim != 1 or values.dtype.kind not in kinds:
        raise InputError(
            f"Party {name} has an array {column!r} of shape {values.shape} and type "
            f"{values.dtype} in {path}; {needs} per row."
        )
    return values


def _csv_columns(
    path: Path, name: PartyId, wanted: tuple[str, ...], naming: tuple[str, ...]
) -> Mapping[str, FileColumn]:
    needed = (*wanted, *naming)
    header = _csv_header(path, name, needed)
    try:
        frame = _polars(path, name, "read_csv", infer_schema_length=None)
    except InputError as error:
        raise _too_long(path, name, len(header)) or error from None
    if len(frame.columns) != len(header):
        raise _unreadable(path, name, ValueError())
    found = {}
    for column in needed:
        index = header.index(column)

        # A default argument, since the loop's variable changes before it is called.
        def written(index: int = index) -> Iterator[tuple[str, str]]:
            return csv_lines.column(path, index, len(header))

        # By place: polars renames columns of the same name.
        found[column] = FileColumn(_as_numbers(frame[frame.columns[index]]), written)
    return found


def _csv_header(path: Path, name: PartyId, needed: tuple[str, ...]) -> list[str]:
    """The names of all columns, if those that are needed are among them once."""
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
    return header


def _too_long(path: Path, name: PartyId, n_columns: int) -> InputError | None:
    """The refusal of a line of more values than columns, which polars does not read."""
    try:
        found = csv_lines.first_too_long(path, n_columns)
    except Exception:  # what is wrong is something else
        return None
    if found is None:
        return None
    return InputError(
        f"Party {name} has {quoted(found.text)} in {found.place} of {path}, which are "
        f"{found.size} values for {n_columns} columns; put text with a comma in quotes, and write "
        "numbers without one."
    )


def _parquet_columns(
    path: Path, name: PartyId, wanted: tuple[str, ...], naming: tuple[str, ...]
) -> Mapping[str, FileColumn]:
    frame = _polars(path, name, "read_parquet")
    found = {}
    for column in (*wanted, *naming):
        if column not in frame.columns:
            raise _no_column(path, name, column, frame.columns)
        found[column] = FileColumn(_as_numbers(frame[column]), _by_row(frame[column]))
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
        f"Party {name} has no column {column!r} in {path}; it has {_some_of(there)}: rename one, "
        "or change the plan."
    )


def _unreadable(path: Path, name: PartyId, error: BaseException) -> InputError:
    return InputError(
        f"Party {name} has {path}, which cannot be read as {path.suffix[1:]} "
        f"({type(error).__name__}); check that it is whole and of that kind."
    )


def quoted(text: str, most: int = 40) -> str:
    """A value of a file in a sentence, not too much of it."""
    return repr(text if len(text) <= most else text[:most] + "...")


def _some_of(names: Iterable[Any], most: int = 6) -> str:
    shown = [str(name) if str(name).isprintable() else repr(name) for name in names]
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return (", ".join(shown[:most]) or "nothing") + rest


READERS = {".npz": _npz_columns, ".csv": _csv_columns, ".parquet": _parquet_columns}
"""By the file's suffix; each takes the path, the party, columns of numbers, those of names."""
