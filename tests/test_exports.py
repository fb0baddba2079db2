"""What is public: every ``__all__`` is true, and ``docs/API.md`` lists all of it in one place."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import unpooled

ROOT = Path(__file__).parent.parent
PUBLIC = (
    *("unpooled", "unpooled.adapters.flower", "unpooled.baselines", "unpooled.datasets"),
    *("unpooled.deep", "unpooled.estimators", "unpooled.graphs", "unpooled.image_sets"),
    *("unpooled.losses", "unpooled.messages", "unpooled.metrics", "unpooled.partition"),
    *("unpooled.persistence", "unpooled.preprocessing", "unpooled.privacy"),
    *("unpooled.simulate", "unpooled.testing"),
)


def exported(module: ModuleType) -> list[str]:
    return sorted(module.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_all_is_what_the_module_has(name: str) -> None:
    module = importlib.import_module(name)
    names = exported(module)
    assert len(set(names)) == len(names)
    for member in names:
        assert hasattr(module, member), f"{name}.__all__ has {member!r}, which is not there"
    own = {
        member
        for member, value in vars(module).items()
        if not member.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and str(getattr(value, "__module__", "")).startswith(name)
    }
    assert own <= set(names), f"{name}.__all__ lacks {sorted(own - set(names))}"


def listed() -> dict[str, list[str]]:
    text = (ROOT / "docs" / "API.md").read_text()
    sections = re.findall(r"^## `([\w.]+)`\n\n(.*?)\n\n", text + "\n", re.DOTALL | re.MULTILINE)
    return {module: sorted(re.findall(r"`(\w+)`", names)) for module, names in sections}


def test_the_public_api_is_listed_in_one_place() -> None:
    found = {name: exported(importlib.import_module(name)) for name in PUBLIC}
    assert listed() == found


def test_submodules_that_are_reachable_are_public() -> None:
    reachable = {f"unpooled.{name}" for name in unpooled._SUBMODULES}
    assert reachable - {"unpooled.protocols"} <= set(PUBLIC)
