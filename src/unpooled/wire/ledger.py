"""A party's only exit.

Nothing leaves but through :meth:`Ledger.send`: it must be of a declared kind with declared
fields, pass the policy, and is counted to the byte. One ledger serves a block of users, because a
host counts for all users it carries; what is counted is what each user sends over each of its
links, however the users are spread over hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from unpooled.errors import UndeclaredRelease
from unpooled.types import Array, IntArray, PartyId
from unpooled.wire.codec import body_size
from unpooled.wire.message import Post, Reply
from unpooled.wire.policy import STUDY, Exit, Policy, Release
from unpooled.wire.traffic import Entry

__all__ = ["Ledger", "Release"]


class Ledger:
    """Checks and counts what the users of one block release, and what reaches them."""

    def __init__(
        self, names: tuple[PartyId, ...], releases: Iterable[Release], policy: Policy = STUDY
    ) -> None:
        self.names = names
        self.entries: list[Entry] = []
        self._releases = {release.kind: release for release in releases}
        self._policy = policy
        self._rounds = 0
        self._floats = 0

    def send(self, message: Post | Reply, copies: IntArray, exchange: int) -> None:
        """Lets a message out, ``copies[i]`` times at user ``i``, or refuses it.

        A ``Post`` holds one entry per user along the first axis of its arrays; a user sends its
        own entry.
        """
        shared = isinstance(message, Post)
        release = self._declared(message.kind, message.body)
        size, floats = _size(message.kind, message.body, each_user=shared)
        self._policy.check(
            Exit(
                party=self.names[0] if len(self.names) == 1 else f"{self.names[0]} and others",
                release=release,
                round=message.round,
                body=message.body,
                floats=floats,
                rounds_before=self._rounds,
                floats_before=self._floats,
            )
        )
        self._rounds += 1
        self._floats += floats * int(copies.max(initial=0))
        self._count(Entry(message.kind, message.round, exchange, "up", size, floats, copies))

    def receive(
        self,
        kind: str,
        number: int,
        body: Mapping[str, Array],
        copies: IntArray,
        exchange: int,
        *,
        each_user: bool,
    ) -> None:
        """Counts what reached the users: ``copies[i]`` such messages at user ``i``."""
        size, floats = _size(kind, body, each_user=each_user)
        self._count(Entry(kind, number, exchange, "down", size, floats, copies))

    def _declared(self, kind: str, body: Mapping[str, Array]) -> Release:
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

    def _count(self, entry: Entry) -> None:
        if entry.copies.any():
            self.entries.append(entry)


def _size(kind: str, body: Mapping[str, Array], *, each_user: bool) -> tuple[int, int]:
    """Bytes and numbers of one message; of one user's part if the arrays hold many users'."""
    if each_user:
        body = {name: value[:1] for name, value in body.items()}
    return body_size(kind, body), int(np.sum([value.size for value in body.values()], dtype=int))
