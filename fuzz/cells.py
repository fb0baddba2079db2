"""A store of cells, in whose file anything may have happened; any content with right hashes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np

from fuzz.scratch import Scratch
from fuzz.tape import Tape, changed
from unpooled.errors import StateError
from unpooled.messages.codec import decode_state, encode_state
from unpooled.messages.message import Post
from unpooled.privacy import cell_store
from unpooled.privacy.cell_history import payload, read_history
from unpooled.privacy.cell_log import BEGIN, Log, read_log, record
from unpooled.privacy.cell_store import LOG, CellStore, SiteRows

M, PARTY = 2, "North"
_KEYS = ("settled", "held_back", "origin")
_ORIGIN = ("store", "party", "salt", "columns", "mapping", "min_count", "ids", "persons")
_VALUES = (None, "", "00", PARTY, -1, 2**70, 1.5, True, [], {}, ["x"], ["x", "x"], "zz" * 16)
_MOST = 8


def site(n: int) -> SiteRows:
    """A few rows of two columns, none of which stands out."""
    angles = np.arange(n) * 2.399963
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    return SiteRows(("x", "y"), rows, np.ones(n), [f"row {i}" for i in range(n)], None, {})


def cells(data: bytes) -> None:
    """Only StateError comes of any file; one that is taken is gone on with and read alike."""
    content = log_of(Tape(data))
    with Scratch() as folder, mock.patch("os.fsync"):
        (folder / LOG).write_bytes(content)
        store = CellStore(folder, PARTY)
        try:
            before = store.head
            seen = store.update(site(12), M, write=False)
            assert (folder / LOG).read_bytes() == content
            found = store.update(site(12), M)
        except StateError as error:
            one_sentence(error)
            return
        assert before is not None
        store.refuse_unlike([before])
        assert seen.means.tobytes() == found.means.tobytes()
        assert (found.counts >= M).all()
        again = store.update(site(12), M)
        assert again.head == found.head == store.head
        assert again.means.tobytes() == found.means.tobytes()


def one_sentence(error: StateError) -> None:
    """A refusal is for a person to read."""
    assert str(error).isprintable(), str(error)


def log_of(tape: Tape) -> bytes:
    """Any bytes; or records whose hashes are right, with changes in what they hold."""
    if tape.below(2):
        return tape.rest()
    log, content = None, b""
    for number in range(_MOST):
        if tape.over and number:
            break
        parts, own = record(_payload(tape, number), log)
        log = Log((), (own,), 0)
        content += b"".join(parts)
    return content + tape.rest()


def _payload(tape: Tape, number: int) -> bytes:
    if tape.below(8) == 7:
        return tape.block()
    history = read_history(read_log(honest()).payloads)
    change = history.changes[min(number, len(history.changes) - 1)]
    whole = payload(change, history.origin if number == 0 else None)
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    for _ in range(tape.below(3)):
        inner = header.get("origin") if tape.below(2) else None
        place, names = (inner, _ORIGIN) if isinstance(inner, dict) else (header, _KEYS)
        place[tape.one_of(names)] = tape.one_of(_VALUES)
    body = decode_state(whole[8 + length :])
    text = json.dumps(header).encode()
    arrays = changed(tape, Post("state", 0, body), tuple(sorted(body))).body
    return len(text).to_bytes(8, "little") + text + encode_state(arrays)


@cache
def honest() -> bytes:
    """A file with three records: cells, more cells, one that retires."""
    with Scratch() as folder, mock.patch.object(cell_store, "secrets") as random:
        random.token_hex = lambda n: "5a" * n
        store = CellStore(folder, PARTY)
        given = site(12)
        rows = given.rows.copy()
        rows[0] += 0.1
        for changes in (site(8), given, replace(given, rows=rows)):
            store.update(changes, M)
        return (folder / LOG).read_bytes()


def seeds() -> Iterator[tuple[str, bytes]]:
    """Files as they are written, cut short, damaged, and with right hashes around other content."""
    whole = honest()
    yield "whole", b"\1" + whole
    yield "cut", b"\1" + whole[:-3]
    yield "flipped", b"\1" + whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]
    yield "zeros", b"\1" + whole + bytes(64)
    yield "begin", b"\1" + BEGIN
    yield "version", b"\1" + BEGIN.replace(b"1", b"2")
    yield "made", bytes([0, 0, 0, 0, 0, 0, 0, 0, 0])
    yield "party", bytes([0, 0, 1, 1, 1, 4, 0])
    yield "origin", bytes([0, 0, 1, 0, 2, 0, 0])
    yield "arrays", bytes([0, 0, 0, 1, 0, 6, 13, 0, 0, 2, 3, 4])
    yield "block", bytes([0, 7, 3, 0, 1, 2, 3])
