"""Carries bytes over Eclipse Zenoh: the only place that imports it, but for its log.

**Connections.** Every connection is TLS with certificates on both sides; plain TCP is only for
trials, and only to and from the machine itself. A party listens where the plan says and nowhere
else (Zenoh's own default would be every interface, in plain TCP), dials whom the plan says, and
finds nobody by itself: multicast and gossip are off. Of two parties that both listen, the one whose
name sorts later dials. Who is dialled must show a certificate for the host in the plan.

**Who may do what** is checked by Zenoh at both ends of every connection, by the common name of the
other's certificate; what no rule allows is denied. Between A and its neighbour B there pass

- what A puts under ``unpooled/*/A/B``, and what B does under ``unpooled/*/B/A``,
- A's wish to hear the latter, B's to hear the former,
- ``unpooled/live/A/alive`` and ``unpooled/live/B/alive``, by which each sees the other come and go.

So nobody speaks or answers in another's name, hears what is meant for another, asks a question of
Zenoh's own (queries are not used at all) or looks at its administration. The ``*`` stands for the
run, whose name nobody knows before both ends have met.

**Bounds.** A message that is too large is dropped by Zenoh before it is put together; what has
arrived and is not yet looked at is bounded too, and beyond that dropped (those who wait ask again).
A put waits while the way is full, and no longer than ``block`` seconds.
"""

from __future__ import annotations

import json
import logging
import queue
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import zenoh

from unpooled.errors import InputError
from unpooled.messages.codec import LIMITS
from unpooled.network.handshake import HELLO
from unpooled.network.node import Arrived, Presence
from unpooled.network.throttle import worth_logging
from unpooled.types import PartyId

_LOG = logging.getLogger("unpooled.network")
LEASE = 10.0
"""Seconds of silence after which a connection is given up and made anew."""
_MOST_WAITING = 32
"""Messages of one sender that wait to be looked at; beyond that the oldest is dropped."""
_LARGEST_GREETING = 2**16
_MOST_GREETINGS = 1024
_MOMENT = 0.02
_HALF_KNOWN = 8.0
"""Seconds after which who is connected should have shown itself, the first time."""


@dataclass(frozen=True)
class Files:
    """The party's key and certificate and the authority's certificate."""

    key: Path
    certificate: Path
    ca: Path


@dataclass(frozen=True)
class Place:
    """A party on the network: where it listens ("" if nowhere) and whom it dials."""

    name: PartyId
    listen: str
    others: Mapping[PartyId, str]
    """Its neighbours with their endpoints ("" for those that listen nowhere)."""

    @property
    def dialled(self) -> tuple[str, ...]:
        """The endpoints to be dialled."""
        return tuple(
            endpoint
            for other, endpoint in self.others.items()
            if endpoint and (not self.listen or not self.others[other] or self.name > other)
        )


