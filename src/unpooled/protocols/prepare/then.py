"""First prepare, then cluster: any star protocol on rows that a preparation maps.

A :class:`Preparation` finds, with the parties' help, *parameters* that say how rows are mapped: a
mean and a deviation, a matrix, some landmarks. From then on every question of the protocol
``inner`` carries them, and a party answers about its mapped rows; nothing else of ``inner``
changes. A party that joins late needs nothing that it has missed. The result has the parameters
too, so that new rows can be labelled.

Preparations chain: ``Then(Standardise(), Then(KernelMap(...), inner))``.

**What a party keeps.** Mapped rows are no part of its state, which is written to disk with every
reply: they follow from the rows and the question. They are made slice by slice as a step asks for
them, or once, for the party's own store in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, ClassVar, TypeAlias

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.data.rows import MappedRows
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import Columns, Release, Size
from unpooled.protocols.pump import mapped
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.types import Body, FloatArray

Finding: TypeAlias = Generator[Ask | Note, Any, tuple[Body, Body]]
"""A coordinator that returns the parameters, and what else of the result is worth keeping."""
Conversation: TypeAlias = tuple[tuple[Release, ...], tuple[Release, ...], Mapping[str, Step]]
"""Releases, questions and steps."""

_PREPARING, _INNER = "prepare.", "inner."


class Preparation(ABC):
    """How rows are mapped before they are clustered, and how that is found without pooling."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Rises with every change after which old and new could not talk."""
    n_columns: int | None = None
    """Columns of mapped rows; None if they are as many as before."""
    keeps_rows: ClassVar[bool] = True
    """Whether a party keeps its mapped rows in memory between questions, or maps them again."""

    @property
    @abstractmethod
    def parameters(self) -> Release:
        """What says how rows are mapped: its fields go with every question that follows."""

    @property
    @abstractmethod
    def conversation(self) -> Conversation:
        """Releases, questions and steps by which the parameters are found."""

    @abstractmethod
    def find(self, rng: np.random.Generator) -> Finding:
        """The coordinator's side of that."""

    @abstractmethod
    def transform(self, rows: FloatArray, parameters: Body) -> FloatArray:
        """The mapped rows, each by itself; ProtocolError if nothing can be mapped so."""

    def scatter(self, scatter: FloatArray, parameters: Body) -> FloatArray | None:
        """The scatter within cells (:class:`PartyData`) as it is of mapped rows, where known."""
        return None

    def in_columns(self, centers: FloatArray, parameters: Body) -> FloatArray | None:
        """Centres of mapped rows in the columns' own units; None if they lie in another space."""
        return None


