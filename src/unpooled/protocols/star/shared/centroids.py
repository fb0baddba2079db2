"""What one-shot methods share: parties that send centroids of their own clusters, once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.data.parties import PartyData
from unpooled.errors import ProtocolError
from unpooled.messages.aggregate import Aggregate
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import COLUMNS, FINITE, AtMost, Disclosure, Release
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.types import Body, FloatArray, PartyId

CENTROIDS_ASK = Release("centroids", (), ("model",), "nothing but the question")


def release(
    most: float,
    why: str,
    beside: tuple[str, ...] = (),
    discloses: tuple[Disclosure, ...] = ("sums",),
) -> Release:
    """Up to ``most`` centroids, each with one number of every name ``beside`` it."""
    sent = AtMost(most, "centroids")
    return Release(
        "centroids",
        ("centroids", *beside),
        discloses,
        why,
        shapes={"centroids": (sent, COLUMNS), **dict.fromkeys(beside, (sent,))},
        # Distances, and sums of their squares.
        bounds={name: FINITE for name in beside if name != "counts"},
        union=("centroids", *beside),
    )


class CentroidsProtocol(StarProtocol):
    """A method of one round: parties send centroids, the coordinator makes centres of them."""

    @property
    def asks(self) -> tuple[Release, ...]:
        return (CENTROIDS_ASK,)

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"centroids": self.centroids}

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        reply = yield from ask_for_centroids()
        return self.aggregate(reply, rng)

    @abstractmethod
    def aggregate(self, reply: Aggregate, rng: np.random.Generator) -> Body:
        """The result, from all parties' centroids."""

    @abstractmethod
    def centroids(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """The party's side."""


def ask_for_centroids() -> Generator[Ask | Note, Any, Aggregate]:
    """The centroids of all parties, of which at least one has any."""
    reply: Aggregate = yield Ask("centroids")
    yield received(len(reply["centroids"]))
    return reply


def received(n_centroids: int) -> Note:
    """What is noted of a first round; refused if nothing came."""
    refuse_no_replies(n_centroids)
    return Note(0, {"received": np.array(n_centroids)})


def gathered(replies: Mapping[PartyId, Body], field: str) -> FloatArray:
    """The parties' arrays, one below the other in party order."""
    return np.concatenate([reply[field] for reply in replies.values()])


def refuse_no_replies(received: int) -> None:
    """Nothing comes of nothing."""
    if received == 0:
        raise ProtocolError(
            "No party sent anything about its rows: each has fewer persons than its policy's "
            "minimum count; find parties with more, or have the minimum lowered."
        )


def spread_out(points: FloatArray, first: FloatArray, n_clusters: int) -> FloatArray:
    """The first points, and again and again the point farthest from all chosen."""
    chosen = first[:n_clusters]
    gap = cdist(points, chosen, "sqeuclidean").min(axis=1)
    while len(chosen) < n_clusters and gap.max() > 0:
        farthest = points[int(np.argmax(gap))]
        chosen = np.vstack([chosen, farthest])
        gap = np.minimum(gap, np.square(points - farthest).sum(axis=1))
    return chosen
