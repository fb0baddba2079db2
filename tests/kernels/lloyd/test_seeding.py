"""Seeds for k-means: those that scikit-learn draws."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus

from unpooled.kernels.lloyd.seeding import Seeding


@pytest.mark.bits
@pytest.mark.parametrize("n_clusters", [1, 2, 7, 40])
@pytest.mark.parametrize("seed", range(5))
def test_same_seeds_as_scikit_learn(n_clusters: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(300, 5)) + 6 * rng.integers(3, size=(300, 1))
    rows[::3] = rows[0]  # copies too
    rows -= rows.mean(axis=0)
    for weights in (np.ones(300), rng.random(300), rng.integers(2, size=300) + 0.0):
        ours = Seeding(weights)(rows, n_clusters, np.random.RandomState(seed))
        theirs, _ = kmeans_plusplus(rows, n_clusters, sample_weight=weights, random_state=seed)
        assert np.array_equal(ours, theirs)


@pytest.mark.bits
def test_same_fit_as_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    rows, weights = rng.normal(size=(400, 4)) + 100, rng.random(400)
    ours = KMeans(6, init=Seeding(weights), n_init=5, random_state=3)
    theirs = KMeans(6, n_init=5, random_state=3)
    for model in (ours, theirs):
        model.fit(rows, sample_weight=weights)
    assert np.array_equal(ours.labels_, theirs.labels_)


def test_rows_without_weight_are_never_drawn() -> None:
    rows = np.vstack([np.full((5, 2), 1e3), np.random.default_rng(0).normal(size=(20, 2))])
    weights = np.r_[np.zeros(5), np.ones(20)]
    for seed in range(20):
        drawn = Seeding(weights)(rows, 10, np.random.RandomState(seed))
        assert np.abs(drawn).max() < 10
