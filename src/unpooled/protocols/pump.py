"""The one place where generators are run: every coordinator and every peer is one.

An algorithm yields what it wants to send (:class:`unpooled.messages.Ask` or ``Post``) and notes for
people, is sent what came back, and returns its result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from unpooled.messages.message import Note
from unpooled.types import Body, in_c_order

Yielded = TypeVar("Yielded")
"""What the generator yields beside notes."""


class Pump(Generic[Yielded]):
    """Runs a generator from one message to the next, and keeps its result."""

    def __init__(
        self,
        generator: Generator[Yielded | Note, Any, Body],
        observe: Callable[[Note], None] | None = None,
    ) -> None:
        self.result: Body | None = None
        """What the generator returned, once it has: arrays in one layout."""
        self._generator = generator
        self._observe = observe

    def step(self, reply: Any = None) -> Yielded | Note | None:
        """The next thing that is yielded, a message or a note; None at the end."""
        try:
            return self._generator.send(reply)
        except StopIteration as end:
            self.result = {name: in_c_order(value) for name, value in end.value.items()}
            return None

    def send(self, reply: Any = None) -> Yielded | None:
        """The next message, notes on the way being passed on; None at the end."""
        yielded = self.step(reply)
        while isinstance(yielded, Note):
            if self._observe is not None:
                self._observe(yielded)
            yielded = self.step()
        return yielded


def mapped(
    generator: Generator[Any, Any, Body],
    message: Callable[[Any], Any],
    result: Callable[[Body], Body],
) -> Generator[Any, Any, Body]:
    """The same algorithm with every message, and in the end its result, replaced by another."""
    pump: Pump[Any] = Pump(generator)
    reply = None
    while (yielded := pump.step(reply)) is not None:
        reply = yield yielded if isinstance(yielded, Note) else message(yielded)
    assert pump.result is not None  # it has ended
    return result(pump.result)
