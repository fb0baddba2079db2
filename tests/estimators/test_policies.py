"""Parties' policies, through the estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unpooled
from tests.estimators.test_sklearn import MESH, STAR
from tests.sentences import refuses
from unpooled import DGC, CoresetKMeans, FederatedKMeans, FuzzyCMeans, OneShotKMeans
from unpooled.errors import PolicyRefusal
from unpooled.kernels.fuzzy import memberships
from unpooled.metrics import center_distance
from unpooled.wire import STUDY, Deployment

RNG = np.random.default_rng(0)
PLACES = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])
TABLES = {
    name: np.concatenate([place + RNG.normal(size=(n, 2)) for place in PLACES])
    for name, n in (("north", 20), ("south", 30), ("west", 15))
}


@pytest.mark.parametrize("estimator", MESH)
def test_a_mesh_sends_no_rows_under_deployment(estimator: Any) -> None:
    for init in ("dkm+c", "random", "k-means++"):
        model = estimator(3, init=init, policy="deployment", random_state=0)
        refuses(lambda model=model: model.fit(TABLES), "which discloses rows", PolicyRefusal)
    model = estimator(3, init=PLACES, policy="deployment", max_rounds=20).fit(TABLES)
    assert np.array_equal(
        model.peer_centers_, estimator(3, init=PLACES, max_rounds=20).fit(TABLES).peer_centers_
    )


@pytest.mark.parametrize("estimator", [e for e in STAR if e not in (CoresetKMeans, FuzzyCMeans)])
def test_a_star_without_small_clusters_is_the_same_under_both_policies(estimator: Any) -> None:
    """Where no cluster is small, nothing is held back but what crosses borders, which none does."""
    options = {"local_clusters": 3} if estimator is unpooled.KFED else {}
    study = estimator(3, random_state=0, **options).fit(TABLES)
    strict = estimator(3, policy="deployment", random_state=0, **options).fit(TABLES)
    assert center_distance(strict.cluster_centers_, study.cluster_centers_) < 1e-9
    assert strict.remarks_ == {}


def test_parties_may_have_policies_of_their_own() -> None:
    own = {"north": "study", "south": Deployment(min_count=31), "west": STUDY}
    model = OneShotKMeans(3, policy=own, random_state=0).fit(TABLES)
    assert list(model.remarks_) == ["south"]
    assert model.traffic_.by_party["floats_up"].tolist() == [9, 0, 9]


def test_a_coreset_is_refused() -> None:
    model = CoresetKMeans(3, policy="deployment", random_state=0)
    refuses(lambda: model.fit(TABLES), "which discloses rows", PolicyRefusal)


@pytest.mark.parametrize("estimator", [DGC, OneShotKMeans, FederatedKMeans])
@pytest.mark.parametrize("policy", ["strict", None, Deployment, 3])
def test_unknown_policies(estimator: Any, policy: Any) -> None:
    refuses(lambda: estimator(3, policy=policy).fit(TABLES), "policy=.* is not known; give 'study'")


def test_memberships_are_those_of_the_fitted_centres() -> None:
    model = FuzzyCMeans(3, random_state=0).fit(TABLES)
    degrees = model.memberships(TABLES)
    assert list(degrees) == list(TABLES)
    for name, rows in TABLES.items():
        np.testing.assert_allclose(degrees[name].sum(axis=1), 1.0)
        assert np.array_equal(degrees[name].argmax(axis=1), model.labels_[name])
        assert np.array_equal(degrees[name], memberships(rows, model.cluster_centers_, 2.0))
