"""A link and a node, fed with bytes by somebody who knows everything but the keys, or who is it.

The other end is a link like ours, so that valid greetings and seals exist; the tape says what
becomes of them on the way. Keys and nonces are fixed: an input does the same whenever it is run.
"""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from unittest import mock

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fuzz.scratch import Scratch
from fuzz.tape import Tape, array, changed, message
from unpooled.errors import LinkRefusal
from unpooled.messages.codec import Limits, decode, encode
from unpooled.messages.message import Post
from unpooled.network import handshake
from unpooled.network import node as node_module
from unpooled.network.handshake import HELLO
from unpooled.network.identity import Identity, fingerprint
from unpooled.network.link import Link, Received, Up
from unpooled.network.node import Arrived, Node, Presence
from unpooled.network.storage.directory import StateDirectory

PLAN = sha256(b"plan").digest()
LIMITS = Limits(max_bytes=2**10)
REASONS = {
    "another certificate",
    "another plan",
    "another run",
    "another sender",
    "bad seal",
    "bad signature",
    "malformed",
    "older incarnation",
    "out of place",
    "oversized",
    "replayed",
}
GREETINGS = (HELLO, "accept", "other")
FIELDS = ("plan", "nonce", "share", "certificate", "signature", "run")
_HEAD = struct.Struct("<4s16s32sQQqB")
_MOST = 12
"""Steps in a run: more only repeat each other."""


class Pair:
    """Our link, and the other end that the tape plays with."""

    def __init__(self, flags: int, incarnation: int = 1) -> None:
        """Bit 0: without keys. Bit 2: the other's is on P-256, whose signatures vary."""
        plain = bool(flags & 1)
        ours = _identity("North", "" if plain else "ed25519")
        theirs = _identity("South", "" if plain else "p256" if flags & 4 else "ed25519")
        prints = [fingerprint(one.certificate) if not plain else "" for one in (ours, theirs)]
        with fixed():
            self.own = Link(ours, "South", PLAN, prints[1], 1, limits=LIMITS)
            self.other = Link(theirs, "North", PLAN, prints[0], incarnation)

    def tell_other(self) -> None:
        """The other end hears what ours has said, and has its own words ready."""
        for _, data in self.own.outbox:
            self.other.receive(data, 0.0)
        self.own.outbox.clear()

    def greetings(self) -> list[bytes]:
        """What the other end says to make the link, as far as it can by now."""
        self.tell_other()
        self.other._greet()
        said = [data for _, data in self.other.outbox]
        self.other.outbox.clear()
        return said


def receive(data: bytes) -> None:
    """Only LinkRefusal comes out of `Link.receive`, everything refused is counted, and what is kept
    stays small whatever arrives."""
    tape = Tape(data)
    flags = tape.byte()
    pair = Pair(flags)
    if flags & 2:
        _make(pair)
    for step in range(_MOST):
        if tape.over:
            break
        arriving = _bytes(tape, pair)
        before, boxes = pair.own.refused.copy(), len(pair.own.outbox)
        try:
            event, reasons = pair.own.receive(arriving, float(step)), []
        except LinkRefusal as refusal:
            event, reasons = None, [refusal.reason]
        assert set(reasons) <= REASONS
        assert pair.own.refused == before + Counter(reasons)
        assert event is None or isinstance(event, Up | Received)
        assert not isinstance(event, Received) or encode(event.message) == event.plain
        assert len(pair.own.outbox) <= boxes + 2
        assert len(pair.own.runs) <= 2
        assert len(pair.own.early) <= 2**14
    pair.own.tick(100.0)
    pair.own.seal(Post("a", 0, {}), 0)


def node(data: bytes) -> None:
    """The same through a node: it raises nothing, and listens under a bounded number of keys."""
    tape = Tape(data)
    flags = tape.byte()
    with (
        Scratch() as folder,
        fixed(),
        mock.patch.object(node_module, "monotonic", return_value=1.0),
    ):
        pair = Pair(flags, incarnation=2)
        state = StateDirectory(folder / "state", "plan", "North")
        wire = StubTransport()
        me = pair.own.me
        own = Node(me, {"South": pair.own.fingerprint}, PLAN, state, wire, LIMITS)
        pair.own = own._links["South"]
        for _ in range(_MOST):
            if tape.over:
                break
            runs = sorted({key.split("/")[1] for key in wire.keys})
            run = tape.one_of([HELLO, *runs, "ff", "come", "gone"])
            for _, said in wire.sent:
                pair.other.receive(said, 0.0)
            wire.sent.clear()
            if run in ("come", "gone"):
                wire.inbox.append(Presence("South", run == "come"))
            else:
                wire.inbox.append(Arrived(f"unpooled/{run}/South/North", _bytes(tape, pair)))
            event = own.poll(0.0)
            assert event is None or isinstance(event, Up | Received | Presence)
            assert len(wire.keys) <= 3
            assert {reason for _, reason in own.refused} <= REASONS
        state.close()