class Prepared(StarProtocol):
    """``inner`` on mapped rows, of ``n_components`` columns; None if they are as many as before."""

    inner: StarProtocol
    n_components: int | None
    keeps_rows: bool = True

    @property
    @abstractmethod
    def parameters(self) -> Release:
        """What says how rows are mapped: its fields go with every question of ``inner``."""

    @property
    @abstractmethod
    def finding(self) -> Conversation:
        """Releases, questions and steps by which the parameters are found."""

    @abstractmethod
    def find(self, rng: np.random.Generator) -> Finding:
        """The coordinator's side of that."""

    @abstractmethod
    def embed(self, rows: FloatArray, parameters: Body) -> FloatArray:
        """The mapped rows."""

    def mapped_scatter(self, scatter: FloatArray, parameters: Body) -> FloatArray | None:
        """The scatter within cells as it is of mapped rows, where known."""
        return None

    def in_columns(self, result: Body) -> FloatArray | None:
        return None

    @property
    def on_cells(self) -> str:  # type: ignore[override]
        """As the inner one."""
        return self.inner.on_cells

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.finding[0], *map(self._resized, self.inner.releases))

    @property
    def asks(self) -> tuple[Release, ...]:
        inner = (_joined(self._resized(ask), self.parameters) for ask in self.inner.asks)
        return (*self.finding[1], *inner)

    @property
    def steps(self) -> Mapping[str, Step]:
        first = {kind: _apart(step, _PREPARING) for kind, step in self.finding[2].items()}
        then = {kind: self._on_mapped_rows(step) for kind, step in self.inner.steps.items()}
        return {**first, **then}

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

    def _on_mapped_rows(self, step: Step) -> Step:
        """The step on mapped rows, with a state and a store of its own."""
        names = self.parameters.fields
        step = _apart(step, _INNER)

        def answer(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
            rest = {name: value for name, value in body.items() if name not in names}
            parameters = {name: body[name] for name in names}
            rows = MappedRows(data.rows, lambda own: self.embed(own, parameters), self.n_components)
            within = data.scatter
            if within is not None:
                within = self.mapped_scatter(within, parameters)
            own = replace(data, scatter=within, store=data.store.setdefault(_INNER, {}))
            if not self.keeps_rows:
                return step(replace(own, rows=rows), state, rest, rng)
            key = _digest(parameters)
            if data.store.get("mapped by") != key:
                data.store.update({"mapped by": key, "mapped rows": rows.all()})
            return step(replace(own, rows=data.store["mapped rows"]), state, rest, rng)

        return answer

    def _resized(self, release: Release) -> Release:
        """The same about mapped rows."""
        columns = self.n_components
        if columns is None:
            return release

        def size(axis: Size) -> Size:
            return axis.times * columns + axis.plus if isinstance(axis, Columns) else axis

        shapes = {name: tuple(map(size, axes)) for name, axes in release.shapes.items()}
        return replace(release, shapes=shapes)


@dataclass(frozen=True)
class Then(Prepared):
    """``preparation`` first, then ``inner`` on the rows that it maps."""

    preparation: Preparation
    inner: StarProtocol

    @property
    def name(self) -> str:  # type: ignore[override]
        """Both names."""
        return f"{self.preparation.name}, then {self.inner.name}"

    @property
    def n_components(self) -> int | None:  # type: ignore[override]
        """Columns of mapped rows."""
        return self.preparation.n_columns

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]
        """As the inner one."""
        return self.inner.needs_rows

    @property
    def keeps_rows(self) -> bool:  # type: ignore[override]
        """Whether mapped rows are kept in memory."""
        return self.preparation.keeps_rows

    @property
    def parameters(self) -> Release:
        return self.preparation.parameters

    @property
    def finding(self) -> Conversation:
        return self.preparation.conversation

    def find(self, rng: np.random.Generator) -> Finding:
        return self.preparation.find(rng)

    def embed(self, rows: FloatArray, parameters: Body) -> FloatArray:
        return self.preparation.transform(rows, parameters)

    def mapped_scatter(self, scatter: FloatArray, parameters: Body) -> FloatArray | None:
        return self.preparation.scatter(scatter, parameters)

    def in_columns(self, result: Body) -> FloatArray | None:
        centers = self.inner.in_columns(result)
        return None if centers is None else self.preparation.in_columns(centers, result)


def _apart(step: Step, prefix: str) -> Step:
    """The step with a state of its own, of names that begin with the prefix.

    What the other part of the conversation remembered is dropped: it is not asked again.
    """

    def answer(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        own = {
            name.removeprefix(prefix): value
            for name, value in state.items()
            if name.startswith(prefix)
        }
        reply, after = step(data, own, body, rng)
        return reply, {prefix + name: value for name, value in after.items()}

    return answer


def _joined(ask: Release, parameters: Release) -> Release:
    """The question that carries the parameters too."""
    return replace(
        ask,
        fields=(*ask.fields, *parameters.fields),
        discloses=tuple(dict.fromkeys((*ask.discloses, *parameters.discloses))),
        why=f"{ask.why}; and {parameters.why}",
        shapes={**ask.shapes, **parameters.shapes},
        bounds={**ask.bounds, **parameters.bounds},
        types={**ask.types, **parameters.types},
    )


def _digest(parameters: Body) -> bytes:
    """What tells these parameters from others."""
    hashed = sha256()
    for name, value in parameters.items():
        hashed.update(f"{name} {value.dtype.str} {value.shape}".encode())
        hashed.update(np.ascontiguousarray(value).data)
    return hashed.digest()
