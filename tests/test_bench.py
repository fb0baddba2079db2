"""The page of ratios: what is written is read again, and what got worse is said."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SECONDS = {"sums": 3.0, "sorts": 0.02}
"""What ours takes; every peer takes 2 seconds."""


@pytest.fixture(scope="module")
def page() -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("page")
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture
def kept(page: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = tmp_path / "page.txt"
    assert page.main(["--write"], groups(page), file) == 0
    assert capsys.readouterr().out == file.read_text()
    return file


def groups(page: Any, seconds: dict[str, Any] | None = None, needs: str | None = None) -> list[Any]:
    """One race to a group; ``seconds`` has what ours takes, or a list of it for several runs."""
    made = []
    for name, own in (SECONDS | (seconds or {})).items():
        own = list(own) if isinstance(own, Sequence) else [own] * 100
        peers = tuple(timing(page).Peer(peer, "theirs", lambda: 2.0, 0.5) for peer in ("a", "b-c"))
        race = timing(page).Race(name, "ours", iter(own).__next__, peers, runs=1)
        made.append(timing(page).Group(f"On {name}", (race,), needs))
    return made


def timing(page: Any) -> Any:
    return sys.modules[page.Race.__module__]


def test_what_is_written_is_read(page: Any, kept: Path) -> None:
    assert page.kept(kept.read_text()) == {
        "sums/a": 1.5,
        "sums/b-c": 1.5,
        "sorts/a": 0.01,
        "sorts/b-c": 0.01,
    }


def test_the_page_says_on_what(kept: Path) -> None:
    text = kept.read_text()
    assert text.startswith("$ python benchmarks/page.py --write\n")
    for word in ("cores", "GiB", "Python 3", "NumPy", "scikit-learn", "Numba", "On sums"):
        assert word in text


@pytest.mark.parametrize(("factor", "passes"), [(0.5, True), (1.2, True), (1.3, False)])
def test_a_quarter_worse_is_too_much(
    page: Any, kept: Path, capsys: pytest.CaptureFixture[str], factor: float, passes: bool
) -> None:
    now = groups(page, {"sorts": factor * SECONDS["sorts"]})
    assert page.main(["--check"], now, kept) == (0 if passes else 1)
    said = (
        ""
        if passes
        else "sorts/a: 0.013, 30 % worse than 0.01\nsorts/b-c: 0.013, 30 % worse than 0.01\n"
    )
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(("runs", "passes"), [([9, 9, 3], True), ([9, 9, 9], False)])
def test_what_looks_worse_has_three_tries(
    page: Any, kept: Path, runs: list[float], passes: bool
) -> None:
    assert page.main(["--check"], groups(page, {"sums": runs}), kept) == (0 if passes else 1)


def test_ratios_on_one_side_only_are_named(
    page: Any, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = groups(page, {"leaps": 1.0})[1:]
    assert page.main(["--check"], now, kept) == 1
    said = capsys.readouterr().out
    assert "leaps/a: 0.5, and nothing on the page to compare it with" in said
    assert "sums/a: on the page, but there is no such race any more" in said
    assert "sorts" not in said


def test_only_some(page: Any, kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = groups(page, {"sums": 30.0})
    assert page.main(["--check", "--only", "sorts"], now, kept) == 0
    assert page.main(["--only", "sorts"], now, kept) == 0
    assert "sums" not in capsys.readouterr().out
    for wrong in (["--only", "sort"], ["--only", "sorts", "--write"]):
        with pytest.raises(SystemExit):
            page.main(wrong, now, kept)


def test_without_the_data_a_race_is_left_out(
    page: Any, kept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNPOOLED_DATA", raising=False)
    now = groups(page, {"sums": []}, needs="mnist")
    assert page.main(["--check"], now, kept) == 0
    assert "sums: left out, for want of mnist.npz" in capsys.readouterr().err
    assert page.main(["--write"], now, kept) == 0
    assert "left out" in kept.read_text()
    assert page.kept(kept.read_text()) == {}


def test_every_ratio_has_a_name_of_its_own(page: Any) -> None:
    names = [name for group in page.PAGE for race in group.races for name in race.lanes]
    assert len(set(names)) == len(names)
