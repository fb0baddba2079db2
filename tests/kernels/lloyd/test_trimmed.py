"""k-means that leaves out the farthest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.kernels.lloyd.trimmed import trimmed, trimmed_cluster


@given(st.integers(1, 30), st.floats(0, 0.99), st.integers(0, 2**32))
def test_exactly_the_budget_is_left_out_from_the_far_end(n: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, far = rng.exponential(size=n), rng.integers(5, size=n).astype(float)
    budget = share * weights.sum()
    left, cost = trimmed(weights, far, budget)
    assert left.sum() == pytest.approx(weights.sum() - budget)
    assert ((left >= 0) & (left <= weights)).all()
    assert cost == pytest.approx((left * far).sum())
    reduced, kept = left < weights - 1e-12, left > 1e-12
    if reduced.any() and kept.any():  # whatever was reduced is at least as far as whatever was kept
        assert far[reduced].min() >= far[kept].max()


def test_by_hand() -> None:
    points = np.array([[0.0], [1.0], [10.0], [11.0], [500.0]])
    weights = np.array([3.0, 3.0, 2.0, 2.0, 0.5])
    found = trimmed_cluster(points, weights, 2, 0.5 / 10.5, 10, np.random.default_rng(0))
    assert np.sort(found.centers[:, 0]) == pytest.approx([0.5, 10.5])
    assert found.labels[4] == -1
    none = trimmed_cluster(points, weights, 2, 0.0, 10, np.random.default_rng(0))
    assert np.sort(none.centers[:, 0])[1] == 500.0


def test_fewer_distinct_points_than_clusters() -> None:
    points = np.repeat([[0.0, 0.0], [1.0, 1.0]], 3, axis=0)
    found = trimmed_cluster(points, np.ones(6), 4, 0.1, 5, np.random.default_rng(0))
    assert len(found.centers) == 2
