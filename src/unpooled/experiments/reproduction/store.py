"""Results of tasks on disk: a run that was stopped goes on where it was.

A folder has, for every store, ``runs/NAME.json`` with what tasks returned, and
``runs/NAME.times.json`` with the seconds they took, the one file that is another one every time.
While tasks are run, ``runs/NAME.partial.jsonl`` has a line for each that is done.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
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


class Store:
    """The results of one store in one folder."""

    def __init__(self, folder: Path, name: str, *, quick: bool) -> None:
        self.name = name
        self._file = folder / "runs" / f"{name}.json"
        self._times_file = folder / "runs" / f"{name}.times.json"
        self._partial = folder / "runs" / f"{name}.partial.jsonl"
        self._header = {"quick": quick, "versions": versions(deep=name.startswith("deep"))}
        self.values: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self._read()

    def _read(self) -> None:
        if self._file.exists():
            self._refuse_others(self._file, kept := _json_of(self._file.read_text(), self._file))
            self.values.update(kept["results"])
        if self._times_file.exists():
            self.seconds.update(_json_of(self._times_file.read_text(), self._times_file))
        if self._partial.exists():
            if not (text := self._partial.read_text()).endswith("\n"):
                with self._partial.open("a") as stream:  # so that the next line is a whole one
                    stream.write("\n")
            head, *lines = text.splitlines() or ["{}"]
            self._refuse_others(self._partial, _json_of(head, self._partial))
            for line in lines:
                try:
                    key, value, seconds = json.loads(line)
                except ValueError:  # the line that was being written when it was stopped
                    continue
                self.values[key], self.seconds[key] = value, seconds

    def _refuse_others(self, file: Path, kept: Mapping[str, Any]) -> None:
        for name, here in self._header.items():
            if kept.get(name) != here:
                raise InputError(
                    f"{file} was made with {name} {kept.get(name)}, and here it is {here}: name "
                    "another folder (--to), or start again (--fresh)."
                )

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
        if not self._partial.exists():
            return
        ordered = {key: self.values[key] for key in sorted(self.values)}
        _write(self._file, self._header | {"results": ordered})
        _write(self._times_file, {key: self.seconds[key] for key in sorted(self.seconds)})
        self._partial.unlink()


def plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python, which JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _json_of(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{file} cannot be read: start again (--fresh).") from error


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


def forget(folder: Path, names: Iterable[str]) -> None:
    """Removes the results of these stores."""
    for name in names:
        for ending in ("json", "times.json", "partial.jsonl"):
            (folder / "runs" / f"{name}.{ending}").unlink(missing_ok=True)
