"""Mean and variance of every column over all parties' rows, in one round.

Every party sends its weight W_i = Σ w, its mean m_i and its scatter Q_i = Σ w (x - m_i)², column by
column. The coordinator adds parties one by one (Chan, Golub & LeVeque 1983): with δ = m_i - m,

    Q <- Q + Q_i + δ² W W_i / (W + W_i),    m <- m + δ W_i / (W + W_i),    W <- W + W_i.

Deviations are taken from a mean near by, so few digits are lost however far from zero the data lie.

Sent by a party: 2 d + 1 numbers. A party of fewer rows than its policy's minimum sends zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unpooled.kernels.linalg.products import matmul
from unpooled.messages.message import Ask, Summary
from unpooled.messages.release import COLUMNS, FINITE, Release
from unpooled.privacy.row_groups import enough_rows
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.protocols.star.shared.centroids import refuse_no_replies
from unpooled.types import Body, FloatArray, PartyData


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

    @property
    def releases(self) -> tuple[Release, ...]:
        why = "number, mean and sum of squared deviations of all rows, column by column"
        return (
            Release(
                "moments",
                ("weight", "mean", "scatter"),
                ("sums", "counts"),
                why,
                shapes={"weight": (1,), "mean": (COLUMNS,), "scatter": (COLUMNS,)},
                bounds={"scatter": FINITE},
            ),
        )

    @property
    def asks(self) -> tuple[Release, ...]:
        return (Release("moments", (), ("model",), "nothing but the question"),)

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        replies = yield Ask("moments")
        weight, mean, scatter = 0.0, np.zeros(1), np.zeros(1)
        for reply in replies.values():
            own = float(reply["weight"][0])
            if own > 0:
                both = weight + own
                gap = reply["mean"] - mean
                scatter = scatter + reply["scatter"] + gap**2 * (weight * (own / both))
                mean = mean + gap * (own / both)
                weight = both
        refuse_no_replies(int(weight > 0))
        return {"weight": np.array(weight), "mean": mean, "variance": scatter / weight}

    @property
    def shared(self) -> Release:
        shapes = {"mean": (COLUMNS,), "variance": (COLUMNS,)}
        why = "the mean and the variance of each column"
        return Release("result", tuple(shapes), ("model",), why, shapes=shapes)

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"moments": self.moments}

    def moments(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """The party's own weight, mean and scatter."""
        known = enough_rows(data.weights, data.min_count)
        labels = np.full(len(data.rows), 0 if known else -1)
        weights = data.weights if known else np.zeros(len(data.rows))
        total = weights.sum()
        rows = data.rows[weights > 0]
        used = weights[weights > 0]
        mean, scatter = np.zeros(data.rows.shape[1]), np.zeros(data.rows.shape[1])
        if total > 0:
            # The first row as origin, so that equal rows have exactly no scatter.
            moved = rows - rows[0]
            shift = matmul(used, moved) / total
            mean = rows[0] + shift
            scatter = matmul(used, np.square(moved - shift))
        remark = "" if total > 0 or not len(data.rows) else "held back: too few rows"
        reply = {"weight": np.array([total]), "mean": mean, "scatter": scatter}
        return Summary(reply, labels, remark), {}
