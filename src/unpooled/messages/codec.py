"""Messages to bytes and back. This is the only place where either becomes the other.

Layout, all integers little-endian::

    magic     4 bytes   b"UNP1"
    type      1 byte    1 Ask, 2 Reply, 3 Post, 4 state
    round     8 bytes   signed
    quorum    4 bytes   signed, -1 for none
    kind      1 + n     length and ASCII name
    fields    1 byte    how many follow
      name    1 + n     length and ASCII name
      dtype   1 byte    place in DTYPES
      ndim    1 byte
      shape   8 x ndim  unsigned
    buffers             the arrays' raw bytes in C order, in the order of the fields

The header and every buffer are filled up with zeros to a multiple of 8 bytes, so that decoded
arrays are aligned. Decoding trusts nothing: every length is checked against the bounds and against
what is really there before anything is allocated, and the arrays are read-only views of the
received bytes.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import NamedTuple, TypeAlias

import numpy as np

from unpooled.errors import MalformedMessage, OversizedMessage, WireError
from unpooled.messages.message import Ask, Message, Post, Reply
from unpooled.types import Array, Body

MAGIC = b"UNP1"
DTYPES = tuple(np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|b1"))
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
_HEAD = struct.Struct("<4sBqi")
_TYPES: dict[type, int] = {Ask: 1, Reply: 2, Post: 3}
_STATE = 4
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True)
class Limits:
    """Bounds on what is encoded and, more to the point, on what is accepted."""

    max_bytes: int = 256 * 2**20
    max_fields: int = 64
    max_name: int = 64
    max_ndim: int = 8

    def __post_init__(self) -> None:
        # What the format has one byte for, and the axes that NumPy has.
        if max(self.max_fields, self.max_name) > 255 or self.max_ndim > 32:
            raise WireError(f"{self} are wider than the format: 255 fields, 255 letters, 32 axes.")


LIMITS = Limits()
STATE_LIMITS = Limits(max_bytes=2**50)
"""What a party remembers has no bound: it grows with its rows and never travels."""


class Encoded(NamedTuple):
    """A message with its bytes: what was decoded once is not decoded again."""

    message: Message
    data: bytes


def encode(message: Message, limits: Limits = LIMITS) -> bytes:
    """The message as bytes. Who speaks (``Post.senders``) is the envelope's, not the message's."""
    quorum = message.quorum if isinstance(message, Ask) else None
    return _encode(_TYPES[type(message)], message.kind, message.round, quorum, message.body, limits)


def encode_state(state: Body, limits: Limits = STATE_LIMITS) -> bytes:
    """A party's state between two messages, for the disk."""
    return _encode(_STATE, "state", 0, None, state, limits)


def encoded_size(message: Message) -> int:
    """``len(encode(message))`` without encoding."""
    return body_size(message.kind, message.body)


def body_size(kind: str, body: Mapping[str, Array]) -> int:
    """The encoded size of any message of this kind with these arrays."""
    head, buffers = _HEAD.size + 1 + len(kind) + 1, 0
    for name, value in body.items():
        head += 1 + len(name) + 2 + 8 * value.ndim
        buffers += _filled(value.nbytes)
    return _filled(head) + buffers


def _filled(length: int) -> int:
    """The next multiple of 8."""
    return length + -length % 8


def decode(data: bytes | memoryview, limits: Limits = LIMITS) -> Message:
    """The message in ``data``, or :class:`MalformedMessage` or :class:`OversizedMessage`."""
    type_code, kind, number, quorum, body = _decode(data, limits)
    if type_code == _TYPES[Ask]:
        return Ask(kind, body, number, quorum)
    if quorum is not None:
        raise MalformedMessage("Only a question carries a quorum.")
    if type_code == _TYPES[Reply]:
        return Reply(kind, body, number)
    if type_code == _TYPES[Post]:
        return Post(kind, number, body)
    raise MalformedMessage(f"Message type {type_code} is not known.")


def decode_state(data: bytes | memoryview, limits: Limits = STATE_LIMITS) -> Body:
    """The state in ``data``."""
    type_code, kind, number, quorum, body = _decode(data, limits)
    if (type_code, kind, number, quorum) != (_STATE, "state", 0, None):
        raise MalformedMessage("These bytes are a message, not a state.")
    return body


