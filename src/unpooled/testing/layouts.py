"""The ways in which the same numbers can lie in memory, and protocols that hand them on so.

For the conformance suite (:mod:`unpooled.testing`): results must not depend on any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from unpooled.data.parties import Parties, PartyData
from unpooled.messages.message import Ask, Post
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.testing.wrapping import MeshAround, StarAround
from unpooled.types import Array, Body

Layout: TypeAlias = Callable[[Array], Array]


def fortran_order(values: Array) -> Array:
    """The first axis one after the other."""
    return np.array(values, order="F")


def sliced(values: Array) -> Array:
    """Every second entry, along all axes, of a larger array."""
    larger = np.zeros([2 * length for length in values.shape], dtype=values.dtype)
    places = (slice(None, None, 2),) * values.ndim
    larger[places] = values
    return larger[places] if values.ndim else larger


def backwards(values: Array) -> Array:
    """Negative strides along all axes."""
    return np.flip(np.flip(values).copy())


def unaligned(values: Array) -> Array:
    """One byte beside where the processor would have it."""
    raw = np.zeros(values.nbytes + 1, dtype=np.uint8)
    beside = np.frombuffer(raw, values.dtype, values.size, 1).reshape(values.shape)
    beside[...] = values
    return beside


def byte_swapped(values: Array) -> Array:
    """In the byte order of other processors."""
    return values.astype(values.dtype.newbyteorder("S"))


def read_only(values: Array) -> Array:
    """Not to be written to."""
    values = np.array(values)
    values.flags.writeable = False
    return values


LAYOUTS: tuple[Layout, ...] = (
    fortran_order,
    sliced,
    backwards,
    unaligned,
    byte_swapped,
    read_only,
)
"""All but the plain one: C order, aligned, the processor's own bytes."""


def laid_out(parties: Parties, layout: Layout) -> Parties:
    """The parties with rows and weights that lie so."""
    return replace(parties, rows=layout(parties.rows), weights=layout(parties.weights))


def handing_on(
    protocol: MeshProtocol | StarProtocol, layout: Layout
) -> MeshProtocol | StarProtocol:
    """The same protocol, but whatever it says, remembers and returns lies so."""
    if isinstance(protocol, StarProtocol):
        return _Star(protocol, layout)
    return _Mesh(protocol, layout)


def _all(body: Body, layout: Layout) -> dict[str, Array]:
    return {name: layout(np.asarray(value)) for name, value in body.items()}


def _said(peer: Generator[Any, Any, Body], layout: Layout) -> Generator[Any, Any, Body]:
    """A coordinator or a peer whose words and result lie so."""
    heard = None
    while True:
        try:
            said = peer.send(heard)
        except StopIteration as end:
            return _all(end.value, layout)
        if isinstance(said, Ask | Post):
            said = replace(said, body=_all(said.body, layout))
        heard = yield said


@dataclass(frozen=True)
class _Mesh(MeshAround):
    layout: Layout

    def peer(self, block: Block) -> Peer[Body]:
        return _said(self.inner.peer(block), self.layout)


@dataclass(frozen=True)
class _Star(StarAround):
    layout: Layout

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        return _said(self.inner.coordinator(rng), self.layout)

    @property
    def steps(self) -> Mapping[str, Step]:
        return {kind: self._step(step) for kind, step in self.inner.steps.items()}

    def _step(self, step: Step) -> Step:
        def answer(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
            said, after = step(data, state, body, rng)
            return _all(said, self.layout), _all(after, self.layout)

        return answer
