"""One link between two named parties: who the other one is, and messages sealed for it alone.

Nothing here sends: bytes that arrived go in, bytes to be sent and events come out, so that the
whole of it is tested without a network.

**Making a link.** Both sides send a hello (:mod:`unpooled.network.handshake`) and repeat it until
the other side's accept is here; then the link is up. A hello with another plan, a certificate that
is not the plan's, or an incarnation that is not newer than the newest known is refused; whoever has
the plan's certificate is sent the reason (:mod:`unpooled.network.refusal`).

**Messages** are sealed and opened by :mod:`unpooled.network.sealing`.

Connections are made with mutual TLS all the same. This layer holds where that ends: the dialling
side of the transport trusts public authorities too, and does not know the plan's fingerprints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from unpooled.errors import LinkRefusal, WireError
from unpooled.messages.codec import LIMITS, Limits, decode
from unpooled.messages.message import Message
from unpooled.network.handshake import (
    ACCEPT,
    GREETING_LIMITS,
    HELLO,
    AgreedKeys,
    LinkEnds,
    TheirHello,
    agree,
    field_bytes,
    make_accept,
    make_hello,
    new_share,
    read_hello,
    refuse_bad_accept,
)
from unpooled.network.identity import Identity, fingerprint
from unpooled.network.refusal import ANOTHER_PLAN, OLDER, REFUSED, difference, read_refusal, refusal
from unpooled.network.sealing import MAGIC, SealedChannel, read_head
from unpooled.types import Body, PartyId

_LARGEST_EARLY = 16 * 2**10
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
    """The other side is there, and is who the plan names: a process of it not seen before."""

    sender: PartyId
    incarnation: int


@dataclass(frozen=True)
class Refused:
    """The other side, who is who the plan names, refuses this process."""

    sender: PartyId
    reason: str
    sentence: str


LinkEvent: TypeAlias = Received | Up | Refused

Known: TypeAlias = tuple[int, str]
"""An incarnation, and the hash of its hello."""


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
        self._ends = LinkEnds(self.me, self.other, self.plan, self.incarnation)
        self._share = new_share()
        self.hello = make_hello(self._ends, self._share)
        self._channel: SealedChannel | None = None
        self._pending: AgreedKeys | None = None
        """Agreed upon with a process of the other side that has not shown yet who it is."""
        self.early = b""
        """The first message of that process, to be received again once the link is up."""
        self._next_hello = self._next_refusal = 0.0
        self.refuses = False
        """Whether the other side has been sent a refusal."""

    @property
    def up(self) -> bool:
        """Whether the other side has shown who it is."""
        return self._channel is not None

    @property
    def runs(self) -> set[str]:
        """The run's names under which messages may come."""
        return {agreed.run_name for agreed in self._agreed()}

    def _agreed(self) -> list[AgreedKeys]:
        """With the process that the link is up to, and with one that may take its place."""
        known = (None if self._channel is None else self._channel.agreed, self._pending)
        return [agreed for agreed in known if agreed is not None]

    def tick(self, now: float) -> None:
        """Repeats what the other side may not have received."""
        if (self._channel is None or self._pending is not None) and now >= self._next_hello:
            self._next_hello = now + _AGAIN
            self._greet()

    def seal(self, message: Message | bytes, exchange: int) -> tuple[str, bytearray] | None:
        """The run's name and the bytes to be sent there; None while the link is not up.

        They are good until the next message is sealed.
        """
        if self._channel is None:
            return None
        return self._channel.agreed.run_name, self._channel.seal(message, exchange)

    def receive(self, data: bytes, now: float) -> LinkEvent | None:
        """What these bytes mean; :class:`LinkRefusal` if they are not taken."""
        try:
            if data[:4] == MAGIC:
                return self._open(data)
            return self._take_greeting(data, now)
        except LinkRefusal as refusal:
            self.refused[refusal.reason] += 1
            raise
        except WireError as error:
            self.refused["malformed"] += 1
            raise LinkRefusal("malformed", f"{self.other} sent bytes of no use: {error}") from error

    # Greetings

    def _take_greeting(self, data: bytes, now: float) -> LinkEvent | None:
        message = decode(data, GREETING_LIMITS)
        if message.kind == HELLO:
            self._take_hello(read_hello(data, message.round, message.body), now)
            return None
        if message.kind == ACCEPT:
            return self._take_accept(message.body)
        if message.kind == REFUSED:
            return self._take_refusal(message.body)
        raise self._ends.refusal("out of place", f"{message.kind!r} in place of a greeting")

    def _take_hello(self, theirs: TheirHello, now: float) -> None:
        for agreed in self._agreed():
            if theirs.encoded == agreed.hello.encoded:
                self._accept(agreed)  # they have not received it yet
                return
        self._refuse_stranger(theirs.certificate)
        if theirs.plan != self.plan:
            self._send_refusal(theirs, ANOTHER_PLAN, now)
            raise self._ends.refusal(
                ANOTHER_PLAN,
                f"a plan whose hash is {theirs.plan.hex()[:16]}, while ours is "
                f"{self.plan.hex()[:16]}: compare the two files",
            )
        newest, its_hello = self.known
        if theirs.incarnation < newest or (
            theirs.incarnation == newest and _hash_of(theirs) != its_hello
        ):
            self._send_refusal(theirs, OLDER, now)
            raise self._ends.refusal(
                OLDER,
                f"incarnation {theirs.incarnation}, since {newest} was here already (a copy of it "
                "runs elsewhere, or its state directory was put back)",
            )
        self._pending = agree(self._ends, self._share, self.hello, theirs)
        self.early = b""
        self._next_hello = now + _AGAIN
        self._greet()

    def _refuse_stranger(self, certificate: bytes) -> None:
        if self.me.key is None and not certificate:
            return  # plain connections on one machine
        if fingerprint(certificate) != self.fingerprint:
            raise self._ends.refusal(
                "another certificate",
                f"a certificate with {fingerprint(certificate)[:23]}..., while the plan has "
                f"{self.fingerprint[:23]}...",
            )

    def _greet(self) -> None:
        self.outbox.append((HELLO, self.hello))
        if self._pending is not None:
            self._accept(self._pending)

    def _accept(self, agreed: AgreedKeys) -> None:
        self.outbox.append((HELLO, make_accept(self._ends, agreed)))

    def _take_accept(self, body: Body) -> Up | None:
        agreed = self._pending
        if agreed is None or field_bytes(body, "run") != agreed.run:
            return None  # for hellos that crossed, or once more; if it is missing it comes again
        refuse_bad_accept(self._ends, agreed, body)
        self._channel, self._pending = SealedChannel(self._ends, agreed, self.limits), None
        self.known = (agreed.hello.incarnation, _hash_of(agreed.hello))
        return Up(self.other, agreed.hello.incarnation)

    def _send_refusal(self, theirs: TheirHello, reason: str, now: float) -> None:
        if now >= self._next_refusal:  # a flood of greetings must not keep us busy with signing
            self._next_refusal = now + _AGAIN
            self.refuses = True
            parts = self.parts if reason == ANOTHER_PLAN else {}
            sent = refusal(self.me, self.incarnation, theirs.encoded, reason, parts)
            self.outbox.append((HELLO, sent))

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
        head = read_head(self._ends, data, self.limits)
        if self._pending is not None and head.run == self._pending.run:
            # It overtook the accept that shows who sent it. The first is kept, for others would
            # only fill the memory; what is not kept comes again.
            if not self.early and len(data) <= _LARGEST_EARLY:
                self.early = data
            return None
        channel = self._channel
        if channel is None or head.run != channel.agreed.run:
            raise self._ends.refusal("another run", "a message of another run")
        plain = channel.open(head, data)
        return Received(self.other, head.exchange, decode(plain, self.limits), plain)


def _hash_of(hello: TheirHello) -> str:
    return sha256(hello.encoded).hexdigest()
