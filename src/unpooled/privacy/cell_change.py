"""The rules by which a site's cells follow its rows: pure functions of the history and the rows.

A cell never changes. A row that is gone or has another value retires its cell for good; the cell's
other rows wait, as new rows do, until there can be a cell with ``min_count`` persons that are
*fresh*: never before in any cell, retired or not. This is why no history of changes gives rows
away. Take any linear combination of all cells ever released, and the latest cell in it with a
non-zero coefficient: its fresh persons are in no earlier cell, so nothing cancels what they
contribute, and the combination is about at least ``min_count`` persons. The same holds for each
column, of whose mean a cell says nothing unless as many fresh persons have a value there.

Persons are known by the names that the site gives them, and by their values if a row comes back
under another name. Whoever is entered anew under another name and with other values is a new person
here: names must not change. Where many rows have the same values, new ones are not fresh before
there are more of them than have gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from unpooled.privacy.cell_history import DIGEST, Change, History, NewCells
from unpooled.privacy.cells import Cells, make_cells
from unpooled.types import Array, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class KnownRows:
    """Rows with the digests by which a store knows them."""

    rows: FloatArray
    weights: FloatArray
    keys: Array
    versions: Array
    persons: Array

    def __getitem__(self, chosen: IntArray | BoolArray) -> KnownRows:
        return KnownRows(*(value[chosen] for value in vars(self).values()))

    def digest(self) -> str:
        """Tells one set of rows from another, in whatever order they are."""
        lines = [values.view(np.uint8).reshape(-1, DIGEST) for values in self._names()]
        together = np.hstack(lines).view(f"S{3 * DIGEST}").ravel()
        return sha256(np.sort(together).tobytes()).hexdigest()

    def _names(self) -> list[Array]:
        return [np.ascontiguousarray(v) for v in (self.keys, self.versions, self.persons)]


@dataclass(frozen=True)
class Outcome:
    """Where the rows are after a change, and the change itself, None if there is none."""

    labels: IntArray
    """Of each row: its cell, numbered over the whole history, -1 for none."""
    held_back: int
    change: Change | None
    unchanged: float = 1.0
    """The share of the rows in cells that are as they were."""


def next_change(history: History, given: KnownRows) -> Outcome:
    """What these rows do to the cells there are."""
    labels, retired, unchanged = _matched(history, given)
    outside = np.flatnonzero(labels < 0)
    outside = outside[np.argsort(given.keys[outside], kind="stable")]
    waiting, last = given[outside], history.changes[-1]
    spent = history.spent
    renamed = np.setdiff1d(given.persons[_known_again(history, given)], spent)
    changed = len(retired) > 0 or len(renamed) > 0
    if not changed and waiting.digest() == last.settled:
        return Outcome(labels, last.held_back, None)
    fresh = ~np.isin(waiting.persons, np.concatenate([spent, renamed]))
    codes = _codes(waiting.persons) if history.origin.persons else None
    cells = make_cells(waiting.rows, waiting.weights, history.origin.min_count, codes, fresh)
    if not changed and not len(cells.counts):
        return Outcome(labels, int(cells.held_back.sum()), None)
    inside = cells.labels >= 0
    labels[outside[inside]] = cells.labels[inside] + len(history.active)
    change = as_change(cells, waiting, retired, renamed)
    return Outcome(labels, change.held_back, change, unchanged)


def _known_again(history: History, given: KnownRows) -> BoolArray:
    """Rows of persons who were in a cell, maybe under other names.

    These are rows with the key of one that was in a cell, and rows with the values and weight of
    one that is gone: of several such rows as many as are gone, less those known again before.
    """
    keys, versions = history.joined("keys"), history.joined("versions")
    known = np.isin(given.keys, keys)
    gone = ~np.isin(keys, given.keys)
    once = np.unique(np.char.add(keys, versions), return_index=True)[1]  # it was in several cells
    lost, quota = np.unique(versions[once][gone[once]], return_counts=True)
    again = np.flatnonzero(~known & np.isin(given.versions, lost))
    spent = np.isin(given.persons[again], history.spent)
    again = again[np.lexsort([given.keys[again], ~spent, given.versions[again]])]
    _, first, which = np.unique(given.versions[again], return_index=True, return_inverse=True)
    rank = np.arange(len(again)) - first[which]
    known[again[rank < quota[np.searchsorted(lost, given.versions[again])]]] = True
    return np.asarray(known)


def _matched(history: History, given: KnownRows) -> tuple[IntArray, IntArray, float]:
    """Of each row, its active cell or -1; the cells that retire; the share of rows in cells that
    are as they were."""
    cells, active = history.cell_of_row, history.active
    now = np.flatnonzero(active[cells])
    known = history.joined("keys")[now]
    order = now[np.argsort(known, kind="stable")]
    known = np.sort(known)
    place = np.minimum(np.searchsorted(known, given.keys), max(len(known) - 1, 0))
    labels = np.full(len(given.keys), -1)
    seen = np.zeros(len(cells), bool)
    if len(known):
        row = order[place]
        same = known[place] == given.keys
        same &= history.joined("versions")[row] == given.versions
        same &= history.joined("persons")[row] == given.persons
        labels[same] = cells[row[same]]
        seen[row[same]] = True
    retired = np.unique(cells[now[~seen[now]]])
    labels[np.isin(labels, retired)] = -1
    return labels, retired, float(seen[now].mean()) if len(now) else 1.0


def as_change(cells: Cells, rows: KnownRows, retired: IntArray, renamed: Array) -> Change:
    """The record of cells made of these rows."""
    inside = cells.labels >= 0
    members = rows[inside]
    added = NewCells(
        cells.means,
        cells.observed,
        cells.counts,
        cells.weights,
        cells.scatter,
        members.keys,
        members.versions,
        members.persons,
        cells.labels[inside],
    )
    settled = rows[~inside].digest()
    return Change(retired, renamed, added, settled, int(cells.held_back.sum()))


def _codes(persons: Array) -> IntArray:
    return np.asarray(np.unique(persons, return_inverse=True)[1], dtype=np.int64)
