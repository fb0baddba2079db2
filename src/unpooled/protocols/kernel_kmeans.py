"""Kernel k-means without pooling: a solver finds an embedding, any method clusters it.

1. ``spread``, if γ is to be found: :mod:`unpooled.protocols.bandwidth`.
2. A solver (:mod:`unpooled.protocols.krylov`, :mod:`unpooled.protocols.dspgd`) finds the map M by
   which rows are embedded, h(x) = z(x) M in R^s.
3. ``inner``, a star protocol for k-means, on the embedded rows: every question of it carries M, so
   that a party can embed its rows, and nothing else of it changes.

The result has the centres of ``inner`` in R^s, M, γ and the seed: what it takes to label new rows.

Sent by a party: d + 2 numbers for γ, what the solver says, and what ``inner`` says of rows of s
columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unpooled.protocols import bandwidth
from unpooled.protocols.kernel import MAP, Draw, Kernel, Solver, about_features
from unpooled.protocols.star import Answer, Coordinator, StarProtocol, Step
from unpooled.types import Body, PartyData
from unpooled.wire.message import Ask
from unpooled.wire.policy import FINITE, AtMost, Columns, Release, Size

_EMBEDDED = "kernel.rows"


@dataclass(frozen=True)
class KernelKMeans(StarProtocol):
    """The protocol; ``gamma`` None is found from the data."""

    kernel: Kernel
    gamma: float | None
    solver: Solver
    inner: StarProtocol
    n_components: int
    n_columns: int
    draws: int = 1
    name: ClassVar[str] = "kernel k-means"

    @property
    def releases(self) -> tuple[Release, ...]:
        first = (bandwidth.RELEASE,) if self.gamma is None else ()
        inner = (self._embedded(release) for release in self.inner.releases)
        return (*first, *self.solver.releases, *inner)

    @property
    def asks(self) -> tuple[Release, ...]:
        first = (bandwidth.ASK,) if self.gamma is None else ()
        inner = (self._with_map(self._embedded(ask)) for ask in self.inner.asks)
        return (*first, *self.solver.asks, *inner)

    @property
    def steps(self) -> Mapping[str, Step]:
        inner = {kind: self._on_embedding(step) for kind, step in self.inner.steps.items()}
        return {"spread": bandwidth.spread, **self.solver.steps, **inner}

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        seed = int(rng.integers(2**62))
        if self.gamma is None:
            spread = yield from bandwidth.find_spread()
            gamma = bandwidth.in_units(self.kernel.name, spread.gamma, self.n_columns)
            draw = Draw(gamma, seed, spread.means)
        else:
            draw = Draw(self.gamma, seed, None)
        solution = yield from self.solver.find(draw, rng)
        told = {**draw.told, MAP: solution.onto}
        inner = self.inner.coordinator(rng)
        replies = None
        while True:
            try:
                said = inner.send(replies)  # type: ignore[arg-type]
            except StopIteration as end:
                result = {key: end.value[key] for key in end.value if key != "rounds"}
                return {**result, **told, "eigenvalues": solution.eigenvalues}
            replies = yield (
                replace(said, body={**said.body, **told}) if isinstance(said, Ask) else said
            )

    def _embedded(self, release: Release) -> Release:
        """The same about rows of s columns."""

        def size(axis: Size) -> Size:
            if isinstance(axis, Columns):
                return axis.times * self.n_components + axis.plus
            return axis

        shapes = {name: tuple(map(size, axes)) for name, axes in release.shapes.items()}
        return replace(release, shapes=shapes)

    def _with_map(self, ask: Release) -> Release:
        ask = about_features(ask)
        most = self.draws * self.kernel.n_features
        return replace(
            ask,
            fields=(*ask.fields, MAP),
            why=f"{ask.why}; and the map by which rows are embedded",
            shapes={**ask.shapes, MAP: (AtMost(most), self.n_components)},
            bounds={**ask.bounds, MAP: FINITE},
        )

    def _on_embedding(self, step: Step) -> Step:
        """The step on embedded rows, which are worked out once."""

        def answer(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
            rows = state.get(_EMBEDDED)
            if rows is None:
                rows, state = self.kernel.embedded(data.rows, body), {}
            own = {name: value for name, value in state.items() if name != _EMBEDDED}
            rest = {name: value for name, value in body.items() if not name.startswith("kernel.")}
            said, after = step(replace(data, rows=rows), own, rest, rng)
            return said, {**after, _EMBEDDED: rows}

        return answer
