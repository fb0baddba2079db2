"""What the roles on a network are tried on: a stage on which the tape says what happens next.

A role (coordinator, party, peer) runs as it is. In place of its node stands one that carries
nothing, and whose events are decided one by one; time passes only where the tape says so.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from unittest import mock

from fuzz.tape import Tape, message
from unpooled.errors import WireError
from unpooled.messages.codec import decode, encode
from unpooled.messages.message import Message
from unpooled.network import mesh, peer_inbox, posts, star_coordinator, star_party, termination
from unpooled.network.link import Received, Up
from unpooled.network.node import Event, Presence

_MOST = 400
"""Events in a run; what has not happened by then will not."""


class Over(BaseException):
    """The tape has ended, and the process with it: nothing is tidied up."""


class StubNode:
    """A node whose events come from ``play``, which raises :class:`Over` when it has none."""

    def __init__(self, clock: Clock, play: Callable[[], Event | None]) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()
        self.sent: list[tuple[str, bytes, int]] = []
        self.bytes_out = self.bytes_in = 0
        self._clock = clock
        self._play = play
        self._polled = 0

    def up(self, name: str) -> bool:
        return True

    def send(self, name: str, message: Message | bytes, exchange: int) -> bool:
        struct.pack("<q", exchange)  # as a link does
        plain = message if isinstance(message, bytes) else encode(message)
        self.sent.append((name, plain, exchange))
        return True

    def poll(self, until: float, expected: str | None = None) -> Event | None:
        self._polled += 1
        if self._polled > _MOST:
            raise Over
        event = self._play()
        if event is None:
            self._clock.now = max(self._clock.now, until)
        return event

    def refuse(self, name: str, reason: str, sentence: str) -> None:
        assert name
        assert reason
        assert sentence.endswith(".")
        self.refused[name, reason] += 1

    def close(self) -> None:
        pass


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def clock():
    """A clock that both roles go by."""
    own = Clock()
    modules = (mesh, peer_inbox, posts, star_coordinator, star_party, termination)
    with ExitStack() as patched:
        for module in modules:
            patched.enter_context(mock.patch.object(module, "monotonic", own))
        yield own


def received(sender: str, exchange: int, message: Message) -> Received:
    """The message as it would come out of a link."""
    return Received(sender, exchange, message, encode(message))


def unexpected(
    tape: Tape, what: int, name: str, kinds: Sequence[str], names: Sequence[str]
) -> Event | None:
    """What may happen in place of what is due; beyond 3, any message of these kinds and fields."""
    if what == 0:
        return None
    if what == 1:
        return (Up(name, 2), Presence(name, False), Presence(name, True))[tape.below(3)]
    if what == 2:
        raise Over
    if what == 3:
        try:
            return received(name, tape.whole(), decode(tape.block()))
        except WireError:
            return None
    return received(name, tape.whole(), message(tape, kinds, names))
