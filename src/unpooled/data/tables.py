"""Reads what people pass as ``X``: one table with groups, or one table per party.

Estimators, metrics and everything else that takes rows read them here, so that all take the same
forms and refuse the same mistakes in the same sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from unpooled.data.frames import (
    by_name,
    collected,
    column_names,
    split_off,
    where_no_number,
    without,
)
from unpooled.data.parties import Parties
from unpooled.errors import InputError, InputTypeError
from unpooled.parallel import in_chunks
from unpooled.types import A, Array, FloatArray, IntArray, PartyId, PerRow

LARGEST = 1e150
"""Beyond this the square of a distance is no number any more."""
_HEAVIEST = 1e100


@dataclass(frozen=True)
class Expected:
    """What an estimator saw when it was fitted; nothing before that."""

    estimator: str
    n_features: int | None = None
    columns: tuple[str, ...] | None = None
    groups: str | None = None
    """The column that named each row's party, which new tables may have or lack."""


@dataclass(frozen=True)
class Table:
    """The parties' rows, and the way back to the form in which they came."""

    parties: Parties
    columns: tuple[str, ...] | None
    keys: tuple[Any, ...] | None
    """The keys of a dict."""
    order: IntArray | None
    """Where each of the parties' rows stands in the one table that was given."""
    container: type[list[Any]] | type[tuple[Any, ...]] = list
    plain: bool = False
    """One table without groups, as any scikit-learn estimator takes it."""
    groups: str | None = None
    """The column that named each row's party."""

    @cached_property
    def extent(self) -> tuple[FloatArray, FloatArray]:
        """The least and the greatest value of every column."""
        rows = self.parties.rows
        parts = in_chunks(lambda s: (rows[s].min(axis=0), rows[s].max(axis=0)), rows.shape)
        low, high = zip(*parts, strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def restore(self, values: A) -> PerRow[A]:
        """One value per row, in the container the rows came in."""
        if self.order is not None:
            restored = np.empty_like(values)
            restored[self.order] = values
            return restored
        parts: Any = np.split(values, self.parties.offsets[1:-1])
        if self.keys is not None:
            return dict(zip(self.keys, parts, strict=True))
        return self.container(parts)

    def per_row(self, values: Any, what: str, dtype: Any = None) -> Array:
        """One value per row, given in the container of the rows, in the parties' order."""
        parties = self.parties
        if self.order is not None:
            return _one_per_row(values, len(parties.rows), what, dtype)[self.order]
        if self.keys is not None and isinstance(values, Mapping) and set(values) == set(self.keys):
            parts = [values[key] for key in self.keys]
        elif self.keys is None and isinstance(values, list | tuple):
            parts = list(values)
        else:
            parts = []
        if len(parts) != len(parties):
            raise InputError(
                f"{what} must come in the same container as X, with one entry for each of the "
                f"{len(parties)} parties."
            )
        sizes = zip(parts, parties.sizes, parties.names, strict=True)
        return np.concatenate(
            [_one_per_row(v, int(n), f"{what} of party {name}", dtype) for v, n, name in sizes]
        )

    def column(self, index: int) -> str:
        """How to call a column in a sentence."""
        return repr(self.columns[index]) if self.columns is not None else str(index)


def read(X: Any, groups: Any, sample_weight: Any, expected: Expected) -> Table:
    """The table in any of the forms that ``fit`` takes, checked."""
    X = collected(X)
    table = _one_table(X, groups, expected) if not _has_parties(X) else _many(X, groups, expected)
    weights = _weights(sample_weight, table)
    table = replace(table, parties=replace(table.parties, weights=weights))
    _refuse_bad_numbers(table)
    return table


def _has_parties(X: Any) -> bool:
    if isinstance(X, Mapping):
        return True
    return isinstance(X, list | tuple) and any(_is_table(item) for item in X)


def _is_table(item: Any) -> bool:
    if hasattr(item, "columns"):
        return True
    try:
        return np.ndim(item) == 2
    except ValueError:  # rows of different lengths
        return False


def _one_table(X: Any, groups: Any, expected: Expected) -> Table:
    named = groups if isinstance(groups, str) else None
    if named is not None:
        X, groups = split_off(X, named)
    else:
        X = without(X, expected.groups)
    columns = column_names(X)
    if expected.columns is not None and columns is not None:
        X, columns = by_name(X, columns, expected.columns, "X"), expected.columns
    rows = _number_table(X, "X", expected)
    _check_width(rows, expected)
    if groups is None:
        parties = Parties.of([rows], names=["0"])
        return Table(parties, columns, None, np.arange(len(rows)), plain=True)
    missing = has_missing(groups)
    groups = np.asarray(groups)
    if groups.shape != (len(rows),):
        raise InputError(
            f"groups has shape {groups.shape}, but it must name the party of each of the "
            f"{len(rows)} rows."
        )
    if missing:
        where = "groups" if named is None else f"The column {named!r}, which names the parties,"
        raise InputError(f"{where} has a missing value; every row must name its party.")
    try:
        names, owner = np.unique(groups, return_inverse=True)
    except TypeError:
        raise InputError("groups mixes names that cannot be sorted; use all of one kind.") from None
    order, in_order = np.argsort(owner, kind="stable"), bool((np.diff(owner) >= 0).all())
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner))]).astype(np.int64)
    if len({str(name) for name in names}) != len(names):
        raise InputError("Two groups have the same name once written out; name them apart.")
    rows = rows if in_order else rows[order]
    table = Parties(tuple(map(str, names)), rows, offsets, np.ones(len(rows)))
    return Table(table, columns, None, order, groups=named)


