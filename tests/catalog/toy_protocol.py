"""A toy method: the mean of all rows, and that many centres around it. One protocol file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import COLUMNS, Release
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.protocols.star.shared.weighted_sums import weighted_sum
from unpooled.types import Body


@dataclass(frozen=True)
class ToyMean(StarProtocol):
    """Centres at the mean, each a little further along the diagonal."""

    n_clusters: int
    name: ClassVar[str] = "toy mean"

    @property
    def releases(self) -> tuple[Release, ...]:
        fields = ("total", "count")
        shapes = {"total": (COLUMNS,), "count": (1,)}
        why = "the sum of all rows, and how many they are"
        return (Release("mean", fields, ("sums", "counts"), why, shapes=shapes, additive=fields),)

    @property
    def asks(self) -> tuple[Release, ...]:
        return (Release("mean", (), ("model",), "nothing but the question"),)

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        reply = yield Ask("mean")
        yield Note(0, {"count": reply["count"]})  # for the screen and history_; it never leaves
        mean = reply["total"] / np.maximum(reply["count"], 1.0)
        return {"centers": mean + np.arange(float(self.n_clusters))[:, None]}

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"mean": self.mean}

    def mean(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """The party's side."""
        total = weighted_sum(data, lambda rows: rows)
        return {"total": total, "count": np.array([data.weights.sum()])}, {}
