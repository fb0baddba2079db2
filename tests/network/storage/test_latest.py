"""Of a value that is written often, the newest is found again, and the file stays small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unpooled.network.storage import latest
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.latest import Latest


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    own = StateDirectory(tmp_path, "plan", "A")
    yield own
    own.close()


def newest(state: StateDirectory) -> tuple[bytes | None, dict[str, object]]:
    """What a later process finds."""
    again = Latest(state, "memory")
    again.close()
    return again.value, dict(again.header)


def test_there_is_nothing_at_first(state: StateDirectory) -> None:
    assert newest(state) == (None, {})


def test_the_newest_value_is_found_again(state: StateDirectory) -> None:
    own = Latest(state, "memory")
    for i in range(5):
        own.put(bytes([i]) * i, answered=i)
    own.close()
    assert newest(state) == (bytes([4]) * 4, {"answered": 4})


def test_a_value_that_was_not_written_to_its_end_leaves_the_one_before(
    state: StateDirectory,
) -> None:
    own = Latest(state, "memory")
    own.put(b"first", answered=1)
    own.put(b"second", answered=2)
    own.close()
    path = state.path / "memory"
    path.write_bytes(path.read_bytes()[:-1])
    assert newest(state) == (b"first", {"answered": 1})


def test_the_file_does_not_grow_with_the_number_of_values(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "_MANY", 1000)
    own = Latest(state, "memory")
    for i in range(200):
        own.put(bytes([i]) * 100, answered=i)
        assert (state.path / "memory").stat().st_size < 3000
    own.close()
    assert newest(state) == (bytes([199]) * 100, {"answered": 199})
