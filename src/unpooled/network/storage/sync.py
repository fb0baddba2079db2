"""Flushes files to disk in the background, about a second after they were written.

What a process has written survives its death anyhow, since the system has it; flushing is for power
failures. So nobody waits for it: a thread does it, and ends when there is nothing to do.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep

_PAUSE = 0.5
"""Seconds between two flushes at least."""
_SHARE = 10
"""A flush is followed by a pause this many times as long: the disk is busy a tenth of the time."""


class _BackgroundSync:
    """The files that wait to be flushed, and the thread that does it."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._lock = Lock()
        self._thread: Thread | None = None

    def add(self, path: Path) -> None:
        """Has this file flushed with the next ones."""
        with self._lock:
            self._paths.add(path)
            if self._thread is None:
                self._thread = Thread(target=self._flush_all, daemon=True)
                self._thread.start()

    def _flush_all(self) -> None:
        pause = _PAUSE
        while True:
            sleep(pause)
            began = monotonic()
            with self._lock:
                paths, self._paths = self._paths, set()
                if not paths:
                    self._thread = None
                    return
            for path in paths:
                # By path, not by the writer's descriptor, which may be closed by now; a file that
                # is gone need not be flushed.
                with suppress(OSError):
                    descriptor = os.open(path, os.O_RDONLY)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)
            pause = max(_PAUSE, _SHARE * (monotonic() - began))


_SYNC = _BackgroundSync()


def sync_soon(path: Path) -> None:
    """Flushes the file within about a second, unless the disk is slow; returns at once."""
    _SYNC.add(path)
