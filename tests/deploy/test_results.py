"""What a run leaves behind: models that take raw rows, centres in columns' units, labels."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

import unpooled
from tests.network.site import tables, write_plan
from tests.sentences import refuses
from unpooled.data.parties import Parties
from unpooled.data.sources import Names
from unpooled.deploy import results
from unpooled.deploy.plan import Plan
from unpooled.deploy.plan_file import read_plan
from unpooled.network.storage.directory import StateDirectory
from unpooled.persistence import file
from unpooled.preprocessing import StandardScaler
from unpooled.protocols.prepare.standardise import MEAN, SCALE, in_units
from unpooled.protocols.star.base import StarProtocol
from unpooled.simulate import run_star
from unpooled.types import Body, FloatArray, IntArray

NAMES = ("North", "South", "West")
SHAPED = {"n_clusters": 3, "n_features": 64}
STAR: dict[str, dict[str, Any]] = {
    "OneShotKMeans": {"n_clusters": 3},
    "FederatedKMeans": {"n_clusters": 3},
    "FeCA": {"n_clusters": 3},
    "KFED": {"n_clusters": 3},
    "MatchedAveraging": {"n_clusters": 3},
    "FuzzyCMeans": {"n_clusters": 3},
    "CoresetKMeans": {"n_clusters": 3, "coreset_size": 40},
    "KernelKMeans": {**SHAPED, "gamma": 1.0},
    "RandomFeatureKMeans": SHAPED,
    "KernelPCAKMeans": {"n_clusters": 3},
    "DeepFeCA": {"n_clusters": 3, "rounds": 0, "image_shape": [1, 1, 2]},
}


class Finished(NamedTuple):
    """A run of a plan in one process, with a coordinator's and a party's files."""

    plan: Plan
    result: Body
    rows: FloatArray
    labels: IntArray
    coordinator: Path
    party: Path


def finished(folder: Path, method: str, *, standardise: bool = True) -> Finished:
    """Runs the plan's protocol, and writes what programs write."""
    content = {
        "method": method,
        "parameters": STAR[method],
        "coordinator": {"endpoint": "127.0.0.1:7447"},
        "parties": {name: {} for name in NAMES},
        "standardise": standardise,
    }
    if method == "DeepFeCA":
        content["releases"] = ["moments"] * standardise + ["pixels", "train", "centroids"]
    plan = read_plan(write_plan(folder / "plan.toml", content))
    assert isinstance(plan.protocol, StarProtocol)
    own = tables(NAMES)
    parties = Parties.of(list(own.values()), names=NAMES)
    result = run_star(plan.protocol, parties, seed=plan.run_seed).result
    shared = plan.protocol.shown(result)
    labels = results.star_labels(plan.protocol, parties.rows, shared)
    for name, body, only in (("coordinator", result, False), ("North", shared, True)):
        state = StateDirectory(folder / name, plan.hash.hex(), name)
        results.write_model(state, plan, body, shared_only=only)
        results.write_centers(state, plan, body)
        state.close()
    return Finished(plan, result, parties.rows, labels, folder / "coordinator", folder / "North")


@pytest.mark.parametrize("method", STAR)
def test_models_label_raw_rows_as_the_run_did(tmp_path: Path, method: str) -> None:
    run = finished(tmp_path, method)
    for folder in (run.coordinator, run.party):
        model = unpooled.load(folder / "model.unpooled")
        np.testing.assert_array_equal(model.predict(run.rows), run.labels)
        assert len(np.unique(run.labels)) > 1
        np.testing.assert_array_equal(model.transform(run.rows).argmin(axis=1), run.labels)


@pytest.mark.parametrize("method", ["OneShotKMeans", "FuzzyCMeans", "KernelKMeans"])
def test_a_model_is_the_scaler_and_then_the_method(tmp_path: Path, method: str) -> None:
    run = finished(tmp_path, method)
    model = unpooled.load(run.coordinator / "model.unpooled")
    own = tables(NAMES)
    scaler = StandardScaler().fit(own)
    scaled = scaler.transform(own)
    apart = getattr(unpooled, method)(**STAR[method], random_state=0).fit(scaled)
    moved = scaler.transform(run.rows)
    np.testing.assert_array_equal(model.transform(run.rows), apart.transform(moved))
    if method == "FuzzyCMeans":
        np.testing.assert_array_equal(model.memberships(run.rows), apart.memberships(moved))
    if method == "KernelKMeans":
        np.testing.assert_array_equal(model.embed(run.rows), apart.embed(moved))
        np.testing.assert_array_equal(model.cluster_centers_, apart.cluster_centers_)
    else:  # centres in the columns' units
        expected = apart.cluster_centers_ * scaler.scale_ + scaler.mean_
        np.testing.assert_allclose(model.cluster_centers_, expected, rtol=1e-13)


