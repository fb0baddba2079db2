"""What both sides of a star must agree on before anything is asked: method, parties, columns, seed.

Each side has its own idea of the run; :attr:`Agreement.digest` travels with every question, and a
party does not answer those of a run that it does not mean to take part in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from math import inf
from typing import Any

import numpy as np

from unpooled.checks import whole
from unpooled.errors import InputError
from unpooled.protocols.star.base import StarProtocol


@dataclass(frozen=True)
class Agreement:
    """The run: parties are numbered from 0 to ``n_parties`` - 1."""

    protocol: StarProtocol
    n_parties: int
    columns: int | tuple[str, ...]
    """The columns that every party brings, by name and in this order; or only how many."""
    seed: int = 0

    def __post_init__(self) -> None:
        whole("n_parties", self.n_parties, 1)
        whole("columns", self.n_columns, 1)
        whole("seed", self.seed, 0, inf)

    @property
    def n_columns(self) -> int:
        """How many columns every party brings."""
        return len(self.columns) if isinstance(self.columns, tuple) else self.columns

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it, the protocol's parameters included."""
        try:
            words = _written((self.protocol, self.n_parties, self.columns, self.seed))
        except TypeError as error:
            raise InputError(
                f"The parameters of {self.protocol.name!r} cannot be compared between parties "
                f"({error}); use numbers, words, arrays, and dataclasses of these."
            ) from None
        return sha256(words.encode()).hexdigest()


def _written(value: Any) -> str:
    """The value in words that are the same wherever the value is the same."""
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.generic):
        return _written(value.item())
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        flat = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        return f"array({flat.dtype.str}, {value.shape}, {sha256(flat.tobytes()).hexdigest()})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_written(k)}: {_written(v)}' for k, v in value.items())}}}"
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, StarProtocol):
        parts = vars(value)
    else:
        raise TypeError(f"one is a {type(value).__name__}")
    return f"{type(value).__module__}.{type(value).__qualname__}{_written(parts)}"
