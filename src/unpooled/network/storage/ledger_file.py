"""The ledger on disk: one line for every message that left, written before it was sent.

Line i is JSON with ``previous`` = h_{i-1} and ``hash`` = h_i, where h_i is the SHA-256 of the line
without its own hash and h_0 is 64 zeros. So no line can be changed or taken out without a trace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from unpooled.errors import StateError
from unpooled.network.storage.sync import sync_soon
from unpooled.private_files import AppendedFile

LEDGER = "ledger.jsonl"
_FIRST = "0" * 64


class LedgerFile:
    """An append-only file of lines, each with the hash of the one before.

    Without ``to_disk`` the system flushes it when it likes, as with any file.
    """

    def __init__(self, path: Path, *, to_disk: bool = True) -> None:
        self._path = path
        self._to_disk = to_disk
        self.lines = list(read_ledger(path, repair=True))
        self._last = self.lines[-1]["hash"] if self.lines else _FIRST
        self._file = AppendedFile(path)

    def append(self, line: Mapping[str, Any]) -> None:
        """Adds a line; it outlives the process when this returns."""
        text = json.dumps({**line, "previous": self._last})
        self._last = sha256(text.encode()).hexdigest()
        # The hash is put before the closing brace by hand: the text before it is what is hashed,
        # byte for byte, however a JSON library would write it again.
        self._file.append([f'{text[:-1]}, "hash": "{self._last}"}}\n'.encode()])
        if self._to_disk:
            sync_soon(self._path)

    def close(self) -> None:
        """Ends writing."""
        self._file.close()


def read_ledger(path: Path, *, repair: bool = False) -> Iterator[dict[str, Any]]:
    """The lines of a ledger, checked.

    A last line that is not whole was never followed by a send; with ``repair`` it is cut off.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    whole = data.rfind(b"\n") + 1
    if whole < len(data) and repair:
        os.truncate(path, whole)
    last = _FIRST
    for number, raw in enumerate(data[:whole].splitlines(), start=1):
        text, _, tail = raw.decode(errors="replace").rpartition(', "hash": "')
        text += "}"
        own = sha256(text.encode()).hexdigest()
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = {}
        if tail != own + '"}' or not isinstance(line, dict) or line.pop("previous", None) != last:
            raise StateError(
                f"Line {number} of {path} is not what was written: the chain of hashes breaks "
                "there; find out who changed it, and move the directory away to start anew."
            )
        last = own
        yield {**line, "hash": own}
