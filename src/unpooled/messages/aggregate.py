"""What the replies of all parties come to, put together as their release declares.

Fields that a release calls ``additive`` are added up over parties, those that it calls ``union``
are put one after the other along their first axis. Both in party order, so that the last digit does
not depend on who replied first. A protocol is handed the outcome and never adds by itself: a sum
may then also come from a tree of peers, or from parties that mask what they send.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from unpooled.messages.message import sealed
from unpooled.messages.release import Release
from unpooled.types import Array, Body, IntArray, PartyId


class Aggregate(Mapping[str, Array]):
    """One body made of all parties' replies."""

    def __init__(
        self, body: Body, parties: tuple[PartyId, ...], lengths: Mapping[str, IntArray]
    ) -> None:
        self.parties = parties
        """Who replied, in party order."""
        self.lengths = lengths
        """Of every union field, how many of its entries are each party's."""
        self._body = body

    def __getitem__(self, field: str) -> Array:
        return self._body[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    def __len__(self) -> int:
        return len(self._body)

    def by_party(self, field: str) -> list[Array]:
        """A union field's entries, one array for each party."""
        return np.split(self[field], np.cumsum(self.lengths[field])[:-1])


def aggregate(release: Release, replies: Mapping[PartyId, Body]) -> Aggregate:
    """The replies of one exchange as one body."""
    bodies = list(replies.values())
    body: dict[str, Array] = {}
    lengths: dict[str, IntArray] = {}
    for name in release.fields:
        if not bodies or not all(name in own for own in bodies):
            continue  # it may be missing in some exchanges, then at all parties
        if name in release.additive:
            body[name] = np.sum([own[name] for own in bodies], axis=0)
        else:
            body[name] = np.concatenate([own[name] for own in bodies])
            lengths[name] = np.array([len(own[name]) for own in bodies])
    return Aggregate(sealed(body), tuple(replies), lengths)
