"""The entrance of a party with a minimum count: what protocols are given of its rows.

The policy acts here, once, and nowhere else: a method that is handed means of cells cannot let out
anything about fewer persons, whatever it computes, sends or is asked.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.data.rows import SelectedRows
from unpooled.errors import StateError
from unpooled.privacy.cell_store import ANEW, CellStore, Stored, first_cells
from unpooled.privacy.site_rows import SiteRows
from unpooled.types import all_rows


def entered(
    data: PartyData,
    min_count: int,
    store: CellStore | None,
    site: SiteRows | None,
    columns: tuple[str, ...] | None,
    *,
    needs_rows: bool,
) -> PartyData:
    """The means of the party's cells as rows, with what is in each as weights.

    A method that must see rows is given those that are in cells, with their cells.
    """
    found = _cells(data, min_count, store, site)
    data = replace(data, admitted=True, remark=left_out(found))
    if needs_rows:
        inside = np.flatnonzero(found.labels >= 0)
        rows = SelectedRows(data.rows, inside)
        return replace(data, rows=rows, weights=data.weights[inside], cells=found.labels[inside])
    wanted = found.columns if columns is None else columns
    missing = [column for column in wanted if column not in found.columns]
    if missing or (columns is None and len(wanted) != data.rows.shape[1]):
        raise StateError(
            f"The cells of {data.name} are made of {', '.join(found.columns)}, and this run is "
            f"about {data.rows.shape[1]} columns, among them others; leave those out of it, or "
            f"{ANEW}."
        )
    places = [found.columns.index(column) for column in wanted]
    means, scatter = found.means[:, places], found.scatter[places]
    return replace(data, rows=means, weights=found.weights, scatter=scatter)


def _cells(
    data: PartyData, min_count: int, store: CellStore | None, site: SiteRows | None
) -> Stored:
    if site is None:
        columns = tuple(f"column {i}" for i in range(1, data.rows.shape[1] + 1))
        site = SiteRows(columns, all_rows(data.rows), data.weights)
    if store is None:
        return first_cells(site, min_count, data.name)
    return store.update(site, min_count)


def left_out(found: Stored) -> str:
    """What was left out, in words; nothing if nothing was."""
    n_rows = found.in_cells + found.waiting + found.held_back
    if not found.in_cells:
        return (
            f"takes no part: its {n_rows} rows do not make a cell of {found.min_count} persons, "
            "its minimum count"
        )
    parts = []
    if found.waiting:
        parts.append(f"{found.waiting} of {n_rows} rows waiting for {found.min_count} new persons")
    if found.held_back:
        parts.append(
            f"{found.held_back} of {n_rows} rows held back, each of which would stand out in a cell"
        )
    return "; ".join(parts)
