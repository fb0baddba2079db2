"""Logs what Zenoh itself refuses, like what the layers above it refuse.

Zenoh reports it in its own log only, which goes to the standard output. So a program gives Zenoh a
standard output of its own, a pipe, and keeps the real one. Of what comes through the pipe it logs

- connections that failed since one side refused the other's certificate, had none, or does not use
  TLS,
- that something arrived which its sender has no right to send: a message or subscription in
  another's name, a query. Zenoh does not report from whom. (It also notes what it does not send
  itself, since it offers everything to everybody; that is on other threads, and is no news.)

Who is connected and should not be, :class:`unpooled.network.zenoh.ZenohTransport` sees for itself.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from threading import Thread

import zenoh

from unpooled.network.throttle import worth_logging
from unpooled.text import printable

_LOG = logging.getLogger("unpooled.network")
_FILTER = ",".join(
    (
        "off",
        "zenoh_link_tls=warn",
        "zenoh_link_commons=warn",
        "zenoh::net::runtime::orchestrator=debug",
        "zenoh::net::routing::interceptor=trace",
        "zenoh::net::routing::interceptor::access_control=warn",
    )
)
_PATTERNS = {
    "Zenoh refuses a connection: {}.": re.compile(r" WARN .*zenoh_link_\S+ (.+?)(?:\. Hint.*)?$"),
    "Zenoh cannot connect: {}.": re.compile(
        r"configured peer \w+/(\S+! .*(?:certificate|alert|corrupt).*?)(?: at /\S+)?$"
    ),
    "Zenoh refuses {}, which its sender has no right to send.": re.compile(
        r" rx-\d+ .*routing::interceptor: Msg intercepted()"
    ),
}
_MOST_KINDS = 100
"""Beginnings of lines that are counted apart."""
_LONGEST = 300


@cache
def log_refusals() -> None:
    """Starts it, once in a process; not where somebody has replaced the standard output already."""
    if sys.stdout is not sys.__stdout__ or sys.stdout is None or sys.stdout.fileno() != 1:
        return
    sys.stdout.flush()
    out, encoding = os.dup(1), sys.stdout.encoding
    sys.stdout = open(out, "w", buffering=1, encoding=encoding, closefd=False)  # noqa: SIM115
    if "RUST_LOG" in os.environ:  # somebody wants to see all of it: on the error stream
        os.dup2(2, 1)
        zenoh.init_log_from_env_or(_FILTER)
        return
    os.environ["NO_COLOR"] = "1"  # among what Zenoh writes
    read, write = os.pipe()
    os.dup2(write, 1)
    os.close(write)
    zenoh.init_log_from_env_or(_FILTER)
    lines = open(read, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    Thread(target=relay, args=(lines,), daemon=True).start()


def relay(lines: Iterable[str]) -> None:
    """Logs those lines that report a refusal; what is repeated, ever more seldom."""
    seen: Counter[str] = Counter()
    for line in lines:
        for sentence, pattern in _PATTERNS.items():
            found = pattern.search(line.rstrip())
            if found:
                what = printable(found[1], _LONGEST) or "something"
                kind = sentence + " ".join(what.split()[:3])
                # Whoever makes up new texts must not make the table grow.
                kind = kind if kind in seen or len(seen) < _MOST_KINDS else sentence
                seen[kind] += 1
                times = seen[kind]
                if worth_logging(times):
                    _LOG.warning("%s (%d times so far)", sentence.format(what), times)
