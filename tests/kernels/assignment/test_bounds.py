"""Rows that are skipped have the labels that they would have been given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.kernels.assignment.bounds import UserBounds
from unpooled.kernels.assignment.nearest import nearest
from unpooled.losses import Euclidean, Mahalanobis, Metric


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans())
def test_labels_are_those_of_measuring_every_row(seed: int, n_clusters: int, skewed: bool) -> None:
    rng = np.random.default_rng(seed)
    metric: Metric = Mahalanobis([[2.0, 0.7], [0.7, 1.0]]) if skewed else Euclidean()
    owner = np.sort(rng.integers(3, size=60))
    rows = rng.integers(-4, 5, size=(60, 2)).astype(float)  # with ties and repetitions
    bounded = UserBounds(rows, owner, 3, metric.squared)
    centers = rng.normal(size=(3, n_clusters, 2)) * 3
    for step in range(12):
        expected = nearest(rows, owner, centers, lambda x, y: metric.squared(x - y))
        np.testing.assert_array_equal(bounded.assign(centers), expected)
        centers = centers + rng.normal(size=centers.shape) * 2.0 ** -rng.integers(0, 8 + step)


def test_few_rows_are_checked_once_centres_hardly_move(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3))
    bounded = UserBounds(rows, np.zeros(500, dtype=np.int64), 1, Euclidean().squared)
    checked: list[int] = []
    check = UserBounds._check

    def counted(self: UserBounds, some: np.ndarray, centers: np.ndarray):  # type: ignore[no-untyped-def]
        checked.append(len(some))
        return check(self, some, centers)

    monkeypatch.setattr(UserBounds, "_check", counted)
    centers = rng.normal(size=(1, 4, 3))
    bounded.assign(centers)
    bounded.assign(centers + 1e-3)
    assert checked[0] == 500
    assert sum(checked[1:]) < 25


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_centres_beyond_all_numbers_are_forgotten() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 2))
    owner = np.zeros(200, dtype=np.int64)
    bounded = UserBounds(rows, owner, 1, Euclidean().squared)
    sane = np.array([[[-1.0, 0.0], [1.0, 0.0]]])
    with np.errstate(all="ignore"):
        for centers in (sane, 1e200 * sane, -sane):
            labels = bounded.assign(centers)
    np.testing.assert_array_equal(labels, nearest(rows, owner, -sane))
