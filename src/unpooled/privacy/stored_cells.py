"""What a store of cells answers with: the cells in use, and where the given rows are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unpooled.privacy.cell_change import Outcome
from unpooled.privacy.cell_history import History
from unpooled.privacy.cells import Cells, make_cells
from unpooled.privacy.site_rows import SiteRows
from unpooled.types import FloatArray, IntArray, PartyId


class Head(NamedTuple):
    """The state of a store, for run directories to know it by."""

    store: str
    """The random name of the store."""
    sequence: int
    """Its number of records."""
    hash: str
    """Of the last of them."""


class Stored(NamedTuple):
    """The cells in use, which are all that may be released, and where the given rows are."""

    columns: tuple[str, ...]
    min_count: int
    """Persons that the cells were made for: what a policy asked for when the store began."""
    means: FloatArray
    """NaN where the column is missing for the whole cell."""
    observed: IntArray
    """Rows with a value, per cell and column."""
    counts: IntArray
    weights: FloatArray
    scatter: FloatArray
    """One number per column: the total over all cells."""
    labels: IntArray
    """The cell of each of the given rows, -1 for none."""
    in_cells: int
    waiting: int
    held_back: int
    head: Head | None
    """None where nothing is stored."""


def first_cells(site: SiteRows, min_count: int, party: PartyId) -> Stored:
    """The cells of these rows where no store is kept: those that a new store would have."""
    cells = cells_at_first(site.checked(party), min_count)
    return answer_at_first(site, min_count, cells, None)


def cells_at_first(site: SiteRows, min_count: int) -> Cells:
    """The cells of all rows, in the order they are given in."""
    codes = None
    if site.persons is not None:
        names = np.asarray([str(person) for person in site.persons], dtype=object)
        codes = np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.int64)
    return make_cells(site.rows, site.weights, min_count, codes)


def answer_at_first(site: SiteRows, min_count: int, cells: Cells, head: Head | None) -> Stored:
    """The answer of a store that begins with these cells."""
    numbers = (cells.means, cells.observed, cells.counts, cells.weights, cells.scatter)
    places = _places(cells.labels, int(cells.held_back.sum()))
    return Stored(site.columns, min_count, *numbers, cells.labels, *places, head)


def answer_after(history: History, outcome: Outcome, head: Head) -> Stored:
    """The answer of a store with this history, the outcome's change included."""
    active = history.active
    number = np.where(active, np.cumsum(active) - 1, -1)
    labels = np.where(outcome.labels >= 0, number[outcome.labels], -1)
    return Stored(
        history.origin.columns,
        history.origin.min_count,
        history.joined("means")[active],
        history.joined("observed")[active],
        history.joined("counts")[active],
        history.joined("weights")[active],
        history.scatter,
        labels,
        *_places(labels, outcome.held_back),
        head,
    )


def _places(labels: IntArray, held_back: int) -> tuple[int, int, int]:
    in_cells = int((labels >= 0).sum())
    return in_cells, len(labels) - in_cells - held_back, held_back
