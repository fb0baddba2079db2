"""Any star protocol on standardised columns, without a step for it at home.

First :class:`~unpooled.protocols.scaling.Moments` finds the mean and the deviation of every column
over all parties' rows. From then on every question carries both, and a party answers it about its
rows less the mean, over the deviation. A party that joins late needs nothing it has missed.

The centres are those of :class:`unpooled.preprocessing.StandardScaler` followed by the method with
the same seed, bit for bit; ``mean`` and ``scale`` in the result lead back to the columns' units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unpooled.errors import ProtocolError
from unpooled.protocols.scaling import Moments, deviation
from unpooled.protocols.star import Answer, Coordinator, StarProtocol, Step
from unpooled.types import Body, FloatArray, PartyData
from unpooled.wire.message import Ask
from unpooled.wire.policy import COLUMNS, Release

_MEAN, _SCALE = "all.mean", "all.scale"


@dataclass(frozen=True)
class Standardised(StarProtocol):
    """The protocol ``inner`` on standardised columns."""

    inner: StarProtocol
    name: ClassVar[str] = "standardised"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*Moments().releases, *self.inner.releases)

    @property
    def asks(self) -> tuple[Release, ...]:
        return (*Moments().asks, *map(_with_scale, self.inner.asks))

    @property
    def steps(self) -> Mapping[str, Step]:
        inner = {kind: _standardised(step) for kind, step in self.inner.steps.items()}
        return {**Moments().steps, **inner}

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        moments = yield from Moments().coordinator(rng)
        scale = {_MEAN: moments["mean"], _SCALE: deviation(moments)}
        inner = self.inner.coordinator(rng)
        replies = None
        while True:
            try:
                said = inner.send(replies)  # type: ignore[arg-type]
            except StopIteration as end:
                return {**end.value, "mean": scale[_MEAN], "scale": scale[_SCALE]}
            replies = yield (
                replace(said, body={**said.body, **scale}) if isinstance(said, Ask) else said
            )


def _with_scale(ask: Release) -> Release:
    shapes = {**ask.shapes, _MEAN: (COLUMNS,), _SCALE: (COLUMNS,)}
    why = f"{ask.why}; and the mean and deviation of all parties' rows"
    return replace(ask, fields=(*ask.fields, _MEAN, _SCALE), shapes=shapes, why=why)


def _standardised(step: Step) -> Step:
    """The step on rows less the mean, over the deviation, both from the question."""

    def answer(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        mean: FloatArray = body[_MEAN]
        scale: FloatArray = body[_SCALE]
        if not (scale > 0).all():
            raise ProtocolError(f"Party {data.name} was sent a deviation that is not positive.")
        rest = {name: value for name, value in body.items() if name not in (_MEAN, _SCALE)}
        return step(replace(data, rows=(data.rows - mean) / scale), state, rest, rng)

    return answer
