"""The codec and the comparison with declared shapes, on any bytes."""

from __future__ import annotations

from math import inf
from zlib import crc32

from fuzz.tape import Tape
from unpooled.errors import WireError
from unpooled.messages import codec
from unpooled.messages.codec import Limits, decode, decode_state, encode, encode_state, encoded_size
from unpooled.messages.conform import lengths, misfit
from unpooled.messages.release import COLUMNS, FINITE, AtMost, Columns, Release

TIGHT = Limits(max_bytes=512, max_fields=3, max_name=8, max_ndim=2)
RELEASES = (
    Release("a", (), ("model",), "nothing"),
    Release(
        "a",
        ("x", "n", "u"),
        ("sums",),
        "numbers of several types",
        shapes={"x": (AtMost(4, "rows"), COLUMNS), "n": (AtMost(inf, "rows"),)},
        types={"n": "int64", "u": "uint8"},
        bounds={"x": FINITE},
    ),
    Release(
        "a",
        ("x", "f"),
        ("sums",),
        "numbers of fixed shapes",
        shapes={"x": (Columns(2, 1),), "f": ()},
        types={"f": "float32"},
        bounds={"f": inf},
    ),
)


def message(data: bytes) -> None:
    """What decodes to a message encodes to the same bytes; nothing but WireError comes out.

    Headers that were read before are recognised: what follows them means the same all the same.
    """
    for limits in (Limits(), TIGHT):
        codec._SEEN.clear()
        if not _comes_back(data, limits):
            continue
        for step in range(1, 4):
            near = bytearray(data)
            near[crc32(data) * step % len(data)] ^= 1 << step
            alone = _comes_back(bytes(near), limits)
            codec._SEEN.clear()
            decode(data, limits)
            assert alone == _comes_back(bytes(near), limits)
            codec._SEEN.clear()


def _comes_back(data: bytes, limits: Limits) -> bool:
    try:
        found = decode(data, limits)
    except WireError:
        return False
    assert encode(found, limits) == data
    assert encoded_size(found) == len(data)
    return True


def state(data: bytes) -> None:
    """The same for a party's state."""
    for limits in (Limits(), TIGHT):
        try:
            found = decode_state(data, limits)
        except WireError:
            continue
        assert encode_state(found, limits) == data


def shapes(data: bytes) -> None:
    """Nothing in a message makes `misfit` raise, and what fits has lengths to go by."""
    tape = Tape(data)
    release = tape.one_of(RELEASES)
    users = (None, 1, 3)[tape.below(3)]
    known = ({}, {"rows": 2})[tape.below(2)]
    try:
        body = decode(tape.rest()).body
    except WireError:
        return
    if misfit(release, body, 2, users, known) is None:
        lengths(release, body, users)
