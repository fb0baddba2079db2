"""Carries bytes over Eclipse Zenoh: the only place that imports it, but for its log.

How it connects, and who may do what there, is in :mod:`unpooled.network.zenoh_config`.

**Bounds.** A message that is too large is dropped by Zenoh before it is put together; what has
arrived and is not yet looked at is bounded too, and beyond that dropped (whoever waits for it asks
for it again). A put waits while the way is full, but only for so long.
"""

from __future__ import annotations

import json
import logging
import queue
from collections import Counter
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import Any

import zenoh

from unpooled.errors import InputError
from unpooled.messages.codec import LIMITS
from unpooled.network.handshake import HELLO
from unpooled.network.node import Arrived, Presence
from unpooled.network.throttle import worth_logging
from unpooled.network.zenoh_config import Place, TlsFiles, configuration
from unpooled.text import printable
from unpooled.types import PartyId

_LOG = logging.getLogger("unpooled.network")
_MOST_WAITING = 32
"""Messages of one sender that wait to be looked at; beyond that the oldest is dropped."""
_LARGEST_GREETING = 2**16
_MOST_GREETINGS = 1024
_LONGEST_NAME = 80
_MOMENT = 0.02
"""Seconds for which to wait at one channel before the others are looked at."""
_HALF_KNOWN = 8.0
"""Seconds after which who is connected should have shown itself, the first time."""