class StubTransport:
    """Carries nothing; what it is told to listen to is counted."""

    def __init__(self) -> None:
        self.inbox: list[Arrived | Presence] = []
        self.sent: list[tuple[str, bytes]] = []
        self.keys: set[str] = set()

    def put(self, key: str, data: bytes) -> None:
        self.sent.append((key, data))

    def listen(self, key: str) -> None:
        self.keys.add(key)

    def unlisten(self, key: str) -> None:
        self.keys.discard(key)

    def next(self, timeout: float, expected: str | None = None) -> Arrived | Presence | None:
        return self.inbox.pop(0) if self.inbox else None

    def reopen(self) -> None:
        pass

    def close(self) -> None:
        pass


def _make(pair: Pair) -> None:
    """Brings the link up on both ends."""
    for said in pair.greetings():
        pair.own.receive(said, 0.0)
    for said in pair.greetings():
        pair.own.receive(said, 0.0)
    assert pair.own.up


def _bytes(tape: Tape, pair: Pair) -> bytes:
    """What arrives next."""
    what = tape.below(7)
    if what < 2:  # the right greeting: hello, accept
        said = pair.greetings()
        return said[what % len(said)]
    if what == 2:  # a right message
        sealed = pair.other.seal(Post("a", tape.whole(), {"x": array(tape)}), tape.whole())
        return b"" if sealed is None else sealed[1]
    if what == 3:  # a greeting with other fields
        said = decode(tape.one_of(pair.greetings()))
        return encode(changed(tape, said, FIELDS))
    if what == 4:  # a greeting made up
        return encode(message(tape, GREETINGS, FIELDS))
    if what == 5:  # a message with another head, sealed all the same or not
        return _message(tape, pair)
    return _damaged(tape, pair)


def _message(tape: Tape, pair: Pair) -> bytes:
    channel = pair.other._channel
    plain = tape.block()
    run = channel.agreed.run if channel and tape.below(8) < 7 else tape.take(16).ljust(16, b"\0")
    plan = PLAN if tape.below(8) < 7 else tape.take(32).ljust(32, b"\0")
    name = b"South" if tape.below(8) < 7 else tape.take(tape.byte())
    length = len(name) if tape.below(8) < 7 else tape.byte()
    counter, incarnation = tape.whole() % 2**64, (pair.other.incarnation, tape.whole() % 2**64)
    fixed_part = (b"UNL1", run, plan, incarnation[tape.below(8) == 7], counter, tape.whole())
    head = _HEAD.pack(*fixed_part, length) + name
    if channel is None or tape.below(8) == 7:
        return head + plain
    return head + channel.agreed.sealing.encrypt(counter.to_bytes(12, "little"), plain, head)


def _damaged(tape: Tape, pair: Pair) -> bytes:
    """Valid bytes cut, flipped and doubled, or any bytes."""
    sealed = pair.other.seal(Post("a", 0, {"x": np.arange(3.0)}), 0)
    valid = [*pair.greetings(), *([] if sealed is None else [sealed[1]]), tape.block()]
    data = bytearray(tape.one_of(valid))
    for _ in range(tape.below(3)):
        at = (tape.byte() | tape.byte() << 8) % (len(data) + 1)
        how = tape.below(4)
        if how == 0:
            del data[at:]
        elif how == 1:
            data[at : at + 1] = tape.take(1)
        elif how == 2:
            data[at:at] = tape.block()
        else:
            del data[at : at + tape.byte()]
    return bytes(data)


@contextmanager
def fixed():
    """Shares and nonces that follow from how many were made before."""
    made = iter(range(1, 1000))
    kept = X25519PrivateKey.from_private_bytes

    def share() -> X25519PrivateKey:
        return kept(sha256(b"share" + bytes([next(made) % 256])).digest())

    with (
        mock.patch.object(
            handshake.secrets, "token_bytes", lambda n: bytes([next(made) % 256]) * n
        ),
        mock.patch.object(handshake, "X25519PrivateKey", mock.Mock(generate=share)),
    ):
        yield


@cache
def _identity(name: str, curve: str) -> Identity:
    if not curve:
        return Identity(name)
    key = Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())
    if curve == "p256":
        key = ec.derive_private_key(54321, ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    dates = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, *dates)
    hashed = SHA256() if curve == "p256" else None
    return Identity(name, builder.sign(key, hashed).public_bytes(Encoding.DER), key)
