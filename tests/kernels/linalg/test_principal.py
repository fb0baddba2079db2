"""Principal components against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from unpooled.kernels.linalg.principal import principal_coordinates


@pytest.mark.parametrize("shape", [(200, 30), (25, 60), (40, 40)])
def test_equals_scikit_learn_up_to_signs(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=shape) * np.geomspace(10, 0.1, shape[1])
    ours = principal_coordinates(rows, np.ones(len(rows)), 5)
    theirs = PCA(5, svd_solver="full").fit_transform(rows)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), rtol=0, atol=1e-10)


def test_a_weight_counts_as_that_many_rows() -> None:
    rng = np.random.default_rng(1)
    rows, weights = rng.normal(size=(50, 12)), rng.integers(1, 4, 50)
    many = np.repeat(rows, weights, axis=0)
    ours = principal_coordinates(rows, weights.astype(float), 3)
    theirs = principal_coordinates(many, np.ones(len(many)), 3)
    np.testing.assert_allclose(
        np.abs(np.repeat(ours, weights, axis=0)), np.abs(theirs), rtol=0, atol=1e-10
    )


def test_equal_rows_get_equal_coordinates() -> None:
    rng = np.random.default_rng(2)
    rows = np.tile(rng.normal(size=(7, 30)), (60, 1))
    found = principal_coordinates(rows, np.ones(len(rows)), 4)
    assert len(np.unique(found, axis=0)) == 7


def test_what_has_no_more_columns_stays_as_it_is() -> None:
    rows = np.random.default_rng(3).normal(size=(30, 5))
    assert principal_coordinates(rows, np.ones(30), 5) is rows
    assert principal_coordinates(rows[:4], np.ones(4), 4).shape == (4, 5)
    huge = np.full((30, 5), 1e300) * np.arange(30)[:, None]
    assert principal_coordinates(huge, np.ones(30), 2) is huge


@pytest.mark.bits
def test_the_same_bits_whatever_the_order_in_memory() -> None:
    rows = np.random.default_rng(4).normal(size=(300, 40))
    weights = np.ones(300)
    one = principal_coordinates(rows, weights, 20)
    assert np.array_equal(one, principal_coordinates(np.asfortranarray(rows), weights, 20))
    assert np.array_equal(one, principal_coordinates(np.repeat(rows, 2, 0)[::2], weights, 20))
