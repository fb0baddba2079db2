"""The parties' rows: one party's own, as its steps see them, and the table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from unpooled.errors import InputError
from unpooled.parallel import in_chunks
from unpooled.types import FloatArray, IntArray, PartyId, Rows, in_c_order


@dataclass(frozen=True)
class PartyData:
    """One party's own rows, as its steps see them: in C order, whatever they are given in.

    Under a policy with a minimum count the rows are means of cells
    (:mod:`unpooled.privacy.cells`), weighted by what is in each. Steps need not know.
    """

    name: PartyId
    rows: Rows
    weights: FloatArray
    scatter: FloatArray | None = None
    """Where rows are means of cells: Σ w (x - mean)² about these, of each column. It is what the
    means lack of the variance of the rows themselves."""
    cells: IntArray | None = None
    """The cell of each row, where a method must see the rows themselves: whatever it says of single
    clusters must be about whole cells."""
    admitted: bool = False
    """Whether the party's policy has seen to it that these may be handed to a protocol."""
    remark: str = ""
    """What the policy left out of them, in words, for the party's own ledger."""
    store: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the party has made of its rows and could make again; it never leaves the process."""

    def __post_init__(self) -> None:
        if isinstance(self.rows, np.ndarray):
            object.__setattr__(self, "rows", in_c_order(self.rows))
        object.__setattr__(self, "weights", in_c_order(self.weights))


@dataclass(frozen=True)
class Parties:
    """The rows of several parties, one after the other, in C order whatever they are given in.

    Party ``i`` holds ``rows[offsets[i]:offsets[i + 1]]`` with the weights at the same places. One
    table instead of a list of parties lets a host that carries a hundred thousand users work on all
    of them with a handful of array operations.
    """

    names: tuple[PartyId, ...]
    rows: FloatArray
    offsets: IntArray
    weights: FloatArray
    admitted: bool = False
    """As :attr:`PartyData.admitted`, of all parties."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", in_c_order(self.rows))
        object.__setattr__(self, "weights", in_c_order(self.weights))

    @classmethod
    def of(
        cls,
        tables: Sequence[FloatArray],
        *,
        weights: Sequence[FloatArray] | None = None,
        names: Sequence[PartyId] | None = None,
    ) -> Parties:
        """Puts one table per party together; names default to "0", "1", ..., weights to 1."""
        if names is not None and len(set(names)) != len(names):
            raise InputError(f"Two parties have the same name among {sorted(names)}.")
        offsets = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(
            np.int64
        )
        rows = _stacked(tables, offsets)
        return cls(
            names=tuple(names) if names is not None else tuple(map(str, range(len(tables)))),
            rows=rows,
            offsets=offsets,
            weights=np.ones(len(rows))
            if weights is None
            else np.concatenate(weights).astype(np.float64),
        )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, party: int) -> PartyData:
        span = slice(self.offsets[party], self.offsets[party + 1])
        return PartyData(
            self.names[party], self.rows[span], self.weights[span], admitted=self.admitted
        )

    @property
    def n_features(self) -> int:
        return int(self.rows.shape[1])

    @cached_property
    def sizes(self) -> IntArray:
        """Rows of each party."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> IntArray:
        """The party of each row."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.sizes)

    @cached_property
    def total_weights(self) -> FloatArray:
        """The summed weight of each party's rows."""
        return np.bincount(self.owner, weights=self.weights, minlength=len(self)).astype(np.float64)

    def select(self, users: IntArray) -> Parties:
        """The same table for some of the parties, in the given order."""
        if len(users) == len(self) and np.array_equal(users, np.arange(len(self))):
            return self
        spans = [np.arange(self.offsets[i], self.offsets[i + 1]) for i in users]
        taken = np.concatenate(spans) if spans else np.empty(0, dtype=np.int64)
        return Parties(
            names=tuple(self.names[i] for i in users),
            rows=self.rows[taken],
            offsets=np.concatenate([[0], np.cumsum(self.sizes[users])]).astype(np.int64),
            weights=self.weights[taken],
            admitted=self.admitted,
        )


def _stacked(tables: Sequence[FloatArray], offsets: IntArray) -> FloatArray:
    """The tables one below the other, copied on all cores: fresh memory is slow to come by."""
    rows = np.empty((int(offsets[-1]), tables[0].shape[1]))

    def put(span: slice) -> None:
        part = rows[offsets[span.start] : offsets[span.stop]]
        np.concatenate(tables[span], out=part, casting="unsafe")

    in_chunks(put, (len(tables), rows.size // len(tables)))
    return rows
