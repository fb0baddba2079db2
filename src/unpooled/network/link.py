"""One link between two named parties: who the other one is, and messages sealed for it alone.

Nothing here sends: bytes that arrived go in, bytes to be sent and events come out, so that the
whole of it is tested without a network.

**Handshake.** Every process makes one *hello* per link: the hash of its plan, its incarnation, a
nonce, an X25519 share, its certificate. Both hellos together, the one of the name that sorts first
first, are the link's transcript T. From T follow

- the run's name on this link, the first 16 bytes of SHA-256("run" T): fresh if either side is,
- a key for each direction, HKDF-SHA256 of the shared secret with salt SHA-256(T),
- what each side signs with its certificate's key, SHA-256("accept" T name): its *accept*.

A hello with another plan, a certificate that is not the plan's, or an incarnation that is not newer
than the newest known is refused; whoever has the plan's certificate is told why
(:mod:`unpooled.network.refusal`). The link is up once the other side's accept is here.

**Messages.** In clear, but bound to the seal: the run's name, the plan's hash, the sender, its
incarnation, a counter, the exchange. Sealed with AES-256-GCM, the counter as nonce: the message
itself, with its kind and round. The counter only ever rises, so nothing is taken twice.

Connections are made with mutual TLS all the same. This layer holds where that ends: the dialling
side of the transport trusts public authorities too, and does not know the plan's fingerprints.
"""

from __future__ import annotations

import secrets
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TypeAlias

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from unpooled.errors import LinkRefusal, WireError
from unpooled.messages.codec import LIMITS, Limits, decode, encode
from unpooled.messages.message import Message, Post
from unpooled.network.identity import Identity, fingerprint, signed
from unpooled.network.refusal import ANOTHER_PLAN, OLDER, REFUSED, difference, read_refusal, refusal
from unpooled.types import Array, Body, PartyId

HELLO = "hello"
_MAGIC = b"UNL1"
_HEAD = struct.Struct("<4s16s32sQQqB")
"""Magic, run, plan, incarnation, counter, exchange, length of the sender's name."""
_SEAL = 16
_HELLO_LIMITS = Limits(max_bytes=16 * 2**10, max_fields=8, max_ndim=1)
_EARLY = 16 * 2**10
_AGAIN = 0.25
"""Seconds after which an unanswered hello is repeated."""


@dataclass(frozen=True)
class Received:
    """A message from the other side."""

    sender: PartyId
    exchange: int
    message: Message
    plain: bytes
    """The same, as it came out of the seal."""


@dataclass(frozen=True)
class Up:
    """The other side is there, and is who the plan says: a process of it not seen before."""

    sender: PartyId
    incarnation: int


@dataclass(frozen=True)
class Refused:
    """The other side, who is who the plan says, does not talk to this process."""

    sender: PartyId
    reason: str
    sentence: str


Event = Received | Up | Refused


Known: TypeAlias = tuple[int, str]


@dataclass(frozen=True)
class _Session:
    """What follows from both hellos."""

    theirs: bytes
    incarnation: int
    transcript: bytes
    run: bytes
    seal: AESGCM
    open: AESGCM

    @cached_property
    def run_name(self) -> str:
        """The run, as it is called in keys."""
        return self.run.hex()


