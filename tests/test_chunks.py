"""Work in chunks: every row once, in order, on whatever number of cores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled import FeCA, chunks
from unpooled.chunks import in_chunks
from unpooled.kernels import centers
from unpooled.kernels.kmeans import Clustering, scatter_of


@given(rows=st.integers(0, 300), width=st.integers(0, 9), numbers=st.integers(1, 64))
def test_every_row_comes_once_and_in_order(rows: int, width: int, numbers: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_NUMBERS", numbers)
        parts = in_chunks(lambda span: list(range(rows))[span], (rows, width))
    assert [row for part in parts for row in part] == list(range(rows))


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_cores_do_not_change_a_bit(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_NUMBERS", 64)
    rng = np.random.default_rng(0)
    rows, weights, places = rng.normal(size=(500, 7)), rng.random(500), rng.normal(size=(4, 7))
    labels = centers.label(rows, places)
    cost = centers.cost(rows, weights, places, labels)
    monkeypatch.setattr(chunks, "cpu_count", lambda: cores)
    assert np.array_equal(centers.label(rows, places), labels)
    assert centers.cost(rows, weights, places, labels) == cost
    squared = np.square(rows - places[labels]).sum(axis=1)
    assert cost == pytest.approx(float(weights @ squared), rel=1e-12)


def test_what_fails_in_a_chunk_is_heard() -> None:
    def fail(span: slice) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        in_chunks(fail, (3_000_000, 1))


def test_a_bad_number_far_down_is_found() -> None:
    rows = np.random.default_rng(0).normal(size=(1_500_000, 1))
    rows[-1] = np.nan
    with pytest.raises(ValueError, match="Party b has a NaN in column 0"):
        FeCA(2).fit({"a": rows[:10], "b": rows[10:]})


def test_scatter_without_any_centre() -> None:
    nobody = Clustering(np.empty((0, 2)), np.full(3, -1), np.empty(0))
    assert scatter_of(np.ones((3, 2)), np.zeros(3), nobody).tolist() == []