def test_a_model_of_prepared_rows_is_cloned_saved_and_fitted_like_any_other(
    tmp_path: Path,
) -> None:
    run = finished(tmp_path, "OneShotKMeans")
    model = unpooled.load(run.coordinator / "model.unpooled")
    assert clone(model).get_params() == model.get_params()
    unpooled.save(model, tmp_path / "again")
    np.testing.assert_array_equal(unpooled.load(tmp_path / "again").predict(run.rows), run.labels)
    fresh = unpooled.OneShotKMeans(3, random_state=0).fit(run.rows)
    model.set_params(random_state=0).fit(run.rows)
    np.testing.assert_array_equal(model.predict(run.rows), fresh.predict(run.rows))
    assert not hasattr(model, "preparations_")


def test_a_model_without_preparation_is_as_it_was(tmp_path: Path) -> None:
    run = finished(tmp_path, "OneShotKMeans", standardise=False)
    model = unpooled.load(run.party / "model.unpooled")
    np.testing.assert_array_equal(model.cluster_centers_, run.result["centers"])
    np.testing.assert_array_equal(model.predict(run.rows), run.labels)


def test_rows_that_no_preparation_can_take_are_refused(tmp_path: Path) -> None:
    run = finished(tmp_path, "OneShotKMeans")
    model = unpooled.load(run.coordinator / "model.unpooled")
    model.preparations_[0].scale_ = np.array([1e-200, 1.0])
    refuses(lambda: model.predict([[1e149, 0.0]]), "rows lie beyond 1e\\+150")


def older(run: Finished, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model as releases before wrote it: standardised centres, and nothing of a scaler."""
    model = unpooled.load(run.coordinator / "model.unpooled")
    scaler = model.preparations_[0]
    model.cluster_centers_ = run.result["centers"]
    del model.preparations_
    vars(model).pop("prepared_centers_", None)
    folder.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(file, "FORMAT", "unpooled model 1")
        unpooled.save(model, folder / "model.unpooled")
        unpooled.save(scaler, folder / "scaler.unpooled")
    return folder / "model.unpooled"


@pytest.mark.parametrize("method", ["OneShotKMeans", "KernelKMeans"])
def test_an_older_model_is_completed_with_the_scaler_beside_it_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    run = finished(tmp_path, method)
    path = older(run, tmp_path / "old", monkeypatch)
    model = unpooled.load(path)
    np.testing.assert_array_equal(model.predict(run.rows), run.labels)
    now = unpooled.load(run.coordinator / "model.unpooled")
    np.testing.assert_array_equal(model.cluster_centers_, now.cluster_centers_)
    scaler = unpooled.load(path.parent / "scaler.unpooled")
    scaler.feature_names_in_ = np.array(["x", "z"], dtype=object)
    unpooled.save(scaler, path.parent / "scaler.unpooled")
    refuses(lambda: unpooled.load(path), "not of the same run")
    (path.parent / "scaler.unpooled").unlink()
    refuses(lambda: unpooled.load(path), "put scaler.unpooled of the same run beside it")


def test_an_older_model_that_was_fitted_in_one_process_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tables(NAMES)["North"]
    model = unpooled.OneShotKMeans(3, random_state=0).fit(rows)
    monkeypatch.setattr(file, "FORMAT", "unpooled model 1")
    unpooled.save(model, tmp_path / "model")
    np.testing.assert_array_equal(unpooled.load(tmp_path / "model").predict(rows), model.labels_)


def test_centers_csv_and_the_model_have_the_same_centres(tmp_path: Path) -> None:
    run = finished(tmp_path, "FederatedKMeans")
    with (run.party / "centers.csv").open() as lines:
        header, *rows = csv.reader(lines)
    assert header == ["cluster", "x", "y"]
    found = np.array(rows, dtype=float)[:, 1:]
    model = unpooled.load(run.party / "model.unpooled")
    np.testing.assert_array_equal(found, model.cluster_centers_)
    standard = run.result["centers"] * run.result[SCALE] + run.result[MEAN]
    np.testing.assert_allclose(found, standard, rtol=1e-13)


def test_centres_in_units_have_no_dust() -> None:
    """0.1 three times and back again: 5.551115123125783e-17 without rounding."""
    mean, scale = np.array([0.3, 1e9, 0.0]), np.array([0.1, 1e-3, 1e-200])
    centers = np.array([[-3.0, 1.5, 2.0], [4.0, -0.5, 0.0]])
    assert (centers * scale + mean)[0, 0] == -5.551115123125783e-17
    found = in_units(centers, mean, scale)
    np.testing.assert_array_equal(found, [[0.0, 1e9 + 0.0015, 2e-200], [0.7, 1e9 - 0.0005, 0.0]])
    assert not np.signbit(found).any()
    assert repr(found[0].tolist()) == "[0.0, 1000000000.0015, 2e-200]"
    extreme = in_units(np.ones((1, 2)), np.array([0.0, 1.7e308]), np.array([1e-320, 1e308]))
    np.testing.assert_array_equal(extreme, [[0.0, np.inf]])


def test_labels_come_with_the_rows_names(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path, "plan", "North")
    results.write_labels(state, np.array([2, 0]), Names("patient", ("P,1", "007")))
    assert (tmp_path / "labels.csv").read_text() == 'patient,label\n"P,1",2\n007,0\n'
    results.write_labels(state, np.array([2, 0]))
    assert (tmp_path / "labels.csv").read_text() == "label\n2\n0\n"
    state.close()
