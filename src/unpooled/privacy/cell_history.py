"""What a store of cells remembers: every cell ever made, its rows and persons, and which retired.

One record per change: a header in JSON, and arrays. Rows, their values and persons are kept as
salted SHA-256 digests of 16 bytes. So no value of a row can be read in the file, nor can two stores
be matched; whoever has the file and guesses an id right can find it confirmed, as with the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from unpooled.errors import WireError
from unpooled.messages.codec import decode_state, encode_state
from unpooled.privacy.cell_log import LogDamaged
from unpooled.types import Array, BoolArray, FloatArray, IntArray

DIGEST = 16
_CELLS = ("means", "observed", "counts", "weights", "scatter")
_WIDE = ("means", "observed")
_NAMES = ("keys", "versions", "persons")
_WHOLE = ("observed", "counts")
_OTHERS = "the records are not those of a store of cells"


@dataclass(frozen=True)
class Origin:
    """What a store was begun with, and keeps."""

    store: str
    """Its random name."""
    party: str
    salt: str
    """In hex."""
    columns: tuple[str, ...]
    mapping: Mapping[str, Any]
    min_count: int
    ids: bool
    """Whether rows are known by names, not by their values."""
    persons: bool
    """Whether rows say whose they are; else each is a person."""
    replaces: tuple[str, ...] = ()
    """The stores that the owner replaced by this one on purpose."""


@dataclass(frozen=True)
class NewCells:
    """Cells that are added together, with the rows that are in them."""

    means: FloatArray
    observed: IntArray
    counts: IntArray
    weights: FloatArray
    scatter: FloatArray
    """One number per column: the total over these cells."""
    keys: Array
    """Digests by which the rows are known again."""
    versions: Array
    """Digests of their values and weights."""
    persons: Array
    """Digests of whose they are; those of the rows where each row is a person."""
    cells: IntArray
    """The cell of each row."""

    @classmethod
    def none(cls, n_columns: int) -> NewCells:
        """No cells."""
        wide, digests = np.empty((0, n_columns)), np.empty(0, f"S{DIGEST}")
        whole, nothing = np.empty(0, np.int64), np.zeros(n_columns)
        observed = wide.astype(np.int64)
        return cls(wide, observed, whole, np.empty(0), nothing, digests, digests, digests, whole)


@dataclass(frozen=True)
class Change:
    """One record: what a change of the rows did to the cells."""

    retired: IntArray
    """Numbers of earlier cells, one of whose rows is gone or has changed."""
    spent: Array
    """Digests of persons who are not fresh, though in no cell under this name."""
    added: NewCells
    settled: str
    """Digest of the rows that are in no cell afterwards: the same ones are not tried again."""
    held_back: int
    """How many of these would have stood out in a cell."""


@dataclass
class History:
    """Everything up to a record, in the order in which it was written."""

    origin: Origin
    changes: list[Change] = field(default_factory=list)

    def add(self, change: Change) -> None:
        """Takes a further change."""
        self.changes.append(change)

    def joined(self, name: str) -> Array:
        """An array of all cells, or of all rows that were ever in one."""
        return np.concatenate([getattr(change.added, name) for change in self.changes])

    @property
    def scatter(self) -> FloatArray:
        """One total per column over the cells in use: what was found of all cells that were ever
        made, by the share of weight that is still in use.

        The sum over the cells in use would be another one without a cell that retires, and the
        difference is that cell's, of which one row may be nearly all.
        """
        weights = self.joined("weights")[:, None] * (self.joined("observed") > 0)
        everything, used = weights.sum(axis=0), weights[self.active].sum(axis=0)
        share = np.divide(used, everything, out=np.zeros_like(used), where=everything > 0)
        found = np.sum([change.added.scatter for change in self.changes], axis=0)
        return np.asarray(share * found)

    @property
    def cell_of_row(self) -> IntArray:
        """The cell of each row ever in one, numbered over all records."""
        firsts = np.cumsum([0, *(len(change.added.counts) for change in self.changes)])
        parts = [c.added.cells + first for c, first in zip(self.changes, firsts, strict=False)]
        return np.concatenate(parts)

    @property
    def active(self) -> BoolArray:
        """Which cells are still in use."""
        active = np.ones(sum(len(change.added.counts) for change in self.changes), bool)
        for change in self.changes:
            active[change.retired] = False
        return active

    @property
    def spent(self) -> Array:
        """Digests of all persons who are not fresh."""
        return np.concatenate([self.joined("persons"), *(c.spent for c in self.changes)])


def digests(salt: str, kind: bytes, items: Iterable[bytes]) -> Array:
    """Salted digests, as an array of 16 bytes each that can be sorted and compared."""
    start = bytes.fromhex(salt) + kind
    found = b"".join([sha256(start + item).digest()[:DIGEST] for item in items])
    return np.frombuffer(found, f"S{DIGEST}")


def payload(change: Change, origin: Origin | None) -> bytes:
    """A record's bytes; the first one has the origin of the store."""
    header: dict[str, Any] = {"settled": change.settled, "held_back": change.held_back}
    if origin is not None:
        header["origin"] = vars(origin)
    text = json.dumps(header).encode()
    arrays: dict[str, Array] = {"retired": change.retired, "spent": _as_bytes(change.spent)}
    for name, value in vars(change.added).items():
        arrays[name] = _as_bytes(value) if name in _NAMES else np.ascontiguousarray(value)
    return len(text).to_bytes(8, "little") + text + encode_state(arrays)


