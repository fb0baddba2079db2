"""Plain words: no private vocabulary, short first sentences, and a map that knows every file."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_no_private_word_is_left() -> None:
    words = {word.lower(): better for word, better in private_words().items()}
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)
    literals = re.compile("|".join(f'"{word}"' for word in ON_THE_WIRE))
    for file in documents():
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            found = pattern.search(literals.sub("", line))
            where = f"{file.relative_to(ROOT)}:{number}"
            assert not found, f"{where} has {found[1]!r}; write {words[found[1].lower()]}"  # type: ignore[index]


def test_modules_begin_with_a_short_sentence() -> None:
    for file in SOURCE.rglob("*.py"):
        sentence = first_sentence(file)
        assert sentence or file.name == "__main__.py", file
        assert len(sentence.split()) <= 25, file


def test_files_that_the_architecture_names_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text().split("## Every file")[0]
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
        assert (SOURCE / name).exists() or (ROOT / name).exists(), name
    for name in re.findall(r"`((?:\w+/)+)`", text):
        assert (SOURCE / name).is_dir() or (ROOT / name).is_dir(), name
