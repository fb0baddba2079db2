"""The codec: what goes in comes out, and nothing that comes in can do harm."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from unpooled.errors import MalformedMessage, OversizedMessage, WireError
from unpooled.messages.codec import (
    DTYPES,
    LIMITS,
    MAGIC,
    Limits,
    decode,
    decode_state,
    encode,
    encode_state,
    encoded_size,
)
from unpooled.messages.message import Ask, Message, Post, Reply

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", fullmatch=True)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
arrays = st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, shapes))
bodies = st.dictionaries(names, arrays, max_size=5)
rounds = st.integers(-(2**63), 2**63 - 1)
messages = st.one_of(
    st.builds(Ask, names, bodies, rounds, st.none() | st.integers(0, 2**31 - 1)),
    st.builds(Reply, names, bodies, rounds),
    st.builds(Post, names, rounds, bodies),
)


def same(a: Message, b: Message) -> bool:
    return (
        type(a) is type(b)
        and (a.kind, a.round) == (b.kind, b.round)
        and getattr(a, "quorum", None) == getattr(b, "quorum", None)
        and list(a.body) == list(b.body)
        and all(
            value.dtype == b.body[name].dtype
            and value.shape == b.body[name].shape
            and value.tobytes() == b.body[name].tobytes()
            for name, value in a.body.items()
        )
    )


@given(messages)
def test_what_goes_in_comes_out(message: Message) -> None:
    data = encode(message)
    assert encoded_size(message) == len(data)
    assert same(decode(data), message)
    assert all(value.flags.aligned for value in decode(data).body.values())
    assert encode(decode(data)) == data


@given(bodies)
def test_state_goes_in_and_comes_out(state: dict[str, np.ndarray]) -> None:
    again = decode_state(encode_state(state))
    assert same(Reply("state", again), Reply("state", state))


def test_any_memory_layout_encodes_alike() -> None:
    array = np.arange(12.0).reshape(3, 4)
    plain = encode(Reply("k", {"x": array}))
    assert encode(Reply("k", {"x": np.asfortranarray(array)})) == plain
    assert encode(Reply("k", {"x": np.repeat(array, 2, axis=1)[:, ::2]})) == plain


def survives(data: bytes, limits: Limits = Limits()) -> None:  # noqa: B008
    """Decoding ends in a message or in a WireError, whatever the bytes."""
    for read in (decode, decode_state):
        with suppress(MalformedMessage, OversizedMessage):
            read(data, limits)


@given(st.binary(max_size=300))
@example(b"")
@example(MAGIC)
def test_noise_is_refused_and_nothing_else(data: bytes) -> None:
    survives(data)
    survives(MAGIC + data)


@given(messages, st.data())
def test_damaged_messages_are_refused_and_nothing_else(
    message: Message, data: st.DataObject
) -> None:
    raw = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    survives(bytes(raw))
    survives(bytes(raw[:cut]))
    survives(bytes(raw) + b"\0")


def header(shape: tuple[int, ...], dtype: int = 0, kind: bytes = b"k", fields: int = 1) -> bytes:
    return (
        struct.pack("<4sBqi", MAGIC, 2, 0, -1)
        + bytes([len(kind)])
        + kind
        + bytes([fields])
        + b"\x01x"
        + struct.pack(f"<BB{len(shape)}Q", dtype, len(shape), *shape)
    )


def test_a_huge_announcement_allocates_nothing() -> None:
    tracemalloc.start()
    for shape in [(2**62,), (2**63, 2), (2**32, 2**32), (2**27, 2**3), (2**28,)]:
        with pytest.raises((MalformedMessage, OversizedMessage)):
            decode(header(shape))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (header((1,), dtype=len(DTYPES)) + bytes(8), MalformedMessage),
        (header((1,), fields=2) + bytes(8), MalformedMessage),
        (header((1,), kind=b"\xff") + bytes(8), MalformedMessage),
        (header((1,), kind=b"") + bytes(8), MalformedMessage),
        (header((1,) * 9) + bytes(8), OversizedMessage),
        (header((0, 2**28, 2**28, 2**28)) + bytes(8), OversizedMessage),
        (header((1,), kind=b"kk") + b"\x01" + bytes(6) + bytes(8), MalformedMessage),
        (header((1,)) + bytes(9), MalformedMessage),
        (header((1,)) + bytes(7), MalformedMessage),
        (header((1,), dtype=7) + b"\x02", MalformedMessage),
        (b"UNP0" + header((1,))[4:] + bytes(8), MalformedMessage),
        (encode(Ask("k", {}, 0, 3)).replace(b"\x01", b"\x02", 1), MalformedMessage),
        (encode_state({}), MalformedMessage),
        (bytes(2000), OversizedMessage),
    ],
)
def test_each_kind_of_damage_is_named(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode(data, Limits(max_bytes=1000))


def test_two_fields_of_one_name_are_refused() -> None:
    one = b"\x01x" + struct.pack("<BB", 0, 0)
    data = header(())[: -len(one)][:-1] + b"\x02" + one + one + bytes(16)
    with pytest.raises(MalformedMessage, match="two fields"):
        decode(data)


@pytest.mark.parametrize(
    "message",
    [
        Reply("k", {"x": np.array(["text"])}),
        Reply("k", {"x": np.array([object()])}),
        Reply("k", {"x": np.zeros(1, dtype=complex)}),
        Reply("kind with blanks", {}),
        Reply("", {}),
        Reply("k" * 65, {}),
        Reply("k", {"ü": np.zeros(1)}),
        Reply("k", {"x": np.zeros((1,) * 9)}),
        Reply("k", {f"f{i}": np.zeros(1) for i in range(65)}),
        Reply("k", {}, 2**63),
        Reply("k", {}, 1.5),  # type: ignore[arg-type]
        Ask("k", {}, 0, -1),
        Ask("k", {}, 0, 2**40),
        Ask("k", {}, 0, 1.5),  # type: ignore[arg-type]
        Reply("k", {"x": np.zeros(200)}),
    ],
)
def test_what_has_no_encoding_is_refused(message: Message) -> None:
    with pytest.raises(WireError):
        encode(message, Limits(max_bytes=1000))


def test_messages_are_frozen() -> None:
    array = np.zeros(3)
    message = Post("k", 0, {"x": array})
    with pytest.raises(AttributeError):
        message.kind = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        message.body["y"] = array  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        message.body["x"][0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        decode(encode(message)).body["x"][0] = 1.0


def test_limits_wider_than_the_format_are_refused() -> None:
    for wide in ({"max_fields": 256}, {"max_name": 256}, {"max_ndim": 33}):
        with pytest.raises(WireError, match="wider than the format"):
            Limits(**wide)


def test_a_state_may_be_larger_than_any_message() -> None:
    """It grows with a party's rows, and it never travels."""
    rows = np.zeros((LIMITS.max_bytes // 8 + 1, 1))
    with pytest.raises(OversizedMessage):
        encode(Reply("rows", {"rows": rows}))
    assert decode_state(encode_state({"rows": rows}))["rows"].shape == rows.shape
