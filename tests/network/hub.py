"""A network in memory, whose links can be cut: what drivers are tested with before real ones."""

from __future__ import annotations

import queue
from collections import defaultdict
from threading import Lock

from unpooled.network.node import Arrived, Presence


class Hub:
    """Carries bytes between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: dict[str, list[Wire]] = defaultdict(list)
        self._cut: set[frozenset[str]] = set()
        self.carried: list[tuple[str, bytes]] = []
        """Everything that was put, with its key, for those who want to replay it."""

    def wire(self, name: str) -> Wire:
        """A place on the network."""
        return Wire(self, name)

    def cut(self, a: str, b: str) -> None:
        """Nothing passes between these two from now on."""
        self._cut.add(frozenset((a, b)))

    def heal(self, a: str, b: str) -> None:
        """What is sent from now on passes again."""
        self._cut.discard(frozenset((a, b)))

    def put(self, key: str, data: bytes) -> None:
        """Carries bytes to whoever listens."""
        _, _, sender, receiver = key.split("/")
        with self._lock:
            self.carried.append((key, data))
            if frozenset((sender, receiver)) not in self._cut:
                for wire in self._listeners[key]:
                    wire.inbox.put(Arrived(key, data))

    def listen(self, key: str, wire: Wire) -> None:
        """Adds a listener."""
        with self._lock:
            self._listeners[key].append(wire)

    def unlisten(self, key: str, wire: Wire) -> None:
        """Takes it away."""
        with self._lock:
            self._listeners[key].remove(wire)

    def leave(self, wire: Wire) -> None:
        """Takes a listener away everywhere."""
        with self._lock:
            for wires in self._listeners.values():
                if wire in wires:
                    wires.remove(wire)


class Killed(BaseException):
    """Ends a party's thread as SIGKILL ends a process: nothing is tidied up."""


class Wire:
    """A transport on the hub; once ``killed`` the party's next use of it is its last."""

    def __init__(self, hub: Hub, name: str) -> None:
        self.inbox: queue.SimpleQueue[Arrived | Presence] = queue.SimpleQueue()
        self.killed = False
        self._hub = hub
        self._name = name

    def put(self, key: str, data: bytes | bytearray) -> None:
        self._die()
        self._hub.put(key, bytes(data))

    def listen(self, key: str) -> None:
        self._hub.listen(key, self)

    def unlisten(self, key: str) -> None:
        self._hub.unlisten(key, self)

    def next(self, timeout: float, expected: str | None = None) -> Arrived | Presence | None:
        self._die()
        try:
            return self.inbox.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            return None

    def reopen(self) -> None:
        pass

    def close(self) -> None:
        self._hub.leave(self)

    def _die(self) -> None:
        if self.killed:
            self._hub.leave(self)
            raise Killed
