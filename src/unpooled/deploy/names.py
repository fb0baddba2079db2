"""Names of parties, hosts and endpoints, as plans, keys and certificates spell them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

from unpooled.errors import InputError

MOST_HOSTS = 20
RESERVED = {"ca": "the authority's files", "alive": "the keys that show who is there"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
DNS = re.compile(rf"(?=.{{1,253}}\Z)({_LABEL}\.)*(?![0-9]+\Z){_LABEL}", re.ASCII | re.IGNORECASE)


def check_name(name: str) -> str:
    """The name of a party, which becomes part of the keys under which its messages travel."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"The name {name[:80]!r} cannot become part of network keys; take a letter and up to "
            "62 more letters, digits, '-' or '_'."
        )
    if name.lower() in RESERVED:
        raise InputError(f"The name {name!r} is kept for {RESERVED[name.lower()]}; take another.")
    return name


def check_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    """Names and addresses under which a party is dialled, in one spelling, each once."""
    found = tuple(dict.fromkeys(_host(host) for host in hosts))
    if len(found) > MOST_HOSTS:
        raise InputError(f"{len(found)} hosts are too many for a party; name up to {MOST_HOSTS}.")
    return found


def _host(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        if DNS.fullmatch(text):
            return text.lower()
    else:
        if not (address.is_unspecified or address.is_multicast or "%" in text):
            return str(address)
    raise InputError(
        f"The host {text[:80]!r} is neither a DNS name nor an address that others can dial; give "
        "it without port, brackets or '*'."
    )


def check_endpoint(endpoint: str, where: str) -> tuple[str, int]:
    """Host and port of an endpoint, which ``where`` calls in a refusal."""
    host, colon, port = endpoint.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        not colon
        or not port.isdecimal()
        or len(port) > 5
        or not 0 < int(port) < 65536
        or (":" in bare) == (bare == host)
    ):
        raise InputError(
            f'{where} has the endpoint {endpoint!r}; give host:port, e.g. "10.0.0.1:7447".'
        )
    try:
        return _host(bare), int(port)
    except InputError as error:
        raise InputError(f"{where} has the endpoint {endpoint!r}: {error}") from None


def is_loopback(host: str) -> bool:
    """Whether this names the machine itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
