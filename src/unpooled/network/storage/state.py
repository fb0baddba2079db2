"""What a party keeps on disk between its processes: a locked directory, all of it mode 0600.

- ``ledger.jsonl``: one line for everything that left, written before it was sent. Every line has
  the hash of the line before, so that none can be changed or taken out without a trace.
- ``journal``: what arrived, for a process that goes on where an earlier one was stopped.
- files that are replaced as a whole, such as what a star party remembers.
- ``incarnation``: how often a process was started here. Others refuse an older one than they know.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import IO, Any, TypeAlias
from zlib import crc32

from unpooled.errors import StateError

LEDGER, JOURNAL = "ledger.jsonl", "journal"
_FIRST = "0" * 64


class StateDirectory:
    """A party's own directory for one run of one plan."""

    def __init__(self, path: Path, plan: str, name: str) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _private(path / "lock", "ab")
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
        """Gives the directory free."""
        self._lock.close()

    def write(self, file: str, data: bytes) -> None:
        """Replaces a file as a whole: whoever looks sees the old one or the new one.

        It outlives the process when this returns, and a power failure too.
        """
        fresh = self.path / (file + ".new")
        with _private(fresh, "wb") as stream:
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
        """The same for a few words."""
        self.write(file, json.dumps(value).encode())

    def read_json(self, file: str) -> dict[str, Any] | None:
        """What :meth:`write_json` wrote."""
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
        """What to raise when a file does not say what was written to it."""
        return StateError(f"{self.path / file} is damaged; move {self.path} away to start anew.")


def refuse_other_owner(path: Path, owner: Mapping[str, Any], mine: Mapping[str, str]) -> None:
    """Refuses a directory that is another party's, or another plan's."""
    if owner != mine:
        raise StateError(
            f"{path} holds the state of {owner.get('name')} in another plan "
            f"({str(owner.get('plan'))[:16]}, not {mine['plan'][:16]}); give {mine['name']} a "
            "directory of its own with --to, or move this one away."
        )


class _Appended:
    """A file that is opened with its first bytes: reading alone leaves nothing open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: IO[bytes] | None = None

    @property
    def descriptor(self) -> int:
        """Where to write."""
        if self._stream is None:
            self._stream = _private(self._path, "ab")
        return self._stream.fileno()

    def close(self) -> None:
        """Ends writing."""
        if self._stream is not None:
            self._stream.close()


class Chain:
    """An append-only file of lines, each with the hash of the one before."""

    def __init__(self, path: Path, *, to_disk: bool = True) -> None:
        self._path = path
        self._to_disk = to_disk
        self.lines = list(chained(path, mend=True))
        self._last = self.lines[-1]["hash"] if self.lines else _FIRST
        self._stream = _Appended(path)

    def append(self, line: Mapping[str, Any]) -> None:
        """Adds a line; it outlives the process when this returns."""
        text = json.dumps({**line, "previous": self._last})
        self._last = sha256(text.encode()).hexdigest()
        whole = f'{text[:-1]}, "hash": "{self._last}"}}\n'.encode()
        _write_all(self._stream.descriptor, [whole])
        if self._to_disk:
            _TO_DISK.soon(self._path)

    def close(self) -> None:
        """Ends writing."""
        self._stream.close()


def chained(path: Path, *, mend: bool = False) -> Iterator[dict[str, Any]]:
    """The lines of a chain, checked.

    A last line that is not whole was never followed by a send; with ``mend`` it is cut off.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    whole = data.rfind(b"\n") + 1
    if whole < len(data) and mend:
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


_RECORD = struct.Struct("<IIQ")
"""CRC of the header, its length, the length of all parts.

Whether the parts are whole, their length tells: the file only ever grows at its end.
"""


_ENOUGH = 4 * 2**20
"""Bytes after which a journal gives its memory back to the system: nobody is going to read it."""


Record: TypeAlias = tuple[dict[str, Any], dict[str, bytes]]
"""A header, and byte strings by name."""


