"""A store of cells after deaths, damage, restored copies, and with two processes at once."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.privacy.stores import M, corrected, joined, log_of, same, site
from tests.sentences import refuses
from unpooled.errors import StateError
from unpooled.privacy import cell_log
from unpooled.privacy.cell_log import BEGIN, locked
from unpooled.privacy.cell_store import CellStore, Head, Stored

REMEDY = "restore the folder from a backup that is as new, or start a new store on purpose"
FIRST, LATER = site(4 * M), joined(corrected(site(4 * M), 2), site(7 * M, start=4 * M))


@pytest.fixture
def store(tmp_path: Path) -> CellStore:
    return CellStore(tmp_path / "memory", "North")


class Killed(BaseException):
    """In place of a signal: nothing handles it."""


@contextmanager
def failing(at: int, error: BaseException) -> Iterator[list[str]]:
    """The ``at``-th call that changes the disk, from 0, fails instead, or after half of a write."""
    calls: list[str] = []
    names = ("writev", "write", "fsync", "ftruncate", "replace", "mkdir")
    real = {name: getattr(os, name) for name in names}

    def wrapped(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) - 1 == at:
                if name == "writev":
                    data = b"".join(arguments[1])
                    real["write"](arguments[0], data[: len(data) // 2])
                raise error
            return real[name](*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(os, name, wrapped(name))
        yield calls


def test_modes_are_private(store: CellStore) -> None:
    store.folder.mkdir(mode=0o755)
    store.update(FIRST, M)
    store.update(LATER, M)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    for path in store.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store.start_anew()
    for path in store.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("error", [Killed(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("begun", [False, True])
def test_whatever_call_fails_nothing_is_answered_and_nothing_is_lost(
    store: CellStore, begun: bool, error: BaseException
) -> None:
    old = store.update(FIRST, M) if begun else None
    kept = shutil.copytree(store.folder, store.folder.with_name("kept")) if begun else None
    expected = store.update(LATER, M, write=False)
    at = 0
    while True:
        if store.folder.exists():
            shutil.rmtree(store.folder)
        if kept is not None:
            shutil.copytree(kept, store.folder)
        with failing(at, error) as calls:
            try:
                answer = store.update(LATER, M)
                assert same(answer, expected)
            except (Killed, StateError):
                assert len(calls) > at
        if len(calls) <= at:
            break  # nothing failed
        if old is not None:
            assert store.head is not None
            store.refuse_unlike([old.head])  # type: ignore[list-item]
            assert log_of(store).read_bytes().startswith((kept / "cells.log").read_bytes())  # type: ignore[operator]
        again = store.update(LATER, M)
        assert same(again, expected)
        assert store.update(LATER, M).head == again.head
        at += 1
    assert at >= 6
    assert {"writev", "fsync"} <= set(calls)


def test_every_answer_is_after_a_flush(store: CellStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that finds what another process wrote, who may have died before its own flush."""
    flushed: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for given in (FIRST, FIRST, LATER, LATER):
        flushed.clear()
        store.update(given, M)
        assert flushed[-3:] == [str(p) for p in (log_of(store), store.folder, store.folder.parent)]


def test_a_record_cut_short_anywhere_is_dropped(store: CellStore) -> None:
    first = store.update(site(2 * M), M)
    short = log_of(store).read_bytes()
    expected = store.update(site(4 * M), M)
    whole = log_of(store).read_bytes()
    assert whole.startswith(short)
    for size in range(len(short), len(whole)):
        log_of(store).write_bytes(whole[:size])
        assert store.head == first.head
        if size % 97 == 0 or size < len(short) + 20 or size > len(whole) - 40:
            assert same(store.update(site(4 * M), M), expected)
            assert log_of(store).read_bytes() == whole
            assert store.head == expected.head


def test_a_first_record_cut_short_is_refused(store: CellStore) -> None:
    """It is there before the file has its name, so no death explains it."""
    store.update(FIRST, M)
    whole = log_of(store).read_bytes()
    for size in (*range(60), len(whole) - 1):
        log_of(store).write_bytes(whole[:size])
        refuses(lambda: store.update(FIRST, M), REMEDY, StateError)


def test_every_byte_counts(store: CellStore) -> None:
    store.update(site(2 * M), M)
    head = store.update(site(4 * M), M).head
    assert head is not None
    assert head.sequence == 2
    whole = log_of(store).read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        log_of(store).write_bytes(data)
        with pytest.raises(StateError, match=REMEDY):
            store.head  # noqa: B018
    for place in range(0, len(whole), 211):
        data = bytearray(whole)
        data[place] ^= 0x10
        log_of(store).write_bytes(data)
        for write in (True, False):
            refuses(lambda w=write: store.update(site(4 * M), M, write=w), REMEDY, StateError)  # type: ignore[misc]
        assert log_of(store).read_bytes() == data


