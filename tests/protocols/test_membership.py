"""What cells do not hide: whether a record that somebody has is among a site's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, make_blobs

from unpooled.privacy.cells import make_cells
from unpooled.testing.attacks.membership import advantage, membership_scores


def found(rows: np.ndarray, members: int, pool: int, seed: int) -> float:
    """The advantage where so many of a pool of records are a site's."""
    chosen = rows[np.random.default_rng(seed).permutation(len(rows))[:pool]]
    cells = make_cells(chosen[:members], np.ones(members), 10)
    return advantage(membership_scores(cells, chosen), np.arange(pool) < members)


@pytest.mark.parametrize("seed", range(2))
def test_with_many_columns_members_of_a_pool_are_recognised(seed: int) -> None:
    """The README says so: nobody should take cells for anonymity."""
    assert found(load_digits().data, 60, 120, seed) > 0.75


def test_with_few_columns_they_are_not() -> None:
    blobs = make_blobs(1000, 2, centers=8, random_state=0)[0]
    assert found(blobs, 60, 120, 0) < 0.2


def test_guessing_has_no_advantage_and_knowing_has_all() -> None:
    members = np.arange(100) < 50
    assert advantage(np.zeros(100), members) == 0
    assert advantage(members.astype(float), members) == 1


@pytest.mark.long
def test_the_more_columns_the_better_they_are_recognised() -> None:
    rows = load_breast_cancer().data
    few = np.mean([found(rows[:, :3], 60, 120, seed) for seed in range(5)])
    many = np.mean([found(rows, 60, 120, seed) for seed in range(5)])
    assert few < many
