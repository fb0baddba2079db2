"""k-median, compared with what defines a median."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize

from unpooled.kernels.lloyd.kmedian import cluster

RNG = np.random.default_rng(0)


def cost(rows: np.ndarray, weights: np.ndarray, centers: np.ndarray) -> float:
    distance = np.sqrt(((rows[:, None] - centers[None]) ** 2).sum(axis=2))
    return float((weights * distance.min(axis=1)).sum())


def find(rows: np.ndarray, weights: np.ndarray, k: int, n_init: int = 3, seed: int = 0):  # type: ignore[no-untyped-def]
    return cluster(rows, weights, k, n_init, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(5))
def test_one_center_is_the_geometric_median(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = rng.normal(size=(30, 3)), rng.uniform(0.5, 2.0, size=30)
    best = minimize(lambda y: cost(rows, weights, y[None]), rows.mean(axis=0), tol=1e-12)
    found = find(rows, weights, 1)
    assert cost(rows, weights, found.centers) <= best.fun * (1 + 1e-9)
    np.testing.assert_allclose(found.centers[0], best.x, atol=1e-5)


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_every_center_is_the_median_of_its_rows(seed: int, k: int, d: int) -> None:
    """No simplex search from the centre finds a place where its rows cost noticeably less."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 6, size=(25, d)).astype(float) + rng.choice([0.0, 0.25], size=(25, d))
    weights = rng.integers(1, 4, size=25).astype(float)
    found = find(rows, weights, k, seed=seed)
    assert np.array_equal(np.bincount(found.labels, weights, len(found.centers)), found.counts)
    for j, center in enumerate(found.centers):
        mine, mass = rows[found.labels == j], weights[found.labels == j]
        cost_at = partial(cost, mine, mass)
        best = minimize(lambda y, cost_at=cost_at: cost_at(y[None]), center, method="Nelder-Mead")
        assert cost_at(center[None]) <= best.fun * (1 + 1e-5) + 1e-9


def test_a_median_that_sits_on_a_row_is_that_row() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.1], [0.0, 1.0], [0.1, -1.0]])
    weights = np.array([5.0, 1.0, 1.0, 1.0, 1.0])
    assert find(rows, weights, 1).centers.tolist() == [[0.0, 0.0]]
    line = np.array([[0.0], [1.0], [10.0]])
    assert find(line, np.ones(3), 1).centers.tolist() == [[1.0]]
    assert find(line, np.array([1.0, 1.0, 3.0]), 1).centers.tolist() == [[10.0]]


def test_an_outlier_hardly_matters() -> None:
    rows = np.concatenate([RNG.normal(size=(50, 2)), [[1e6, 1e6]]])
    assert np.abs(find(rows, np.ones(51), 1).centers).max() < 1.0


def test_the_best_partition_of_few_rows_is_found() -> None:
    rows = np.array([[0.0], [1.0], [1.5], [7.0], [8.0], [20.0], [21.0], [21.5]])
    weights = np.array([1.0, 3.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    best = min(cost(rows, weights, rows[list(c)]) for c in combinations(range(8), 3))
    assert cost(rows, weights, find(rows, weights, 3, 10).centers) == pytest.approx(best)


def test_weights_are_repetitions() -> None:
    rows, times = RNG.normal(size=(12, 2)), np.arange(1, 13)
    heavy = find(rows, times.astype(float), 1).centers
    np.testing.assert_allclose(
        heavy, find(np.repeat(rows, times, axis=0), np.ones(78), 1).centers, atol=1e-6
    )


def test_few_repeated_and_weightless_rows() -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [9.0, 9.0]])
    found = find(rows, np.array([1.0, 1.0, 2.0, 0.0]), 3)
    assert found.centers.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found.labels.tolist() == [0, 1, 0, -1]
    assert found.counts.tolist() == [3.0, 1.0]
    spoilt = np.concatenate([RNG.normal(size=(20, 2)), np.full((3, 2), 1e3)])
    there = np.arange(23) < 20
    with_absent = find(spoilt, there.astype(float), 4)
    assert np.array_equal(with_absent.centers, find(spoilt[:20], np.ones(20), 4).centers)
    assert (with_absent.labels[20:] == -1).all()


def test_size_and_place_do_not_matter() -> None:
    rows = RNG.normal(size=(60, 2)) + RNG.integers(0, 3, size=(60, 1)) * 8
    plain = find(rows, np.ones(60), 3)
    for scale, shift in ((1e-9, 0.0), (1e9, 0.0), (1.0, 1e4)):
        other = find(rows * scale + shift, np.ones(60), 3)
        assert np.array_equal(other.labels, plain.labels)
        np.testing.assert_allclose((other.centers - shift) / scale, plain.centers, atol=1e-5)
