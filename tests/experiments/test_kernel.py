"""The kernel experiments, on data that come with scikit-learn and with few runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris

from unpooled import KernelKMeans
from unpooled.experiments.kernel import cem, figure_1, figure_3, setting, shapes, sweeps
from unpooled.experiments.kernel.recovery import leading_part, recovery_error
from unpooled.experiments.kernel.setting import COVERTYPE, MNIST_60K, MUSHROOMS, KernelSetting
from unpooled.experiments.kernel.sweeps import CE_PCA, FK, OURS, POINTS, RFK, SweptPoint
from unpooled.experiments.reproduction.tasks import Results, Scale

IRIS = KernelSetting("Iris", "iris", 3, 15, 3, 60, exact=True)


@pytest.fixture
def iris(monkeypatch: pytest.MonkeyPatch) -> KernelSetting:
    """Iris among the settings."""
    monkeypatch.setitem(setting.SETTINGS, "Iris", IRIS)
    return IRIS


def test_columns_are_scaled_and_parties_are_of_like_size() -> None:
    X = IRIS.data().X
    assert (X.min(), X.max()) == (0, 1)
    assert np.bincount(IRIS.groups(0, 150)).tolist() == [30] * setting.KERNEL_PARTIES
    assert (IRIS.groups(0, 150) != IRIS.groups(1, 150)).any()
    assert len(IRIS.data(quick=True).X) == 150
    few = KernelSetting("few", "iris", 3, 15, 3, 60, rows=100, sample=40)
    assert few.data().X.shape == (40, 4)
    assert set(few.data().y) == {0, 1}


def test_the_paper_s_settings_are_those_of_its_table_1() -> None:
    found = {
        s.title: (s.n_clusters, s.n_features, s.n_components) for s in setting.SETTINGS.values()
    }
    assert found == {
        "Mushrooms": (2, 15, 2),
        "MNIST-small": (10, 200, 10),
        "MNIST": (10, 200, 12),
        "Covertype": (7, 30, 10),
    }


def test_the_recovery_error_is_that_of_the_whole_matrices() -> None:
    X = load_iris().data[::2]
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    values, vectors = np.linalg.eigh(K)
    best = (vectors[:, -3:] * values[-3:]) @ vectors[:, -3:].T
    F = leading_part(X, 0.5, 3)
    np.testing.assert_allclose(F @ F.T, best, atol=1e-5)
    H = np.random.default_rng(0).normal(size=(len(X), 3))
    whole = np.square(H @ H.T - best).sum() / len(X) ** 2
    assert recovery_error(H, F) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("compress", [True, False])
def test_a_run_is_what_the_estimator_gives_and_sends_what_the_theorem_says(
    iris: KernelSetting, compress: bool
) -> None:
    found = setting.dspgd_run("Iris", 4, 1, compress=compress)
    model = iris.paper(1, max_rounds=4, compress=compress)
    model.fit(iris.data().X, groups=iris.groups(1, 150))
    assert isinstance(model, KernelKMeans)
    assert found["floats"] == model.traffic_.floats_up
    assert found["rank"].tolist() == model.history_["rank"].tolist()
    assert found["eigenpairs"] == found["stated"] > 0
    assert (found["eigenpairs"] < 4000) == compress


@pytest.mark.long
def test_the_estimate_gets_nearer_to_the_exact_matrix(iris: KernelSetting) -> None:
    """Its error falls about as 1/t."""
    t = np.array([1, 2, 4, 8, 16])
    errors = np.array(
        [[setting.dspgd_run("Iris", int(i), seed)["error"] for seed in range(3)] for i in t]
    )
    assert -1.8 < figure_1._slope(t, errors) < -0.6


def test_tasks_of_figures_that_show_the_same_runs_are_shared() -> None:
    scale = Scale(20)
    first, sweep = ({task.key for task in found} for found in _all_tasks(scale))
    assert f"{setting.dspgd_key(MUSHROOMS, 50)}/0" in first & sweep
    counts = {
        (one.title, way): sum(
            key.startswith(setting.dspgd_key(one, 50, way) + "/")
            for key in (task.key for task in cem.cem_tasks(Scale(5)))
        )
        for one in cem.CEM_SETS
        for way in cem.CEM_WAYS
    }
    assert set(counts.values()) == {5, 1, 2}
    pairs = [key for key in sweep if key.startswith("kernel/Mushrooms/ours/224/")]
    assert len(pairs) == 40


def _all_tasks(scale: Scale) -> tuple[Any, Any]:
    return figure_1.tasks(scale), sweeps.sweep_tasks(scale)


def test_every_method_has_points_on_every_set() -> None:
    for method in (FK, RFK, CE_PCA, OURS):
        assert set(POINTS[method]) == set(setting.SETTINGS)
    for title, default in sweeps.OUR_DEFAULT.items():
        assert default in POINTS[OURS][title]


def point(scores: list[float], floats: float = 100, rounds: int = 4) -> SweptPoint:
    given = np.array(scores)
    return SweptPoint(1, given, np.full(len(given), floats), np.full(len(given), float(rounds)))


@pytest.mark.parametrize(
    ("ours", "floats", "met"),
    [
        ([0.5, 0.52, 0.51], 19, True),
        ([0.5, 0.52, 0.51], 21, False),
        ([0.49, 0.51, 0.51], 10, True),
        ([0.40, 0.42, 0.41], 10, False),
    ],
)
def test_ours_must_not_be_lower_beyond_the_interval(
    ours: list[float], floats: int, met: bool
) -> None:
    theirs = point([0.5, 0.51, 0.515])
    assert figure_3.own_bar(MNIST_60K, theirs, point(ours, floats)) == met


@pytest.mark.parametrize(
    ("score", "floats", "rounds", "met"),
    [
        (0.54, 9_999, 5, True),
        (0.52, 9_999, 5, False),
        (0.54, 10_001, 5, False),
        (0.54, 9_999, 6, False),
    ],
)
def test_the_bars_of_mushrooms(score: float, floats: int, rounds: int, met: bool) -> None:
    ours = point([score] * 3, floats, rounds)
    assert figure_3.own_bar(MUSHROOMS, point([0.5, 0.51, 0.52]), ours) == met


def test_methods_are_compared_at_a_fixed_cost() -> None:
    fk = [point([0.3, 0.31], 10), point([0.5, 0.51], 50)]
    rival = [point([0.2, 0.2], 5), point([0.2, 0.21], 20), point([0.5, 0.51], 60)]
    counts = figure_3._met_at_fixed_cost(fk, rival)
    assert counts == {"better": 1, "level": 1, "worse": 0, "without a point so cheap": 1}
    saved, level, own, other = figure_3._saved_to_reach({FK: fk, RFK: rival}, RFK)
    assert (own.cost, other.cost, level) == (50, 60, pytest.approx(0.495))
    assert saved == pytest.approx(1 / 6)


@pytest.mark.parametrize("name", ["1", "2", "3", "4", "5"])
def test_pages_are_whole_whatever_came_of_the_runs(name: str) -> None:
    """Every claim that does not hold says why; the figure can be drawn."""
    from importlib import import_module

    module = import_module(f"unpooled.experiments.kernel.figure_{name}")
    scale = Scale(2, quick=True)
    rng = np.random.default_rng(0)
    made = {task.key: _made_up(task.arguments, rng) for task in module.EXPERIMENT.tasks(scale)}
    page = module.EXPERIMENT.page(scale, Results(made, {}))
    for part in page.as_json()["tables"]:
        assert all(cell["why"] for cell in part["cells"] if cell["verdict"] == "does not hold")
    assert page.conclusion
    pytest.importorskip("matplotlib")
    assert module.draw(scale, Results(made, {})).axes


def _made_up(given: Any, rng: np.random.Generator) -> dict[str, Any]:
    length = given.get("iterations", 1)
    return {
        **{name: float(rng.uniform(0.2, 0.6)) for name in ("nmi", "error")},
        **{name: float(rng.integers(1000, 9000)) for name in ("floats", "eigenpairs", "stated")},
        "rounds": 5,
        "products": rng.integers(5, 30, length).tolist(),
        "rank": rng.integers(3, 90, length).tolist(),
    }


def test_covertype_s_seeds_are_not_those_by_which_defaults_were_chosen() -> None:
    assert list(COVERTYPE.seeds(2)) == [1000, 1001]


def test_kernels_find_the_rings_and_draw_them(tmp_path: Path) -> None:
    rings = shapes.shapes()[0]
    found, linear = rings.kernel(7).labels_, rings.linear(7)
    assert shapes._scores(rings, [found]) == "1.000 (1.000)"
    assert float(shapes._scores(rings, [linear]).split()[0]) < 0.1
    assert "drawn in" in shapes.draw_shapes([(rings, linear, found)], tmp_path / "rings.png")
    assert (tmp_path / "rings.png").stat().st_size > 10_000
