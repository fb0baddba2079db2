"""The file that a party's cells are kept in: records that are only ever added, each sealed by hash.

Layout, all integers little-endian::

    begin     18 bytes  b"unpooled cells 1\\n\\n"
    records             one after the other
      length  8 bytes   of the payload
      check   4 bytes   CRC-32 of the length
      payload
      hash    32 bytes  SHA-256 of the hash before, the twelve bytes above and the payload

A process that dies while it adds a record leaves the record's first bytes at the end of the file.
Nothing was released from it, so it is dropped. That is the only thing that may be wrong: the length
has a check of its own, so that a damaged one is not taken for a record that was cut short.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from zlib import crc32

from unpooled.private_files import AppendedFile, open_private

BEGIN = b"unpooled cells 1\n\n"
_FORMAT = b"unpooled cells "
_LENGTH = struct.Struct("<Q")
_PREFIX = struct.Struct("<QI")
_HASH = 32
_LOCK = "lock"
_PAUSE = 0.02
"""Seconds between two tries to lock."""


class LogDamaged(Exception):
    """The bytes are not what was written; the text says what is wrong, for a longer sentence."""


class Busy(Exception):
    """Another process holds the lock."""


@dataclass(frozen=True)
class Log:
    """What is in a file of records."""

    payloads: tuple[memoryview, ...]
    hashes: tuple[str, ...]
    """Of each record, in hex."""
    size: int
    """Bytes up to the end of the last whole record; what follows was cut short."""


def read_log(data: bytes) -> Log:
    """The records, each checked; :class:`LogDamaged` where they are not what was written."""
    if not data.startswith(BEGIN):
        if data.startswith(_FORMAT) and len(data) >= len(BEGIN):
            raise LogDamaged("is of another version of the format")
        raise LogDamaged("does not begin like a file of cells")
    view, at, last = memoryview(data), len(BEGIN), sha256(BEGIN).digest()
    payloads, hashes = [], []
    while at + _PREFIX.size <= len(data):
        length, check = _PREFIX.unpack_from(data, at)
        if crc32(_LENGTH.pack(length)) != check:
            raise LogDamaged(f"is damaged at byte {at}")
        begin, end = at + _PREFIX.size, at + _PREFIX.size + length
        if end + _HASH > len(data):
            break
        own = _hash(last, view[at:begin], view[begin:end])
        if own != view[end : end + _HASH]:
            raise LogDamaged(f"is damaged between the bytes {at} and {end + _HASH}")
        payloads.append(view[begin:end])
        hashes.append(own.hex())
        last, at = own, end + _HASH
    if not hashes:
        # The first record is there before the file has its name.
        raise LogDamaged("has no whole record")
    return Log(tuple(payloads), tuple(hashes), at)


def _hash(last: bytes, prefix: bytes | memoryview, payload: bytes | memoryview) -> bytes:
    state = sha256(last)
    state.update(prefix)
    state.update(payload)
    return state.digest()


def record(payload: bytes, log: Log | None) -> tuple[list[bytes], str]:
    """The bytes that follow those of ``log`` (None begins a file), and the record's hash."""
    last = sha256(BEGIN).digest() if log is None else bytes.fromhex(log.hashes[-1])
    length = _LENGTH.pack(len(payload))
    prefix = length + crc32(length).to_bytes(4, "little")
    own = _hash(last, prefix, payload)
    return [*([BEGIN] if log is None else []), prefix, payload, own], own.hex()


def begin_file(path: Path, parts: list[bytes]) -> None:
    """Writes a file that is there as a whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    _append(fresh, 0, parts)
    fresh.replace(path)


def add_record(path: Path, log: Log, parts: list[bytes]) -> None:
    """Adds a record after the last whole one; what was cut short there goes."""
    _append(path, log.size, parts)


def _append(path: Path, size: int, parts: list[bytes]) -> None:
    file = AppendedFile(path)
    try:
        os.ftruncate(file.descriptor, size)
        try:
            file.append(parts)
            os.fsync(file.descriptor)
        except OSError:
            # A system that could not flush may forget the bytes and call them flushed later.
            with suppress(OSError):
                os.ftruncate(file.descriptor, size)
            raise
    finally:
        file.close()


def flush(path: Path) -> None:
    """Returns when the file, and its name in its folder, would outlive a power failure.

    Also for a file that another process wrote: it may have died before it came to that.
    """
    _flush(path)
    _flush(path.parent)
    with suppress(PermissionError):  # a folder above may be another's
        _flush(path.parent.parent)


def _flush(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, patience: float, *, write: bool) -> Iterator[None]:
    """Keeps other processes out of the folder; :class:`Busy` after so many seconds.

    Without ``write`` nothing is made for it: where there is no lock yet, nobody has written.
    """
    limit = monotonic() + patience
    path = folder / _LOCK
    while True:
        if write:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        elif not path.exists():
            yield
            return
        # The system gives the lock back when the process dies, however it dies.
        with open_private(path, "ab") if write else path.open("rb") as stream:
            try:
                fcntl.flock(stream, (fcntl.LOCK_EX if write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() > limit:
                    raise Busy from None
            else:
                if _is_at(path, stream.fileno()):
                    yield
                    return
        sleep(_PAUSE)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file still has its name: the folder may have been moved away meanwhile."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
