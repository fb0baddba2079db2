"""Data frames of any package, known by their named columns, and lazy frames of polars.

No package is imported for that: a frame has ``columns`` and gives some of them as another frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.errors import InputError


def collected(X: Any) -> Any:
    """The same with polars' lazy frames read in."""
    if isinstance(X, Mapping) and any(map(_is_lazy, X.values())):
        return {key: collected(item) for key, item in X.items()}
    if type(X) in (list, tuple) and any(map(_is_lazy, X)):
        return type(X)(map(collected, X))
    return X.collect() if _is_lazy(X) else X


def _is_lazy(item: Any) -> bool:
    return hasattr(item, "collect") and hasattr(item, "collect_schema")


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns; None if there are none but numbers."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = tuple(columns)
    return None if names == tuple(range(len(names))) else names


def by_name(X: Any, own: tuple[str, ...], wanted: tuple[str, ...], who: str) -> Any:
    """The table's columns in the wanted order."""
    missing = [name for name in wanted if name not in own]
    extra = [name for name in own if name not in wanted]
    if missing:
        raise InputError(f"{who} lacks the column {missing[0]!r}; give it the same columns.")
    if extra:
        raise InputError(f"{who} has a column {extra[0]!r} that others lack; drop it.")
    return X if own == wanted else X[list(wanted)]


def split_off(X: Any, name: str) -> tuple[Any, Any]:
    """A frame without the column that names each row's party, and that column."""
    columns = column_names(X)
    if columns is None:
        raise InputError(
            f"groups={name!r} would be a column's name, but X has no named columns; give a data "
            "frame, or groups as a list with the party of each row."
        )
    if name not in columns:
        raise InputError(
            f"groups={name!r} is no column of X, which has {', '.join(map(repr, columns))}; name "
            "one of them, or give groups as a list with the party of each row."
        )
    return without(X, name), X[name]


def without(X: Any, name: str | None) -> Any:
    """The table without the column of this name, if it has one."""
    columns = column_names(X) or ()
    return X[[column for column in columns if column != name]] if name in columns else X


def where_no_number(X: Any) -> str:
    """The first column that is not of numbers, as the end of a sentence; nothing if there is none.

    Columns are tried one by one, which takes long where nothing is wrong.
    """
    try:
        table = np.asarray(X, dtype=object)
    except (TypeError, ValueError):
        return ""
    names = column_names(X) or range(table.shape[1] if table.ndim == 2 else 0)
    for name, column in zip(names, table.T, strict=False):
        try:
            column.astype(np.float64)
        except (OverflowError, TypeError, ValueError):
            return f" in column {name!r}; leave that column out or make numbers of it"
    return ""
