"""Any star protocol on embedded rows: a way to embed them is found, then everything is about h(x).

First the coordinator finds, with the parties' help, what says how rows are embedded: a scale, a
map, some landmarks. From then on every question of the protocol ``inner`` carries it, and a party
answers about its embedded rows; nothing else of ``inner`` changes. A party that joins late needs
nothing that it has missed. The result has it too, so that new rows can be labelled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from unpooled.messages.message import Ask, Note
from unpooled.messages.release import Columns, Release, Size
from unpooled.protocols.pump import mapped
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.types import Body, FloatArray, PartyData

Finding: TypeAlias = Generator[Ask | Note, Any, tuple[Body, Body]]
"""A coordinator that returns what says how rows are embedded, and what else is worth keeping."""
_ROWS = "embedded.rows"


class Embedded(StarProtocol):
    """``inner`` on rows of ``n_components`` columns; None if they are as many as before."""

    inner: StarProtocol
    n_components: int | None
    keeps_rows: ClassVar[bool] = True
    """Whether a party keeps its embedded rows between two questions, or makes them again."""

    @property
    @abstractmethod
    def parameters(self) -> Release:
        """What says how rows are embedded: its fields go with every question of ``inner``."""

    @property
    @abstractmethod
    def finding(self) -> tuple[tuple[Release, ...], tuple[Release, ...], Mapping[str, Step]]:
        """Releases, questions and steps by which it is found."""

    @abstractmethod
    def find(self, rng: np.random.Generator) -> Finding:
        """The coordinator's side of that."""

    @abstractmethod
    def embed(self, rows: FloatArray, parameters: Body) -> FloatArray:
        """h(x) for every row; ProtocolError if nothing can be embedded so."""

    def in_columns(self, result: Body) -> FloatArray | None:
        return None

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.finding[0], *map(self._resized, self.inner.releases))

    @property
    def asks(self) -> tuple[Release, ...]:
        inner = (_joined(self._resized(ask), self.parameters) for ask in self.inner.asks)
        return (*self.finding[1], *inner)

    @property
    def steps(self) -> Mapping[str, Step]:
        inner = {kind: self._on_embedding(step) for kind, step in self.inner.steps.items()}
        return {**self.finding[2], **inner}

    @property
    def shared(self) -> Release:
        return _joined(self._resized(self.inner.shared), self.parameters)

    def embedded(self, rows: FloatArray, result: Body) -> FloatArray:
        return self.inner.embedded(self.embed(rows, result), result)

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        parameters, kept = yield from self.find(rng)
        return (
            yield from mapped(
                self.inner.coordinator(rng),
                lambda ask: replace(ask, body={**ask.body, **parameters}),
                lambda result: {**result, **parameters, **kept},
            )
        )

    def _on_embedding(self, step: Step) -> Step:
        """The step on embedded rows."""
        parameters = self.parameters.fields

        def answer(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
            rest = {name: value for name, value in body.items() if name not in parameters}
            if not self.keeps_rows:
                return step(replace(data, rows=self.embed(data.rows, body)), state, rest, rng)
            if _ROWS not in state:  # what else is there is of how the embedding was found
                state = {_ROWS: self.embed(data.rows, body)}
            own = {name: value for name, value in state.items() if name != _ROWS}
            said, after = step(replace(data, rows=state[_ROWS]), own, rest, rng)
            return said, {**after, _ROWS: state[_ROWS]}

        return answer

    def _resized(self, release: Release) -> Release:
        """The same about embedded rows."""
        columns = self.n_components
        if columns is None:
            return release

        def size(axis: Size) -> Size:
            return axis.times * columns + axis.plus if isinstance(axis, Columns) else axis

        shapes = {name: tuple(map(size, axes)) for name, axes in release.shapes.items()}
        return replace(release, shapes=shapes)


def _joined(ask: Release, parameters: Release) -> Release:
    return replace(
        ask,
        fields=(*ask.fields, *parameters.fields),
        discloses=tuple(dict.fromkeys((*ask.discloses, *parameters.discloses))),
        why=f"{ask.why}; and {parameters.why}",
        shapes={**ask.shapes, **parameters.shapes},
        bounds={**ask.bounds, **parameters.bounds},
        types={**ask.types, **parameters.types},
    )
