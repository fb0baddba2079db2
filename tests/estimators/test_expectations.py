"""What users of scikit-learn expect of an estimator beside what its checks look at."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import unpooled
from tests.sentences import refuses
from unpooled import baselines, losses
from unpooled.deploy.plan_file import read_plan
from unpooled.kernels.lloyd.fuzzy import memberships
from unpooled.preprocessing import StandardScaler
from unpooled.privacy.policy import DEPLOYMENT, ReleaseRequest
from unpooled.types import IntArray, PerRow

ROOT = Path(__file__).parent.parent.parent

ESTIMATORS = [
    member
    for name in unpooled.__all__
    if isinstance(member := getattr(unpooled, name), type) and hasattr(member, "fit")
]
X, _ = load_iris(return_X_y=True)
GROUPS = np.repeat(["c", "a", "b"], 50)[np.random.default_rng(0).permutation(150)]
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, 150)
each = pytest.mark.parametrize("estimator", ESTIMATORS)


# score


@each
def test_a_score_is_minus_the_cost(estimator: Any) -> None:
    model = estimator(3, random_state=0).fit(X, sample_weight=WEIGHTS)
    score = model.score(X, sample_weight=WEIGHTS)
    if estimator is unpooled.FuzzyCMeans:
        degrees = memberships(X, model.cluster_centers_, model.fuzzifier) ** model.fuzzifier
        assert score == pytest.approx(-(WEIGHTS @ (degrees * model.transform(X) ** 2).sum(axis=1)))
    else:
        assert score == pytest.approx(-model.inertia_)
    parts = {name: X[name == GROUPS] for name in "abc"}
    own = {name: WEIGHTS[name == GROUPS] for name in "abc"}
    assert model.score(parts, sample_weight=own) == pytest.approx(score)
    assert model.score(X, groups=GROUPS, sample_weight=WEIGHTS) == pytest.approx(score)
    assert model.score(X, None) == pytest.approx(model.score(X, sample_weight=np.ones(150)))


def test_a_score_is_the_methods_own() -> None:
    huber = unpooled.DGC(3, loss=losses.Huber(0.5), random_state=0, max_rounds=30).fit(X)
    t = huber.transform(X).min(axis=1)
    cost = np.where(t < 0.5, t * t / 2, 0.5 * (t - 0.25))
    assert huber.score(X) == pytest.approx(-cost.sum())
    median = unpooled.CoresetKMeans(3, objective="kmedian", random_state=0).fit(X)
    assert median.score(X) == pytest.approx(-median.transform(X).min(axis=1).sum())
    assert median.score(X) == pytest.approx(-median.inertia_)
    for baseline in (baselines.ExactKernelKMeans, baselines.NystromKMeans):
        pooled = baseline(3, random_state=0).fit(X)
        assert pooled.score(X) == pytest.approx(-pooled.inertia_)


def test_there_is_no_score_where_there_are_no_centres_for_all() -> None:
    model = unpooled.DGC(3, graph=None, random_state=0, max_rounds=5).fit(X, groups=GROUPS)
    refuses(lambda: model.score(X), "With graph=None every party has centres of its own")


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (unpooled.FederatedKMeans(random_state=0), {"n_clusters": [2, 3], "init": ["random"]}),
        (unpooled.OneShotKMeans(random_state=0), {"n_clusters": [2, 3]}),
        (unpooled.GossipKMeans(random_state=0), {"n_clusters": [2, 3]}),
        (unpooled.DGC(random_state=0, max_rounds=20), {"n_clusters": [2, 3], "rho": [1.0, 10.0]}),
        (unpooled.KernelKMeans(random_state=0), {"n_clusters": [2, 3]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_grid_search_finds_its_way(estimator: Any, grid: dict[str, list[Any]]) -> None:
    search = GridSearchCV(estimator, grid, cv=3).fit(X)
    scores = search.cv_results_["mean_test_score"]
    assert (scores < 0).all()
    assert search.best_score_ == scores.max()
    assert search.predict(X).shape == (150,)


# n_iter_, verbose


@pytest.mark.parametrize(
    "model",
    [
        unpooled.FederatedKMeans(3),
        unpooled.FuzzyCMeans(3),
        unpooled.DGC(3),
        unpooled.GossipKMeans(3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_who_iterates_says_how_often(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model.set_params(random_state=0).fit(X, groups=GROUPS)
    assert model.n_iter_ == model.n_rounds_ > 1
    assert capsys.readouterr().out == ""
    model.set_params(verbose=1).fit(X, groups=GROUPS)
    lines = [line for line in capsys.readouterr().out.splitlines() if line != "received 9"]
    assert lines[0] == "Initialization complete"
    printed = [line for line in lines if line.startswith("Iteration ")]
    assert len(printed) == len(model.history_["movement"])
    assert f"movement {model.history_['movement'][-1]:.9g}" in printed[-1]
    assert model.converged_
    assert re.fullmatch(
        rf"Converged at iteration {model.n_iter_ - 1}: "
        r"(strict convergence|center shift \S+ within tolerance)\.",
        lines[-1],
    )


@each
def test_what_is_printed_changes_nothing(
    estimator: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = estimator(3, random_state=0).fit(X, groups=GROUPS)
    assert capsys.readouterr().out == ""
    loud = estimator(3, verbose=True, random_state=0).fit(X, groups=GROUPS)
    assert capsys.readouterr().out
    assert np.array_equal(quiet.labels_, loud.labels_)
    for bad in (-1, "yes", None, 1.5):
        loud.set_params(verbose=bad)
        refuses(lambda: loud.fit(X), f"verbose={bad!r} must be a whole number of at least 0")


# n_init and init


@pytest.mark.parametrize(
    "estimator", [own for own in ESTIMATORS if "n_init" in own._get_param_names()]
)
def test_the_number_of_starts_may_be_left_to_us(estimator: Any) -> None:
    auto = estimator(3, n_init="auto", random_state=0).fit(X, groups=GROUPS)
    ten = estimator(3, n_init=10, random_state=0).fit(X, groups=GROUPS)
    assert np.array_equal(auto.cluster_centers_, ten.cluster_centers_)
    refuses(lambda: estimator(3, n_init="ten").fit(X), "n_init='ten' must be a whole number")


@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("policy", ["study", "deployment"])
def test_starts_by_name(init: str, policy: str) -> None:
    corners = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    rng = np.random.default_rng(0)
    rows = np.concatenate([corner + rng.normal(size=(200, 2)) for corner in corners])
    groups = np.arange(600) % 4
    model = unpooled.FederatedKMeans(3, init=init, n_init=4, policy=policy, random_state=0)
    model.fit(rows, groups=groups)
    pooled = KMeans(3, n_init=10, random_state=0).fit(rows)
    close = 1e-6 if policy == "study" else 0.02
    assert model.inertia_ == pytest.approx(pooled.inertia_, rel=close)
    assert model.n_iter_ < model.n_rounds_ == len(model.history_["cost"])
    assert model.traffic_.by_kind["centroids"]["messages"] == 4  # all starts from one sketch


@pytest.mark.parametrize("init", ["k-means++", "random", lambda X, k, random_state: X[:k]])
def test_no_start_sends_a_row_of_a_party_with_a_minimum(init: Any) -> None:
    sent: list[np.ndarray] = []

    class Watched:
        min_count = DEPLOYMENT.min_count

        def review(self, request: ReleaseRequest) -> Any:
            sent.append(
                request.body["centroids" if request.release.kind == "centroids" else "sums"]
            )
            return DEPLOYMENT.review(request)

    unpooled.FederatedKMeans(3, init=init, policy=Watched(), random_state=0).fit(X, groups=GROUPS)
    places = np.concatenate(sent)
    apart = np.abs(places[:, None] - X).max(axis=2)
    assert len(places) > 9
    assert (apart > 1e-9).all()


def test_more_starts_are_no_worse_and_the_best_is_kept() -> None:
    noise = np.random.default_rng(0).normal(size=(300, 2))
    options = {"init": "random", "random_state": 0, "max_rounds": 60}
    model = unpooled.FederatedKMeans(8, n_init=6, **options).fit(noise, groups=np.arange(300) % 3)
    ends = np.flatnonzero(np.diff(model.history_["cost"], append=np.inf) > 0)
    assert len(ends) == 6  # the cost rises where the next start begins
    assert model.inertia_ == pytest.approx(model.history_["cost"][ends].min(), rel=1e-3)


def test_a_function_starts_from_what_parties_send() -> None:
    seen: list[np.ndarray] = []

    def init(points: np.ndarray, n_clusters: int, random_state: np.random.RandomState) -> Any:
        seen.append(points)
        return points[random_state.permutation(len(points))[:n_clusters]]

    model = unpooled.FederatedKMeans(3, init=init, random_state=0).fit(X, groups=GROUPS)
    assert len(seen) == 10
    assert seen[0].shape == (90, 4)  # at most ten means for each cluster and party
    assert all(np.array_equal(points, seen[0]) for points in seen)
    again = unpooled.FederatedKMeans(3, init=init, random_state=0).fit(X, groups=GROUPS)
    assert np.array_equal(model.cluster_centers_, again.cluster_centers_)
    once = unpooled.FederatedKMeans(3, init=lambda X, k, s: X[:k].tolist(), n_init=1).fit(X)
    assert once.n_iter_ == once.n_rounds_


def test_given_centres_are_started_from_once() -> None:
    model = unpooled.FederatedKMeans(3, init=X[:3], n_init=5)
    with pytest.warns(RuntimeWarning, match="performing only one init in FederatedKMeans instead"):
        model.fit(X)


def test_an_empty_cluster_is_refilled_alike_every_time() -> None:
    start = np.concatenate([X[:2], [[90.0] * 4, [91.0] * 4]])
    fits = [unpooled.FederatedKMeans(4, init=start).fit(X, groups=GROUPS) for _ in range(3)]
    assert len(set(fits[0].labels_)) == 4
    for model in fits[1:]:
        assert np.array_equal(model.cluster_centers_, fits[0].cluster_centers_)


# few distinct rows


@each
def test_fewer_distinct_rows_than_clusters_are_warned_of(estimator: Any) -> None:
    rows = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], 4, axis=0)
    words = r"Number of distinct clusters \(3\) found smaller than n_clusters \(4\)"
    with pytest.warns(ConvergenceWarning, match=words) as caught:
        model = estimator(4, random_state=0).fit(rows)
    assert {warning.filename for warning in caught} == {__file__}
    assert len(set(model.labels_)) <= 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator(3, random_state=0).fit(rows)


# data frames


def frames() -> list[Any]:
    """The iris with a column of parties, in the middle of the others."""
    columns = {"a": X[:, 0], "b": X[:, 1], "site": GROUPS, "c": X[:, 2], "d": X[:, 3]}
    table = pl.DataFrame(columns)
    return [pd.DataFrame(columns), table, table.lazy()]


@pytest.mark.parametrize("frame", frames(), ids=lambda frame: str(type(frame)))
@pytest.mark.parametrize("estimator", [unpooled.OneShotKMeans, unpooled.DGC])
def test_groups_may_be_a_column(estimator: Any, frame: Any) -> None:
    model = estimator(3, random_state=0).fit(frame, groups="site")
    plain = estimator(3, random_state=0).fit(X, groups=GROUPS)
    assert np.array_equal(model.cluster_centers_, plain.cluster_centers_)
    assert np.array_equal(model.labels_, plain.labels_)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert model.group_name_in_ == "site"
    assert list(model.traffic_.by_party) == ["a", "b", "c"]
    expected = plain.predict(X)
    table = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    bare = table[["d", "c", "b", "a"]]
    for new in (frame, table, bare, X):
        assert np.array_equal(model.predict(new), expected)
    assert np.array_equal(np.concatenate(model.predict([table[:70], bare[70:]])), expected)
    assert model.score(frame, groups="site") == pytest.approx(model.score(X))
    assert not hasattr(model.fit(X, groups=GROUPS), "group_name_in_")


def test_groups_that_are_no_column() -> None:
    table = frames()[0]
    model = unpooled.OneShotKMeans(3)
    refuses(lambda: model.fit(table, groups="hospital"), "groups='hospital' is no column of X, wh")
    refuses(lambda: model.fit(X, groups="site"), "groups='site' would be a column's name, but X h")
    refuses(lambda: model.fit({"A": table}, groups="site"), "groups goes with one table")
    table.loc[7, "site"] = None
    refuses(lambda: model.fit(table, groups="site"), "The column 'site', which names the parties,")
    table = frames()[0].assign(age=1.0)
    fitted = model.fit(frames()[0], groups="site")
    refuses(lambda: fitted.predict(table), "X has a column 'age' that others lack")


def test_lazy_frames_of_parties() -> None:
    lazy = frames()[2].drop("site")
    parts = {"A": lazy.head(70), "B": lazy.tail(80)}
    model = unpooled.OneShotKMeans(3, random_state=0).fit(parts)
    plain = unpooled.OneShotKMeans(3, random_state=0).fit({"A": X[:70], "B": X[70:]})
    assert np.array_equal(model.cluster_centers_, plain.cluster_centers_)
    assert [len(own) for own in model.predict(list(parts.values()))] == [70, 80]
    scaled = StandardScaler().fit(lazy).transform(lazy)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("frame", frames(), ids=lambda frame: str(type(frame)))
def test_a_column_of_text_is_named(frame: Any) -> None:
    words = "could not convert string to float: '[abc]' in column 'site'; leave that column out"
    refuses(lambda: unpooled.DGC(3).fit(frame), f"X cannot be read as a table of numbers: {words}")
    refuses(lambda: unpooled.KFED(3).fit({"North": frame}), f"Party North cannot be .*{words}")
    refuses(lambda: StandardScaler().fit([[1.0, "x"], [2.0, "y"]]), "float: 'x' in column 1; leav")


def test_a_plan_has_no_place_for_what_is_printed(tmp_path: Path) -> None:
    lines = ('method = "FederatedKMeans"', 'columns = ["a"]', "releases = []", "coordinator = {}")
    plan = tmp_path / "plan.toml"
    plan.write_text("\n".join([*lines, "[parties]", "[parameters]", "verbose = 1"]))
    refuses(lambda: read_plan(plan), "has 'verbose' in \\[parameters\\], which is for fits in one")


# types


def test_types_say_what_comes_back(tmp_path: Path) -> None:
    for estimator in ESTIMATORS:
        assert get_type_hints(estimator)["labels_"] == PerRow[IntArray]
        assert get_type_hints(estimator.predict)["return"] == PerRow[IntArray]
    file = tmp_path / "model.npz"
    unpooled.save(unpooled.DGC(3), file)
    assert isinstance(unpooled.load(file), unpooled.DGC)
    assert isinstance(unpooled.load(file, unpooled.DGC), unpooled.DGC)
    words = "holds a DGC, not a FederatedKMeans; load it as what it is"
    refuses(lambda: unpooled.load(file, unpooled.FederatedKMeans), words)


CHECKED = """
import numpy as np
import unpooled
model = unpooled.FederatedKMeans(3)
rows = np.zeros((3, 2))
reveal_type(model.predict(rows))
reveal_type(model.predict({"A": rows}))
reveal_type(model.predict([rows]))
reveal_type(unpooled.load("model.npz", unpooled.DGC))
"""


@pytest.mark.long
def test_type_checkers_know_them_too(tmp_path: Path) -> None:
    source = tmp_path / "user.py"
    source.write_text(CHECKED)
    run = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(source)]
    printed = subprocess.run(run, capture_output=True, text=True, cwd=ROOT).stdout
    found = re.findall('Revealed type is "(.*)"', printed.replace("builtins.", ""))
    array = found[0]
    assert array.startswith("numpy.ndarray")
    assert found[1] == f"dict[str, {array}]"
    assert found[2].startswith(f"{array} | list[{array}] | tuple[")
    assert found[3].endswith("estimators.dgc.DGC")
