"""A file of which only the newest value counts, such as what a star party remembers.

Values are appended, which is quicker than replacing a file. Once there are many, the file is
replaced by one with the newest alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import Journal, JournalRecord, record_bytes
from unpooled.network.storage.sync import sync_soon

_MANY = 16 * 2**20
"""Bytes beyond which the file is replaced, unless four values are more."""


class Latest:
    """A value in a file of the state directory; writing a new one is quick."""

    def __init__(self, state: StateDirectory, file: str) -> None:
        self._state, self._file = state, file
        self._journal = Journal(state.path / file, to_disk=False)
        records = self._journal.records
        newest: JournalRecord = records[-1] if records else ({}, {})
        self.header: Mapping[str, Any] = newest[0]
        """A few values in JSON that were written with it."""
        self.value: bytes | None = newest[1].get("value")
        path = state.path / file
        self._size = path.stat().st_size if path.exists() else 0

    def put(self, value: bytes, **header: Any) -> None:
        """Replaces the value; it outlives the process when this returns."""
        self.value, self.header = value, header
        self._size += len(value)
        if self._size <= max(_MANY, 4 * len(value)):
            self._journal.append(header, {"value": value})
            sync_soon(self._state.path / self._file)
            return
        self._journal.close()
        self._state.write(self._file, b"".join(record_bytes(header, {"value": value})))
        self._journal = Journal(self._state.path / self._file, to_disk=False)
        self._size = len(value)

    def close(self) -> None:
        """Ends writing."""
        self._journal.close()
