"""A file written after every round of an in-process fit, from which a killed fit resumes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from unpooled.data.parties import Parties
from unpooled.deep import vectors
from unpooled.errors import InputError
from unpooled.types import Array, Body

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


def described_options(params: dict[str, Any]) -> list[tuple[str, str]]:
    """The options that a fit depends on, as text that another process would write too.

    Functions are known by their names, modules by what is in them.
    """
    ignored = {"checkpoint", "device", "random_state", "verbose"}
    described = []
    for name, value in sorted(params.items()):
        if name in ignored:
            continue
        if isinstance(value, nn.Module):
            value = [repr(value), vectors.to_vector(value).tobytes().hex()]
        # Addresses of functions in memory differ from process to process.
        described.append((name, re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))))
    return described