def configuration(
    place: Place,
    files: Files | None,
    *,
    largest: int = LIMITS.max_bytes,
    lease: float = LEASE,
    block: float = 2.0,
) -> dict[str, Any]:
    """Zenoh's configuration for this place; without files, plain TCP.

    ``largest`` is how many bytes a message may have before it is wrapped and sealed.
    ``block`` is far below ``lease``: where both run out on one connection, Zenoh 1.10 may be left
    with one over which nothing passes.
    """
    protocol = "tcp" if files is None else "tls"
    listen = f"{protocol}/{place.listen}"
    if files is not None:
        listen += "#tls_handshake_timeout_ms=3000"
    return {
        "mode": "peer",
        "listen": {
            "endpoints": [listen] if place.listen else [],
            "timeout_ms": 0,
            "exit_on_failure": True,
        },
        "connect": {
            "endpoints": [f"{protocol}/{endpoint}" for endpoint in place.dialled],
            "timeout_ms": -1,
            "exit_on_failure": False,
            "retry": {"period_init_ms": 100, "period_max_ms": 1000, "period_increase_factor": 2},
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "adminspace": {"enabled": False, "permissions": {"read": False, "write": False}},
        "timestamping": {"enabled": False},
        "open": {"return_conditions": {"connect_scouted": False, "declares": False}},
        "transport": {
            "unicast": {
                "open_timeout": 5000,
                "accept_timeout": 5000,
                "accept_pending": 32,
                "max_sessions": 4 * len(place.others) + 16,
                # Two, though one is used: this is what makes Zenoh check that a second link
                # of a session comes from whom the first came from.
                "max_links": 2,
            },
            "link": {
                "protocols": [protocol],
                "tx": {
                    "lease": round(1000 * lease),
                    "keep_alive": 4,
                    "queue": {
                        "congestion_control": {
                            "block": {"wait_before_close": round(1_000_000 * block)}
                        }
                    },
                },
                "rx": {"max_message_size": largest + 2**16},
                **({} if files is None else {"tls": _tls(files)}),
            },
            "shared_memory": {"enabled": False},
        },
        **({} if files is None else {"access_control": _access(place)}),
    }


def _tls(files: Files) -> dict[str, Any]:
    return {
        "root_ca_certificate": str(files.ca),
        "enable_mtls": True,
        "listen_private_key": str(files.key),
        "listen_certificate": str(files.certificate),
        "connect_private_key": str(files.key),
        "connect_certificate": str(files.certificate),
        "verify_name_on_connect": True,
        "close_link_on_expiration": True,
    }


def _access(place: Place) -> dict[str, Any]:
    """For every neighbour what may come from it and go to it; nothing else may."""
    rules: list[dict[str, Any]] = []
    me = place.name
    for other in place.others:
        ways = (("ingress", other, me), ("egress", me, other))
        for way, sender, receiver in ways:
            allowed = {
                "put": f"unpooled/*/{sender}/{receiver}",
                "liveliness_token": f"unpooled/live/{sender}/alive",
                "declare_subscriber": f"unpooled/*/{receiver}/{sender}",
            }
            rules += [
                {
                    "id": f"{other} {way} {message}",
                    "permission": "allow",
                    "flows": [way],
                    "messages": [message],
                    "key_exprs": [key],
                }
                for message, key in allowed.items()
            ]
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": [{"id": name, "cert_common_names": [name]} for name in place.others],
        "policies": [
            {
                "rules": [rule["id"] for rule in rules if rule["id"].split()[0] == other],
                "subjects": [other],
            }
            for other in place.others
        ],
    }


class ZenohTransport:
    """A session of one party; see :class:`unpooled.network.node.Transport`."""

    def __init__(self, place: Place, files: Files | None, largest: int = LIMITS.max_bytes) -> None:
        self._place = place
        self._content = json.dumps(configuration(place, files, largest=largest))
        self._inbox: queue.SimpleQueue[Arrived | Presence] = queue.SimpleQueue()
        """Greetings and who has come or gone: rare, and looked at by and by."""
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
        """Wants what is sent under this key."""
        _, run, sender, _ = key.split("/")
        if run == HELLO:
            self._subscribers[key] = self._session.declare_subscriber(key, self._greeted)
            return
        channel: Any = zenoh.handlers.RingChannel(_MOST_WAITING)
        own = self._subscribers[key] = self._session.declare_subscriber(key, channel)
        self._channels.setdefault(sender, {})[key] = own.handler

    def unlisten(self, key: str) -> None:
        """Wants it no more."""
        self._channels.get(key.split("/")[2], {}).pop(key, None)
        self._subscribers.pop(key).undeclare()

    def next(self, timeout: float, expected: PartyId | None = None) -> Arrived | Presence | None:
        """What has arrived; while nothing has, it waits for ``expected`` first of all."""
        end = monotonic() + timeout
        self._mend()
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
        """Ends long waits by an empty message to oneself, which Zenoh's channels need for it."""
        while not self._closed.wait(_MOMENT):
            key = self._waiting_at
            if key is not None:
                with suppress(zenoh.ZError):
                    self._session.put(key, b"", allowed_destination=zenoh.Locality.SESSION_LOCAL)

    def _mend(self) -> None:
        """Makes connections anew where one is half known.

        If one end has given a connection up and dials anew while the other still holds on to it,
        Zenoh 1.10 adds the new link to the old session there: the other end then tells nothing of
        what it listens to or that it is there, and takes what is sent for what it knows already.
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
        """Leaves."""
        self._closed.set()
        self._ticking.join()  # a thread inside Zenoh when Python ends aborts the process
        self._session.close()  # type: ignore[no-untyped-call]

    def _greeted(self, sample: zenoh.Sample) -> None:
        if len(sample.payload) <= _LARGEST_GREETING and self._inbox.qsize() < _MOST_GREETINGS:
            self._inbox.put(Arrived(str(sample.key_expr), sample.payload.to_bytes()))

    def _linked(self, event: Any) -> None:
        """Says who is connected and has no business here; Zenoh takes nothing from them."""
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
                    who,
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
    """What Zenoh says, without the places in its own sources that it adds."""
    text = " ".join(str(error).split()).split(" at /")[0]
    return text[:160] or type(error).__name__
