"""A ledger on disk cannot be changed without a trace, and survives a death in mid-line."""

from __future__ import annotations

from pathlib import Path

from tests.sentences import refuses
from unpooled.errors import StateError
from unpooled.network.storage.ledger_file import LEDGER, LedgerFile, read_ledger


def _written(path: Path, n: int = 5) -> list[bytes]:
    ledger = LedgerFile(path)
    for i in range(n):
        ledger.append({"exchange": i, "kind": "centroids", "bytes": 100 + i})
    ledger.close()
    return path.read_bytes().splitlines(keepends=True)


def test_a_changed_line_of_the_ledger_is_found(tmp_path: Path) -> None:
    path = tmp_path / LEDGER
    lines = _written(path)
    for i, line in enumerate(lines):
        for changed in (line.replace(b"10", b"11"), line.replace(b'"hash"', b'"hush"'), b"{}\n"):
            path.write_bytes(b"".join([*lines[:i], changed, *lines[i + 1 :]]))
            refuses(lambda: list(read_ledger(path)), f"Line {i + 1} of", StateError)
    for i in range(len(lines) - 1):
        path.write_bytes(b"".join([*lines[:i], *lines[i + 1 :]]))  # one is taken out
        refuses(lambda: list(read_ledger(path)), f"Line {i + 1} of", StateError)
    path.write_bytes(b"".join([*lines[:2], lines[3], lines[2], lines[4]]))
    refuses(lambda: list(read_ledger(path)), "Line 3 of", StateError)
    path.write_bytes(b"".join(lines))
    assert [line["exchange"] for line in read_ledger(path)] == list(range(5))


def test_a_line_that_was_not_written_to_its_end_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / LEDGER
    lines = _written(path)
    for keep in (1, 20, len(lines[-1]) - 1):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:keep])
        assert len(list(read_ledger(path))) == 4
        ledger = LedgerFile(path)
        assert len(ledger.lines) == 4
        ledger.append({"exchange": 4})
        ledger.close()
        assert [line["exchange"] for line in read_ledger(path)] == list(range(5))
