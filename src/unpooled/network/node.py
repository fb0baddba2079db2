"""A party's place on the network: its links to others, whatever carries their bytes.

:class:`Node` keeps one :class:`unpooled.network.link.Link` to each of the others, counts and logs
what it refuses, and turns what arrives into events. What carries bytes is a :class:`Transport`:
Zenoh in earnest (:mod:`unpooled.network.zenoh`), memory in tests.

**Leaving.** A party that cannot take part says so before it ends (:meth:`Node.leave`), with a
reason that has nothing of its rows in it, so that nobody waits for it.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Protocol, TypeAlias

import numpy as np

from unpooled.errors import (
    InputError,
    LedgerRefusal,
    LinkRefusal,
    PartyLeft,
    QuorumLost,
    StateError,
    UnpooledError,
)
from unpooled.messages.codec import LIMITS, Limits
from unpooled.messages.message import Message, Post
from unpooled.network.handshake import HELLO
from unpooled.network.identity import Identity
from unpooled.network.link import Known, Link, Received, Refused, Up
from unpooled.network.refusal import OLDER
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.throttle import worth_logging
from unpooled.text import printable
from unpooled.types import Array, PartyId

_LOG = logging.getLogger("unpooled.network")
_TICK = 0.1
_MUTE = 60.0
CONTROL = "_"
"""What the kinds of messages between drivers begin with; no protocol's do."""
_LEAVING, _NOTED = CONTROL + "leaving", CONTROL + "noted"
_LEAVE_AGAIN = 0.2
_TO_CONNECT = 3.0
"""Seconds in which whoever is there should have shown itself."""


@dataclass(frozen=True)
class Arrived:
    """Bytes, and the key they came under."""

    key: str
    data: bytes


@dataclass(frozen=True)
class Presence:
    """A party's process has come or gone, as the transport sees it."""

    name: PartyId
    here: bool


@dataclass(frozen=True)
class Left:
    """The other side takes no part from now on: for its own reason, or because of ``who``."""

    sender: PartyId
    who: PartyId
    why: str


Event: TypeAlias = Received | Up | Presence | Refused | Left


class Transport(Protocol):
    """What carries bytes: keys are ``unpooled/<run>/<sender>/<receiver>``."""

    def put(self, key: str, data: bytes | bytearray) -> None:
        """Sends a copy, waiting while the way is full; what cannot be sent is dropped."""

    def listen(self, key: str) -> None:
        """Wants what is sent under this key."""

    def unlisten(self, key: str) -> None:
        """Wants it no more."""

    def next(self, timeout: float, expected: PartyId | None = None) -> Arrived | Presence | None:
        """What has arrived; None after ``timeout`` seconds of silence.

        ``expected`` is who is waited for; others may be noticed a moment later.
        """

    def reopen(self) -> None:
        """Makes all connections anew, in case one is there over which nothing passes."""

    def close(self) -> None:
        """Leaves."""


