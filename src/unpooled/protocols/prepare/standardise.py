"""Standardises columns by the mean and deviation of all parties' rows.

First :class:`unpooled.protocols.prepare.moments.Moments` finds the mean and the deviation of every
column over all parties' rows. From then on every question carries both, and a party answers it
about its rows less the mean, over the deviation.

The centres are those of :class:`unpooled.preprocessing.StandardScaler` followed by the method with
the same seed, bit for bit; ``all.mean`` and ``all.scale`` in the result lead back to the columns'
units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unpooled.data.tables import LARGEST
from unpooled.errors import ProtocolError
from unpooled.messages.release import COLUMNS, Release
from unpooled.protocols.prepare.moments import Moments, deviation
from unpooled.protocols.prepare.then import Conversation, Finding, Preparation
from unpooled.types import Body, FloatArray

MEAN, SCALE = "all.mean", "all.scale"
_DUST = 8 * np.finfo(float).eps
"""Relative to the size of what was added up."""


@dataclass(frozen=True)
class Standardise(Preparation):
    """The preparation."""

    keeps_rows: ClassVar[bool] = False
    name: ClassVar[str] = "standardise"
    version: ClassVar[int] = 2

    @property
    def parameters(self) -> Release:
        shapes = {MEAN: (COLUMNS,), SCALE: (COLUMNS,)}
        why = "the mean and deviation of all parties' rows"
        return Release("scale", (MEAN, SCALE), ("model",), why, shapes=shapes)

    @property
    def conversation(self) -> Conversation:
        moments = Moments()
        return moments.releases, moments.asks, moments.steps

    def find(self, rng: np.random.Generator) -> Finding:
        moments = yield from Moments().coordinator(rng)
        return {MEAN: moments["mean"], SCALE: deviation(moments)}, {}

    def transform(self, rows: FloatArray, parameters: Body) -> FloatArray:
        if not (parameters[SCALE] > 0).all():
            raise ProtocolError("The coordinator sent a deviation that is not positive.")
        with np.errstate(over="ignore", invalid="ignore"):
            rows = (rows - parameters[MEAN]) / parameters[SCALE]
        if not (np.abs(rows) <= LARGEST).all():
            raise ProtocolError(
                f"By the coordinator's scale, standardised rows lie beyond {LARGEST:g}, where no "
                "distance is a number; see that all parties' columns are those of the plan."
            )
        return rows

    def scatter(self, scatter: FloatArray, parameters: Body) -> FloatArray | None:
        return scatter / np.square(parameters[SCALE])

    def in_columns(self, centers: FloatArray, parameters: Body) -> FloatArray | None:
        return in_units(centers, parameters[MEAN], parameters[SCALE])


def in_units(centers: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Standardised centres in the columns' own units, to the digits that are known of them.

    A centre c s + m is known to a few ε of the larger of its parts, whatever is left of their sum:
    where they cancel, all that is left is what rounding made, and a centre at 0 would come out as
    5.6e-17. So every column is rounded where that begins, about 15 digits below its largest part.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a coordinator may send anything
        largest = np.abs(mean) + scale * np.maximum(np.abs(centers).max(axis=0, initial=0.0), 1.0)
        moved = centers * scale + mean
    places = np.floor(-np.log10(_DUST * np.clip(largest, 1e-300, 1e300))).astype(int)
    # Python's own round gives the float next to the decimal number; 0.0 makes -0.0 a plain zero.
    columns = zip(moved.T.tolist(), places.tolist(), strict=True)
    known = [[round(value, digits) + 0.0 for value in column] for column, digits in columns]
    return np.ascontiguousarray(np.array(known).T.reshape(moved.shape))