def _encode(
    type_code: int, kind: str, number: int, quorum: int | None, body: Body, limits: Limits
) -> bytes:
    if not isinstance(number, Integral) or not -(2**63) <= number < 2**63:
        raise WireError(f"{kind!r} has round {number!r}, which is no 64-bit number.")
    if quorum is not None and not (isinstance(quorum, Integral) and 0 <= quorum < 2**31):
        raise WireError(f"{kind!r} has quorum {quorum!r}, which is no number of parties.")
    forms = tuple((name, value.dtype, value.shape) for name, value in body.items())
    rest = _rest_of_header(kind, forms, limits)
    size = len(rest) + _HEAD.size + sum(_filled(value.nbytes) for value in body.values())
    if size > limits.max_bytes:
        raise OversizedMessage(f"{kind!r} takes {size} bytes, over {limits.max_bytes}.")
    head = _HEAD.pack(MAGIC, type_code, number, -1 if quorum is None else quorum)
    return b"".join([head, rest, *(part for value in body.values() for part in _buffer(value))])


@lru_cache(maxsize=256)
def _rest_of_header(
    kind: str, forms: tuple[tuple[str, np.dtype, tuple[int, ...]], ...], limits: Limits
) -> bytes:
    """The header after its fixed part; most messages have one that was made before."""
    if len(forms) > limits.max_fields:
        raise OversizedMessage(f"{kind!r} has {len(forms)} fields, over {limits.max_fields}.")
    rest = [_packed_name(kind, limits), bytes([len(forms)])]
    for name, dtype, shape in forms:
        code = _CODES.get(dtype)
        if code is None:
            raise WireError(f"Field {name!r} of {kind!r} has type {dtype}, which has no code.")
        if len(shape) > limits.max_ndim:
            raise OversizedMessage(f"Field {name!r} of {kind!r} has {len(shape)} axes.")
        sizes = struct.pack(f"<BB{len(shape)}Q", code, len(shape), *shape)
        rest.append(_packed_name(name, limits) + sizes)
    length = _HEAD.size + sum(map(len, rest))
    return b"".join([*rest, bytes(_filled(length) - length)])


def _buffer(value: Array) -> tuple[Array | bytes, ...]:
    """An array's bytes, filled up with zeros."""
    whole = np.ascontiguousarray(value)
    return (whole, bytes(-whole.nbytes % 8)) if whole.nbytes % 8 else (whole,)


def _packed_name(name: str, limits: Limits) -> bytes:
    if not _NAME.fullmatch(name) or len(name) > limits.max_name:
        raise WireError(
            f"{name!r} is no name for a message or field: up to {limits.max_name} ASCII letters, "
            "digits, '_', '.', '-', a letter first."
        )
    return bytes([len(name)]) + name.encode("ascii")


