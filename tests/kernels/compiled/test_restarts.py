"""Compiled k-means with restarts: that of plain loops, and of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.cluster import KMeans

from unpooled import parallel
from unpooled.kernels.compiled import restarts
from unpooled.kernels.lloyd import kmeans
from unpooled.kernels.lloyd.kmeans import Clustering, cluster
from unpooled.types import FloatArray, IntArray


def squared(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """(n, K), columns added up in pairs: up to eight of them in the kernel's order."""
    parts = [(rows[:, j, None] - centers[:, j]) ** 2 for j in range(rows.shape[1])]
    while len(parts) > 1:
        parts = [sum(parts[i + 1 : i + 2], parts[i]) for i in range(0, len(parts), 2)]
    return np.asarray(parts[0])


def total(values: FloatArray) -> float:
    """One after the other."""
    return float(np.cumsum(values)[-1])


def plain_seeds(
    rows: FloatArray, weights: FloatArray, draws: FloatArray, first: int, n_clusters: int
) -> list[int]:
    trials = 2 + int(math.log(n_clusters))
    chosen, gaps = [first], squared(rows, rows[[first]])[:, 0]
    for k in range(n_clusters - 1):
        heights = np.cumsum(weights * gaps)
        wanted = draws[1 + k * trials : 1 + (k + 1) * trials] * heights[-1]
        drawn = np.minimum(np.searchsorted(heights, wanted), len(rows) - 1)
        after = np.minimum(gaps[:, None], squared(rows, rows[drawn]))
        best = int(np.argmin([total(weights * after[:, i]) for i in range(trials)]))
        chosen.append(int(drawn[best]))
        gaps = after[:, best]
    return chosen


def plain_lloyd(
    rows: FloatArray, weights: FloatArray, centers: FloatArray, tol: float
) -> tuple[IntArray, float]:
    """Lloyd's iteration that measures everything, as scikit-learn ends it."""
    centers, before = centers.copy(), np.full(len(rows), -1)
    for _ in range(300):
        labels = squared(rows, centers).argmin(axis=1)
        settled = np.array_equal(labels, before)
        own = squared(rows, centers)[np.arange(len(rows)), labels]
        for k in np.setdiff1d(np.arange(len(centers)), labels):
            if own.max() > 0:
                labels[own.argmax()] = k
                own[own.argmax()] = -1
        old = centers.copy()
        for k in np.unique(labels):
            mine, w = rows[labels == k], weights[labels == k]
            centers[k] = [total(w * mine[:, j]) / total(w) for j in range(rows.shape[1])]
        before = labels
        if settled or np.square(centers - old).sum() <= tol:
            break
    if not settled:
        labels = squared(rows, centers).argmin(axis=1)
    return labels, total(weights * squared(rows, centers)[np.arange(len(rows)), labels])


def plain(
    rows: FloatArray, weights: FloatArray, draws: FloatArray, first: IntArray, n_clusters: int
) -> tuple[list[IntArray], list[float]]:
    """The labels and the cost of every start."""
    rows = rows - rows.mean(axis=0)
    tol = 1e-4 * float(np.square(rows).mean())
    found = []
    for own, place in zip(draws, first, strict=True):
        chosen = plain_seeds(rows, weights, own, int(place), n_clusters)
        found.append(plain_lloyd(rows, weights, rows[chosen], tol))
    return [labels for labels, _ in found], [cost for _, cost in found]


def drawn(n: int, n_clusters: int, n_init: int, seed: int) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(seed)
    width = 1 + (n_clusters - 1) * (2 + int(math.log(n_clusters)))
    return rng.random((n_init, width)), rng.integers(n, size=n_init)


def compiled(
    rows: FloatArray, weights: FloatArray, draws: FloatArray, first: IntArray, n_clusters: int
) -> tuple[IntArray, FloatArray]:
    rows = rows - rows.mean(axis=0)
    tol = 1e-4 * float(np.square(rows).mean())
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 8)))
    return restarts.all_starts(padded, weights, n_clusters, draws, first, tol)


