"""Steps of every star protocol take rows that are no array, and go through them in chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.conformance.test_protocols import TABLE
from unpooled import parallel
from unpooled.data.parties import Parties, PartyData
from unpooled.data.rows import MappedRows, SelectedRows
from unpooled.errors import PolicyRefusal, UnpooledError
from unpooled.messages.codec import encode
from unpooled.messages.message import Ask
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Policy
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.coordinator import CoordinatorRuntime
from unpooled.runtime.party import PartyRuntime

STAR = {name: own for name, own in TABLE.items() if isinstance(own, StarProtocol)}
BY_CHUNKS = {
    "federated k-means, given start",
    "kernel k-means",
    "kernel k-means, dspgd",
    "kernel k-means, dspgd, not compressed",
    "kernel k-means, lloyd",
    "moments",
    "random features",
}
"""Methods none of whose steps needs all rows at once, but as they are mapped."""


@dataclass
class Source:
    """Nothing but a shape, slices, and rows by their numbers."""

    table: np.ndarray
    largest: int = 0
    """Rows that were asked for at once."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.shape  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, span: slice) -> np.ndarray:
        assert isinstance(span, slice)
        return self._given(self.table[span])

    def take(self, indices: np.ndarray) -> np.ndarray:
        return self._given(self.table[indices])

    def _given(self, rows: np.ndarray) -> np.ndarray:
        self.largest = max(self.largest, len(rows))
        return rows.copy()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError("a step made an array of all rows by itself")

    def __iter__(self) -> Any:
        raise AssertionError("a step went through single rows")


def parties() -> Parties:
    rng = np.random.default_rng(0)
    corners = rng.uniform(1.0, 9.0, size=(3, 2))
    sizes = (40, 25, 60)
    tables = [corners[rng.integers(3, size=n)] + rng.uniform(size=(n, 2)) for n in sizes]
    weights = [np.append(rng.uniform(0.5, 2.0, size=n - 1), 0.0) for n in sizes]
    return Parties.of(tables, weights=weights)


def transcript(
    protocol: StarProtocol, data: list[PartyData], policy: Policy
) -> tuple[list[bytes], Any]:
    """All replies, as bytes, and the result."""
    own = [PartyRuntime(protocol, party, (5, i), policy) for i, party in enumerate(data)]
    coordinator = CoordinatorRuntime(protocol, len(own), 5)
    sent = []
    ask: Ask | None = coordinator.begin()
    while ask is not None:
        replies = {party.data.name: party.answer(ask, coordinator.exchange) for party in own}
        sent += [encode(reply) for reply in replies.values() if reply is not None]
        ask = coordinator.answered({n: r.body for n, r in replies.items() if r is not None})
    return sent, coordinator.result


@pytest.mark.parametrize("policy", [STUDY, DEPLOYMENT], ids=["study", "deployment"])
@pytest.mark.parametrize("name", [name for name in STAR if name != "toy star"])
def test_rows_may_be_anything_that_gives_slices(name: str, policy: Policy) -> None:
    tables = parties()
    plain = [tables[i] for i in range(len(tables))]
    sources = [replace(own, rows=Source(own.rows)) for own in plain]  # type: ignore[arg-type]
    try:
        expected, result = transcript(STAR[name], plain, policy)
    except PolicyRefusal:
        with pytest.raises(UnpooledError):
            transcript(STAR[name], sources, policy)
        return
    found, again = transcript(STAR[name], sources, policy)
    assert found == expected
    for key, value in result.items():
        assert np.array_equal(value, again[key]), key


@pytest.mark.parametrize("name", sorted(BY_CHUNKS))
def test_no_more_rows_are_asked_for_than_a_chunk_has(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_NUMBERS", 20)
    tables = parties()
    sources = [replace(tables[i], rows=Source(tables[i].rows)) for i in range(3)]  # type: ignore[arg-type]
    transcript(STAR[name], sources, STUDY)
    assert max(own.rows.largest for own in sources) <= 10  # type: ignore[union-attr]


def test_mapped_and_selected_rows() -> None:
    table = np.arange(12.0).reshape(6, 2)
    doubled = MappedRows(Source(table), lambda rows: np.hstack([rows, 2 * rows]), 4)
    some = SelectedRows(doubled, np.array([4, 1, 3]))
    assert (doubled.shape, some.shape) == ((6, 4), (3, 4))
    assert (len(doubled), len(some)) == (6, 3)
    whole = np.hstack([table, 2 * table])
    assert np.array_equal(doubled[1:3], whole[1:3])
    assert np.array_equal(doubled.all(), whole)
    assert np.array_equal(some[:2], whole[[4, 1]])
    assert np.array_equal(some.take(np.array([2, 0])), whole[[3, 4]])
    assert MappedRows(table, lambda rows: rows).shape == (6, 2)
