"""Every input that fuzzing has kept goes through its target once; no fuzzer is needed for that."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.targets import TARGETS
from threadpoolctl import threadpool_limits

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