def blobs(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    return np.asarray(
        rng.normal(size=(n, d)) + 4 * rng.normal(size=(5, d))[rng.integers(5, size=n)]
    )


def grid(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Many rows equally far from each other, and copies."""
    return rng.integers(-2, 3, size=(n, d)).astype(float)


def far_pairs(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Distances of very different sizes."""
    return np.asarray(rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 6, size=(n, 1)))


TABLES: dict[str, Callable[[int, int, np.random.Generator], FloatArray]] = {
    "blobs": blobs,
    "noise": lambda n, d, rng: rng.normal(size=(n, d)),
    "grid": grid,
    "pairs": far_pairs,
    "far away": lambda n, d, rng: blobs(n, d, rng) + 1e6,
    "tiny": lambda n, d, rng: 1e-158 * blobs(n, d, rng),
    "huge": lambda n, d, rng: 1e140 * blobs(n, d, rng),
    "equal": lambda n, d, rng: np.ones((n, d)),
}


@pytest.mark.parametrize("name", TABLES)
def test_same_as_plain_loops(name: str) -> None:
    for seed, (n, d, n_clusters) in enumerate([(64, 2, 5), (32, 3, 12), (64, 1, 3), (9, 8, 8)]):
        rng = np.random.default_rng(seed)
        rows = TABLES[name](n, d, rng)
        for weights in (np.ones(n), rng.integers(1, 5, size=n) / 4.0, rng.random(n) + 1e-3):
            draws, first = drawn(n, n_clusters, 2, seed)
            labels, costs = compiled(rows, weights, draws, first, n_clusters)
            expected, cost = plain(rows, weights, draws, first, n_clusters)
            assert np.array_equal(labels, expected)
            assert np.allclose(costs, cost, rtol=1e-12, atol=0)


def test_same_as_plain_loops_on_wide_rows() -> None:
    for d in (19, 30):
        rng = np.random.default_rng(d)
        rows, weights = blobs(60, d, rng), rng.random(60) + 0.1
        draws, first = drawn(60, 7, 2, d)
        labels, costs = compiled(rows, weights, draws, first, 7)
        expected, cost = plain(rows, weights, draws, first, 7)
        assert np.array_equal(labels, expected)
        assert np.allclose(costs, cost, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n_clusters", [2, 4])
def test_empty_clusters_get_the_farthest_rows_as_in_scikit_learn(n_clusters: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, weights = rng.normal(size=(40, 2)), rng.random(40) + 0.1
        # What is lowest is drawn, which is the first row every time.
        draws, first = drawn(40, n_clusters, 1, seed)
        labels, costs = compiled(rows, weights, 0 * draws, 0 * first, n_clusters)
        expected, _ = plain(rows, weights, 0 * draws, 0 * first, n_clusters)
        assert np.array_equal(labels, expected)
        model = KMeans(n_clusters, init=rows[[0] * n_clusters], n_init=1)
        model.fit(rows, sample_weight=weights)
        assert len(set(zip(labels[0], model.labels_, strict=True))) == n_clusters
        assert costs[0] == pytest.approx(model.inertia_, rel=1e-9)


def both_ways(
    monkeypatch: pytest.MonkeyPatch,
    rows: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    n_init: int,
    seed: int,
) -> tuple[Clustering, Clustering]:
    """Compiled and by scikit-learn."""
    found = []
    for limit in (0.0, math.inf):
        monkeypatch.setattr(kmeans, "WORTH_COMPILING", limit)
        rng = np.random.default_rng(seed)
        found.append(cluster(rows, weights, n_clusters, n_init, rng))
    return found[0], found[1]


@pytest.mark.parametrize("shape", [(80, 3, 6), (50, 8, 20), (90, 2, 1), (200, 5, 3)])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_same_as_scikit_learn(
    shape: tuple[int, int, int], offset: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, d, n_clusters = shape
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows, weights = blobs(n, d, rng) + offset, rng.random(n)
        weights[::7] = 0.0
        ours, theirs = both_ways(monkeypatch, rows, weights, n_clusters, 4, seed)
        assert np.array_equal(ours.labels, theirs.labels)
        assert np.allclose(ours.centers, theirs.centers, rtol=1e-9, atol=0)
        assert np.array_equal(ours.counts, theirs.counts)


def test_as_good_as_scikit_learn_where_ties_are_broken_by_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows, weights = grid(60, 2, rng), np.ones(60)
        pair = both_ways(monkeypatch, rows, weights, 6, 5, seed)
        ours, theirs = (float(kmeans.scatter_of(rows, weights, found).sum()) for found in pair)
        assert ours == pytest.approx(theirs, rel=0.1)
        assert len(pair[0].centers) == 6


@pytest.mark.parametrize(
    ("rows", "n_clusters"),
    [
        (np.ones((20, 3)), 4),
        (np.repeat(np.arange(6.0).reshape(3, 2), 5, axis=0), 4),
        (np.repeat(np.arange(8.0).reshape(4, 2), 5, axis=0), 4),
        (np.repeat(np.arange(10.0).reshape(5, 2), 5, axis=0), 4),
        (np.ones((1, 2)), 1),
        (np.arange(14.0).reshape(7, 2), 1),
    ],
)
def test_few_rows(rows: FloatArray, n_clusters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = both_ways(monkeypatch, rows, np.ones(len(rows)), n_clusters, 3, 0)
    assert np.array_equal(ours.labels, theirs.labels)
    assert np.array_equal(ours.centers, theirs.centers)


def test_compiled_where_all_tables_together_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(30, 2)), np.ones(30)
    calls = []

    def best_labels(*arguments: object) -> IntArray:
        calls.append(arguments)
        return np.arange(30) % 3

    monkeypatch.setattr(restarts, "best_labels", best_labels)
    monkeypatch.setattr(kmeans, "WORTH_COMPILING", 3 * 4 * 10)
    for tables, worth_it in ((1, False), (9, False), (10, True), (10_000, True)):
        calls.clear()
        cluster(rows, weights, 3, 4, rng, tables=tables)
        assert bool(calls) == worth_it
    monkeypatch.setattr(kmeans, "_LONG", 29)
    calls.clear()
    cluster(rows, weights, 3, 4, rng, tables=10_000)
    assert not calls


def test_same_numbers_on_one_core_and_on_two(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows, weights = blobs(70, 9, rng), rng.random(70) + 0.1
    draws, first = drawn(70, 6, 5, 0)
    found = []
    for cores, numbers in ((1, 1), (2, 1), (2, 1 << 20)):
        monkeypatch.setattr(parallel, "cpu_count", lambda cores=cores: cores)
        monkeypatch.setattr(parallel, "_NUMBERS", numbers)
        labels, costs = compiled(rows, weights, draws, first, 6)
        found.append((labels.tobytes(), costs.tobytes()))
    assert found[0] == found[1] == found[2]
