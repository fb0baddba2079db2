"""The experiments on gossiped sums, on data that come with scikit-learn and with few runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unpooled import DGC, GossipKMeans
from unpooled.experiments.gossip import faults, pictures, quality, rho, setting, table
from unpooled.experiments.gossip.setting import DIGITS_REGULAR, IRIS, GossipRun
from unpooled.experiments.gossip.traces import trace
from unpooled.experiments.reproduction.registry import OWN
from unpooled.simulate.faults import UserDown

DONE = GossipRun(
    exchanges=30,
    tree=6,
    cycles=4,
    floats=700.0,
    floats_per_cycle=150.0,
    cost=1.0,
    apart=0.0,
    step=0.0,
    converged=True,
)


def test_users_of_a_seed_are_the_same_for_estimators_and_drivers() -> None:
    parties, network = DIGITS_REGULAR.network(3)
    groups = DIGITS_REGULAR.groups(3)
    assert parties.sizes.tolist() == np.bincount(groups).tolist()
    assert network.degrees.tolist() == [4] * 50
    assert np.array_equal(parties[7].rows, DIGITS_REGULAR.data.X[groups == 7])


def test_a_fit_on_iris_meets_its_bars() -> None:
    done = setting.gossip_run(GossipKMeans(), IRIS, 1)
    assert table.bars_verdict(IRIS, [done]) == "met"
    assert done.tree == 6


def test_a_lloyd_step_leaves_empty_clusters_where_they_are() -> None:
    rows = np.array([[0.0], [1.0], [9.0]])
    centers = np.array([[0.0], [8.0], [50.0]])
    assert setting.lloyd_step(rows, centers).tolist() == [[0.5], [9.0], [50.0]]
    assert setting.center_cost(rows, centers) == 2.0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "met"),
        ({"exchanges": 46}, "missed: median"),
        ({"exchanges": 71}, "missed: median, worst"),
        ({"cost": 1.001}, "missed: cost"),
        ({"apart": 1e-7, "step": 1e-7}, "missed: apart, step"),
        ({"converged": False}, "missed: unfinished"),
    ],
)
def test_the_bars(change: dict[str, float], word: str) -> None:
    assert table.bars_verdict(IRIS, [replace(DONE, **change)]) == word  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize(
    "model", [GossipKMeans(3), GossipKMeans(3, rho=10.0), DGC(3, init="tree", max_rounds=20)]
)
def test_a_trace_is_the_run_of_a_fit(model: GossipKMeans | DGC) -> None:
    parties, network = IRIS.network(2)
    seen = trace(model, parties, network, 2)
    IRIS.fitted(model, 2)
    assert np.array_equal(seen.centers[-1], model.peer_centers_)
    assert (seen.centers[0] == seen.centers[0][0]).all()
    assert (np.diff(seen.exchanges) > 0).all()
    assert (np.diff(seen.floats) > 0).all()
    assert seen.floats[-1] <= model.traffic_.floats_up / 10


def test_users_come_to_the_fixed_point_of_a_finite_rho() -> None:
    ours = rho.rho_ending(GossipKMeans(rho=10.0, tol=1e-9), IRIS, 10.0, 1)
    fitted = IRIS.fitted(GossipKMeans(rho=10.0, tol=1e-9), 1)
    assert ours.exchanges is not None
    assert 10 < ours.exchanges < 100
    assert ours.cost == pytest.approx(fitted.history_["cost"][-1])


def test_centres_that_are_given_up_early_are_never_near() -> None:
    model = DGC(rho=10.0, init="tree", max_rounds=5)
    assert rho.rho_ending(model, IRIS, 10.0, 1).exchanges is None


@pytest.mark.parametrize("split", quality.USER_SPLITS)
def test_quality_of_a_fit(split: str) -> None:
    data = setting.rows_of("iris")
    found = quality.fitted_cost(data, 3, "Dirichlet(0.1)", 1)
    assert found <= quality.BAD * setting.pooled_cost(data.X, 3)
    assert np.bincount(quality.USER_SPLITS[split](data.y, 0), minlength=10).all()


@pytest.mark.long
@pytest.mark.parametrize("name", faults.SCENARIOS)
def test_users_that_go(name: str) -> None:
    fault = faults.SCENARIOS[name](np.random.default_rng(1), 10)
    assert faults.fault_ending(IRIS, 1, fault).verdict in ("right", "news late")


def test_a_user_that_goes_when_all_is_done_changes_nothing() -> None:
    without = setting.gossip_run(GossipKMeans(), IRIS, 1)
    done = faults.fault_ending(IRIS, 1, UserDown(3, 500))
    assert (done.verdict, done.exchanges) == ("right", without.exchanges)


@pytest.mark.long
def test_what_is_lost_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "PROBLEMS", (IRIS,))
    lines = list(faults._losses(1))
    assert len(lines) == 4
    assert all("1 of 1" in line for line in lines[2:])


@pytest.mark.long
def test_pictures(tmp_path: Path) -> None:
    methods = {
        name: made
        for name, made in pictures.DRAWN_METHODS.items()
        if name.startswith("GossipKMeans")
    }
    assert "drawn in" in pictures.draw_costs(IRIS, methods, tmp_path / "costs.png")
    assert (tmp_path / "costs.png").stat().st_size > 10_000
    assert pictures._some(5) == [0, 1, 2, 3, 4]
    assert pictures._some(1000)[-1] == 999


def test_all_can_be_asked_for() -> None:
    names = {name for name in OWN if name.startswith("gossip-")}
    assert names == {f"gossip-{it}" for it in ("faults", "pictures", "quality", "rho", "table")}
