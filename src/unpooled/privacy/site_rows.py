"""A site's rows as its store of cells is given them, and the digests by which it knows them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unpooled.errors import InputError
from unpooled.privacy.cell_change import KnownRows
from unpooled.privacy.cell_history import DIGEST, Origin, digests
from unpooled.text import printable
from unpooled.types import Array, FloatArray, PartyId, in_c_order

_BLOCK = 65536
"""Rows that are copied at a time to be hashed."""


@dataclass(frozen=True)
class SiteRows:
    """What a site knows of its rows."""

    columns: tuple[str, ...]
    rows: FloatArray
    """One line per row; NaN for a missing value."""
    weights: FloatArray
    ids: Sequence[str] | None = None
    """What names each row; without it rows are known by their values."""
    persons: Sequence[str] | None = None
    """Whose each row is; without it each row is a person."""
    mapping: Mapping[str, Any] = field(default_factory=dict)
    """How the columns were read, in what JSON has: names of columns."""
    mostly_changed: bool = False
    """Whether their owner says that most rows may be gone or have other values."""

    def checked(self, party: PartyId) -> SiteRows:
        """The same in one layout; refuses what does not go together."""
        who = f"The rows of {printable(party)}"
        try:
            rows = in_c_order(np.asarray(self.rows, dtype=np.float64))
            weights = in_c_order(np.asarray(self.weights, dtype=np.float64))
        except (TypeError, ValueError):
            raise InputError(f"{who} or their weights are no table of numbers; give one.") from None
        if rows.ndim != 2 or rows.shape[1] != len(self.columns) or not self.columns:
            raise InputError(
                f"{who} have the shape {rows.shape}; give one name for each column, not "
                f"{len(self.columns)}."
            )
        if len(set(self.columns)) < len(self.columns):
            raise InputError(f"{who} have two columns of one name; rename one of them.")
        if weights.ndim != 1:
            raise InputError(
                f"{who} have weights of the shape {weights.shape}; give one number each."
            )
        for what, values in (("weights", weights), ("ids", self.ids), ("persons", self.persons)):
            if values is not None and len(values) != len(rows):
                raise InputError(
                    f"{who} are {len(rows)} and come with {len(values)} {what}; give one for each."
                )
        if np.isinf(rows).any():
            raise InputError(f"{who} have infinite values; correct them or leave them empty.")
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise InputError(f"{who} have weights that are no finite numbers of at least 0.")
        try:
            mapping = json.loads(json.dumps(dict(self.mapping), allow_nan=False))
        except (TypeError, ValueError):
            raise InputError(f"{who} have a mapping of more than JSON has; use text.") from None
        return replace(self, rows=rows, weights=weights, mapping=mapping)


def known_rows(site: SiteRows, origin: Origin) -> KnownRows:
    """The rows in the store's columns, with their digests."""
    if site.columns != origin.columns:
        places = [site.columns.index(name) for name in origin.columns]
        site = replace(site, columns=origin.columns, rows=site.rows[:, places])
    versions = digests(origin.salt, b"values", _values(site))
    persons = None
    if site.persons is not None:
        persons = digests(origin.salt, b"person", map(_text, site.persons))
    names = _numbered(versions, persons) if site.ids is None else map(_text, site.ids)
    keys = digests(origin.salt, b"row", names)
    return KnownRows(site.rows, site.weights, keys, versions, keys if persons is None else persons)


def refuse_repeated(site: SiteRows, party: PartyId) -> None:
    """Refuses rows of which two have one id, by their places: ids are nobody's business."""
    if site.ids is None or len(set(map(str, site.ids))) == len(site.ids):
        return
    first: dict[str, int] = {}
    for place, name in enumerate(map(str, site.ids), start=1):
        if (other := first.setdefault(name, place)) != place:
            raise InputError(
                f"Rows {other} and {place} of {printable(party)} have the same id; give each row "
                "an id of its own, and name the person of several rows by person in the site file."
            )


def _text(name: Any) -> bytes:
    return str(name).encode("utf-8", "surrogatepass")


def _values(site: SiteRows) -> Iterator[bytes]:
    """Each row's numbers and weight as bytes: one for each value, also of zero and of missing."""
    for start in range(0, len(site.rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        block = np.column_stack([site.rows[part], site.weights[part]]) + 0.0
        block[np.isnan(block)] = np.nan
        data, width = block.tobytes(), block.shape[1] * block.itemsize
        yield from (data[at : at + width] for at in range(0, len(data), width))


def _numbered(versions: Array, persons: Array | None) -> Iterator[bytes]:
    """Rows without names: equal ones are numbered, as it does not matter which is which."""
    parts = [values.tobytes() for values in (versions, persons) if values is not None]
    seen: Counter[bytes] = Counter()
    for at in range(0, len(parts[0]), DIGEST):
        line = b"".join(part[at : at + DIGEST] for part in parts)
        yield line + seen[line].to_bytes(8, "little")
        seen[line] += 1
