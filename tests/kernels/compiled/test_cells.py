"""Compiled grouping of rows into cells: its parts beside plain loops, and where it ends."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from unpooled.kernels.compiled import cells as grouping
from unpooled.kernels.compiled.ahead import compile_cells
from unpooled.kernels.compiled.cell_cuts import split
from unpooled.kernels.compiled.cell_merges import merge_dominated
from unpooled.kernels.compiled.cell_moves import refine
from unpooled.kernels.compiled.cells import Blocks

RNG = np.random.default_rng(0)
N = 60


def scatter(rows: Any, weights: Any, labels: Any) -> float:
    """Σ w |x - mean|² over cells."""
    total = 0.0
    for c in np.unique(labels):
        x, w = rows[labels == c].astype(float), weights[labels == c]
        total += float((w[:, None] * (x - np.average(x, axis=0, weights=w)) ** 2).sum())
    return total


def table(n: int = N, d: int = 3) -> tuple[Any, Any, Any]:
    rows = RNG.normal(size=(n, d)).astype(np.float32)
    rows -= rows.mean(axis=0)
    return rows, np.ones(n), np.ones(n, dtype=bool)


def all_cells(blocks: Blocks, n: int) -> Any:
    labels = np.full(n, -1)
    blocks.group(np.arange(len(blocks)), np.ones(n, dtype=bool), labels)
    return labels


def made(rows: Any, weights: Any, fresh: Any, min_count: int) -> Blocks:
    among = np.ones(len(rows), dtype=bool)
    return Blocks.of(rows, np.ones(rows.shape[1]), weights, fresh, among, min_count)


def best_of_plain_cuts(rows: Any, min_count: int) -> float:
    """What the best allowed cut along the first principal component takes off the scatter."""
    centred = rows.astype(float) - rows.mean(axis=0)
    order = np.argsort(centred @ np.linalg.svd(centred)[2][0], kind="stable")
    halves = (np.isin(np.arange(len(rows)), order[:at]) for at in range(min_count, len(rows)))
    allowed = (half for half in halves if (~half).sum() >= min_count)
    whole = scatter(rows, np.ones(len(rows)), np.zeros(len(rows)))
    return max(whole - scatter(rows, np.ones(len(rows)), half) for half in allowed)


@pytest.mark.parametrize("spread", [3.0, 1.5])
def test_a_cut_is_as_good_as_the_best_along_the_principal_component(spread: float) -> None:
    rows, *others = table()
    rows[:, 1] *= spread
    order = np.arange(N)
    starts = split(rows, *others, order, 5, N - 1)
    assert len(starts) == 3
    right = np.isin(np.arange(N), order[starts[1] :])
    gain = scatter(rows, others[0], np.zeros(N)) - scatter(rows, others[0], right)
    assert gain >= best_of_plain_cuts(rows, 5) * 0.99


def test_splits_leave_enough_in_every_set_and_lose_no_row() -> None:
    rows, _, fresh = table()
    weights, order = RNG.integers(1, 4, N).astype(float), np.arange(N)
    starts = split(rows, weights, fresh, order, 4, 0)
    assert sorted(order) == list(range(N))
    assert len(starts) > 5
    for low, high in pairwise(starts):
        members = order[low:high]
        masses = weights[members]
        assert masses.sum() ** 2 / (masses**2).sum() >= 4 - 1e-6
        assert masses.max() <= masses.sum() / 2 + 1e-6
        assert (np.diff(members) > 0).all()


@pytest.mark.parametrize("plain", [True, False])
def test_no_move_of_one_row_and_no_exchange_would_help_any_more(plain: bool) -> None:
    rows, weights, fresh = table(40)
    cells = np.arange(40) % 8
    before = scatter(rows, weights, cells)
    refine(rows, weights, fresh, cells, 8, 5, plain)
    now, counts = scatter(rows, weights, cells), np.bincount(cells)
    assert now < 0.5 * before
    assert counts.min() >= 5
    for r in range(40):
        for s in range(40):
            other = cells.copy()
            other[r], other[s] = cells[s], cells[r]
            assert scatter(rows, weights, other) >= now - 1e-4
        for c in range(len(counts)):
            if counts[cells[r]] > 5:
                other = cells.copy()
                other[r] = c
                assert scatter(rows, weights, other) >= now - 1e-4


def test_what_is_plain_is_grouped_as_by_the_general_rules() -> None:
    rows, weights, fresh = table(50)
    found = []
    for plain in (True, False):
        cells = np.arange(50) % 5
        refine(rows, weights, fresh, cells, 5, 5, plain)
        found.append(cells)
    assert np.array_equal(*found)


def test_grown_cells_are_cut() -> None:
    rows, weights, fresh = table(40)
    cells = np.zeros(40, dtype=np.int64)
    assert refine(rows, weights, fresh, cells, 1, 5, True) >= 4


def test_small_cells_that_a_row_dominates_are_merged_and_outliers_are_not() -> None:
    rows = np.array([[0, 1, 3, 4, 5, 6, 100, 101, 130]], dtype=np.float32).T
    cells = np.repeat([0, 1, 2], 3)
    merge_dominated(rows - rows.mean(), np.ones(9), cells, 3)
    assert len(set(cells[:6])) == 1
    assert set(cells[6:]) == {2}


def test_blocks_are_grouped_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "BLOCK", 30)
    blocks = made(*table(100), 5)
    assert len(blocks) >= 4
    labels = all_cells(blocks, 100)
    assert np.bincount(labels)[np.unique(labels)].min() >= 5
    lost = np.arange(100) == blocks.order[0]
    (dirty,) = blocks.holding(lost)
    again = labels.copy()
    blocks.group(np.array([dirty]), ~lost, again)
    inside = blocks.order[blocks.starts[dirty] : blocks.starts[dirty + 1]]
    outside = np.setdiff1d(np.arange(100), inside)
    assert again[lost] == -1
    assert (again[inside][~lost[inside]] >= 0).all()
    assert np.array_equal(again[outside], labels[outside])
    few = np.isin(np.arange(100), inside[:4])
    blocks.group(np.array([dirty]), few, again)
    assert (again[inside] == -1).all()


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_cells_compile_nothing_more() -> None:
    compile_cells()
    known = [len(f.signatures) for f in (split, grouping._cells_of_block, merge_dominated)]
    all_cells(made(*table(), 3), N)
    rows, _, fresh = table()
    all_cells(made(rows, RNG.random(N), fresh, 3), N)
    now = [len(f.signatures) for f in (split, grouping._cells_of_block, merge_dominated)]
    assert now == known
