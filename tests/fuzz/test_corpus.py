"""Every input that fuzzing has kept goes through its target once; no fuzzer is needed for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.targets import TARGETS
from threadpoolctl import threadpool_limits

from fuzz import run

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_passes(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    with threadpool_limits(1):
        for path in inputs:
            try:
                TARGETS[name].one(path.read_bytes())
            except Exception as error:
                error.add_note(f"python fuzz/run.py --repeat {name} {path}")
                raise


def test_the_corpus_is_small_and_of_known_targets() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
    for folder in CORPUS.iterdir():
        sizes = [path.stat().st_size for path in folder.iterdir()]
        assert len(sizes) <= 100
        assert sum(sizes) <= 200_000


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_are_those_in_the_corpus(name: str) -> None:
    labels = {label for label, _ in TARGETS[name].seeds()}
    kept = {path.name.removeprefix("seed-") for path in (CORPUS / name).glob("seed-*")}
    assert labels == kept


def test_fuzzing_leaves_the_corpus_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seeds that are made anew, with other bytes, are fuzzed from and not kept, unless asked."""
    kept, read = tmp_path / "corpus" / "words" / "seed-right", []
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"of another release")

    def child(name: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        read.extend(arguments)
        return subprocess.CompletedProcess([], 0, "cov: 1\nnumber_of_executed_units: 1\n")

    for place in ("CORPUS", "CRASHES", "BUILD"):
        monkeypatch.setattr(run, place, tmp_path / place.lower())
    monkeypatch.setattr(run, "_child", child)
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "words", "--seconds", "1"])
    assert run.main() == 0
    assert list(kept.parent.iterdir()) == [kept]
    assert kept.read_bytes() == b"of another release"
    seeds = {f"seed-{label}": content for label, content in TARGETS["words"].seeds()}
    fresh = Path(read[-2])
    assert {path.name: path.read_bytes() for path in fresh.iterdir()} == seeds
    assert read[-1] == str(kept.parent)
    sys.argv.append("--keep")
    assert run.main() == 0
    assert kept.read_bytes() == seeds["seed-right"]
    assert "0 crashes" in capsys.readouterr().out
