"""Every estimator is a scikit-learn estimator."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import unpooled
from tests import tables
from unpooled import losses, preprocessing
from unpooled.estimators.embedding import EmbeddingEstimator
from unpooled.estimators.mesh import MeshEstimator
from unpooled.estimators.star import StarEstimator
from unpooled.metrics import center_distance
from unpooled.testing import EXPECTED_FAILURES

ESTIMATORS = tables.estimators()
MESH = [estimator for estimator in ESTIMATORS if issubclass(estimator, MeshEstimator)]
STAR = [estimator for estimator in ESTIMATORS if issubclass(estimator, StarEstimator)]
EMBEDDING = [estimator for estimator in STAR if issubclass(estimator, EmbeddingEstimator)]
X, Y = load_iris(return_X_y=True)
GROUPS = np.repeat(["c", "a", "b"], 50)[np.random.default_rng(0).permutation(150)]
each = pytest.mark.parametrize("estimator", ESTIMATORS)
each_mesh = pytest.mark.parametrize("estimator", MESH)
each_star = pytest.mark.parametrize("estimator", STAR)


@pytest.mark.filterwarnings("ignore:FeCA found:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Number of distinct:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [*(estimator() for estimator in ESTIMATORS), preprocessing.StandardScaler()],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@cache
def fitted(estimator: Any) -> Any:
    """Fitted on the rows as they are, once for all tests that only look at it."""
    return estimator(3, random_state=0).fit(X, groups=GROUPS)


@cache
def fitted_in_two(estimator: Any) -> Any:
    """Fitted on two tables."""
    return estimator(3, random_state=0).fit([X[:70], X[70:]])


def found_by(model: Any) -> np.ndarray:
    """Every centre that a fit found."""
    return getattr(model, "peer_centers_", model.cluster_centers_)


def placed(model: Any, rows: np.ndarray) -> np.ndarray:
    """The fitted rows in the space of the centres: as they are, unless the method embeds them."""
    return getattr(model, "embedding_", rows)


def test_only_the_one_exception_is_declared() -> None:
    allowed = {"check_sample_weight_equivalence_on_dense_data"}
    assert set(EXPECTED_FAILURES) <= {"DeepFeCA", *(own.__name__ for own in ESTIMATORS)}
    for failures in EXPECTED_FAILURES.values():
        assert set(failures) == allowed
        assert all(failures.values())


@each
def test_constructors_start_with_n_clusters_and_the_rest_is_keyword_only(estimator: Any) -> None:
    assert estimator(5).n_clusters == 5
    assert estimator().n_clusters == 8
    with pytest.raises(TypeError):
        estimator(5, "ring")


@each_mesh
def test_fitted_attributes_of_a_mesh(estimator: Any) -> None:
    model = fitted(estimator)
    assert model.cluster_centers_.shape == (3, 4)
    assert model.peer_centers_.shape == (3, 3, 4)
    np.testing.assert_allclose(model.cluster_centers_, model.peer_centers_.mean(axis=0))
    assert model.labels_.shape == (150,)
    assert model.n_features_in_ == 4
    own = model.peer_centers_[np.unique(GROUPS, return_inverse=True)[1]]
    squared = ((own - X[:, None]) ** 2).sum(axis=2)
    assert np.array_equal(model.labels_, squared.argmin(axis=1))
    assert model.inertia_ == pytest.approx(squared.min(axis=1).sum())
    assert set(model.history_) == {"cost", "consensus", "changed", "movement"}
    assert {len(values) for values in model.history_.values()} == {model.n_rounds_}
    middle = model.peer_centers_.mean(axis=0)
    gap = np.linalg.norm(model.peer_centers_ - middle, axis=2).max()
    assert model.history_["consensus"][-1] == pytest.approx(gap)
    nearest = ((model.cluster_centers_ - X[:, None]) ** 2).sum(axis=2)
    assert np.array_equal(model.predict(X), nearest.argmin(axis=1))
    np.testing.assert_allclose(model.transform(X), np.sqrt(nearest))
    assert np.array_equal(estimator(3, random_state=0).fit_predict(X, groups=GROUPS), model.labels_)


@each_star
def test_fitted_attributes_of_a_star(estimator: Any) -> None:
    model = fitted(estimator)
    rows = placed(model, X)
    assert model.cluster_centers_.shape == (3, rows.shape[1])
    assert rows is X if estimator not in EMBEDDING else len(rows) == 150
    assert model.labels_.shape == (150,)
    assert model.n_features_in_ == 4
    squared = ((model.cluster_centers_ - rows[:, None]) ** 2).sum(axis=2)
    assert np.array_equal(model.labels_, squared.argmin(axis=1))
    assert model.inertia_ == pytest.approx(squared.min(axis=1).sum())
    assert model.n_rounds_ >= 1
    assert all(len(values) <= model.n_rounds_ for values in model.history_.values())
    assert np.array_equal(model.predict(X), model.labels_)
    np.testing.assert_allclose(model.transform(X), np.sqrt(squared), atol=1e-12)
    assert np.array_equal(estimator(3, random_state=0).fit_predict(X, groups=GROUPS), model.labels_)
    assert model.traffic_.floats_up > 0
    assert model.remarks_ == {}


@each_star
def test_pooled_quality_is_near_on_easy_data(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    rows = np.concatenate([place + rng.normal(size=(90, 2)) for place in places])
    groups = np.tile(np.arange(6), 60)
    options = {"local_clusters": 4} if estimator is unpooled.KFED else {}
    model = estimator(4, random_state=0, **options).fit(rows, groups=groups)
    if estimator in EMBEDDING:
        assert adjusted_rand_score(model.labels_, np.repeat(np.arange(4), 90)) == 1
    else:
        assert center_distance(model.cluster_centers_, places) < 1.0


@pytest.mark.bits
@each
def test_every_container_gives_the_same_model_and_comes_back(estimator: Any) -> None:
    tables = {name: X[name == GROUPS] for name in "abc"}
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=150)
    parts = {name: weights[name == GROUPS] for name in "abc"}
    model = estimator(3, random_state=0)
    plain = clone(model).fit(X, groups=GROUPS, sample_weight=weights)
    labels = {name: plain.labels_[name == GROUPS] for name in "abc"}
    for wrap in (dict, lambda d: list(d.values()), lambda d: tuple(d.values())):
        other = clone(model).fit(wrap(tables), sample_weight=wrap(parts))
        assert np.array_equal(found_by(other), found_by(plain))
        for result, expected in (
            (other.labels_, labels),
            (other.predict(wrap(tables)), {k: plain.predict(t) for k, t in tables.items()}),
            (other.transform(wrap(tables)), {k: plain.transform(t) for k, t in tables.items()}),
        ):
            assert type(result) is type(wrap(tables))
            found = result if isinstance(result, dict) else dict(zip("abc", result, strict=True))
            assert all(np.array_equal(found[name], expected[name]) for name in "abc")


@pytest.mark.bits
@each
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_matched_by_name(estimator: Any, frame: Any) -> None:
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = estimator(3, random_state=0).fit(table, groups=GROUPS)
    plain = fitted(estimator)
    assert np.array_equal(found_by(model), found_by(plain))
    assert model.feature_names_in_.tolist() == names
    shuffled = table[[names[i] for i in (2, 0, 3, 1)]]
    assert np.array_equal(model.predict(shuffled), plain.predict(X))
    parts = [table[:70], shuffled[70:]]
    both = estimator(3, random_state=0).fit(parts)
    assert np.array_equal(found_by(both), found_by(fitted_in_two(estimator)))
    assert model.get_feature_names_out().tolist() == [
        f"{estimator.__name__.lower()}{k}" for k in range(3)
    ]


@each
def test_clone_pickle_and_pipeline(estimator: Any) -> None:
    model = estimator(3, random_state=0)
    assert clone(model).get_params() == model.get_params()
    plain = fitted(estimator)
    again = pickle.loads(pickle.dumps(plain))
    assert np.array_equal(again.predict(X), plain.predict(X))
    assert again.traffic_.bytes_up == plain.traffic_.bytes_up
    pipeline = make_pipeline(StandardScaler(), model)
    step = estimator.__name__.lower()
    pipeline.fit(X, **{f"{step}__groups": GROUPS})
    assert pipeline.predict(X).shape == (150,)
    assert found_by(pipeline[-1]).shape[-2:] == (3, placed(pipeline[-1], X).shape[1])


def test_losses_survive_clone_and_pickle() -> None:
    for loss, metric in (
        (losses.Huber(2.0), losses.Mahalanobis(np.eye(4))),
        (losses.Bregman.generalised_kl(), "euclidean"),
        (losses.Bregman.mahalanobis(np.eye(4)), "euclidean"),
    ):
        model = unpooled.DGC(3, loss=loss, metric=metric, random_state=0, max_rounds=20)
        fitted = clone(model).fit(X, groups=GROUPS)
        again = pickle.loads(pickle.dumps(fitted))
        assert np.array_equal(again.predict(X), fitted.predict(X))


@pytest.mark.bits
@each
def test_same_seed_same_model(estimator: Any) -> None:
    noise = np.random.default_rng(0).normal(size=(150, 4))  # has many local optima
    first, second, other = (
        found_by(estimator(3, random_state=seed).fit(noise, groups=GROUPS)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@each_star
def test_a_refit_forgets_column_names(estimator: Any) -> None:
    model = estimator(3, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")), groups=GROUPS)
    assert not hasattr(model.fit(X, groups=GROUPS), "feature_names_in_")


@each_star
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_star_takes_parties_with_fewer_rows_than_clusters(estimator: Any) -> None:
    model = estimator(5, random_state=0).fit([X[:1], X[1:60], X[60:62], X[62:]])
    assert np.isfinite(model.cluster_centers_).all()
    assert [len(labels) for labels in model.labels_] == [1, 59, 2, 88]


@each_mesh
def test_fitting_again_forgets_what_was_before(estimator: Any) -> None:
    model = estimator(3, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")), groups=GROUPS)
    assert not hasattr(model.set_params(graph=None).fit(X, groups=GROUPS), "feature_names_in_")
    assert not hasattr(model, "cluster_centers_")


def test_a_party_with_fewer_rows_than_clusters_is_legal() -> None:
    tables = [X[:1], X[1:60], X[60:62], X[62:]]
    for estimator in MESH:
        tree = estimator is unpooled.GossipKMeans
        for init in ("tree",) if tree else ("random", "k-means++", "dkm+c"):
            model = estimator(5, init=init, max_rounds=50, random_state=0).fit(tables)
            assert np.isfinite(model.peer_centers_).all()
            assert [len(labels) for labels in model.labels_] == [1, 59, 2, 88]
