"""Messages sealed for the other end of a link: AES-256-GCM, with a counter as nonce.

The head travels in clear, but is bound to the seal: the run's name, the plan's hash, the sender,
its incarnation, a counter, the exchange. Sealed is the message itself, with its kind and round. The
counter only ever rises, so nothing is taken twice, and no nonce is used twice with one key.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag

from unpooled.messages.codec import Limits, encode
from unpooled.messages.message import Message
from unpooled.network.handshake import AgreedKeys, LinkEnds
from unpooled.network.refusal import ANOTHER_PLAN, OLDER

MAGIC = b"UNL1"
_FIXED = struct.Struct("<4s16s32sQQqB")
"""Magic, run, plan, incarnation, counter, exchange, length of the sender's name."""
_TAG = 16
"""Bytes that AES-GCM adds."""


class SealedHead(NamedTuple):
    """What travels in clear: claims of whoever sent it, until the seal has been opened."""

    run: bytes
    plan: bytes
    incarnation: int
    counter: int
    exchange: int
    sender: bytes
    encoded: bytes


def read_head(ends: LinkEnds, data: bytes, limits: Limits) -> SealedHead:
    """The head of a sealed message of a size that may be."""
    if len(data) < _FIXED.size + _TAG:
        raise ends.refusal("malformed", "a message that ends too early")
    if len(data) > limits.max_bytes + 2 * _FIXED.size + 256:
        raise ends.refusal("oversized", f"{len(data)} bytes at once")
    _, run, plan, incarnation, counter, exchange, length = _FIXED.unpack_from(data)
    encoded = data[: _FIXED.size + length]
    return SealedHead(run, plan, incarnation, counter, exchange, encoded[_FIXED.size :], encoded)


class SealedChannel:
    """Seals and opens the messages of one run of a link, in both directions."""

    def __init__(self, ends: LinkEnds, agreed: AgreedKeys, limits: Limits) -> None:
        self.agreed = agreed
        self._ends = ends
        self._limits = limits
        self._sent = self._seen = 0
        """The counters of the last message in each direction."""
        self._box = bytearray()

    def seal(self, message: Message | bytes, exchange: int) -> bytearray:
        """The bytes to be sent; they are good until the next message is sealed."""
        ends = self._ends
        self._sent += 1
        name = ends.me.name.encode("ascii")
        run, length = self.agreed.run, len(name)
        fixed = (MAGIC, run, ends.plan, ends.incarnation, self._sent, exchange, length)
        head = _FIXED.pack(*fixed) + name
        plain = message if isinstance(message, bytes) else encode(message, self._limits)
        size = len(head) + len(plain) + _TAG
        # Messages of a run have few sizes: the buffer is kept, for large ones take long to make.
        if len(self._box) != size:
            self._box = bytearray(size)
        self._box[: len(head)] = head
        box = memoryview(self._box)[len(head) :]
        self.agreed.sealing.encrypt_into(_nonce(self._sent), plain, head, box)
        return self._box

    def open(self, head: SealedHead, data: bytes) -> bytes:
        """The message in a seal, still encoded; what is not the other side's next is refused."""
        ends = self._ends
        if head.plan != ends.plan:
            raise ends.refusal(ANOTHER_PLAN, "a message of another plan")
        if head.sender != ends.other.encode("ascii"):
            raise ends.refusal("another sender", "a message in another party's name")
        if head.incarnation != self.agreed.hello.incarnation:
            raise ends.refusal(OLDER, "a message of another incarnation")
        if head.counter <= self._seen:
            raise ends.refusal("replayed", f"message {head.counter} again")
        try:
            box = memoryview(data)[len(head.encoded) :]
            plain = self.agreed.opening.decrypt(_nonce(head.counter), box, head.encoded)
        except (InvalidTag, OverflowError):
            raise ends.refusal("bad seal", "a message whose seal does not fit") from None
        self._seen = head.counter  # not before: anybody can write a large counter into a head
        return plain


def _nonce(counter: int) -> bytes:
    return counter.to_bytes(12, "little")