class Node:
    """This party among ``others`` (their names with the plan's fingerprints)."""

    def __init__(
        self,
        me: Identity,
        others: Mapping[PartyId, str],
        plan: bytes,
        state: StateDirectory,
        transport: Transport,
        limits: Limits = LIMITS,
        parts: Mapping[str, str] | None = None,
    ) -> None:
        self.me = me
        self.refused: Counter[tuple[PartyId, str]] = Counter()
        self.bytes_out = self.bytes_in = 0
        self._state = state
        self._transport = transport
        self._known = _known(state)
        self._links = {
            name: Link(me, name, plan, print_, state.incarnation, limits=limits, parts=parts or {})
            for name, print_ in others.items()
        }
        for name, newest in self._known.items():
            if name in self._links:
                self._links[name].known = newest
        self._listening: dict[str, PartyId] = {}
        self._events: deque[Event] = deque()
        self._here: set[PartyId] = set()
        self._gone: set[PartyId] = set()
        """Whose processes the transport has seen come, and go."""
        self._heard_at: dict[PartyId, float] = {}
        self._opened = monotonic()
        self._notified: set[PartyId] = set()
        """Who knows that we are leaving, or has left itself."""
        self._next_tick = 0.0
        for name in others:
            self._listen(HELLO, name)

    def up(self, name: PartyId) -> bool:
        """Whether the link to this party has been made."""
        return self._links[name].up

    def send(self, name: PartyId, message: Message | bytes, exchange: int) -> bool:
        """Sends to one party; False if there is no link to it now."""
        box = self._links[name].seal(message, exchange)
        if box is None:
            return False
        self._put(name, *box)
        return True

    def poll(self, until: float, expected: PartyId | None = None) -> Event | None:
        """The next event; None if there was none by the time ``until`` (of `monotonic`).

        ``expected`` is who is waited for, if it is one above all.
        """
        while True:
            now = monotonic()
            if now >= self._next_tick:
                self._next_tick = now + _TICK
                for name, own in self._links.items():
                    own.tick(now)
                    self._flush(name)
                self._mend(now)
            if self._events:
                return self._events.popleft()
            arrived = self._transport.next(max(0.0, min(until, self._next_tick) - now), expected)
            if isinstance(arrived, Presence):
                self._note_presence(arrived)
                return arrived
            if arrived is not None:
                self._take(arrived)
            if not self._events and monotonic() >= until:
                return None

    def refuse(self, name: PartyId, reason: str, sentence: str) -> None:
        """Counts something that is not taken, and says so in the log: often at first."""
        self.refused[name, reason] += 1
        times = self.refused[name, reason]
        if worth_logging(times):
            _LOG.warning("%s (%s, %d times so far)", sentence, reason, times)

    def leave(self, why: str, who: PartyId = "", seconds: float = 5.0) -> None:
        """Tells all who are there that this party takes no part, until they have heard it.

        ``who`` is somebody else without whom it does not go on, if that is why.
        """
        body = {"who": encode_text(who or self.me.name), "why": encode_text(why)}
        began, again = monotonic(), 0.0
        while (now := monotonic()) < began + seconds:
            untold = [
                name
                for name, own in self._links.items()
                if name not in self._notified and (own.up or not own.refuses)
            ]
            there = [n for n in untold if n not in self._gone and (n in self._here or self.up(n))]
            if not untold or (not there and now >= self._opened + _TO_CONNECT):
                break
            if now >= again:
                again = now + _LEAVE_AGAIN
                for name in untold:
                    self.send(name, Post(_LEAVING, 0, body), 0)
            self.poll(again)
        self.poll(monotonic() + _LEAVE_AGAIN)  # what was put last is on its way

    def close(self) -> None:
        """Leaves the network."""
        self._transport.close()

    def _note_presence(self, seen: Presence) -> None:
        self._heard_at[seen.name] = monotonic()
        if seen.here:
            self._here.add(seen.name)
            self._gone.discard(seen.name)
        else:
            self._here.discard(seen.name)
            self._gone.add(seen.name)

    def _take(self, arrived: Arrived) -> None:
        name = self._listening.get(arrived.key)
        if name is None:
            return  # of a run that is over
        self.bytes_in += len(arrived.data)
        self._heard_at[name] = monotonic()
        self._receive(name, arrived.data)

    def _receive(self, name: PartyId, data: bytes) -> None:
        own = self._links[name]
        try:
            event = own.receive(data, monotonic())
        except LinkRefusal as refusal:
            self.refuse(name, refusal.reason, str(refusal))
            event = None
        if not isinstance(event, Received):
            for run in own.runs:
                self._listen(run, name)  # before the answer tells them that they may send there
            self._flush(name)
            self._forget_runs(name)
        if isinstance(event, Up):
            self._notified.discard(name)
            self._known[name] = own.known
            self._state.write_json("known", self._known)
        if isinstance(event, Received) and event.message.kind == _LEAVING:
            self.send(name, Post(_NOTED, 0, {}), 0)
            self._notified.add(name)  # and it need not know when we leave
            who, why = decode_text(event.message, "who"), decode_text(event.message)
            self._events.append(Left(name, who or name, why))
        elif isinstance(event, Received) and event.message.kind == _NOTED:
            self._notified.add(name)
        elif event is not None:
            if isinstance(event, Refused) and event.reason == OLDER:
                self._notified.add(name)  # it talks to another process of ours
            self._events.append(event)
        if isinstance(event, Up) and own.early:
            early, own.early = own.early, b""
            self._receive(name, early)

    def _mend(self, now: float) -> None:
        """Makes connections anew where somebody is there, by all signs, but never heard."""
        mute = [name for name in self._here if now - self._heard_at[name] > _MUTE]
        if mute:
            _LOG.warning("%s is there but was not heard for %g seconds.", mute[0], _MUTE)
            self._heard_at.update(dict.fromkeys(self._here, now))
            self._transport.reopen()

    def _listen(self, run: str, name: PartyId) -> None:
        key = f"unpooled/{run}/{name}/{self.me.name}"
        if key not in self._listening:
            self._listening[key] = name
            self._transport.listen(key)

    def _forget_runs(self, name: PartyId) -> None:
        """Listens no more under names of runs that came to nothing or are over."""
        alive = {HELLO, *self._links[name].runs}
        for key in [key for key, whose in self._listening.items() if whose == name]:
            if key.split("/")[1] not in alive:
                del self._listening[key]
                self._transport.unlisten(key)

    def _flush(self, name: PartyId) -> None:
        outbox = self._links[name].outbox
        while outbox:
            self._put(name, *outbox.pop(0))

    def _put(self, name: PartyId, run: str, data: bytes | bytearray) -> None:
        self.bytes_out += len(data)
        self._transport.put(f"unpooled/{run}/{self.me.name}/{name}", data)


@contextmanager
def telling_others(node: Node, why: Callable[[UnpooledError], str] | None = None) -> Iterator[None]:
    """Whoever fails in here tells the others before it ends."""
    try:
        yield
    except PartyLeft as error:
        node.leave(error.why, error.who)
        raise
    except UnpooledError as error:
        node.leave((why or why_it_leaves)(error))
        raise


def why_it_leaves(error: UnpooledError) -> str:
    """What others learn of an error here: its kind alone, as its words may quote values."""
    if isinstance(error, QuorumLost):
        return str(error)  # which is about others
    return next(
        (
            said
            for kind, said in (
                (LedgerRefusal, "its policy does not allow what the plan asks for"),
                (InputError, "its data or options cannot be used"),
                (StateError, "its state directory cannot be used"),
            )
            if isinstance(error, kind)
        ),
        "it cannot go on",
    )


def encode_text(text: str) -> Array:
    """Text as numbers, for a message."""
    return np.frombuffer(text[:2000].encode(), np.uint8)


def decode_text(message: Message, field: str = "why") -> str:
    """The text in a message, without what a terminal would obey."""
    text = message.body.get(field, np.empty(0, np.uint8)).tobytes()[:4000].decode(errors="replace")
    return printable(text)


def _known(state: StateDirectory) -> dict[PartyId, Known]:
    """The newest process of each of the others that this party has ever seen."""
    try:
        known = state.read_json("known") or {}
        return {name: (int(number), str(hello)) for name, (number, hello) in known.items()}
    except (OverflowError, TypeError, ValueError):
        raise state.damaged("known") from None
