"""Docstrings are numpydoc's, so that any generator reads them: ``name : type``, then what it is."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator

import unpooled

ROOT = Path(__file__).parent.parent
PUBLIC = (
    "unpooled",
    "unpooled.baselines",
    "unpooled.datasets",
    "unpooled.deep",
    "unpooled.image_sets",
    "unpooled.losses",
    "unpooled.metrics",
    "unpooled.partition",
    "unpooled.preprocessing",
)
"""The modules that people import things from, beside those that develop unpooled."""
SECTIONS = ("Parameters", "Attributes", "Returns")


def exported(name: str) -> Iterator[tuple[str, Any]]:
    """The classes and functions of a module."""
    module = importlib.import_module(name)
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == name]
    for key in getattr(module, "__all__", own):
        value = getattr(module, key)
        if not key.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            yield f"{name}.{key}", value


def issubclass_of(value: Any, kind: type) -> bool:
    """Whether this is a class of that kind."""
    return inspect.isclass(value) and issubclass(value, kind)


def callables() -> dict[str, Callable[..., Any]]:
    """What people call: functions, constructors, and methods of estimators."""
    found: dict[str, Callable[..., Any]] = {}
    for name in PUBLIC:
        for path, value in exported(name):
            found[path] = value
            if issubclass_of(value, BaseEstimator):
                for method, member in inspect.getmembers(value, inspect.isfunction):
                    if not method.startswith("_") and member.__module__.startswith("unpooled"):
                        found[f"{path}.{method}"] = member
    return found


def sections(text: str) -> dict[str, list[tuple[str, str, str]]]:
    """The entries of each section: name, type and description, as numpydoc reads them."""
    lines = inspect.cleandoc(text).splitlines()
    heads = [
        i
        for i, line in enumerate(lines[1:])
        if re.fullmatch("-{3,}", line) and lines[i].strip() and len(line) == len(lines[i])
    ]
    found = {}
    for head, following in pairwise([*heads, len(lines)]):
        entries: list[tuple[str, str, str]] = []
        for line in lines[head + 2 : following]:
            if line and not line.startswith(" "):
                name, _, kind = line.partition(" : ")
                entries.append((name.strip(), kind.strip(), ""))
            elif line:
                name, kind, said = entries.pop()
                entries.append((name, kind, f"{said} {line.strip()}".strip()))
        found[lines[head]] = entries
    return found


CALLABLES = callables()


@pytest.mark.parametrize("path", CALLABLES)
def test_parameters_are_those_of_the_signature(path: str) -> None:
    value = CALLABLES[path]
    said = [name for name, _, _ in sections(value.__doc__ or "").get("Parameters", [])]
    if not said and inspect.isclass(value) and "__init__" not in vars(value):
        return  # its parameters are those of another, or there are none
    assert said == [name for name in inspect.signature(value).parameters if name != "self"]


def documented() -> dict[str, str]:
    """Every docstring in the package that has a section."""
    found = {}
    for module in pkgutil.walk_packages(unpooled.__path__, "unpooled."):
        if module.name.endswith("__main__"):
            continue
        for key, value in vars(importlib.import_module(module.name)).items():
            if getattr(value, "__module__", "") != module.name:
                continue  # it is written elsewhere
            members = vars(value) if inspect.isclass(value) else {}
            for name, member in {"": value, **members}.items():
                text = getattr(member, "__doc__", None) or ""
                if any(f"{title}\n" in text for title in SECTIONS):
                    found[f"{module.name}.{key}.{name}".rstrip(".")] = text
    return found


DOCUMENTED = documented()


def test_what_is_garbled_is_seen() -> None:
    assert len(DOCUMENTED) > 50
    garbled = "One.\n\nParameters\n----------\nn : how many\nk, m : int\n    Others.\n"
    assert sections(garbled) == {"Parameters": [("n", "how many", ""), ("k, m", "int", "Others.")]}


@pytest.mark.parametrize("path", DOCUMENTED)
def test_every_entry_has_a_type_and_a_description(path: str) -> None:
    found = {title: own for title, own in sections(DOCUMENTED[path]).items() if title in SECTIONS}
    assert found
    for title, entries in found.items():
        assert entries
        for name, kind, said in entries:
            assert re.fullmatch(r"\w+(, \w+)*", name), name
            assert kind, f"{name} has no type"
            assert said.endswith("."), f"{name} is described as {said!r}"
            assert title != "Attributes" or name.endswith("_")


@pytest.mark.parametrize(
    "path", [path for path, value in CALLABLES.items() if issubclass_of(value, BaseEstimator)]
)
def test_estimators_say_what_they_have_after_a_fit(path: str) -> None:
    estimator = CALLABLES[path]
    said = sections(estimator.__doc__ or "").get("Attributes", [])
    assert said or "__init__" not in vars(estimator)


@pytest.mark.long
def test_pages_show_what_is_inherited_and_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    modules = ["unpooled", "unpooled.baselines", "unpooled.metrics"]
    options = ["--docformat", "numpy", "--template-directory", str(ROOT / "docs")]
    run = [sys.executable, "-m", "pdoc", *options, "--output-directory", str(tmp_path), *modules]
    subprocess.run(run, check=True, capture_output=True)
    page = (tmp_path / "unpooled.html").read_text()
    for method in ("fit", "predict", "transform", "score", "fit_predict"):
        assert f'id="FederatedKMeans.{method}"' in page
    assert 'id="FederatedKMeans.max_rounds"' not in page  # it stands under the parameters
    assert '<a href="unpooled/metrics.html">metrics</a>' in page
    assert "<strong>max_rounds</strong> (int, default=100):" in page
    for path in tmp_path.rglob("*.html"):
        assert not re.search(r"<(script|link|img)[^>]*(src|href)=.(https?:)?//", path.read_text())
