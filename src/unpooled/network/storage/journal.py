"""The journal, an append-only write-ahead log of what arrived, from which a process resumes.

A record is a header in JSON and byte strings by name. On disk it is the CRC of the header, two
lengths, the header, the byte strings. A record that a death left unfinished can only be the last.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

from unpooled.errors import StateError
from unpooled.network.storage.sync import sync_soon
from unpooled.private_files import AppendedFile

JOURNAL = "journal"

_PREFIX = struct.Struct("<IIQ")
"""CRC of the header, its length, the length of all parts.

The parts have no CRC: whether they are whole follows from their length, as the file only ever grows
at its end.
"""
_CACHED = 4 * 2**20
"""Bytes after which a journal is dropped from the page cache: nobody is going to read it soon."""

JournalRecord: TypeAlias = tuple[dict[str, Any], dict[str, bytes]]
"""A header, and byte strings by name."""


class Journal:
    """An append-only file of records.

    Without ``to_disk`` the system flushes it when it likes, as with any file.
    """

    def __init__(self, path: Path, *, to_disk: bool = True) -> None:
        self._path = path
        self._to_disk = to_disk
        self._written = 0
        self.records = Records(path, repair=True)
        """What earlier processes wrote."""
        self._file = AppendedFile(path)

    def append(self, header: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        """Adds a record; it outlives the process when this returns."""
        self._written += self._file.append(record_bytes(header, parts))
        if self._to_disk:
            sync_soon(self._path)
        elif self._written >= _CACHED:
            self._written = 0
            os.posix_fadvise(self._file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Ends writing."""
        self._file.close()


class Records:
    """A journal's records, each read when it is asked for: together they may exceed the memory.

    What follows the last whole one is cut off with ``repair``.
    """

    def __init__(self, path: Path, *, repair: bool = False) -> None:
        self._path = path
        self._known: list[tuple[dict[str, Any], dict[str, int], int]] = []
        """Each record's header, the sizes of its parts, and where these begin."""
        if not path.exists():
            return
        at, size = 0, path.stat().st_size
        with path.open("rb") as stream:
            while at + _PREFIX.size <= size:
                check, header_size, parts_size = _PREFIX.unpack(stream.read(_PREFIX.size))
                begin = at + _PREFIX.size + header_size
                if begin + parts_size > size:
                    break
                encoded = stream.read(header_size)
                if crc32(encoded) != check:
                    break
                header, sizes = _read_header(encoded)
                if sizes is None or sum(sizes.values()) != parts_size:
                    # The CRC is right, so no death explains it: somebody wrote this.
                    raise StateError(
                        f"The record at byte {at} of {path} is not what was written; find out who "
                        "changed it, and move the directory away to start anew."
                    )
                self._known.append((header, sizes, begin))
                at = stream.seek(begin + parts_size)
        if at < size and repair:
            os.truncate(path, at)

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, index: int) -> JournalRecord:
        header, sizes, begin = self._known[index]
        with self._path.open("rb") as stream:
            stream.seek(begin)
            return header, {name: stream.read(size) for name, size in sizes.items()}

    def __iter__(self) -> Iterator[JournalRecord]:
        return map(self.__getitem__, range(len(self)))


def record_bytes(header: Mapping[str, Any], parts: Mapping[str, bytes]) -> list[bytes]:
    """A record's bytes, not yet joined."""
    sizes = {name: len(part) for name, part in parts.items()}
    encoded = json.dumps({**header, "parts": sizes}).encode()
    prefix = _PREFIX.pack(crc32(encoded), len(encoded), sum(sizes.values()))
    return [prefix, encoded, *parts.values()]


def _read_header(encoded: bytes) -> tuple[dict[str, Any], dict[str, int] | None]:
    """A record's header, and the sizes of its parts; None if it does not have them."""
    try:
        header = json.loads(encoded)
    except (ValueError, RecursionError):
        return {}, None
    sizes = header.pop("parts", None) if isinstance(header, dict) else None
    if not isinstance(sizes, dict) or not all(
        isinstance(size, int) and size >= 0 for size in sizes.values()
    ):
        return {}, None
    return header, sizes
