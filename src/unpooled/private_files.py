"""Files that only their owner can read, and whole writes at their end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def open_private(path: Path, mode: str) -> IO[bytes]:
    """The file, open, with mode 0600 from its first moment.

    An opener sets the mode as the file is made: changed only afterwards, there would be a moment in
    which others could open it. ``fchmod`` is for a file that was there before.
    """

    def create(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    stream: IO[bytes] = open(path, mode, opener=create)  # noqa: SIM115 (the caller closes it)
    os.fchmod(stream.fileno(), 0o600)
    return stream


class AppendedFile:
    """A file that is opened when the first bytes are added: reading alone leaves nothing open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None

    @property
    def descriptor(self) -> int:
        """Where to write."""
        if self._stream is None:
            self._stream = open_private(self._path, "ab")
        return self._stream.fileno()

    def append(self, parts: list[bytes]) -> int:
        """Adds the parts one after the other, without joining them first; the number of bytes."""
        size = sum(map(len, parts))
        written = os.writev(self.descriptor, parts)
        if written < size:  # the disk is nearly full, or a signal came
            rest = b"".join(parts)[written:]
            while rest:
                rest = rest[os.write(self.descriptor, rest) :]
        return size

    def close(self) -> None:
        """Ends writing."""
        if self._stream is not None:
            self._stream.close()
