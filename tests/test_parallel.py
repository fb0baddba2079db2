"""Work in chunks: every row once, in order, on whatever number of cores."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled import FeCA, parallel
from unpooled.kernels.assignment import centers
from unpooled.kernels.lloyd.kmeans import Clustering, scatter_of
from unpooled.parallel import add_in_chunks, in_chunks


@given(rows=st.integers(0, 300), width=st.integers(0, 9), numbers=st.integers(1, 64))
def test_every_row_comes_once_and_in_order(rows: int, width: int, numbers: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "_NUMBERS", numbers)
        parts = in_chunks(lambda span: list(range(rows))[span], (rows, width))
    assert [row for part in parts for row in part] == list(range(rows))


@pytest.mark.bits
@pytest.mark.parametrize("cores", [1, 2, 5])
def test_cores_do_not_change_a_bit(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_NUMBERS", 64)
    rng = np.random.default_rng(0)
    rows, weights, places = rng.normal(size=(500, 7)), rng.random(500), rng.normal(size=(4, 7))
    labels = centers.label(rows, places)
    cost = centers.cost(rows, weights, places, labels)
    monkeypatch.setattr(parallel, "cpu_count", lambda: cores)
    assert np.array_equal(centers.label(rows, places), labels)
    assert centers.cost(rows, weights, places, labels) == cost
    squared = np.square(rows - places[labels]).sum(axis=1)
    assert cost == pytest.approx(float(weights @ squared), rel=1e-12)


@given(
    rows=st.integers(0, 300),
    width=st.integers(0, 9),
    numbers=st.integers(1, 64),
    cores=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50)
def test_sums_are_those_added_in_order(
    rows: int, width: int, numbers: int, cores: int, seed: int
) -> None:
    """To the last bit, and on top of what was there: numbers of all sizes, so that order counts."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(rows, 3)) * 10.0 ** rng.integers(-9, 9, size=(rows, 1))
    total = np.arange(3.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "_NUMBERS", numbers)
        patch.setattr(parallel, "cpu_count", lambda: cores)
        add_in_chunks(total, lambda span: table[span].sum(axis=0), (rows, width))
        parts = in_chunks(lambda span: table[span].sum(axis=0), (rows, width))
    wanted = np.arange(3.0)
    for part in parts:
        wanted += part
    assert np.array_equal(total, wanted)
    assert total == pytest.approx(np.arange(3.0) + table.sum(axis=0), rel=1e-9, abs=1e-3)


class Part(np.ndarray):
    """An array that can be told from others when it goes."""


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_few_parts_are_there_at_a_time(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100, however quickly they are made: at most two for each core, and one being added."""
    monkeypatch.setattr(parallel, "_NUMBERS", 1)
    monkeypatch.setattr(parallel, "cpu_count", lambda: cores)
    lock, there, most = threading.Lock(), 0, 0

    def gone() -> None:
        nonlocal there
        with lock:
            there -= 1

    def work(span: slice) -> np.ndarray:
        nonlocal there, most
        part = np.ones(2).view(Part)
        weakref.finalize(part, gone)
        with lock:
            there += 1
            most = max(most, there)
        return part

    total = np.zeros(2)
    add_in_chunks(total, work, (100, 1))
    assert total.tolist() == [100.0, 100.0]
    assert there == 0
    assert most <= 2 * cores + 1


@pytest.mark.parametrize("cores", [1, 2])
def test_what_fails_in_a_chunk_is_heard(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cpu_count", lambda: cores)

    def fail(span: slice) -> np.ndarray:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        in_chunks(fail, (3_000_000, 1))
    with pytest.raises(ArithmeticError):
        add_in_chunks(np.zeros(1), fail, (3_000_000, 1))


def test_a_bad_number_far_down_is_found() -> None:
    rows = np.random.default_rng(0).normal(size=(1_500_000, 1))
    rows[-1] = np.nan
    with pytest.raises(ValueError, match="Party b has a NaN in column 0"):
        FeCA(2).fit({"a": rows[:10], "b": rows[10:]})


def test_scatter_without_any_centre() -> None:
    nobody = Clustering(np.empty((0, 2)), np.full(3, -1), np.empty(0))
    assert scatter_of(np.ones((3, 2)), np.zeros(3), nobody).tolist() == []
