"""What is public: every ``__all__`` is true, and ``docs/API.md`` lists all of it in one place."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from types import ModuleType

import pytest

import unpooled
from tests.pages import PAGES, PUBLIC, ROOT, SOURCE


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


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_up_to_date(page: str) -> None:
    assert (ROOT / page).read_text() == PAGES[page](), "run `make pages`"


def test_submodules_that_are_reachable_are_public() -> None:
    reachable = {f"unpooled.{name}" for name in unpooled._SUBMODULES}
    assert reachable - {"unpooled.protocols"} <= set(PUBLIC)


def test_every_star_algorithm_is_in_the_contract_of_independence() -> None:
    """import-linter takes names, not patterns; the shared parts and the base are no algorithms."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {own["name"]: own for own in project["tool"]["importlinter"]["contracts"]}
    listed = contracts["Star algorithms import no other, but for the start they name"]["modules"]
    files = (SOURCE / "protocols" / "star").glob("*.py")
    names = {file.stem for file in files} - {"__init__", "base"}
    assert set(listed) == {f"unpooled.protocols.star.{name}" for name in names}
