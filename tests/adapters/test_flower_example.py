"""The app in examples/flower, as far as it goes without Flower's processes: files and mistakes."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sentences import refuses
from unpooled.adapters import flower
from unpooled.data.parties import Parties
from unpooled.errors import ProtocolError
from unpooled.simulate import run_star

APP = Path(__file__).parents[2] / "examples" / "flower"
RUN = {"method": "one-shot", "n-clusters": 3, "n-parties": 2, "seed": 0, "max-rounds": 10}


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a site."""
    assert flower.client_app  # importing it first keeps Flower from reporting
    monkeypatch.syspath_prepend(str(APP))
    return import_module("clustering.client_app")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the README's lines make."""
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (APP / "README.md").read_text(), re.S)
    exec(code, {})
    return tmp_path


def context(data: str = "north.csv", **run: Any) -> Any:
    from flwr.app import Context, RecordDict

    node = {"partition-id": 0, "name": "North", "data": data}
    return Context(1, 1, node, RecordDict(), {**RUN, "columns": "age,pressure", **run})


def test_the_files_of_the_readme_are_clustered(app: Any, files: Path) -> None:
    tables = [app.load(context(name)) for name in ("north.csv", "south.csv")]
    assert [table.shape for table in tables] == [(300, 2)] * 2
    agreement = app.agreed(context())
    centers = run_star(agreement.protocol, Parties.of(tables)).result["centers"]
    found = centers[np.argsort(centers[:, 0])]
    np.testing.assert_allclose(found, [[40, 100], [60, 120], [80, 140]], atol=1)
    np.testing.assert_array_equal(
        app.load(context(columns="pressure, age")), app.load(context())[:, ::-1]
    )


def test_mistakes_get_a_sentence(app: Any, files: Path) -> None:
    refuses(
        lambda: app.agreed(context(method="one-shoot")),
        "method='one-shoot', which is not known; give one-shot, federated, feca with --run-config",
    )
    refuses(
        lambda: app.load(context(columns="age,presure")),
        "North has no column 'presure'; correct columns in the run config",
        ProtocolError,
    )
    refuses(lambda: app.load(context("nosuch.csv")), "North has data='nosuch.csv' in its node")
    (files / "bad.csv").write_text("age,pressure\n61,120\n62,NA\n")
    refuses(lambda: app.load(context("bad.csv")), "Line 3 of the party's file has a value")
    (files / "short.csv").write_text("age,pressure\n61\n")
    refuses(lambda: app.load(context("short.csv")), "Line 2 of the party's file has a value")
