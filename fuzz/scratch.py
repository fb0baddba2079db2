"""A folder for one input: the files that a target reads."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
"""Where files cost no disk; elsewhere the usual place for what is temporary."""


class Scratch:
    """A new folder that is gone afterwards; in memory where the system has such a place."""

    def __enter__(self) -> Path:
        place = _MEMORY if _MEMORY.is_dir() else None
        self._path = Path(tempfile.mkdtemp(prefix="unpooled-fuzz-", dir=place))
        return self._path

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
