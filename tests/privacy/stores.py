"""Rows and stores for the tests of cells that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unpooled.privacy.cell_store import LOG, CellStore, SiteRows, Stored

COLUMNS = ("x", "y")
M = 5
"""The minimum count."""


def site(n: int, seed: int = 0, start: int = 0, **changes: object) -> SiteRows:
    """Rows ``start`` to ``n`` of an endless table, each with its id."""
    angles = seed + np.arange(start, n) * 2.399963  # the golden angle: no row stands out
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    names = tuple(f"row {i}" for i in range(start, n))
    made = SiteRows(COLUMNS, rows, np.ones(n - start), names, None, {"id": "patient"})
    return replace(made, **changes)  # type: ignore[arg-type]


def joined(*parts: SiteRows) -> SiteRows:
    """The rows of several tables."""
    return replace(
        parts[0],
        rows=np.vstack([part.rows for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
        ids=[name for part in parts for name in part.ids or ()],
    )


def chosen(given: SiteRows, rows: Sequence[int] | np.ndarray) -> SiteRows:
    """Some of the rows, in this order."""
    places = np.asarray(rows)
    return replace(
        given,
        rows=given.rows[places],
        weights=given.weights[places],
        ids=None if given.ids is None else [given.ids[i] for i in places],
        persons=None if given.persons is None else [given.persons[i] for i in places],
    )


def corrected(given: SiteRows, row: int, by: float = 0.25) -> SiteRows:
    """The same rows with another value in one."""
    rows = given.rows.copy()
    rows[row, 0] += by
    return replace(given, rows=rows)


def log_of(store: CellStore) -> Path:
    """The file."""
    return store.folder / LOG


def members(found: Stored, given: SiteRows) -> list[frozenset[str]]:
    """The ids of the rows in each cell."""
    assert given.ids is not None
    return [
        frozenset(given.ids[i] for i in np.flatnonzero(found.labels == c))
        for c in range(len(found.counts))
    ]


def same(one: Stored, other: Stored) -> bool:
    """Whether both have the same cells, bit for bit."""
    names = ("means", "observed", "counts", "weights", "scatter")
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)
