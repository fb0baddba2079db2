"""The greetings of a link, the keys that follow from them, and the signatures that confirm them.

Every process makes one *hello* per link: the hash of its plan, its incarnation, a nonce, an X25519
share, its certificate. Both hellos together, the one of the name that sorts first first, are the
link's transcript T. From T follow

- the run's name on this link, the first 16 bytes of SHA-256("run" T): fresh if either side is,
- a key for each direction, HKDF-SHA256 of the shared secret with salt SHA-256(T),
- what each side signs with its certificate's key, SHA-256("accept" T name): its *accept*.

When they are sent and what is refused is in :mod:`unpooled.network.link`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from unpooled.errors import LinkRefusal
from unpooled.messages.codec import Limits, encode
from unpooled.messages.message import Post
from unpooled.network.identity import Identity, signed
from unpooled.types import Array, Body, PartyId

HELLO, ACCEPT = "hello", "accept"
GREETING_LIMITS = Limits(max_bytes=16 * 2**10, max_fields=8, max_ndim=1)
"""Greetings come from anybody, so that hardly anything is allocated for one."""


@dataclass(frozen=True)
class LinkEnds:
    """Both ends of a link: ours with its plan and its process's incarnation, the other's name."""

    me: Identity
    other: PartyId
    plan: bytes
    incarnation: int

    def refusal(self, reason: str, what: str) -> LinkRefusal:
        """What to raise when something that came from the other side is not taken."""
        return LinkRefusal(reason, f"{self.me.name} refuses {what}, from {self.other}.")


class TheirHello(NamedTuple):
    """The hello of the other side's process."""

    encoded: bytes
    incarnation: int
    plan: bytes
    nonce: bytes
    share: bytes
    certificate: bytes


@dataclass(frozen=True)
class AgreedKeys:
    """What follows from both hellos: nobody but these two processes has the keys."""

    hello: TheirHello
    transcript: bytes
    run: bytes
    sealing: AESGCM
    opening: AESGCM

    @cached_property
    def run_name(self) -> str:
        """The run, as it is called in keys of the network."""
        return self.run.hex()


def new_share() -> X25519PrivateKey:
    """Our half of the shared secret, new in every process."""
    return X25519PrivateKey.generate()


def make_hello(ends: LinkEnds, share: X25519PrivateKey) -> bytes:
    """Our hello."""
    body = {
        "plan": _byte_array(ends.plan),
        "nonce": _byte_array(secrets.token_bytes(32)),
        "share": _byte_array(share.public_key().public_bytes_raw()),
        "certificate": _byte_array(ends.me.certificate),
    }
    return encode(Post(HELLO, ends.incarnation, body))


def read_hello(encoded: bytes, incarnation: int, body: Body) -> TheirHello:
    """Their hello, with all of its fields."""
    plan, nonce, share, certificate = (
        field_bytes(body, name) for name in ("plan", "nonce", "share", "certificate")
    )
    return TheirHello(encoded, incarnation, plan, nonce, share, certificate)


def agree(ends: LinkEnds, share: X25519PrivateKey, ours: bytes, hello: TheirHello) -> AgreedKeys:
    """What follows from our hello and theirs."""
    if len(hello.share) != 32 or len(hello.nonce) != 32:
        raise ends.refusal("malformed", "a greeting with a share or nonce of another length")
    theirs = hello.encoded
    first, second = (ours, theirs) if ends.me.name < ends.other else (theirs, ours)
    # With the length of the first, no two pairs of hellos have the same transcript.
    transcript = sha256(len(first).to_bytes(8, "little") + first + second).digest()
    try:
        secret = share.exchange(X25519PublicKey.from_public_bytes(hello.share))
    except ValueError:  # a point of small order, with which the secret would be zero
        raise ends.refusal("malformed", "a share that makes no secret") from None

    def key(sender: PartyId) -> AESGCM:
        info = b"unpooled " + sender.encode("ascii")
        return AESGCM(HKDF(hashes.SHA256(), 32, transcript, info).derive(secret))

    run = sha256(b"run" + transcript).digest()[:16]
    return AgreedKeys(hello, transcript, run, key(ends.me.name), key(ends.other))


def make_accept(ends: LinkEnds, agreed: AgreedKeys) -> bytes:
    """Our signature of the transcript: that we are who our certificate names."""
    signature = ends.me.sign(_signed_by_accept(agreed.transcript, ends.me.name))
    body = {"signature": _byte_array(signature), "run": _byte_array(agreed.run)}
    return encode(Post(ACCEPT, ends.incarnation, body))


def refuse_bad_accept(ends: LinkEnds, agreed: AgreedKeys, body: Body) -> None:
    """Refuses an accept that the key of the other side's certificate did not sign."""
    content = _signed_by_accept(agreed.transcript, ends.other)
    certificate = agreed.hello.certificate
    trusted = ends.me.key is None and not certificate  # plain connections on one machine
    if not trusted and not signed(certificate, content, field_bytes(body, "signature")):
        raise ends.refusal("bad signature", "a signature that its certificate's key did not make")


def field_bytes(body: Body, name: str) -> bytes:
    """A field of a greeting, whose fields are all byte strings."""
    value = body.get(name)
    if value is None or value.dtype != np.uint8 or value.ndim != 1:
        raise LinkRefusal("malformed", f"A greeting has no {name}.")
    return value.tobytes()


def _signed_by_accept(transcript: bytes, name: PartyId) -> bytes:
    """What an accept signs; with the name, neither side's can be sent back as the other's."""
    return sha256(b"accept" + transcript + name.encode("ascii")).digest()


def _byte_array(value: bytes) -> Array:
    return np.frombuffer(value, np.uint8)
