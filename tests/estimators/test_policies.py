"""Parties' policies, through the estimators."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import unpooled
from tests.cells import cells_of, in_cells
from tests.estimators.test_sklearn import MESH, STAR
from tests.sentences import refuses
from unpooled import (
    DGC,
    CoresetKMeans,
    FederatedKMeans,
    FuzzyCMeans,
    GossipKMeans,
    KernelKMeans,
    KernelPCAKMeans,
    OneShotKMeans,
    RandomFeatureKMeans,
    catalog,
)
from unpooled.errors import InputError, PolicyRefusal, ProtocolError
from unpooled.kernels.lloyd.fuzzy import memberships
from unpooled.metrics import center_distance
from unpooled.privacy.policy import STUDY, Deployment

RNG = np.random.default_rng(0)
PLACES = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])
TABLES = {
    name: np.concatenate([place + RNG.normal(size=(n, 2)) for place in PLACES])
    for name, n in (("north", 20), ("south", 30), ("west", 15))
}

CELLS, WEIGHTS = (
    dict(zip(TABLES, own, strict=True)) for own in in_cells(list(TABLES.values()), min_count=10)
)
BY_SCATTER = "one-shot, k unknown"
"""The one sample that goes by how far rows lie from the means of their cells."""
SAMPLES = {
    name: (method.estimator, {"n_clusters": 3, "random_state": 0, **options})
    for method in catalog.METHODS
    for name, options in method.samples.items()
    if name != BY_SCATTER
}
SENDING_ROWS = (CoresetKMeans, KernelPCAKMeans, RandomFeatureKMeans)
warning_of_cells = pytest.mark.filterwarnings("ignore:FeCA goes by the distances of single rows")


@warning_of_cells
@pytest.mark.filterwarnings("ignore:FeCA found:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("sample", SAMPLES)
def test_under_deployment_a_party_is_its_cells(sample: str) -> None:
    """Every method, star and mesh: the same bits as in a study of the weighted means of cells."""
    same_as_study_of_cells(sample, None)


@warning_of_cells
@pytest.mark.filterwarnings("ignore:FeCA found:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("sample", SAMPLES)
def test_weights_enter_cells(sample: str) -> None:
    rng = np.random.default_rng(1)
    weights = {name: rng.uniform(0.5, 2.0, len(rows)) for name, rows in TABLES.items()}
    same_as_study_of_cells(sample, weights)


def same_as_study_of_cells(sample: str, weights: dict[str, np.ndarray] | None) -> None:
    estimator, options = SAMPLES[sample]
    cells, within = in_cells(
        list(TABLES.values()), 10, None if weights is None else list(weights.values())
    )
    strict = estimator(policy="deployment", **options).fit(TABLES, sample_weight=weights)
    if "gamma" not in options and hasattr(strict, "gamma_"):
        # A bandwidth that parties find has the scatter within cells, which means lack.
        options = {**options, "gamma": strict.gamma_}
        strict = estimator(policy="deployment", **options).fit(TABLES, sample_weight=weights)
    study = estimator(**options).fit(cells, sample_weight=within)
    assert np.array_equal(strict.cluster_centers_, study.cluster_centers_)
    if hasattr(strict, "peer_centers_"):
        assert np.array_equal(strict.peer_centers_, study.peer_centers_)
    assert strict.traffic_.by_kind == study.traffic_.by_kind
    assert strict.remarks_ == {}


@pytest.mark.parametrize("estimator", [own for own in MESH if own is not GossipKMeans])
@pytest.mark.parametrize("init", ["dkm+c", "random", "k-means++", "tree"])
def test_every_start_of_a_mesh_is_one_of_cells(estimator: Any, init: str) -> None:
    options = {"init": init, "max_rounds": 20, "random_state": 0}
    strict = estimator(3, policy="deployment", **options).fit(TABLES)
    study = estimator(3, **options).fit(CELLS, sample_weight=WEIGHTS)
    assert np.array_equal(strict.peer_centers_, study.peer_centers_)


@pytest.mark.parametrize(
    "options",
    [{}, {"averaging": "tree"}, {"topology": "private"}, {"loss": "huber"}, {"rho": 100.0}],
    ids=str,
)
def test_gossip_finds_the_same_clusters_under_both_policies(options: dict[str, Any]) -> None:
    """Where clusters lie apart. By squared distances cells of them have their very means."""
    study = GossipKMeans(3, random_state=0, tol=1e-9, **options).fit(TABLES)
    strict = GossipKMeans(3, random_state=0, tol=1e-9, policy="deployment", **options).fit(TABLES)
    assert strict.converged_
    close = 0.2 if "loss" in options else 1e-6
    assert center_distance(strict.cluster_centers_, study.cluster_centers_) < close
    assert center_distance(strict.cluster_centers_, PLACES) < 1.0


def test_gossip_where_everybody_is_too_small() -> None:
    model = GossipKMeans(3, policy=Deployment(min_count=100), random_state=0)
    refuses(lambda: model.fit(TABLES), "No user sent anything about its rows", ProtocolError)
    assert not [name for name in vars(model) if name.endswith("_")]
    own = {**dict.fromkeys(TABLES, Deployment(min_count=100)), "south": Deployment(min_count=5)}
    with pytest.raises(InputError, match="share a host but not a policy"):
        GossipKMeans(3, policy=own).fit(TABLES)


@pytest.mark.parametrize("estimator", [own for own in STAR if own not in (unpooled.FeCA,)])
def test_a_star_labels_rows_alike_under_both_policies(estimator: Any) -> None:
    """Where clusters lie apart, cells hold rows of one each. Rows are labelled, not cells."""
    options = {"local_clusters": 3} if estimator is unpooled.KFED else {}
    study = estimator(3, random_state=0, **options).fit(TABLES)
    strict = estimator(3, policy="deployment", random_state=0, **options).fit(TABLES)
    for name, rows in TABLES.items():
        assert len(strict.labels_[name]) == len(rows)
    labels = [np.concatenate(list(model.labels_.values())) for model in (study, strict)]
    assert adjusted_rand_score(*labels) == 1
    assert strict.remarks_ == {}


def test_feca_says_what_to_expect_of_cells() -> None:
    model = unpooled.FeCA(3, policy="deployment", random_state=0)
    with pytest.warns(UserWarning, match="distances of single rows.*use OneShotKMeans") as caught:
        model.fit(TABLES)
    assert [own.filename for own in caught] == [__file__]
    own = {**dict.fromkeys(TABLES, "study"), "south": "deployment"}
    with pytest.warns(UserWarning, match="distances of single rows"):
        unpooled.FeCA(3, policy=own, random_state=0).fit(TABLES)
    unpooled.FeCA(3, policy=Deployment(min_count=1), random_state=0).fit(TABLES)  # no warning


@pytest.mark.parametrize("final", ["one-shot", "lloyd"])
@pytest.mark.parametrize("solver", ["block-krylov", "dspgd"])
def test_kernel_k_means_finds_the_same_clusters_under_both_policies(
    solver: str, final: str
) -> None:
    options = {"solver": solver, "final": final, "max_rounds": 3, "random_state": 0}
    study = KernelKMeans(3, **options).fit(TABLES)
    strict = KernelKMeans(3, policy="deployment", **options).fit(TABLES)
    assert strict.gamma_ == pytest.approx(study.gamma_, rel=1e-12)  # all rows are in cells
    labels = [np.concatenate(list(model.labels_.values())) for model in (study, strict)]
    assert adjusted_rand_score(*labels) == 1
    assert study.remarks_ == strict.remarks_ == {}


def test_parties_may_have_policies_of_their_own() -> None:
    own = {"north": "study", "south": Deployment(min_count=91), "west": STUDY}
    model = OneShotKMeans(3, local_clusters=3, policy=own, random_state=0).fit(TABLES)
    assert model.remarks_ == {
        "south": ["takes no part: its 90 rows do not make a cell of 91 persons, its minimum count"]
    }
    assert model.traffic_.table["floats_up"].tolist() == [9, 0, 9]
    assert len(model.labels_["south"]) == 90  # by the others' centres, at home


def test_rows_left_out_are_remarked_in_stars_and_meshes() -> None:
    far = {**TABLES, "west": np.concatenate([TABLES["west"], [[500.0, 500.0]]])}
    for estimator in (OneShotKMeans, GossipKMeans):
        model = estimator(3, policy="deployment", random_state=0).fit(far)
        [remark] = model.remarks_.pop("west")
        assert re.fullmatch(r"[12] of 46 rows held back, .* stand out in a cell", remark)
        assert model.remarks_ == {}
        assert center_distance(model.cluster_centers_, PLACES) < 1.0


@pytest.mark.parametrize("estimator", SENDING_ROWS)
def test_what_sends_rows_sends_cells(estimator: Any) -> None:
    """One party that insists on it is enough for itself."""
    model = estimator(3, policy={**dict.fromkeys(TABLES, "study"), "south": "deployment"})
    model.set_params(random_state=0).fit(TABLES)
    study = estimator(3, gamma=model.gamma_) if hasattr(model, "gamma_") else estimator(3)
    mixed = {**TABLES, "south": CELLS["south"]}
    weights = {name: np.ones(len(rows)) for name, rows in TABLES.items()}
    study.set_params(random_state=0).fit(mixed, sample_weight=weights | {"south": WEIGHTS["south"]})
    assert np.array_equal(model.cluster_centers_, study.cluster_centers_)


@pytest.mark.parametrize("estimator", [*STAR, *MESH])
def test_too_few_parties_are_refused(estimator: Any) -> None:
    two = dict(list(TABLES.items())[:2])
    model = estimator(3, policy=Deployment(), random_state=0)
    words = "Party north takes no part in a run of 2, fewer than its least of 3 parties"
    if estimator is unpooled.FeCA:
        with pytest.warns(UserWarning, match="distances of single rows"):
            refuses(lambda: model.fit(two), words, PolicyRefusal)
    else:
        refuses(lambda: model.fit(two), words, PolicyRefusal)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("name", "least"), [("deployment-datashield", 3), ("deployment", 10), ("deployment-cms", 11)]
)
def test_minimum_counts_by_name(name: str, least: int) -> None:
    tables = dict(zip("abc", RNG.normal(size=(3, 40, 2)), strict=True))
    model = FederatedKMeans(2, policy=name, random_state=0).fit(tables)
    means, weights = in_cells(list(tables.values()), least)
    study = FederatedKMeans(2, random_state=0).fit(means, sample_weight=weights)
    assert np.array_equal(model.cluster_centers_, study.cluster_centers_)
    assert min(own.min() for own in weights) >= least


def test_a_memory_keeps_cells_where_rows_change(tmp_path: Path) -> None:
    """Nine rows more wait; with them and another, all ten are a cell of their own."""
    policy = Deployment(memory=tmp_path / "memory")
    first = OneShotKMeans(3, policy=policy, random_state=0).fit(TABLES)
    more = RNG.normal(size=(10, 2))
    for n in (1, 9):
        grown = {**TABLES, "west": np.concatenate([TABLES["west"], more[:n]])}
        again = OneShotKMeans(3, policy=policy, random_state=0).fit(grown)
        assert again.remarks_ == {"west": [f"{n} of {45 + n} rows waiting for 10 new persons"]}
        assert np.array_equal(again.cluster_centers_, first.cluster_centers_)
    grown = {**TABLES, "west": np.concatenate([TABLES["west"], more])}
    last = OneShotKMeans(3, policy=policy, random_state=0).fit(grown)
    assert last.remarks_ == {}
    cells = {**CELLS, "west": np.concatenate([CELLS["west"], cells_of(more).means])}
    weights = {**WEIGHTS, "west": np.concatenate([WEIGHTS["west"], [10.0]])}
    study = OneShotKMeans(3, random_state=0).fit(cells, sample_weight=weights)
    assert center_distance(last.cluster_centers_, study.cluster_centers_) < 1e-12
    assert sorted(path.name for path in (tmp_path / "memory").iterdir()) == sorted(TABLES)


@pytest.mark.parametrize("estimator", [DGC, GossipKMeans, OneShotKMeans, FederatedKMeans])
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
