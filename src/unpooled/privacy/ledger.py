"""A party's only exit.

Nothing leaves but what :meth:`Ledger.send` hands back: it must be of a declared kind with declared
fields, pass the policy, and is counted to the byte. One ledger serves a block of users, because a
host counts for all users it carries; what is counted is what each user sends over each of its
links, however the users are spread over hosts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from unpooled.errors import ProtocolError, UndeclaredRelease
from unpooled.messages.codec import body_size
from unpooled.messages.message import Ask, Post, Reply
from unpooled.messages.release import Release
from unpooled.privacy.policy import Policy, ReleaseRequest
from unpooled.privacy.traffic import Entry
from unpooled.types import Body, IntArray, PartyId

Sent = TypeVar("Sent", Ask, Post, Reply)


class Ledger:
    """Checks and counts what the users of one block release, and what reaches them."""

    def __init__(
        self, names: tuple[PartyId, ...], releases: Iterable[Release], policy: Policy
    ) -> None:
        self.names = names
        self.entries: list[Entry] = []
        self._releases = {release.kind: release for release in releases}
        self._sized: tuple[object, tuple[int, int]] = (None, (0, 0))
        """The message that left last, with its size: in a mesh, what arrives is like it."""
        self._policy = policy
        self._rounds: IntArray = np.zeros(len(names), dtype=np.int64)
        self._floats: IntArray = np.zeros(len(names), dtype=np.int64)

    @property
    def memory(self) -> Body:
        """How much has left so far, for a later process of the same party."""
        return {"rounds": self._rounds, "floats": self._floats}

    def remember(self, memory: Body) -> None:
        """Goes on counting from what an earlier process had let out."""
        if not memory:
            return
        known = self.memory
        for name, value in known.items():
            new = memory.get(name)
            if (
                new is None
                or (new.shape, new.dtype) != (value.shape, value.dtype)
                or new.min(initial=0) < 0
            ):
                raise ProtocolError(
                    f"What party {self.names[0]} remembers of its releases does not make sense; "
                    "it must go on with the state it began with."
                )
        self._rounds, self._floats = memory["rounds"].copy(), memory["floats"].copy()

    def send(self, message: Sent, copies: IntArray, exchange: int) -> Sent | None:
        """The message as it may leave, ``copies[i]`` times at user ``i``; None if it is withheld.

        A ``Post`` holds one entry per user along the first axis of its arrays; a user sends its own
        entry.
        """
        release = self._declared(message.kind, message.body)
        size, floats = _size(message)
        times = message.times if isinstance(message, Post) else 1
        rounds = self._rounds + times * (copies > 0)
        total = self._floats + floats * times * copies
        body = self._policy.review(
            ReleaseRequest(
                party=self.names[0] if len(self.names) == 1 else f"{self.names[0]} and others",
                release=release,
                round=message.round,
                body=message.body,
                total_rounds=_most(rounds),
                total_floats=_most(total),
            )
        )
        if body is None:
            return None
        if body is not message.body:
            self._refuse_reshaped(message, body)
            message = replace(message, body=body)
        self._rounds, self._floats = rounds, total
        self._sized = message, (size, floats)
        self._count(Entry(message.kind, message.round, exchange, "up", size, floats, copies, times))
        return message

    def receive(self, message: Ask | Post, copies: IntArray, exchange: int) -> None:
        """Counts what reached the users: ``copies[i]`` messages like this one at user ``i``."""
        known, sizes = self._sized
        size, floats = sizes if message is known else _size(message)
        times = message.times if isinstance(message, Post) else 1
        self._count(
            Entry(message.kind, message.round, exchange, "down", size, floats, copies, times)
        )

    def _declared(self, kind: str, body: Body) -> Release:
        release = self._releases.get(kind)
        if release is None:
            raise UndeclaredRelease(
                f"Party {self.names[0]} wants to send {kind!r}, which its protocol does not "
                f"declare (declared: {', '.join(self._releases) or 'nothing'})."
            )
        for name in body:
            if name not in release.fields:
                raise UndeclaredRelease(
                    f"Party {self.names[0]} wants to send field {name!r} in {kind!r}, which "
                    f"declares only {', '.join(release.fields)}."
                )
        return release

    def _refuse_reshaped(self, message: Ask | Post | Reply, body: Body) -> None:
        """A policy may change numbers, not the form in which they travel."""
        for name in message.body.keys() | body.keys():
            old, new = message.body.get(name), body.get(name)
            if (
                not isinstance(old, np.ndarray)
                or not isinstance(new, np.ndarray)
                or (old.shape, old.dtype) != (new.shape, new.dtype)
            ):
                raise ProtocolError(
                    f"The policy of party {self.names[0]} gave field {name!r} of "
                    f"{message.kind!r} another form; it may change numbers or withhold them all."
                )

    def _count(self, entry: Entry) -> None:
        if _most(entry.copies):
            self.entries.append(entry)


def _most(counts: IntArray) -> int:
    return int(counts[0] if len(counts) == 1 else counts.max())


def _size(message: Ask | Post | Reply) -> tuple[int, int]:
    """Bytes and numbers of a message; of one user's part of a ``Post``, which holds many users'."""
    body = message.body
    if isinstance(message, Post):
        body = {
            name: value if len(value) == 1 else value[:1] for name, value in message.body.items()
        }
    return body_size(message.kind, body), sum([value.size for value in body.values()])
