"""Bytes as decisions: how a fuzzer's input becomes messages that are almost right.

Random bytes seldom get past a format's first check. So the targets that stand behind such checks
read their input as a list of decisions: send what is due, send it with these changes, send
something else. Every input means something, and a tape of zeros means that all goes well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from unpooled.messages.codec import DTYPES
from unpooled.messages.message import Ask, Message, Post, Reply
from unpooled.types import Array

Item = TypeVar("Item")

FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-3,
    5e-324,
    1e150,
    -1e150,
    1e151,
    1.7e308,
    -1.7e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e9,
    2.0**53,
    1e-160,
)
WHOLES = (0, 1, -1, 2, 3, 16, 255, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63), 10**9)
_LONGEST = 64
"""Entries of an axis that a tape asks for: large arrays only make everything slow."""


class Tape:
    """Takes decisions from the front of the bytes; past their end every decision is 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def over(self) -> bool:
        """Whether all has been read."""
        return self._at >= len(self._data)

    def byte(self) -> int:
        """0 to 255."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, count: int) -> int:
        """0 to ``count`` - 1, for few."""
        return self.byte() % count

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of the items; the first if the tape is over."""
        return items[self.below(len(items))]

    def whole(self) -> int:
        """A number of 64 bits: small, remarkable, or any."""
        first = self.byte()
        if first < 128:
            return first
        if first < 192:
            return WHOLES[first % len(WHOLES)]
        return int.from_bytes(self.take(8).ljust(8, b"\0"), "little", signed=True)

    def take(self, count: int) -> bytes:
        """Up to so many bytes."""
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def block(self) -> bytes:
        """Bytes with their length before them."""
        return self.take(self.byte() | self.byte() << 8)

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data))


def array(tape: Tape) -> Array:
    """Any small array of a type that travels."""
    dtype = tape.one_of(DTYPES)
    shape = tuple(tape.byte() % _LONGEST for _ in range(tape.below(4)))
    count = int(np.prod(shape, dtype=np.int64))
    if count > 4 * _LONGEST:
        shape, count = (count % _LONGEST,), count % _LONGEST
    if tape.below(2) == 0:
        return np.full(shape, number(tape, dtype), dtype)
    raw = tape.take(count * dtype.itemsize).ljust(count * dtype.itemsize, b"\0")
    if dtype == np.bool_:
        return (np.frombuffer(raw, np.uint8) % 2).astype(bool).reshape(shape)
    return np.frombuffer(raw, dtype).reshape(shape)


def number(tape: Tape, dtype: np.dtype) -> Array:
    """One number that a program may stumble over."""
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return np.array(tape.one_of(FLOATS)).astype(dtype)
        return np.array(tape.whole()).astype(dtype)


def message(tape: Tape, kinds: Sequence[str], names: Sequence[str]) -> Message:
    """A message of a known kind with known fields, and anything in them."""
    kind, round_ = tape.one_of(kinds), tape.whole()
    body = {tape.one_of(names): array(tape) for _ in range(tape.below(4))}
    return (Post(kind, round_, body), Reply(kind, body, round_), Ask(kind, body, round_))[
        tape.below(3)
    ]


def changed(tape: Tape, due: Message, names: Sequence[str]) -> Message:
    """The message that is due, with up to three changes."""
    for _ in range(tape.below(4)):
        due = _change(tape, due, names)
    return due


def _change(tape: Tape, due: Message, names: Sequence[str]) -> Message:
    body = dict(due.body)
    own = tape.one_of(sorted(body)) if body else ""
    what = tape.below(8)
    if what == 0:
        return replace(due, round=tape.whole())
    if what == 1:
        cls = tape.one_of((Ask, Reply, Post))
        return cls(kind=due.kind, body=body, round=due.round)
    if what == 2:
        body[tape.one_of(names)] = array(tape)
    elif own and what == 3:
        del body[own]
    elif own and what == 4:
        with np.errstate(all="ignore"):
            body[own] = body[own].astype(tape.one_of(DTYPES))
    elif own and what == 5:
        body[own] = _reshaped(tape, body[own])
    elif own and what == 6:
        body[own] = np.full_like(body[own], number(tape, body[own].dtype))
    elif own and body[own].size:
        flat = body[own].flatten()
        flat[tape.byte() % len(flat)] = number(tape, flat.dtype)
        body[own] = flat.reshape(body[own].shape)
    return replace(due, body=body)


def _reshaped(tape: Tape, value: Array) -> Array:
    how = tape.below(4)
    if how == 0:
        return value.reshape(-1)
    if how == 1:
        return value[None]
    if how == 2 and value.ndim:
        return value[: tape.byte()]
    return np.concatenate([value, value]) if value.ndim else value.reshape(1)
