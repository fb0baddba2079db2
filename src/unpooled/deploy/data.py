"""A party's rows from its own file: npz, csv or parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unpooled.errors import InputError
from unpooled.tables import Expected, read
from unpooled.types import Array, Parties, PartyId


def read_rows(path: Path, name: PartyId, columns: tuple[str, ...], weights: str | None) -> Parties:
    """The plan's columns of the party's table, as the estimators would read them."""
    readers = {".npz": _from_npz, ".csv": _from_csv, ".parquet": _from_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"Party {name} gives {path} as its data; give a file ending in {', '.join(readers)}."
        )
    if not path.is_file():
        raise InputError(f"Party {name} has no file {path}; give its data with --data.")
    wanted = (*columns, *((weights,) if weights is not None else ()))
    table = reader(path, name, wanted)
    for column in wanted[1:]:
        if len(table[column]) != len(table[wanted[0]]):
            raise InputError(
                f"Party {name} has {len(table[column])} values of {column!r} in {path}, but "
                f"{len(table[wanted[0]])} of {wanted[0]!r}; every row needs a value of each."
            )
    own = {name: np.column_stack([table[column] for column in columns])}
    weight = None if weights is None else {name: table[weights]}
    return read(own, None, weight, Expected("A party", columns=columns)).parties


def _from_npz(path: Path, name: PartyId, wanted: tuple[str, ...]) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            members = {key: archive[key] for key in archive.files}
    except Exception as error:
        raise _unreadable(path, name, error) from None
    # What is no array comes as bytes.
    arrays = {key: value for key, value in members.items() if isinstance(value, np.ndarray)}
    if all(column in arrays for column in wanted):
        return {column: _vector(arrays[column], path, name, column) for column in wanted}
    X = arrays.get("X")
    named = [column for column in wanted if column not in arrays]
    if X is None or X.ndim != 2 or X.shape[1] != len(named):
        raise InputError(
            f"Party {name} has {path} with {_listed(arrays)}; it must have an array for every "
            f"column of the plan ({_listed(wanted)}), or one called X with these columns in order."
        )
    arrays |= {column: X[:, place] for place, column in enumerate(named)}
    return {column: _vector(arrays[column], path, name, column) for column in wanted}


def _from_csv(path: Path, name: PartyId, wanted: tuple[str, ...]) -> dict[str, Array]:
    return _from_polars(path, name, wanted, "read_csv", infer_schema_length=None)


def _from_parquet(path: Path, name: PartyId, wanted: tuple[str, ...]) -> dict[str, Array]:
    return _from_polars(path, name, wanted, "read_parquet")


def _from_polars(
    path: Path, name: PartyId, wanted: tuple[str, ...], reader: str, **how: Any
) -> dict[str, Array]:
    try:
        import polars as pl
    except ImportError:
        raise InputError(
            f"Reading {path} needs polars; run pip install 'unpooled[network]', or give an npz."
        ) from None
    try:
        frame = getattr(pl, reader)(path, **how)
    except (Exception, pl.exceptions.PanicException) as error:
        raise _unreadable(path, name, error) from None
    for column in wanted:
        if column not in frame.columns:
            raise InputError(
                f"Party {name} has no column {column!r} in {path}; it has "
                f"{_listed(frame.columns)}: rename one, or change the plan."
            )
        values = frame[column]
        if values.null_count():
            row = int(values.is_null().arg_max() or 0)
            raise InputError(
                f"Party {name} has {values.null_count()} empty cells in column {column!r} of "
                f"{path}, the first in row {row + 1}; fill in or drop such rows first."
            )
        if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
            raise InputError(
                f"Party {name} has text in column {column!r} of {path} where numbers are needed; "
                "make it numbers or leave the column out of the plan."
            )
    return {column: frame[column].cast(pl.Float64).to_numpy() for column in wanted}


def _vector(values: Array, path: Path, name: PartyId, column: str) -> Array:
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise InputError(
            f"Party {name} has an array {column!r} of shape {values.shape} and type "
            f"{values.dtype} in {path}; a column has one number per row."
        )
    return values


def _unreadable(path: Path, name: PartyId, error: BaseException) -> InputError:
    return InputError(
        f"Party {name} has {path}, which cannot be read as {path.suffix[1:]} "
        f"({type(error).__name__}); check that it is whole and of that kind."
    )


def _listed(names: Any, most: int = 6) -> str:
    shown = [str(name) if str(name).isprintable() else repr(name) for name in names]
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return (", ".join(shown[:most]) or "nothing") + rest