class Journal:
    """An append-only file of records: a header in JSON and byte strings.

    Without ``to_disk`` the system takes its time with writing it, as with any file.
    """

    def __init__(self, path: Path, *, to_disk: bool = True) -> None:
        self._path = path
        self._to_disk = to_disk
        self._written = 0
        self.records = Records(path, mend=True)
        """What earlier processes wrote."""
        self._stream = _Appended(path)

    def append(self, header: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        """Adds a record."""
        descriptor = self._stream.descriptor
        self._written += _write_all(descriptor, _framed(header, parts))
        if self._to_disk:
            _TO_DISK.soon(self._path)
        elif self._written >= _ENOUGH:
            self._written = 0
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Ends writing."""
        self._stream.close()


class Records:
    """A journal's records, each read when it is asked for: together they may exceed the memory.

    What follows the last whole one is cut off with ``mend``.
    """

    def __init__(self, path: Path, *, mend: bool = False) -> None:
        self._path = path
        self._known: list[tuple[dict[str, Any], dict[str, int], int]] = []
        """Each record's header, the sizes of its parts, and where these begin."""
        if not path.exists():
            return
        at, size = 0, path.stat().st_size
        with path.open("rb") as stream:
            while at + _RECORD.size <= size:
                check, head_size, parts_size = _RECORD.unpack(stream.read(_RECORD.size))
                begin = at + _RECORD.size + head_size
                if begin + parts_size > size:
                    break
                head = stream.read(head_size)
                if crc32(head) != check:
                    break
                header, sizes = _opened(head)
                if sizes is None or sum(sizes.values()) != parts_size:
                    raise StateError(
                        f"The record at byte {at} of {path} is not what was written; find out who "
                        "changed it, and move the directory away to start anew."
                    )
                self._known.append((header, sizes, begin))
                at = stream.seek(begin + parts_size)
        if at < size and mend:
            os.truncate(path, at)

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, index: int) -> Record:
        header, sizes, begin = self._known[index]
        with self._path.open("rb") as stream:
            stream.seek(begin)
            return header, {name: stream.read(size) for name, size in sizes.items()}

    def __iter__(self) -> Iterator[Record]:
        return map(self.__getitem__, range(len(self)))


def _opened(head: bytes) -> tuple[dict[str, Any], dict[str, int] | None]:
    """A record's header, and the sizes of its parts; None if these are none."""
    try:
        header = json.loads(head)
    except (ValueError, RecursionError):
        return {}, None
    sizes = header.pop("parts", None) if isinstance(header, dict) else None
    if not isinstance(sizes, dict) or not all(
        isinstance(size, int) and size >= 0 for size in sizes.values()
    ):
        return {}, None
    return header, sizes


def _framed(header: Mapping[str, Any], parts: Mapping[str, bytes]) -> list[bytes]:
    """A record's bytes, not yet put together."""
    sizes = {name: len(part) for name, part in parts.items()}
    head = json.dumps({**header, "parts": sizes}).encode()
    return [_RECORD.pack(crc32(head), len(head), sum(sizes.values())), head, *parts.values()]


class Latest:
    """A value of which only the newest counts, kept so that replacing it is quick.

    Values are appended; once there are many, the file is replaced by one with the newest alone.
    """

    def __init__(self, state: StateDirectory, file: str) -> None:
        self._state, self._file = state, file
        self._journal = Journal(state.path / file, to_disk=False)
        records = self._journal.records
        newest: Record = records[-1] if records else ({}, {})
        self.header: Mapping[str, Any] = newest[0]
        """A few words that were written with the value."""
        self.value: bytes | None = newest[1].get("value")
        path = state.path / file
        self._size = path.stat().st_size if path.exists() else 0

    def put(self, value: bytes, **header: Any) -> None:
        """Replaces the value; it outlives the process when this returns."""
        self.value, self.header = value, header
        self._size += len(value)
        if self._size <= max(_MANY, 4 * len(value)):
            self._journal.append(header, {"value": value})
            _TO_DISK.soon(self._state.path / self._file)
            return
        self._journal.close()
        self._state.write(self._file, b"".join(_framed(header, {"value": value})))
        self._journal = Journal(self._state.path / self._file, to_disk=False)
        self._size = len(value)

    def close(self) -> None:
        """Ends writing."""
        self._journal.close()


_MANY = 16 * 2**20


def _write_all(descriptor: int, parts: list[bytes]) -> int:
    """Writes the parts one after the other, without putting them together first; how many bytes."""
    size = sum(map(len, parts))
    written = os.writev(descriptor, parts)
    if written < size:  # the disk is nearly full, or a signal came
        rest = b"".join(parts)[written:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    return size


class _ToDisk:
    """Sees to it that files reach the disk soon, without anybody having to wait for it.

    What a process has written survives its death anyhow; this is for power failures.
    """

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._lock = Lock()
        self._thread: Thread | None = None

    def soon(self, path: Path) -> None:
        """Within about a second, unless the disk is slow: it is busy for a tenth of the time."""
        with self._lock:
            self._paths.add(path)
            if self._thread is None:
                self._thread = Thread(target=self._work, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        pause = 0.5
        while True:
            sleep(pause)
            began = monotonic()
            with self._lock:
                paths, self._paths = self._paths, set()
                if not paths:
                    self._thread = None
                    return
            for path in paths:
                with suppress(OSError):
                    descriptor = os.open(path, os.O_RDONLY)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)
            pause = max(0.5, 10 * (monotonic() - began))


_TO_DISK = _ToDisk()


def _private(path: Path, mode: str) -> IO[bytes]:
    """The file, open, and readable by its owner alone from its first moment."""

    def create(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    stream: IO[bytes] = open(path, mode, opener=create)  # noqa: SIM115 (the caller closes it)
    os.fchmod(stream.fileno(), 0o600)
    return stream
