"""What tells one run from another: its content, and the names and versions of its protocol.

Every driver compares runs by this digest, a plan's as well as an agreement's over Flower. It never
depends on where a class is defined, so that moving a file does not make an old run another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.star.base import StarProtocol


def run_identity(content: Any, protocol: StarProtocol | MeshProtocol) -> bytes:
    """SHA-256 of the content and of the protocol's name and version; TypeError if it has none.

    ``content`` may be made of numbers, words, arrays, lists, mappings, protocols and dataclasses.
    """
    words = _written([content, list(_versions(protocol))])
    return sha256(words.encode()).digest()


def _versions(protocol: Any) -> Iterator[list[Any]]:
    """Name and version of a protocol, and of what it is put together from."""
    yield [protocol.name, protocol.version]
    for part in ("preparation", "inner", "final", "start"):
        inside = getattr(protocol, part, None)
        if hasattr(inside, "version"):
            yield from _versions(inside)


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
        entries = sorted((_written(key), _written(own)) for key, own in value.items())
        return f"{{{', '.join(f'{key}: {own}' for key, own in entries)}}}"
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, StarProtocol):
        parts = vars(value)
    else:
        raise TypeError(f"one is a {type(value).__name__}")
    return f"{getattr(value, 'name', type(value).__name__)!r} {_written(parts)}"
