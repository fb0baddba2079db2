"""A state directory is one process's, one party's and one plan's, and damage is refused."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from tests.network.hub import Hub
from tests.network.site import hash_of
from tests.sentences import refuses
from unpooled.errors import StateError
from unpooled.network.identity import Identity
from unpooled.network.node import Node
from unpooled.network.storage.directory import StateDirectory


def _lock(path: Path, locked: Any, done: Any) -> None:
    state = StateDirectory(path, "plan", "A")
    locked.set()
    done.wait(60)
    state.close()


def test_a_directory_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    locked, done = context.Event(), context.Event()
    process = context.Process(target=_lock, args=(tmp_path / "A", locked, done))
    process.start()
    try:
        assert locked.wait(120)
        refuses(lambda: StateDirectory(tmp_path / "A", "plan", "A"), "Another process", StateError)
    finally:
        done.set()
        process.join(60)
    StateDirectory(tmp_path / "A", "plan", "A").close()  # free again


def test_a_directory_of_another_plan_or_party_is_refused(tmp_path: Path) -> None:
    StateDirectory(tmp_path, "plan", "A").close()
    refuses(lambda: StateDirectory(tmp_path, "plan", "B"), "state of A", StateError)
    refuses(lambda: StateDirectory(tmp_path, "other", "A"), "another plan", StateError)
    StateDirectory(tmp_path, "plan", "A").close()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refuses(lambda: StateDirectory(tmp_path / "file", "plan", "A"), "cannot be used", StateError)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"1", b"\xff\xfe", b'"a"'])
@pytest.mark.parametrize("file", ["owner", "incarnation", "known"])
def test_damaged_files_are_refused(file: str, content: bytes, tmp_path: Path) -> None:
    StateDirectory(tmp_path, "plan", "A").close()
    (tmp_path / file).write_bytes(content)
    _refused_as_damaged(tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("incarnation", {"started": "one"}),
        ("incarnation", {"started": -3}),
        ("incarnation", {"started": 2**70}),
        ("incarnation", {}),
        ("known", {"B": 1}),
        ("known", {"B": ["x", "y"]}),
        ("known", {"B": [1]}),
    ],
)
def test_files_with_other_content_than_was_written_are_refused(
    file: str, content: Any, tmp_path: Path
) -> None:
    StateDirectory(tmp_path, "plan", "A").close()
    (tmp_path / file).write_text(json.dumps(content))
    _refused_as_damaged(tmp_path)


def _refused_as_damaged(path: Path) -> None:
    def start() -> None:
        state = StateDirectory(path, "plan", "A")
        try:
            Node(Identity("A"), {"B": ""}, hash_of("plan"), state, Hub().wire("A"))
        finally:
            state.close()

    refuses(start, "is damaged; move", StateError)
