"""What is written after every round of an in-process fit, so that it can go on after a kill."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from unpooled.errors import InputError
from unpooled.types import Array, Body, Parties

_OF = "of"


class Checkpoint:
    """A file that belongs to one fit: of these parties, with these options and this seed."""

    def __init__(self, path: str | os.PathLike[str], options: str, parties: Parties) -> None:
        self.path = Path(path)
        hashed = sha256(options.encode())
        for part in (parties.offsets, parties.weights, parties.rows):
            hashed.update(np.ascontiguousarray(part).data)
        self._of = np.frombuffer(hashed.digest(), np.uint8)

    def read(self) -> Body | None:
        """What was written last; None if nothing was."""
        if not self.path.exists():
            return None
        try:
            # np.load would leave the file open if it is torn
            with self.path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                kept = {name: file[name] for name in file.files}
            of = kept.pop(_OF)
        except Exception as error:
            raise InputError(
                f"checkpoint={str(self.path)!r} cannot be read ({type(error).__name__}); delete "
                "the file to begin anew."
            ) from None
        if not np.array_equal(of, self._of):
            raise InputError(
                f"checkpoint={str(self.path)!r} is of a fit with other options, data or seed; give "
                "another file, or delete it to begin anew."
            )
        return kept

    def write(self, body: Mapping[str, Array]) -> None:
        """Replaces what was written before; a kill in between leaves the one or the other."""
        fresh = self.path.with_name(self.path.name + ".new")
        with fresh.open("wb") as stream:
            np.savez(stream, **{_OF: self._of, **body})  # type: ignore[arg-type]
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self.path)
