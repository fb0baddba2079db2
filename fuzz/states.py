"""What a party reads from its own state directory, where anything may have happened to it."""

from __future__ import annotations

import json
import struct
from contextlib import closing
from functools import cache
from hashlib import sha256
from pathlib import Path
from unittest import mock
from zlib import crc32

import numpy as np

from fuzz import meshes, stars
from fuzz.links import PLAN, StubTransport
from fuzz.scratch import Scratch
from fuzz.stage import Over, clock
from fuzz.tape import Tape, array, changed
from unpooled.errors import (
    InputError,
    LedgerRefusal,
    MalformedMessage,
    PolicyRefusal,
    ProtocolError,
    StateError,
    WireError,
)
from unpooled.messages.codec import Encoded, decode_state, encode, encode_state
from unpooled.messages.message import Post
from unpooled.network import star_coordinator
from unpooled.network.identity import Identity
from unpooled.network.node import Node
from unpooled.network.star_coordinator import StarCoordinator
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import JOURNAL, Records
from unpooled.network.storage.ledger_file import LEDGER, read_ledger
from unpooled.runtime.idempotent import IdempotentParty
from unpooled.runtime.party import PartyRuntime

_RECORD = struct.Struct("<IIQ")
_MOST = 16


def journal(data: bytes) -> None:
    """Only StateError comes out of a journal, and what `repair` leaves is read alike again."""
    _read_twice(Records, JOURNAL, journal_of(Tape(data)))


def ledger(data: bytes) -> None:
    """The same of a ledger."""
    _read_twice(read_ledger, LEDGER, ledger_of(Tape(data)))


def _read_twice(reader, file: str, content: bytes) -> None:
    with Scratch() as folder:
        path = folder / file
        path.write_bytes(content)
        try:
            first = list(reader(path, repair=True))
        except StateError:
            return
        assert list(reader(path)) == first


def words(data: bytes) -> None:
    """Only StateError comes of the small files: whose directory it is, how often it was used, whom
    this party knows."""
    tape = Tape(data)
    with Scratch() as folder:
        for file in ("owner", "incarnation", "known"):
            if tape.below(2):
                (folder / file).write_bytes(tape.block())
        try:
            state = StateDirectory(folder, "plan", "North")
        except StateError:
            return
        try:
            others = {"South": "", "East": ""}
            Node(Identity("North"), others, PLAN, state, StubTransport())
        except StateError:
            pass
        finally:
            state.close()


def memory(data: bytes) -> None:
    """Only refusals come out of a party that is given any memory, and is then asked something."""
    tape = Tape(data)
    which = tape.below(len(stars.PROTOCOLS))
    policy = tape.one_of(stars.POLICIES)
    site = PartyRuntime(stars.PROTOCOLS[which], stars.PARTIES[0], (0, 0), policy)
    asked = tape.below(3)
    party = IdempotentParty(site)
    questions = [q for q in stars.honest_questions(which) if q.kind != "_result"]
    with stars.quiet(), np.errstate(all="ignore"):
        try:
            party.remember(_memory(tape, honest_memory(which, min(asked, len(questions)))))
        except (ProtocolError, WireError):
            return
        try:
            for number, ask in enumerate(questions):
                party.answer(Encoded(ask, encode(ask)), number)
        except (LedgerRefusal, ProtocolError, WireError):
            return
        decode_state(party.memory)


def _memory(tape: Tape, known: bytes) -> bytes:
    if tape.below(4) == 3:
        return tape.block()
    body = decode_state(known)
    names = sorted(body)
    return encode_state(changed(tape, Post("state", 0, body), (*names, "state.released")).body)


@cache
def honest_memory(which: int, asked: int) -> bytes:
    """What a party that has answered so many questions remembers."""
    policy = stars.POLICIES[1]
    party = IdempotentParty(PartyRuntime(stars.PROTOCOLS[which], stars.PARTIES[0], (0, 0), policy))
    with stars.quiet(), np.errstate(all="ignore"):
        for number, ask in enumerate(stars.honest_questions(which)[:asked]):
            try:
                party.answer(Encoded(ask, encode(ask)), number)
            except (MalformedMessage, PolicyRefusal, ProtocolError):
                break
    return party.memory


