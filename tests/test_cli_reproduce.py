"""``unpooled reproduce``."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.experiments.reproduction.test_running import Toy
from unpooled.cli import main
from unpooled.experiments.reproduction import registry
from unpooled.experiments.reproduction.registry import ALIASES, ENTRIES, OURS, OWN

NAMES = """
    dgc-table-2 dgc-table-3 dgc-table-4 dgc-table-5 dgc-table-6 dgc-figure-2 dgc-figure-3
    dgc-figure-5 dkmc-figure-2 dkmc-figure-3 kernel-figure-1 kernel-figure-2 kernel-figure-3
    kernel-figure-4 kernel-figure-5 feca-table-1 feca-table-2 feca-table-4 feca-table-5 feca-table-6
    feca-table-7 feca-table-8 feca-table-9 feca-table-10 feca-figure-3 feca-figure-4 feca-figure-5
    feca-figure-10 feca-figure-12 deepfeca-table-3 comparison
"""
EARLIER_NAMES = """
    deep-digits deep-paper deep-table dgc-iris feca-ssets gossip-faults gossip-pictures
    gossip-quality gossip-rho gossip-table kernel-compare kernel-paper kernel-shapes oneshot-costs
"""


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two experiments, of which one lacks data; the folder that they are run in."""
    log = str(tmp_path / "log")
    ready = Toy("ready", OURS, "numbers", 1, log)
    lacking = Toy("lacking", OURS, "numbers", 1, log, data=("iris", "no-such-set"))
    monkeypatch.setattr(registry, "ENTRIES", {"ready": ready, "lacking": lacking})
    monkeypatch.setattr("unpooled.cli.reproduce.ENTRIES", registry.ENTRIES)
    monkeypatch.setattr("unpooled.experiments.reproduction.index.ENTRIES", registry.ENTRIES)
    monkeypatch.delenv("UNPOOLED_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_names_are_there() -> None:
    assert list(ENTRIES) == NAMES.split()
    assert sorted([*ALIASES, *OWN]) == sorted([*EARLIER_NAMES.split(), "cells", "held-out"])
    assert all(set(names) <= set(ENTRIES) for names in ALIASES.values())


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in [*ENTRIES, *ALIASES, *OWN]:
        assert sum(line.split()[:1] == [name] for line in lines) == 1, name
    line = next(line for line in lines if line.startswith("dgc-table-3 "))
    assert line.split()[1] == "DGC"
    assert line.endswith("mnist, cifar10_20k")
    assert max(map(len, lines)) < 160


def test_one_is_printed_and_written(toys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "ready", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "| what | paper | ours | difference | verdict | why |" in said
    assert said.splitlines()[-1].startswith("reproduction/ready.md: 1 ")
    assert "\r" not in said
    assert "[ready](ready.md)" in (toys / "reproduction" / "README.md").read_text()
    assert main(["reproduce", "ready", "--jobs", "1", "--fresh"]) == 0
    assert (toys / "log").read_text().split() == ["0", "1", "2", "3"] * 2


def test_a_quick_one_has_a_folder_of_its_own(
    toys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "ready", "--quick", "--jobs", "1"]) == 0
    assert "quick/ready.md" in capsys.readouterr().out
    assert "**A quick run" in (toys / "quick" / "ready.md").read_text()
    assert (toys / "log").read_text().split() == ["0", "1"]
    assert main(["reproduce", "ready", "--jobs", "1", "--to", "quick"]) == 2
    assert "name another folder (--to)" in capsys.readouterr().err


def test_all_leaves_out_what_it_lacks_data_for(
    toys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "all", "--jobs", "1", "--runs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("reproduction/ready.md: 1 ")
    assert lines[1] == (
        "left out: lacking needs no-such-set.npz (arrays X and y): put what is missing into a "
        "folder and set UNPOOLED_DATA to it."
    )
    assert "--runs 2" in (toys / "reproduction" / "ready.md").read_text()
    assert main(["reproduce", "lacking"]) == 2
    assert "lacking needs no-such-set.npz" in capsys.readouterr().err


def test_what_cannot_be_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "dgc-figur-2"]) == 2
    assert capsys.readouterr().err == (
        "unpooled: 'dgc-figur-2' is no name: did you mean dgc-figure-2? unpooled reproduce lists "
        "all names.\n"
    )
    for option, value in (("--runs", "0"), ("--runs", "1e9"), ("--jobs", "-1"), ("--to", "")):
        with pytest.raises(SystemExit, match="2"):
            main(["reproduce", "dgc-figure-2", f"{option}={value}"])
        assert f"argument {option}: {value!r} is no " in capsys.readouterr().err


def test_a_damaged_page_of_another_experiment(
    toys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (toys / "reproduction").mkdir()
    (toys / "reproduction" / "lacking.json").write_text("{}")
    assert main(["reproduce", "ready", "--jobs", "1"]) == 2
    assert "lacking.json cannot be read: make it again" in capsys.readouterr().err


@pytest.mark.parametrize("name", OWN)
def test_experiments_of_our_own_have_reports(name: str) -> None:
    assert callable(import_module(f"unpooled.experiments.{OWN[name][0]}").report)


def test_reproduce_says_which_extra_it_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNPOOLED_DATA", str(tmp_path))
    (tmp_path / "cifar10_20k.npz").touch()
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    ours = [name for name in sys.modules if re.match(r"unpooled\.(experiments\.)?deep\b", name)]
    for name in ours:
        monkeypatch.delitem(sys.modules, name)
    for name in ("deep-digits", "deep-paper"):
        assert main(["reproduce", name]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err == (
            f"unpooled: {name} cannot be run: unpooled.deep needs PyTorch; run pip install "
            "'unpooled[deep]'.\n"
        )
    assert main(["reproduce", "deepfeca-table-3"]) == 2
    needs = "deepfeca-table-3 needs PyTorch; run pip install 'unpooled[deep]'.\n"
    assert capsys.readouterr().err == f"unpooled: {needs}"
