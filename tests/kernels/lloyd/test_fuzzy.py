"""Fuzzy c-means in one pass over chunks of rows is that of whole matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from unpooled import parallel
from unpooled.kernels.lloyd.fuzzy import fuzzy_c_means, memberships


def plain_memberships(rows: np.ndarray, centers: np.ndarray, m: float) -> np.ndarray:
    squared = cdist(rows, centers, "sqeuclidean")
    nearest = squared.min(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        closeness = (nearest / squared) ** (1.0 / (m - 1.0))
    closeness = np.where(nearest > 0, closeness, squared == 0)
    return closeness / closeness.sum(axis=1, keepdims=True)


def plain(
    rows: np.ndarray, weights: np.ndarray, centers: np.ndarray, m: float, steps: int, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(steps):
        degrees = weights[:, None] * plain_memberships(rows, centers, m) ** m
        support = degrees.sum(axis=0)
        filled = support > 0
        fresh = centers.copy()
        fresh[filled] = (degrees.T @ rows)[filled] / support[filled, None]
        moved = np.sqrt(((fresh - centers) ** 2).sum(axis=1).max())
        centers = fresh
        if moved <= tol:
            break
    return centers, support


def worlds() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows, weights and centres to start from."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3)) + 4.0 * rng.integers(3, size=(60, 1))
    ones, start = np.ones(60), rows[:4] + 0.1
    some = np.where(rng.random(60) < 0.3, 0.0, rng.uniform(0.1, 3.0, size=60))
    repeated = rows[rng.integers(5, size=60)]
    wide = rng.normal(size=(40, 70))
    return {
        "plain": (rows, ones, start),
        "weights, some of them zero": (rows, some, start),
        "no weight at all": (rows, np.zeros(60), start),
        "rows on centres": (repeated, ones, repeated[[0, 1, 7, 9]]),
        "centres that coincide": (rows, ones, rows[[3, 3, 5, 5]]),
        "a centre far off": (rows, ones, np.vstack([start, [[1e6, -1e6, 1e6]]])),
        "far from zero": (rows + 1e6, ones, start + 1e6),
        "all rows equal": (np.full((9, 2), 0.1), np.ones(9), np.array([[0.1, 0.1], [3.0, 4.0]])),
        "one row": (rows[:1], ones[:1], start),
        "one centre": (rows, ones, start[:1]),
        "wide": (wide, np.ones(40), wide[:3] + 0.01),
    }


@pytest.mark.parametrize("m", [1.0 + 1e-12, 1.2, 2.0, 3.5, 50.0])
@pytest.mark.parametrize("numbers", [1 << 20, 100], ids=["one chunk", "many"])
@pytest.mark.parametrize("world", worlds())
def test_steps_are_those_of_whole_matrices(
    world: str, numbers: int, m: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, weights, centers = worlds()[world]
    monkeypatch.setattr(parallel, "_NUMBERS", numbers)
    np.testing.assert_allclose(
        memberships(rows, centers, m), plain_memberships(rows, centers, m), rtol=0, atol=1e-12
    )
    # Step by step: whether a row lies on a centre or a rounding error beside it is no small matter.
    extent, total = np.ptp(rows, axis=0).max(), weights.sum()
    tolerance = 1e-12 * extent + 1e-14 * np.abs(rows).max()
    for _ in range(4):
        found, support = fuzzy_c_means(rows, weights, centers, m, 1, 0.0)
        centers, expected = plain(rows, weights, centers, m, 1, 0.0)
        np.testing.assert_allclose(found, centers, rtol=0, atol=tolerance)
        np.testing.assert_allclose(support, expected, rtol=0, atol=1e-12 * total)


@pytest.mark.parametrize("m", [2.0, 1.7])
def test_the_number_of_cores_does_not_matter(m: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, weights, centers = worlds()["weights, some of them zero"]
    monkeypatch.setattr(parallel, "_NUMBERS", 100)
    results = []
    for cores in (1, 3):
        monkeypatch.setattr(parallel, "cpu_count", lambda cores=cores: cores)
        results.append(fuzzy_c_means(rows, weights, centers, m, 5, 0.0))
    assert all(np.array_equal(*pair) for pair in zip(*results, strict=True))


def test_it_stops_when_centres_stay() -> None:
    rows, weights, centers = worlds()["plain"]
    for tol in (1.0, 1e-3):
        found, support = fuzzy_c_means(rows, weights, centers, 2.0, 300, tol)
        expected, expected_support = plain(rows, weights, centers, 2.0, 300, tol)
        np.testing.assert_allclose(found, expected, atol=1e-10)
        np.testing.assert_allclose(support, expected_support, atol=1e-10)
    assert np.array_equal(centers, worlds()["plain"][2])


def test_numbers_at_the_edge_of_what_there_is() -> None:
    column = np.array([[1.0], [2.0], [7.0]])
    for scale in (1e-140, 1e140):
        found, support = fuzzy_c_means(
            scale * column, np.ones(3), scale * column[:2] + 0.5 * scale, 2.0, 3, 0.0
        )
        expected, _ = plain(column, np.ones(3), column[:2] + 0.5, 2.0, 3, 0.0)
        np.testing.assert_allclose(found / scale, expected, rtol=1e-12)
        assert np.isfinite(support).all()
