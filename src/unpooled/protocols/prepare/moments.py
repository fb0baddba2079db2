"""Mean and variance of every column over all parties' rows, from sums in two rounds.

In round 0 every party sends its weight W_i = Σ w and Σ w x. Both are added up over parties, and
their ratio o, the mean but for rounding, is the origin of round 1, in which parties send

    W_i = Σ w,    S_i = Σ w (x - o),    Q_i = Σ w (x - o)²,

column by column. With W, S and Q the sums over parties,

    mean = o + S / W,    variance = Q / W - (S / W)².

Deviations are taken from a point near the mean, so few digits are lost however far from zero the
data lie. All that parties send adds up: nobody needs to see a single party's.

Where a party's rows are means of cells, Q_i has the scatter about these means too: mean and
variance are then those of the rows in cells, not of their means.

Sent by a party: d + 1 numbers, then 2 d + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.messages.message import Ask
from unpooled.messages.release import COLUMNS, FINITE, Release
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.protocols.star.shared.centroids import refuse_no_replies
from unpooled.protocols.star.shared.weighted_sums import weighted_sum
from unpooled.types import Body, FloatArray


def deviation(moments: Body) -> FloatArray:
    """The deviation of each column; 1 where the variance is no more than rounding makes of 0."""
    weight, mean, variance = (moments[name] for name in ("weight", "mean", "variance"))
    eps = np.finfo(float).eps
    rounding = weight * eps * variance + (weight * mean * eps) ** 2
    return np.asarray(np.where(variance <= rounding, 1.0, np.sqrt(variance)))


@dataclass(frozen=True)
class Moments(StarProtocol):
    """The protocol."""

    name: ClassVar[str] = "moments"
    version: ClassVar[int] = 2

    @property
    def releases(self) -> tuple[Release, ...]:
        return (
            Release(
                "moments",
                ("weight", "sums", "squares"),
                ("sums", "counts"),
                "number of all rows, their sums and sums of squares about an origin, by column",
                shapes={"weight": (1,), "sums": (COLUMNS,), "squares": (COLUMNS,)},
                bounds={"sums": FINITE, "squares": FINITE},
                additive=("weight", "sums", "squares"),
                optional=("squares",),
            ),
        )

    @property
    def asks(self) -> tuple[Release, ...]:
        why = "in the second round, the origin about which to add up"
        shapes = {"origin": (COLUMNS,)}
        return (
            Release("moments", ("origin",), ("model",), why, shapes=shapes, optional=("origin",)),
        )

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        reply = yield Ask("moments")
        refuse_no_replies(int(reply["weight"][0] > 0))
        origin = reply["sums"] / reply["weight"]
        reply = yield Ask("moments", {"origin": origin}, 1)
        weight = float(reply["weight"][0])
        refuse_no_replies(int(weight > 0))
        shift = reply["sums"] / weight
        variance = np.maximum(reply["squares"] / weight - shift**2, 0.0)
        return {"weight": np.array(weight), "mean": origin + shift, "variance": variance}

    @property
    def shared(self) -> Release:
        shapes = {"mean": (COLUMNS,), "variance": (COLUMNS,)}
        why = "the mean and the variance of each column"
        return Release("result", tuple(shapes), ("model",), why, shapes=shapes)

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"moments": self.moments}

    def moments(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """The party's own sums, about zero or about the origin that was asked for."""
        reply = {"weight": np.array([data.weights.sum()])}
        if "origin" not in body:
            reply["sums"] = weighted_sum(data, lambda rows: rows)
        else:
            origin: FloatArray = body["origin"]
            reply["sums"] = weighted_sum(data, lambda rows: rows - origin)
            reply["squares"] = weighted_sum(data, lambda rows: np.square(rows - origin))
            if data.scatter is not None:
                reply["squares"] += data.scatter
        return reply, {}
