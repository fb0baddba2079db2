"""Results of tasks on disk: a run that was stopped goes on where it was.

A folder has, for every store, ``runs/NAME.json`` with what tasks returned, and
``runs/NAME.times.json`` with the seconds they took, the one file that is another one every time.
While tasks are run, ``runs/NAME.partial.jsonl`` has a line for each that is done.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from unpooled import __version__
from unpooled.errors import InputError

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch")


def versions(deep: bool = False) -> dict[str, str]:
    """What results depend on beside the seed; ``deep``: on PyTorch too."""
    found = {"unpooled": __version__, "python": platform.python_version()}
    for name in _PACKAGES[: None if deep else -1]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


class UnusableError(InputError):
    """What is on disk is damaged or was made with other versions: it is of no use here."""


class Store:
    """The results of one store in one folder."""

    def __init__(self, folder: Path, name: str, *, quick: bool) -> None:
        self.name = name
        self._file = folder / "runs" / f"{name}.json"
        self._times_file = folder / "runs" / f"{name}.times.json"
        self._partial = folder / "runs" / f"{name}.partial.jsonl"
        self._header: dict[str, Any] = {
            "quick": quick,
            "versions": versions(deep=name.startswith("deep")),
        }
        self.values: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self._read()

    def _read(self) -> None:
        if self._file.exists():
            kept = _json_of(_text_of(self._file), self._file)
            self._refuse_others(self._file, kept)
            if not isinstance(results := kept.get("results"), dict):
                raise _damaged(self._file)
            self.values.update(results)
        if self._times_file.exists():
            self.seconds.update(_json_of(_text_of(self._times_file), self._times_file))
        if self._partial.exists():
            self._read_partial()

    def _read_partial(self) -> None:
        text = _text_of(self._partial)
        head, *lines = text.split("\n")
        if not lines:  # stopped while it wrote the first line
            self._partial.unlink()
            return
        self._refuse_others(self._partial, _json_of(head, self._partial))
        if lines[-1]:
            with self._partial.open("a") as stream:  # so that the next line is a whole one
                stream.write("\n")
        for line in lines:
            try:
                key, value, seconds = json.loads(line)
                self.values[key], self.seconds[key] = value, seconds
            except (ValueError, TypeError):  # the line that was being written when it was stopped
                continue

    def _refuse_others(self, file: Path, kept: Mapping[str, Any]) -> None:
        if kept.get("quick") != self._header["quick"]:
            here, there = ("a quick", "a full")[:: 1 if self._header["quick"] else -1]
            raise InputError(
                f"{file} is of {there} run, and this is {here} one: name another folder (--to)."
            )
        before, now = kept.get("versions"), self._header["versions"]
        if before != now:
            raise UnusableError(
                f"{file} was made with {_unlike(before, now)}: name another folder (--to), or "
                "start again (--fresh)."
            )

    def drop(self, keys: Iterable[str]) -> None:
        """Forgets these results."""
        for key in keys:
            self.values.pop(key, None)
            self.seconds.pop(key, None)
        if self._file.exists() or self._partial.exists():
            self._write_all()

    def add(self, key: str, value: Any, seconds: float) -> None:
        """Keeps a result at once."""
        line = json.dumps([key, value, seconds], allow_nan=False)
        self.values[key], self.seconds[key] = value, seconds
        self._partial.parent.mkdir(parents=True, exist_ok=True)
        new = not self._partial.exists()
        with self._partial.open("a") as stream:
            if new:
                stream.write(json.dumps(self._header) + "\n")
            stream.write(line + "\n")

    def close(self) -> None:
        """Puts all results into one file, in the order of their keys."""
        if self._partial.exists():
            self._write_all()

    def _write_all(self) -> None:
        ordered = {key: self.values[key] for key in sorted(self.values)}
        _write(self._file, self._header | {"results": ordered})
        _write(self._times_file, {key: self.seconds[key] for key in sorted(self.seconds)})
        self._partial.unlink(missing_ok=True)


def plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python, which JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _text_of(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, ValueError) as error:
        raise _damaged(file) from error


def _json_of(text: str, file: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _damaged(file) from error
    if not isinstance(found, dict):
        raise _damaged(file)
    return found


def _damaged(file: Path) -> UnusableError:
    return UnusableError(f"{file} cannot be read: start again (--fresh).")


def _unlike(before: Any, now: Mapping[str, str]) -> str:
    """The versions that differ."""
    before = before if isinstance(before, dict) else {}
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{n} {before.get(n, 'none')} (here {now.get(n, 'none')})" for n in names)


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """One result per line, so that changes can be read; whole or not at all."""
    lines = []
    for key, value in content.items():
        if key == "results":
            inner = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f'"results": {{\n{inner}\n}}')
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    new = file.with_suffix(".new")
    new.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    new.replace(file)


def forget(folder: Path, name: str, keys: Iterable[str], *, quick: bool) -> None:
    """Removes these results of a store; all of them where it is of no use."""
    try:
        Store(folder, name, quick=quick).drop(keys)
    except UnusableError:
        for ending in ("json", "times.json", "partial.jsonl"):
            (folder / "runs" / f"{name}.{ending}").unlink(missing_ok=True)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes the folder and keeps other runs out of it: they would overwrite each other's results.

    The lock is on the folder of results itself and goes with the process, however that ends.
    """
    runs = folder / "runs"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=runs), TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"Nothing can be written into {folder} ({error.strerror}): name another folder (--to)."
        ) from error
    with _locked(runs) as mine:
        if not mine:
            raise InputError(
                f"{folder} is in use by another run: wait for it, or name another folder (--to)."
            )
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether this process alone holds the folder; always, where the system has no such locks."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