def test_records_that_are_taken_out_or_moved_are_refused(store: CellStore) -> None:
    sizes = [len(BEGIN)]
    for n in (2 * M, 4 * M, 6 * M):
        store.update(site(n), M)
        sizes.append(log_of(store).stat().st_size)
    whole = log_of(store).read_bytes()
    one, two, three = (whole[a:b] for a, b in pairwise(sizes))
    for order in ((one, three), (two, three), (one, three, two), (one, one), (one, two, two)):
        log_of(store).write_bytes(BEGIN + b"".join(order))
        refuses(lambda: store.update(site(6 * M), M), "damaged between", StateError)
    log_of(store).write_bytes(whole + b"x" * 40)
    refuses(lambda: store.update(site(6 * M), M), "damaged at byte", StateError)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "begin like"),
        (b"\x89PNG" * 20, "begin like"),
        (BEGIN.replace(b"1", b"2") + bytes(80), "another version"),
        (BEGIN, "no whole record"),
    ],
)
def test_foreign_files_are_refused(store: CellStore, content: bytes, words: str) -> None:
    store.folder.mkdir()
    log_of(store).write_bytes(content)
    refuses(lambda: store.update(FIRST, M), words, StateError)
    refuses(lambda: store.update(FIRST, M), REMEDY, StateError)
    assert log_of(store).read_bytes() == content


def test_a_store_of_another_party_is_refused_by_its_rows(store: CellStore) -> None:
    store.update(FIRST, M)
    other, rows = CellStore(store.folder, "South\n"), replace(FIRST, rows=FIRST.rows + 1.0)
    words = "in cells of North .*only 0% are among those of South.n as they were"
    refuses(lambda: other.update(rows, M), words, StateError)
    assert other.update(FIRST, M).head == store.head  # another name for the same site


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "memory"):
        refuses(lambda at=folder: CellStore(at, "North").update(FIRST, M), "used", StateError)  # type: ignore[misc]


def test_copies_are_as_good_if_they_are_as_new(store: CellStore) -> None:
    first = store.update(FIRST, M).head
    older = shutil.copytree(store.folder, store.folder.with_name("older"))
    second = store.update(LATER, M)
    equal = shutil.copytree(store.folder, store.folder.with_name("equal"))
    heads = [first, second.head]

    def put(copy: Path) -> None:
        shutil.rmtree(store.folder)
        shutil.copytree(copy, store.folder)

    put(equal)
    store.refuse_unlike(heads)  # type: ignore[arg-type]
    assert same(store.update(LATER, M), second)
    put(older)
    store.refuse_unlike([first])  # type: ignore[list-item]
    refuses(lambda: store.refuse_unlike(heads), "is older", StateError)  # type: ignore[arg-type]
    refuses(lambda: store.refuse_unlike(heads), REMEDY, StateError)  # type: ignore[arg-type]
    other = joined(corrected(FIRST, 7), site(8 * M, start=5 * M))
    store.update(other, M)  # the same number of records, and another history
    refuses(lambda: store.refuse_unlike(heads), "another record 2", StateError)  # type: ignore[arg-type]
    shutil.rmtree(store.folder)
    refuses(lambda: store.refuse_unlike(heads), "is missing", StateError)  # type: ignore[arg-type]
    store.update(FIRST, M)
    refuses(lambda: store.refuse_unlike(heads), "is another", StateError)  # type: ignore[arg-type]
    store.refuse_unlike([])
    odd = Head(store.head.store, 0, "")  # type: ignore[union-attr]
    refuses(lambda: store.refuse_unlike([odd]), "another record 0", StateError)


def test_a_busy_store_is_waited_for_then_refused(store: CellStore) -> None:
    store.update(FIRST, M)
    hasty = CellStore(store.folder, "North", patience=0.1)
    with locked(store.folder, 0.0, write=True):
        for call in (
            lambda: hasty.update(FIRST, M),
            lambda: hasty.update(FIRST, M, write=False),
            lambda: hasty.head,
            lambda: hasty.start_anew(),
        ):
            refuses(call, "Another process of North", StateError)
    hasty.update(FIRST, M)


def test_a_folder_that_is_moved_away_meanwhile_is_not_locked(
    store: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waited for the old store finds the new one."""
    store.update(FIRST, M)
    moved: list[int] = []

    def sleep(seconds: float) -> None:
        moved.append(1)
        holder.__exit__(None, None, None)

    holder = locked(store.folder, 0.0, write=True)
    holder.__enter__()
    monkeypatch.setattr(cell_log, "sleep", sleep)
    store.folder.rename(store.folder.with_name("aside"))
    store.folder.mkdir()
    with locked(store.folder, 5.0, write=True):
        assert (store.folder / "lock").exists()


def _update(folder: Path, ready: Any, answers: Any) -> None:
    store = CellStore(folder, "North")
    found: list[Any] = []
    for given in (FIRST, LATER):
        ready.wait(120)
        cells = store.update(given, M)
        found.append((cells.means.tobytes(), cells.labels.tolist(), cells.head))
    answers.put(found)


def test_two_processes_at_once_have_the_same_cells(store: CellStore) -> None:
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Barrier(2), context.Queue()
    arguments = (store.folder, ready, answers)
    processes = [context.Process(target=_update, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    one, other = (answers.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(60)
    assert one == other
    own: Stored = store.update(LATER, M)
    assert (own.means.tobytes(), own.labels.tolist(), own.head) == one[1]
    store.refuse_unlike([one[0][2], one[1][2]])
