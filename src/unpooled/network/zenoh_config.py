"""The configuration of Eclipse Zenoh for one party: whom it connects to, and who may do what.

**Connections.** Every connection is TLS with certificates on both sides; plain TCP is only for
trials, and only to and from the machine itself. A party listens at its endpoint in the plan and
nowhere else (Zenoh's own default would be every interface, in plain TCP), dials its neighbours, and
finds nobody by itself: multicast and gossip are off. Of two parties that both listen, the one whose
name sorts later dials. Who is dialled must show a certificate for the host in the plan.

**Who may do what** is checked by Zenoh at both ends of every connection, by the common name of the
other's certificate; what no rule allows is denied. Between A and its neighbour B there pass

- what A puts under ``unpooled/*/A/B``, and what B does under ``unpooled/*/B/A``,
- A's subscription to the latter, B's to the former,
- ``unpooled/live/A/alive`` and ``unpooled/live/B/alive``, by which each sees the other come and go.

So nobody sends or replies in another's name, receives what is meant for another, makes a query of
Zenoh's own (they are not used at all) or looks at its administration. The ``*`` stands for the run,
whose name nobody knows before both ends have met.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unpooled.messages.codec import LIMITS
from unpooled.types import PartyId

LEASE = 10.0
"""Seconds of silence after which a connection is given up and made anew."""


@dataclass(frozen=True)
class TlsFiles:
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
    files: TlsFiles | None,
    *,
    largest: int = LIMITS.max_bytes,
    lease: float = LEASE,
    block: float = 2.0,
) -> dict[str, Any]:
    """Zenoh's configuration for this place; without files, plain TCP.

    ``largest`` is how many bytes a message may have before it is wrapped and sealed. ``block`` is
    how long a put waits while the way is full. It is far below ``lease``: where both run out on one
    connection, Zenoh 1.10 may be left with one over which nothing passes.
    """
    return {
        "mode": "peer",
        **_endpoints(place, "tcp" if files is None else "tls"),
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
            "link": _link(files, largest, lease, block),
            "shared_memory": {"enabled": False},
        },
        **({} if files is None else {"access_control": _access(place)}),
    }


def _endpoints(place: Place, protocol: str) -> dict[str, Any]:
    """Where to listen, which must succeed at once, and whom to dial, until they are there."""
    listen = f"{protocol}/{place.listen}"
    if protocol == "tls":
        listen += "#tls_handshake_timeout_ms=3000"
    return {
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
    }


def _link(files: TlsFiles | None, largest: int, lease: float, block: float) -> dict[str, Any]:
    waiting = {"congestion_control": {"block": {"wait_before_close": round(1_000_000 * block)}}}
    return {
        "protocols": ["tcp" if files is None else "tls"],
        "tx": {"lease": round(1000 * lease), "keep_alive": 4, "queue": waiting},
        "rx": {"max_message_size": largest + 2**16},
        **({} if files is None else {"tls": _tls(files)}),
    }


def _tls(files: TlsFiles) -> dict[str, Any]:
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
