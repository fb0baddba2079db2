"""Plain words: no private vocabulary, short first sentences, and a map that knows every file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import ROOT, SOURCE, first_sentence

LIST = re.compile(r"^- ((?:`[^`]+`(?:, )?)+): (.*)$", re.MULTILINE)
ON_THE_WIRE = {"unrest", "words", "bye"}
"""Names of fields and kinds of messages, which stay as they are."""


def private_words() -> dict[str, str]:
    """The words that CONTRIBUTING.md lists, with what to write in their place."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split("## Words not to use")[1]
    return {word: better for words, better in LIST.findall(section) for word in _quoted(words)}


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def documents() -> list[Path]:
    files = [*SOURCE.rglob("*.py"), ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    return [*files, ROOT / "docs" / "API.md", ROOT / "fuzz" / "README.md"]


def test_there_is_a_list() -> None:
    assert {"told", "behind", "fewest", "unrest", "folding", "last words"} <= set(private_words())


@pytest.mark.parametrize("word", private_words())
def test_no_private_word_is_left(word: str) -> None:
    pattern = re.compile(rf"(?<![\w]){re.escape(word)}(?![\w])", re.IGNORECASE)
    literal = f'"{word}"' if word in ON_THE_WIRE else "\0"
    for file in documents():
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            found = pattern.search(line.replace(literal, ""))
            where = f"{file.relative_to(ROOT)}:{number}"
            assert not found, f"{where} has {word!r}; write {private_words()[word]}"


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda f: f.stem)
def test_a_module_begins_with_a_short_sentence(file: Path) -> None:
    sentence = first_sentence(file)
    assert sentence or file.name == "__main__.py"
    assert len(sentence.split()) <= 25


def test_files_that_the_architecture_names_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text().split("## Every file")[0]
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
        assert (SOURCE / name).exists() or (ROOT / name).exists(), name
    for name in re.findall(r"`((?:\w+/)+)`", text):
        assert (SOURCE / name).is_dir() or (ROOT / name).is_dir(), name