def _many(X: Any, groups: Any, expected: Expected) -> Table:
    if groups is not None:
        raise InputError("groups goes with one table; X already has one table per party.")
    keys = tuple(X) if isinstance(X, Mapping) else None
    items: Sequence[Any] = list(X.values()) if keys is not None else list(X)
    items = [without(item, expected.groups) for item in items]
    names = [str(key) for key in keys] if keys is not None else [str(i) for i in range(len(items))]
    if not items:
        raise InputError("X has no parties; give one table per party.")
    if len(set(names)) != len(names):
        raise InputError(f"Two parties have the same name among {sorted(names)}.")
    columns = expected.columns or column_names(items[0])
    for name, item in zip(names, items, strict=True):
        if _is_table(item) and (column_names(item) is None) != (column_names(items[0]) is None):
            raise InputError(
                f"Only one of party {names[0]} and party {name} names its columns; name them "
                "everywhere or nowhere."
            )
    rows = [
        _party_rows(item, name, columns, expected) for item, name in zip(items, names, strict=True)
    ]
    for name, table in zip(names, rows, strict=True):
        if table.shape[1] != rows[0].shape[1]:
            raise InputError(
                f"Party {name} has {table.shape[1]} columns but party {names[0]} has "
                f"{rows[0].shape[1]}; give every party the same columns."
            )
    _check_width(rows[0], expected)
    container = tuple if isinstance(X, tuple) else list
    return Table(Parties.of(rows, names=names), columns, keys, None, container)


def _party_rows(
    item: Any, name: PartyId, columns: tuple[str, ...] | None, expected: Expected
) -> FloatArray:
    if not _is_table(item):
        raise InputError(
            f"Party {name} is a {type(item).__name__}, not a 2-D table of rows and columns."
        )
    own = column_names(item)
    if columns is not None and own is not None:
        item = by_name(item, own, columns, f"Party {name}")
    if np.shape(item)[0] == 0:
        raise InputError(f"Party {name} has no rows; leave it out.")
    return _number_table(item, f"Party {name}", expected)