def resume(data: bytes) -> None:
    """A role that finds any journal, ledger and memory says what is wrong with them."""
    tape = Tape(data)
    role, which = tape.below(3), tape.byte()
    with Scratch() as folder, clock() as own, stars.quiet():
        for file, write in ((JOURNAL, journal_of), (LEDGER, ledger_of)):
            if tape.below(2) == 0:
                (folder / file).write_bytes(write(Tape(tape.block())))
        if tape.below(2):
            kept = _memory(tape, honest_memory(which % len(stars.PROTOCOLS), tape.below(3)))
            header = {"exchange": tape.one_of((0, None, tape.whole()))}
            head = json.dumps({**header, "parts": {"value": len(kept)}}).encode()
            (folder / "memory").write_bytes(record(head, kept))
        if tape.below(2):
            (folder / "run").write_bytes(tape.block())
        roles = (_coordinator, _party, _peer)
        try:
            with np.errstate(all="ignore"):
                roles[role](folder, which, own)
        except (Over, ProtocolError, StateError, InputError, PolicyRefusal, WireError):
            pass


def _over() -> None:
    raise Over


def _coordinator(folder: Path, which: int, own) -> None:
    protocol = stars.PROTOCOLS[which % len(stars.PROTOCOLS)]
    state = StateDirectory(folder, "plan", COORDINATOR)
    node = stars.StubNode(own, _over)
    try:
        with mock.patch.object(star_coordinator.secrets, "token_bytes", lambda n: bytes(n)):
            run = StarCoordinator(protocol, stars.NAMES, node, state, 0, stars.TIMING, n_columns=2)
        with closing(run):
            run.run()
    finally:
        state.close()


def _party(folder: Path, which: int, own) -> None:
    policy = stars.POLICIES[which % len(stars.POLICIES)]
    one = stars.star_party(folder, which % len(stars.PROTOCOLS), policy, own, _over)
    try:
        one.run()
    finally:
        one.close()
        one._state.close()


def _peer(folder: Path, which: int, own) -> None:
    class Nobody:
        def __call__(self) -> None:
            raise Over

    play = Nobody()
    try:
        policy = meshes.POLICIES[which % len(meshes.POLICIES)]
        one = meshes.mesh_peer(folder, which % len(meshes.PROTOCOLS), policy, own, play)
        with closing(one):
            one.run()
    finally:
        if hasattr(play, "state"):
            play.state.close()


def journal_of(tape: Tape) -> bytes:
    """Any bytes, or records whose sums are right whatever is in them."""
    if tape.below(2):
        return tape.rest()
    records = b""
    for _ in range(_MOST):
        if tape.over:
            break
        how = tape.below(3)
        head = tape.block() if how else _head(tape)
        parts = tape.block() if how < 2 else encode(Post("centers", 0, {"centers": array(tape)}))
        records += record(head, parts)
    return records + tape.rest()


def _head(tape: Tape) -> bytes:
    """A header with the names that are used, and any numbers."""
    names = ("exchange", "asleep", "ended", "last", "question", "parts")
    values = ("A", "B", [], {"words": 0}, {"B": 8, "words": tape.whole()}, None, tape.whole())
    return json.dumps({tape.one_of(names): tape.one_of(values) for _ in range(4)}).encode()


def record(head: bytes, parts: bytes) -> bytes:
    """One record of a journal."""
    return _RECORD.pack(crc32(head), len(head), len(parts)) + head + parts


def ledger_of(tape: Tape) -> bytes:
    """Any bytes, or lines whose hashes are right whatever is in them."""
    if tape.below(2):
        return tape.rest()
    lines, last = b"", "0" * 64
    for _ in range(_MOST):
        if tape.over:
            break
        text = tape.block().replace(b"\n", b"")
        if tape.below(4) < 3:
            text += f', "previous": "{last}"'.encode()
        last = sha256(text + b"}").hexdigest()
        lines += text + f', "hash": "{last}"}}\n'.encode()
    return lines + tape.rest()