class ZenohTransport:
    """A session of one party; see :class:`unpooled.network.node.Transport`."""

    def __init__(
        self, place: Place, files: TlsFiles | None, largest: int = LIMITS.max_bytes
    ) -> None:
        self._place = place
        self._content = json.dumps(configuration(place, files, largest=largest))
        self._inbox: queue.SimpleQueue[Arrived | Presence] = queue.SimpleQueue()
        """Greetings and who has come or gone: rare, and taken before messages."""
        self._subscribers: dict[str, Any] = {}
        self._channels: dict[PartyId, dict[str, Any]] = {}
        """Where messages arrive, by their senders: in Zenoh's own memory, without a thread."""
        self._publishers: dict[str, Any] = {}
        self._waiting_at: str | None = None
        self._strangers: Counter[str] = Counter()
        self._alive: set[PartyId] = set()
        self._linked_since: dict[PartyId, float] = {}
        """Who is connected but has not shown its token, and since when."""
        self._half_known = _HALF_KNOWN
        self._open()
        self._closed = Event()
        self._ticking = Thread(target=self._tick, daemon=True)
        self._ticking.start()

    def _open(self) -> None:
        place = self._place
        try:
            self._session = zenoh.open(zenoh.Config.from_json5(self._content))
        except zenoh.ZError as error:
            where = f"at {place.listen}" if place.listen else "on the network"
            raise InputError(
                f"{place.name} cannot start {where} ({_reason(error)}); see that the address is "
                "this machine's and that nothing else listens there."
            ) from None
        self._token = self._session.liveliness().declare_token(f"unpooled/live/{place.name}/alive")
        self._watching = [
            self._session.liveliness().declare_subscriber(
                f"unpooled/live/{other}/alive", self._seen, history=True
            )
            for other in place.others
        ]
        self._linking = self._session.info.declare_link_events_listener(self._linked, history=True)

    def put(self, key: str, data: bytes | bytearray) -> None:
        """Sends a copy, waiting while the way is full."""
        publisher = self._publishers.get(key)
        if publisher is None:
            publisher = self._publishers[key] = self._session.declare_publisher(
                key,
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
                allowed_destination=zenoh.Locality.REMOTE,
            )
        publisher.put(data)

    def listen(self, key: str) -> None:
        """Subscribes to what is sent under this key."""
        _, run, sender, _ = key.split("/")
        if run == HELLO:
            self._subscribers[key] = self._session.declare_subscriber(key, self._greeted)
            return
        channel: Any = zenoh.handlers.RingChannel(_MOST_WAITING)
        own = self._subscribers[key] = self._session.declare_subscriber(key, channel)
        self._channels.setdefault(sender, {})[key] = own.handler

    def unlisten(self, key: str) -> None:
        """Unsubscribes."""
        self._channels.get(key.split("/")[2], {}).pop(key, None)
        self._subscribers.pop(key).undeclare()

    def next(self, timeout: float, expected: PartyId | None = None) -> Arrived | Presence | None:
        """What has arrived; while nothing has, it waits for ``expected`` first of all."""
        end = monotonic() + timeout
        self._reconnect_half_known()
        while True:
            if not self._inbox.empty():
                return self._inbox.get()
            names = self._channels if expected is None else (expected, *self._channels)
            for name in names:
                for key, channel in self._channels.get(name, {}).items():
                    sample = channel.try_recv()
                    if sample is not None and (data := sample.payload.to_bytes()):
                        return Arrived(key, data)
            if monotonic() >= end:
                return None
            arrived = self._wait(expected, end)
            if arrived is not None:
                return arrived

    def _wait(self, expected: PartyId | None, end: float) -> Arrived | Presence | None:
        """Waits at one channel until something arrives there, or for a moment."""
        open_ = self._channels.get(expected or "") or next(
            (own for own in self._channels.values() if own), None
        )
        if not open_:
            try:
                return self._inbox.get(timeout=max(end - monotonic(), 0.0))
            except queue.Empty:
                return None
        self._waiting_at, channel = next(reversed(open_.items()))
        data = channel.recv().payload.to_bytes()
        key, self._waiting_at = self._waiting_at, None
        return Arrived(key, data) if data else None

    def _tick(self) -> None:
        """Ends long waits by an empty message to oneself.

        ``recv`` of a channel of Zenoh takes no timeout, and waits at that channel alone. Without
        this, whatever arrives elsewhere would wait as long.
        """
        while not self._closed.wait(_MOMENT):
            key = self._waiting_at
            if key is not None:
                with suppress(zenoh.ZError):
                    self._session.put(key, b"", allowed_destination=zenoh.Locality.SESSION_LOCAL)

    def _reconnect_half_known(self) -> None:
        """Makes connections anew where one is half known.

        If one end has given a connection up and dials anew while the other still holds on to it,
        Zenoh 1.10 adds the new link to the old session there: the other end then declares neither
        its subscriptions nor its token, and takes what is sent for what it knows already.
        """
        now = monotonic()
        for name, since in list(self._linked_since.items()):
            if name in self._alive:  # it showed itself while its connection was being noted
                self._linked_since.pop(name, None)
                continue
            if now - since > self._half_known:
                self._half_known *= 2  # a slow network must not be torn down again and again
                _LOG.warning("%s is connected but does not show itself; connecting anew.", name)
                self._linked_since.clear()
                self.reopen()
                return

    def reopen(self) -> None:
        """Makes all connections anew."""
        keys = list(self._subscribers)
        self._session.close()  # type: ignore[no-untyped-call]
        self._subscribers, self._channels, self._publishers = {}, {}, {}
        self._alive.clear()
        self._open()
        for key in keys:
            self.listen(key)

    def close(self) -> None:
        """Closes the session."""
        self._closed.set()
        self._ticking.join()  # a thread inside Zenoh when Python ends aborts the process
        self._session.close()  # type: ignore[no-untyped-call]

    def _greeted(self, sample: zenoh.Sample) -> None:
        if len(sample.payload) <= _LARGEST_GREETING and self._inbox.qsize() < _MOST_GREETINGS:
            self._inbox.put(Arrived(str(sample.key_expr), sample.payload.to_bytes()))

    def _linked(self, event: Any) -> None:
        """Logs who is connected and is no neighbour; Zenoh takes nothing from them."""
        who = event.link.auth_identifier  # from the certificate; None in plain TCP
        if who in self._place.others:
            if event.kind != zenoh.SampleKind.PUT:
                self._linked_since.pop(who, None)
            elif who not in self._alive:
                self._linked_since.setdefault(who, monotonic())
        if event.kind == zenoh.SampleKind.PUT and who and who not in self._place.others:
            self._strangers[who] += 1
            times = self._strangers[who]
            if worth_logging(times):
                _LOG.warning(
                    "%s is connected to %s, but is none of those it talks to; nothing is taken "
                    "from it or sent to it (%d times so far)",
                    printable(who, _LONGEST_NAME),
                    self._place.name,
                    times,
                )

    def _seen(self, sample: zenoh.Sample) -> None:
        name = str(sample.key_expr).split("/")[2]
        if sample.kind == zenoh.SampleKind.PUT:
            self._alive.add(name)
            self._linked_since.pop(name, None)
        else:
            self._alive.discard(name)
        if self._inbox.qsize() < _MOST_GREETINGS:
            self._inbox.put(Presence(name, sample.kind == zenoh.SampleKind.PUT))


def _reason(error: Exception) -> str:
    """Zenoh's own text, without the places in its sources that it adds."""
    text = " ".join(str(error).split()).split(" at /")[0]
    return text[:160] or type(error).__name__