@dataclass
class Link:
    """One end of a link: ours is ``me``, the other is called ``other``.

    ``known`` is the newest incarnation of the other side that this party has ever seen, with the
    hash of its hello; ``parts`` is our plan in short, to name what another one differs in.
    """

    me: Identity
    other: PartyId
    plan: bytes
    fingerprint: str
    incarnation: int
    known: Known = (0, "")
    limits: Limits = LIMITS
    parts: Mapping[str, str] = field(default_factory=dict)
    outbox: list[tuple[str, bytes]] = field(default_factory=list)
    """What is to be sent now: the run's name on the key (or "hello"), and the bytes."""
    refused: Counter[str] = field(default_factory=Counter)
    """How often something was refused, by reason."""

    def __post_init__(self) -> None:
        self._share = X25519PrivateKey.generate()
        self.hello = encode(
            Post(
                HELLO,
                self.incarnation,
                {
                    "plan": _bytes(self.plan),
                    "nonce": _bytes(secrets.token_bytes(32)),
                    "share": _bytes(self._share.public_key().public_bytes_raw()),
                    "certificate": _bytes(self.me.certificate),
                },
            )
        )
        self._session: _Session | None = None
        self._pending: _Session | None = None
        """Agreed upon with a process of the other side that has not shown yet who it is."""
        self.early = b""
        """The first message of that process, to be received again once the link is up."""
        self._sent = self._seen = 0
        self._box = bytearray()
        self._next_hello = self._next_refusal = 0.0
        self.refuses = False
        """Whether the other side has been told that it is refused."""

    @property
    def up(self) -> bool:
        """Whether the other side has shown who it is."""
        return self._session is not None

    @property
    def runs(self) -> set[str]:
        """The run's names under which messages may come."""
        return {known.run_name for known in (self._session, self._pending) if known}

    def tick(self, now: float) -> None:
        """Repeats what the other side may not have heard."""
        if (self._session is None or self._pending is not None) and now >= self._next_hello:
            self._next_hello = now + _AGAIN
            self._greet()

    def seal(self, message: Message | bytes, exchange: int) -> tuple[str, bytearray] | None:
        """The run's name and the bytes to be sent there; None while the link is not up.

        They are good until the next message is sealed.
        """
        session = self._session
        if session is None:
            return None
        self._sent += 1
        name = self.me.name.encode("ascii")
        fixed = (_MAGIC, session.run, self.plan, self.incarnation, self._sent, exchange, len(name))
        head = _HEAD.pack(*fixed) + name
        plain = message if isinstance(message, bytes) else encode(message, self.limits)
        size = len(head) + len(plain) + _SEAL
        if len(self._box) != size:
            self._box = bytearray(size)
        self._box[: len(head)] = head
        box = memoryview(self._box)[len(head) :]
        session.seal.encrypt_into(_nonce(self._sent), plain, head, box)
        return session.run_name, self._box

    def receive(self, data: bytes, now: float) -> Event | None:
        """What these bytes mean; :class:`LinkRefusal` if they mean nothing good."""
        try:
            if data[:4] == _MAGIC:
                return self._open(data)
            return self._greeted(data, now)
        except LinkRefusal as refusal:
            self.refused[refusal.reason] += 1
            raise
        except WireError as error:
            self.refused["malformed"] += 1
            raise LinkRefusal("malformed", f"{self.other} sent bytes of no use: {error}") from error

    # Handshake

    def _greeted(self, data: bytes, now: float) -> Event | None:
        message = decode(data, _HELLO_LIMITS)
        if message.kind == HELLO:
            self._take_hello(data, message.round, message.body, now)
            return None
        if message.kind == "accept":
            return self._take_accept(message.body)
        if message.kind == REFUSED:
            return self._take_refusal(message.body)
        raise self._no("out of place", f"{message.kind!r} in place of a greeting")

    def _take_hello(self, data: bytes, incarnation: int, body: Body, now: float) -> None:
        for known in (self._session, self._pending):
            if known is not None and data == known.theirs:
                self._accept(known)  # they have not heard it yet
                return
        plan, share = _field(body, "plan"), _field(body, "share")
        self._refuse_stranger(_field(body, "certificate"))
        if plan != self.plan:
            self._tell_refusal(data, ANOTHER_PLAN, now)
            raise self._no(
                ANOTHER_PLAN,
                f"a plan whose hash is {plan.hex()[:16]}, while ours is {self.plan.hex()[:16]}: "
                "compare the two files",
            )
        newest, hello = self.known
        if incarnation < newest or (incarnation == newest and sha256(data).hexdigest() != hello):
            self._tell_refusal(data, OLDER, now)
            raise self._no(
                OLDER,
                f"incarnation {incarnation}, since {newest} was here already (a copy of it runs "
                "elsewhere, or its state directory was put back)",
            )
        if len(share) != 32 or len(_field(body, "nonce")) != 32:
            raise self._no("malformed", "a greeting with a share or nonce of another length")
        self._pending, self.early = self._agree(data, incarnation, share), b""
        self._next_hello = now + _AGAIN
        self._greet()

    def _refuse_stranger(self, certificate: bytes) -> None:
        if self.me.key is None and not certificate:
            return  # plain connections on one machine
        if fingerprint(certificate) != self.fingerprint:
            raise self._no(
                "another certificate",
                f"a certificate with {fingerprint(certificate)[:23]}..., while the plan has "
                f"{self.fingerprint[:23]}...",
            )

    def _agree(self, theirs: bytes, incarnation: int, share: bytes) -> _Session:
        first, second = (self.hello, theirs) if self.me.name < self.other else (theirs, self.hello)
        transcript = sha256(len(first).to_bytes(8, "little") + first + second).digest()
        try:
            secret = self._share.exchange(X25519PublicKey.from_public_bytes(share))
        except ValueError:
            raise self._no("malformed", "a share that makes no secret") from None

        def key(sender: PartyId) -> AESGCM:
            info = b"unpooled " + sender.encode("ascii")
            return AESGCM(HKDF(hashes.SHA256(), 32, transcript, info).derive(secret))

        run = sha256(b"run" + transcript).digest()[:16]
        return _Session(theirs, incarnation, transcript, run, key(self.me.name), key(self.other))

    def _greet(self) -> None:
        self.outbox.append((HELLO, self.hello))
        if self._pending is not None:
            self._accept(self._pending)

    def _accept(self, session: _Session) -> None:
        signature = self.me.sign(_acceptance(session.transcript, self.me.name))
        body = {"signature": _bytes(signature), "run": _bytes(session.run)}
        self.outbox.append((HELLO, encode(Post("accept", self.incarnation, body))))

    def _take_accept(self, body: Body) -> Event | None:
        session = self._pending
        if session is None or _field(body, "run") != session.run:
            return None  # for hellos that crossed, or once more; if it is missing it comes again
        words = _acceptance(session.transcript, self.other)
        certificate = _field(decode(session.theirs).body, "certificate")
        trusted = self.me.key is None and not certificate
        if not trusted and not signed(certificate, words, _field(body, "signature")):
            raise self._no("bad signature", "a signature that its certificate's key did not make")
        self._session, self._pending = session, None
        self._sent = self._seen = 0
        self.known = (session.incarnation, sha256(session.theirs).hexdigest())
        return Up(self.other, session.incarnation)

    def _tell_refusal(self, hello: bytes, reason: str, now: float) -> None:
        if now >= self._next_refusal:  # a flood of greetings must not keep us busy with signing
            self._next_refusal = now + _AGAIN
            self.refuses = True
            parts = self.parts if reason == ANOTHER_PLAN else {}
            self.outbox.append((HELLO, refusal(self.me, self.incarnation, hello, reason, parts)))

    def _take_refusal(self, body: Body) -> Refused | None:
        trusted = self.me.key is None
        found = read_refusal(body, self.hello, self.other, self.fingerprint, trusted=trusted)
        if found is None:
            return None
        reason, parts = found
        if reason == ANOTHER_PLAN:
            sentence = (
                f"{self.other} has another plan than {self.me.name}; they differ in "
                f"{difference(self.parts, parts)}: give both the same file."
            )
        else:
            sentence = (
                f"{self.other} knows another process of {self.me.name} that is as new as this one "
                "or newer: stop the other program under this name, or go on with the directory "
                "that it was started with (--to)."
            )
        return Refused(self.other, reason, sentence)

    # Messages

    def _open(self, data: bytes) -> Received | None:
        session = self._session
        if len(data) < _HEAD.size + _SEAL:
            raise self._no("malformed", "a message that ends too early")
        if len(data) > self.limits.max_bytes + 2 * _HEAD.size + 256:
            raise self._no("oversized", f"{len(data)} bytes at once")
        _, run, plan, incarnation, counter, exchange, length = _HEAD.unpack_from(data)
        head = data[: _HEAD.size + length]
        sender = head[_HEAD.size :]
        if self._pending is not None and run == self._pending.run:
            if not self.early and len(data) <= _EARLY:
                self.early = data
            return None  # it came before the word of who sent it; what is not kept comes again
        if session is None or run != session.run:
            raise self._no("another run", "a message of another run")
        if plan != self.plan:
            raise self._no(ANOTHER_PLAN, "a message of another plan")
        if sender != self.other.encode("ascii"):
            raise self._no("another sender", "a message in another party's name")
        if incarnation != session.incarnation:
            raise self._no(OLDER, "a message of another incarnation")
        if counter <= self._seen:
            raise self._no("replayed", f"message {counter} again")
        try:
            box = memoryview(data)[len(head) :]
            plain = session.open.decrypt(_nonce(counter), box, head)
        except (InvalidTag, OverflowError):
            raise self._no("bad seal", "a message whose seal does not fit") from None
        self._seen = counter
        return Received(self.other, exchange, decode(plain, self.limits), plain)

    def _no(self, reason: str, what: str) -> LinkRefusal:
        return LinkRefusal(reason, f"{self.me.name} refuses {what}, from {self.other}.")


def _acceptance(transcript: bytes, name: PartyId) -> bytes:
    return sha256(b"accept" + transcript + name.encode("ascii")).digest()


def _nonce(counter: int) -> bytes:
    return counter.to_bytes(12, "little")


def _bytes(value: bytes) -> Array:
    return np.frombuffer(value, np.uint8)


def _field(body: Body, name: str) -> bytes:
    value = body.get(name)
    if value is None or value.dtype != np.uint8 or value.ndim != 1:
        raise LinkRefusal("malformed", f"A greeting has no {name}.")
    return value.tobytes()
