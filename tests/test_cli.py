"""The command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import unpooled
from unpooled.cli import demo, main
from unpooled.cli.progress import Screen
from unpooled.errors import InputError
from unpooled.kernels.compiled.ahead import compile_restarts, compile_rounds


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "--help"):
        with pytest.raises(SystemExit) as end:
            main([option])
        assert end.value.code == 0
    said = capsys.readouterr().out
    assert f"unpooled {unpooled.__version__}" in said
    assert "demo" in said


def test_unknown_commands_end_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["dance"])
    assert end.value.code == 2
    assert "invalid choice: 'dance'" in capsys.readouterr().err


def test_a_refusal_is_one_line_and_a_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(figure: Path) -> None:
        raise InputError("Party A has no rows; leave it out.")

    monkeypatch.setattr(demo, "demo", refuse)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == "unpooled: Party A has no rows; leave it out.\n"


@pytest.fixture(scope="module")
def compiled() -> None:
    """So that no program says that it compiles, which it does after a change of a kernel."""
    compile_rounds()
    compile_restarts()


@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_demo_prints_a_table_and_draws(tmp_path: Path) -> None:
    figure = tmp_path / "demo.png"
    command = [sys.executable, "-m", "unpooled.cli", "demo", "--figure", str(figure)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    methods = ["k-means of the pooled images", *demo.STAR, *demo.MESH]
    figures = {
        name: line[30:].split() for name in methods for line in lines if line.startswith(name)
    }
    assert list(figures) == methods
    assert all(float(accuracy.strip("%")) > 50 for accuracy, *_ in figures.values())
    assert all(0.99 < float(cost) < 1.5 for _, cost, *_ in figures.values())
    assert float(figures["OneShotKMeans"][1]) < 1.015
    assert "\r" not in done.stdout.replace("\r\r", "")
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.usefixtures("compiled")
def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m unpooled.cli reproduce kernel-shapes --runs 1 | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert done.stderr == ""
    assert done.stdout.startswith("$ unpooled reproduce kernel-shapes")


def test_a_live_line_has_nothing_of_others_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    screen = Screen("North")
    screen.show({"event": "warning", "text": "a \x1b[31mred\nline"})
    screen.show({"event": "answered", "answered": "\x1b[2J", "round": 0, "bytes": 1})
    said = capsys.readouterr().out
    assert said.startswith("North: warning: a \\x1b[31mred\\nline\n")
    assert said.count("\x1b") == said.count("\r\x1b[K") == 1  # its own, to begin the line anew


def test_demo_says_when_it_cannot_draw(tmp_path: Path) -> None:
    assert "cannot be written" in demo._save(Figure(), tmp_path / "missing" / "demo.png")