def _as_bytes(values: Array) -> Array:
    return np.frombuffer(values.tobytes(), np.uint8).reshape(len(values), DIGEST)


def read_history(payloads: Sequence[memoryview]) -> History:
    """What the records say; :class:`LogDamaged` where they are not what this module writes."""
    history: History | None = None
    for number, data in enumerate(payloads):
        try:
            header, body = _parts(data)
            if history is None:
                history = History(_origin(header.pop("origin")))
            history.add(_change(header, body, history))
        except (KeyError, TypeError, ValueError, RecursionError, WireError):
            raise LogDamaged(f"has a record ({number}) that no store of cells writes") from None
    if history is None:
        raise LogDamaged("has no record")
    return history


def _parts(data: memoryview) -> tuple[dict[str, Any], Mapping[str, Array]]:
    length = int.from_bytes(data[:8], "little")
    _require(length <= len(data) - 8)
    header = json.loads(bytes(data[8 : 8 + length]))
    _require(isinstance(header, dict))
    return header, decode_state(data[8 + length :])


def _require(condition: Any) -> None:
    if not condition:
        raise ValueError(_OTHERS)


def _origin(values: dict[str, Any]) -> Origin:
    lists = {name: tuple(values[name]) for name in ("columns", "replaces")}
    origin = Origin(**{**values, **lists})
    texts = (origin.store, origin.party, origin.salt, *origin.columns, *origin.replaces)
    _require(all(isinstance(text, str) for text in texts))
    _require(len(bytes.fromhex(origin.salt)) >= DIGEST)
    _require(isinstance(origin.mapping, dict) and type(origin.min_count) is int)
    _require(origin.min_count >= 1 and len(set(origin.columns)) == len(origin.columns) > 0)
    _require(isinstance(origin.ids, bool) and isinstance(origin.persons, bool))
    return origin


def _change(header: dict[str, Any], body: Mapping[str, Array], history: History) -> Change:
    _require(set(header) == {"settled", "held_back"} and type(header["held_back"]) is int)
    _require(isinstance(header["settled"], str) and header["held_back"] >= 0)
    _require(set(body) == {"retired", "spent", "cells", *_CELLS, *_NAMES})
    values = {name: _digests(body[name]) for name in _NAMES}
    values |= {name: body[name] for name in ("cells", *_CELLS)}
    added, retired = NewCells(**values), body["retired"]
    _check_cells(added, history.origin)
    before = history.active if history.changes else np.empty(0, bool)
    _require(retired.dtype == np.int64 and retired.ndim == 1)
    _require(len(np.unique(retired)) == len(retired))
    _require(((retired >= 0) & (retired < len(before))).all() and before[retired].all())
    return Change(retired, _digests(body["spent"]), added, header["settled"], header["held_back"])


def _digests(values: Array) -> Array:
    _require(values.dtype == np.uint8 and values.ndim == 2 and values.shape[1] == DIGEST)
    return np.frombuffer(values.tobytes(), f"S{DIGEST}")


def _check_cells(added: NewCells, origin: Origin) -> None:
    """That the arrays go together: one line per cell, one digest per row, no cell too small."""
    n_cells, n_rows, width = len(added.counts), len(added.keys), len(origin.columns)
    for name in _CELLS:
        value = getattr(added, name)
        _require(value.dtype == (np.int64 if name in _WHOLE else np.float64))
        shape = (width,) if name == "scatter" else (n_cells,)
        _require(value.shape == ((n_cells, width) if name in _WIDE else shape))
    _require(added.cells.dtype == np.int64 and added.cells.shape == (n_rows,))
    _require(len(added.versions) == n_rows and len(added.persons) == n_rows)
    _require(((added.cells >= 0) & (added.cells < n_cells)).all())
    _require((np.bincount(added.cells, minlength=n_cells) == added.counts).all())
    _require((added.counts >= origin.min_count).all())
    _require(np.isfinite(added.weights).all() and (added.weights > 0).all())
    _require((np.isfinite(added.means) == (added.observed > 0)).all())
    _require(np.isfinite(added.scatter).all() and (added.scatter >= 0).all())
    _require((added.observed >= 0).all())