def _number_table(X: Any, who: str, expected: Expected) -> FloatArray:
    """The table as numbers, which may still be NaN or infinite."""
    if np.ma.is_masked(X):
        raise InputError(f"{who} has masked values; fill in or drop such rows first.")
    try:
        if isinstance(X, np.ndarray | list | tuple) and np.ndim(X) != 2:
            raise InputError(
                f"{who} has shape {np.shape(X)}, but a table of rows and columns is needed "
                "(Reshape your data: reshape(-1, 1) makes one column of it)."
            )
        if not sp.issparse(X) and np.asarray(X).dtype.kind in "mM":
            raise TypeError("dates and times are no numbers")
        rows: FloatArray = check_array(
            X, dtype=np.float64, ensure_all_finite=False, estimator=expected.estimator
        )
    except InputError:
        raise
    except (OverflowError, TypeError, ValueError) as error:
        if sp.issparse(X):
            raise
        # Up to the first bracket: from there on scikit-learn quotes the values themselves.
        reason = " ".join(str(error).split()).split(". ")[0].split(" [")[0].rstrip(".:")
        refusal = InputTypeError if isinstance(error, TypeError) else InputError
        where = where_no_number(X)
        raise refusal(f"{who} cannot be read as a table of numbers: {reason}{where}.") from None
    return rows


def _check_width(rows: FloatArray, expected: Expected) -> None:
    if expected.n_features is not None and rows.shape[1] != expected.n_features:
        raise InputError(
            f"X has {rows.shape[1]} features, but {expected.estimator} is expecting "
            f"{expected.n_features} features as input."
        )


def _refuse_bad_numbers(table: Table) -> None:
    low, high = table.extent
    if (low >= -LARGEST).all() and (high <= LARGEST).all():  # neither is so if there is a NaN
        return
    rows = table.parties.rows
    usable = np.abs(rows) <= LARGEST
    row, column = np.argwhere(~usable)[0]
    value = rows[row, column]
    what, remedy = f"the value {value:g}", "rescale the data first"
    if not np.isfinite(value):
        what = "a NaN" if np.isnan(value) else "an infinity (inf)"
        remedy = "fill in or drop such rows first"
    raise InputError(
        f"Party {table.parties.names[table.parties.owner[row]]} has {what} in column "
        f"{table.column(int(column))}; {remedy}."
    )


def _weights(sample_weight: Any, table: Table) -> FloatArray:
    parties = table.parties
    if sample_weight is None:
        return np.ones(len(parties.rows))
    weights: FloatArray = table.per_row(sample_weight, "sample_weight", np.float64)
    bad = ~((weights == 0) | ((weights >= 1 / _HEAVIEST) & (weights <= _HEAVIEST)))
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"Party {parties.names[parties.owner[place]]} has the weight {weights[place]:g}; "
            f"sample_weight must be 0 or between {1 / _HEAVIEST:g} and {_HEAVIEST:g}."
        )
    if not weights.any():
        raise InputError("Every sample_weight is zero; at least one row must count.")
    return weights


def has_missing(values: Any) -> bool:
    """Whether anything in the list is None, NaN, NaT, NA or masked."""
    if np.ma.is_masked(values):
        return True
    try:
        if np.asarray(values).dtype.kind in "biu":
            return False
        return any(value is None or bool(value != value) for value in values)
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # an array of arrays: the shape is refused elsewhere
        return False


def _one_per_row(values: Any, length: int, what: str, dtype: Any) -> Array:
    if dtype is None and has_missing(values):
        raise InputError(f"{what} has a missing value; give one for every row.")
    try:
        vector = np.asarray(values)
        if vector.dtype.kind == "c":
            raise ValueError
        vector = vector.astype(dtype or vector.dtype, copy=False)
    except (OverflowError, TypeError, ValueError):
        raise InputError(f"{what} is not a plain list with one value per row.") from None
    if vector.shape != (length,):
        raise InputError(
            f"{what} has shape {vector.shape}, but {length} rows need the shape ({length},)."
        )
    return vector
