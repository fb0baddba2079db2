"""Figures of the DKM+C paper, with fewer runs than the committed ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from unpooled import DGC
from unpooled.experiments.dkmc import figure_2, figure_3, setting
from unpooled.experiments.reproduction.registry import ENTRIES
from unpooled.experiments.reproduction.running import reproduce
from unpooled.metrics import accuracy

NAMES = [name for name in ENTRIES if name.startswith("dkmc-")]


def test_the_heterogeneous_split_has_two_classes_per_user_in_unlike_amounts() -> None:
    assert (setting.AMOUNTS.sum(axis=0) == 50).all()
    assert ((setting.AMOUNTS > 0).sum(axis=1) == 2).all()
    _, y = load_iris(return_X_y=True)
    users = setting.holders("heterogeneous")
    table = np.array([np.bincount(y[users == i], minlength=3) for i in range(10)])
    np.testing.assert_array_equal(table, setting.AMOUNTS)


def test_the_homogeneous_split_has_five_rows_of_each_class_per_user() -> None:
    _, y = load_iris(return_X_y=True)
    users = setting.holders("homogeneous")
    for k in range(3):
        assert np.bincount(users[y == k]).tolist() == [5] * 10


def test_a_run_is_what_the_estimator_gives() -> None:
    X, y = load_iris(return_X_y=True)
    users = setting.holders("homogeneous")
    model = DGC(
        3,
        rho=10.0,
        graph="ring",
        init="dkm+c",
        init_rounds=2,
        align=False,
        solver="plain",
        max_rounds=30,
        tol=1e-12,
        random_state=4,
    ).fit(X, groups=users)
    found = setting.start_accuracy("DGC", "homogeneous", setting.STARTS["L = 2"], 4, rounds=30)
    own = [accuracy(y[users == i], model.labels_[users == i]) for i in range(10)]
    assert found["own"] == pytest.approx(100 * np.mean(own), abs=1e-3)


def test_a_curve_ends_where_the_last_round_does() -> None:
    curve = figure_2.accuracy_curve("CGC", "homogeneous", "random", 0)
    last = setting.start_accuracy("CGC", "homogeneous", setting.STARTS["random"], 0)
    assert curve["own"][-1] == last["own"] == last["all"]


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_made_quickly(name: str, tmp_path: Path) -> None:
    page = reproduce(ENTRIES[name], tmp_path, quick=True, jobs=1)
    assert page.conclusion
    assert sum(page.counts().values()) == 4


@pytest.mark.long
def test_aligned_starts_end_badly_less_often_than_published_ones() -> None:
    """A bar of ours; of 500 aligned runs on even shares of Iris two ended below 85 %."""

    def bad(start: str) -> int:
        how = setting.STARTS[start]
        runs = [setting.start_accuracy("DGC", "homogeneous", how, seed) for seed in range(30)]
        return sum(run["own"] < 85 for run in runs)

    assert bad(figure_3.PUBLISHED[3]) >= 2
    assert bad(figure_3.ALIGNED[3]) <= 1
    assert bad("tree") == 0