class _Reader:
    """Takes bounded pieces from the front of the bytes."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data).cast("B")
        self.at = 0

    def take(self, count: int) -> memoryview:
        if count > len(self.data) - self.at:
            raise MalformedMessage(
                f"The message ends at byte {len(self.data)} but {count} more were announced."
            )
        piece = self.data[self.at : self.at + count]
        self.at += count
        return piece

    def skip_padding(self) -> None:
        if any(self.take(-self.at % 8)):
            raise MalformedMessage("The message is filled up with something else than zeros.")

    def byte(self) -> int:
        return self.take(1)[0]

    def name(self, limits: Limits) -> str:
        length = self.byte()
        if length > limits.max_name:
            raise OversizedMessage(f"A name of {length} bytes is over {limits.max_name}.")
        name = bytes(self.take(length)).decode("ascii", errors="replace")
        if not _NAME.fullmatch(name):
            raise MalformedMessage(f"{name!r} is no name for a message or field.")
        return name


Decoded: TypeAlias = tuple[int, str, int, int | None, dict[str, Array]]


@dataclass(frozen=True)
class _Seen:
    """A header that was read before: messages of a run differ in their rounds and numbers only."""

    start: bytes
    """Up to the round."""
    rest: bytes
    """From the end of the round to the first buffer."""
    type_code: int
    kind: str
    quorum: int | None
    fields: tuple[tuple[str, np.dtype, tuple[int, ...], int, int], ...]
    """Name, type, shape, count and place of every array."""

    def decoded(self, data: bytes | memoryview) -> Decoded | None:
        """The message, if this is its header."""
        if (
            data[: _ROUND.start] != self.start
            or data[_ROUND.stop : len(self.rest) + _ROUND.stop] != self.rest
        ):
            return None
        number = int.from_bytes(data[_ROUND], "little", signed=True)
        body = {
            name: np.frombuffer(data, dtype, count, at).reshape(shape)
            for name, dtype, shape, count, at in self.fields
        }
        return self.type_code, self.kind, number, self.quorum, body


_ROUND = slice(5, 13)
_TYPE = 4
_SEEN: dict[tuple[int, int, Limits], _Seen] = {}
"""By length, type and the bounds they were read with."""
_MOST_SEEN = 64


def _decode(data: bytes | memoryview, limits: Limits) -> Decoded:
    seen = _SEEN.get((len(data), data[_TYPE], limits)) if len(data) > _TYPE else None
    known = seen.decoded(data) if seen is not None else None
    return known if known is not None else _read(data, limits)


def _read(data: bytes | memoryview, limits: Limits) -> Decoded:
    if len(data) > limits.max_bytes:
        raise OversizedMessage(f"A message of {len(data)} bytes is over {limits.max_bytes}.")
    reader = _Reader(data)
    magic, type_code, number, quorum = _HEAD.unpack(reader.take(_HEAD.size))
    if magic != MAGIC:
        raise MalformedMessage("The bytes do not start like a message of this version.")
    if quorum < -1:
        raise MalformedMessage(f"A quorum of {quorum} makes no sense.")
    kind = reader.name(limits)
    n_fields = reader.byte()
    if n_fields > limits.max_fields:
        raise OversizedMessage(f"{n_fields} fields are over {limits.max_fields}.")
    specs = [_field(reader, limits) for _ in range(n_fields)]
    if len({name for name, _, _ in specs}) != n_fields:
        raise MalformedMessage(f"{kind!r} has two fields of one name.")
    reader.skip_padding()
    begin = reader.at
    body = {name: _array(reader, name, dtype, shape) for name, dtype, shape in specs}
    if reader.at != len(reader.data):
        raise MalformedMessage(f"{len(reader.data) - reader.at} bytes follow the message.")
    found = type_code, kind, number, None if quorum == -1 else quorum, body
    _note(reader.data, begin, found, limits)
    return found


def _note(data: memoryview, begin: int, found: Decoded, limits: Limits) -> None:
    """Remembers the header, where nothing but the header needs to be looked at."""
    type_code, kind, _, quorum, body = found
    if len(_SEEN) >= _MOST_SEEN or any(
        not v.size or v.nbytes % 8 or v.dtype == np.bool_ for v in body.values()
    ):
        return
    fields, at = [], begin
    for name, value in body.items():
        fields.append((name, value.dtype, value.shape, value.size, at))
        at += value.nbytes
    start, rest = bytes(data[: _ROUND.start]), bytes(data[_ROUND.stop : begin])
    _SEEN[len(data), type_code, limits] = _Seen(start, rest, type_code, kind, quorum, tuple(fields))


def _field(reader: _Reader, limits: Limits) -> tuple[str, np.dtype, tuple[int, ...]]:
    name = reader.name(limits)
    code, ndim = reader.byte(), reader.byte()
    if code >= len(DTYPES):
        raise MalformedMessage(f"Field {name!r} has a type with code {code}, which is not known.")
    if ndim > limits.max_ndim:
        raise OversizedMessage(f"Field {name!r} has {ndim} axes, over {limits.max_ndim}.")
    shape = struct.unpack(f"<{ndim}Q", reader.take(8 * ndim))
    # Empty arrays count as if they were not, so that no axis can be absurd.
    if math.prod(max(length, 1) for length in shape) * DTYPES[code].itemsize > limits.max_bytes:
        raise OversizedMessage(f"Field {name!r} announces the shape {shape}.")
    return name, DTYPES[code], shape


def _array(reader: _Reader, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    raw = reader.take(math.prod(shape) * dtype.itemsize)
    reader.skip_padding()
    if dtype == np.bool_ and raw.nbytes and np.frombuffer(raw, np.uint8).max() > 1:
        raise MalformedMessage(f"Field {name!r} has truth values that are neither 0 nor 1.")
    return np.frombuffer(raw, dtype).reshape(shape)
