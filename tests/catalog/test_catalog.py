"""One protocol file, one estimator and one line in the catalog are a method, everywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz.stars
import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import unpooled
from tests import tables
from tests.conformance import test_protocols
from tests.network.site import write_plan
from tests.pages import readme_table
from unpooled import catalog, estimators
from unpooled.catalog import Method
from unpooled.data.parties import Parties
from unpooled.deploy.plan_file import read_plan
from unpooled.errors import InputError
from unpooled.privacy.policy import DEPLOYMENT, STUDY
from unpooled.testing import conformance
from unpooled.testing.attacks.differencing import recovered
from unpooled.testing.attacks.target import overheard

ROOT = Path(unpooled.__file__).parents[2]
TOY = Method(
    "ToyMean",
    "tests.catalog.toy_estimator",
    "star",
    ("sums", "counts"),
    samples={"toy mean": {}},
    about="the mean of all rows",
    costs=("1", "d + 1"),
)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The toy method's line in the catalog."""
    monkeypatch.setattr(catalog, "METHODS", [*catalog.METHODS, TOY])
    yield catalog.find("ToyMean").estimator
    for module in (unpooled, estimators):
        module.__dict__.pop("ToyMean", None)


def test_a_new_method_is_exported(added: Any) -> None:
    assert unpooled.ToyMean is added  # type: ignore[attr-defined]
    assert estimators.ToyMean is added  # type: ignore[attr-defined]
    assert added in tables.estimators()


def test_a_new_method_is_in_every_table_of_tests(added: Any) -> None:
    assert "toy mean" in test_protocols.table()
    for check in conformance(test_protocols.table()["toy mean"]):
        check()
    protocol = tables.attackable(2)["sample: toy mean"]
    rows = [*np.random.default_rng(0).normal(size=(3, 40, 2)), np.array([[5.0, 7.0]])]
    for policy, found in ((STUDY, 1), (DEPLOYMENT, 0)):  # the mean of one row is that row
        assert recovered([overheard(protocol, Parties.of(rows), policy)], rows) == found
    assert any(own.name == "toy mean" for own in fuzz.stars.protocols())
    check_estimator(added(2), on_skip=None)


def test_a_new_method_can_be_planned_and_saved(added: Any, tmp_path: Path) -> None:
    content = {
        "method": "ToyMean",
        "parameters": {"n_clusters": 2},
        "columns": ["x", "y"],
        "coordinator": {"endpoint": "127.0.0.1:7447", "fingerprint": "sha256:" + 64 * "0"},
        "parties": {name: {"fingerprint": "sha256:" + 64 * digit} for name, digit in PARTIES},
    }
    plan = read_plan(write_plan(tmp_path / "plan.toml", content))
    assert plan.protocol.name == "toy mean"
    model = added(2).fit(np.arange(12.0).reshape(6, 2))
    unpooled.save(model, tmp_path / "model")
    again = unpooled.load(tmp_path / "model")
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)


PARTIES = (("North", "1"), ("South", "2"))


def test_a_new_method_is_in_the_readmes_table(added: Any) -> None:
    line = "| `ToyMean` | the mean of all rows | 1 | d + 1 | sums, counts |"
    assert line in readme_table("star").splitlines()


@pytest.mark.parametrize("method", catalog.METHODS, ids=lambda method: method.name)
def test_a_method_discloses_what_its_entry_says(method: Method) -> None:
    if not method.samples:
        assert method.extra
        return
    found = method.protocols(tables.nobody()).values()
    releases = [release for protocol in found for release in protocol.releases]
    assert {kind for release in releases for kind in release.discloses} == set(method.discloses)


def test_type_checkers_know_every_estimator() -> None:
    """They cannot run the catalog, so ``unpooled/__init__.py`` has a line for each besides."""
    tree = ast.parse(Path(unpooled.__file__).read_text())
    imported = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for method in catalog.METHODS:
        if "." not in method.name:
            assert (method.module, method.name) in imported


def test_a_method_that_is_none() -> None:
    with pytest.raises(InputError, match="There is no method 'KMeans'; give one of OneShotKMeans"):
        catalog.find("KMeans")
