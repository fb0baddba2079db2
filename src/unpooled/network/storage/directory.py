"""The state directory: a locked folder with what a party keeps between its processes.

All files in it have mode 0600:

- ``owner``: the party and the plan that it belongs to; others are refused.
- ``incarnation``: how often a process was started here. Others refuse an older one than they know.
- ``ledger.jsonl`` (:mod:`unpooled.network.storage.ledger_file`): what left.
- ``journal`` (:mod:`unpooled.network.storage.journal`): what arrived.
- files that are replaced as a whole, such as ``memory`` (:mod:`unpooled.network.storage.latest`).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unpooled.errors import StateError
from unpooled.private_files import open_private


class StateDirectory:
    """A party's own directory for one run of one plan."""

    def __init__(self, path: Path, plan: str, name: str) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = open_private(path / "lock", "ab")
        except OSError as error:
            raise StateError(
                f"The state directory {path} of {name} cannot be used ({error.strerror}); choose "
                "another with --to."
            ) from error
        try:
            self._claim(plan, name)
        except StateError:
            self._lock.close()
            raise

    def _claim(self, plan: str, name: str) -> None:
        path = self.path
        try:
            # The system gives the lock back when the process dies, however it dies.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateError(
                f"Another process of {name} is using {path}; stop it, or choose another directory "
                "with --to."
            ) from None
        mine = {"plan": plan, "name": name}
        owner = self.read_json("owner")
        if owner is not None:
            refuse_other_owner(path, owner, mine)
        self.write_json("owner", mine)
        known = self.read_json("incarnation")
        started = 0 if known is None else known.get("started")
        if not isinstance(started, int) or not 0 <= started < 2**62:
            raise self.damaged("incarnation")
        self.incarnation = started + 1
        self.write_json("incarnation", {"started": self.incarnation})

    def close(self) -> None:
        """Releases the directory."""
        self._lock.close()

    def write(self, file: str, data: bytes) -> None:
        """Replaces a file as a whole: whoever looks sees the old one or the new one.

        It outlives the process when this returns, and a power failure too.
        """
        fresh = self.path / (file + ".new")
        with open_private(fresh, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self.path / file)

    def read(self, file: str) -> bytes | None:
        """The file's bytes; None if there is none."""
        try:
            return (self.path / file).read_bytes()
        except FileNotFoundError:
            return None

    def write_json(self, file: str, value: Mapping[str, Any]) -> None:
        """Replaces a file by a few values in JSON."""
        self.write(file, json.dumps(value).encode())

    def read_json(self, file: str) -> dict[str, Any] | None:
        """What :meth:`write_json` wrote; None if there is no file."""
        data = self.read(file)
        if data is None:
            return None
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise self.damaged(file)
        return value

    def damaged(self, file: str) -> StateError:
        """What to raise when a file does not hold what was written to it."""
        return StateError(f"{self.path / file} is damaged; move {self.path} away to start anew.")


def refuse_other_owner(path: Path, owner: Mapping[str, Any], mine: Mapping[str, str]) -> None:
    """Refuses a directory that is another party's, or another plan's."""
    if owner != mine:
        raise StateError(
            f"{path} holds the state of {owner.get('name')} in another plan "
            f"({str(owner.get('plan'))[:16]}, not {mine['plan'][:16]}); give {mine['name']} a "
            "directory of its own with --to, or move this one away."
        )
