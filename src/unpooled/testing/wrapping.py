"""Protocols around another one: they pass everything on, and a subclass changes one thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unpooled.messages.release import Release
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.star.base import Coordinator, StarProtocol, Step
from unpooled.types import Body


@dataclass(frozen=True)
class MeshAround(MeshProtocol):
    """A peer-to-peer protocol that is another one."""

    inner: MeshProtocol
    name = "around"

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.inner.releases

    def peer(self, block: Block) -> Peer[Body]:
        return self.inner.peer(block)


@dataclass(frozen=True)
class StarAround(StarProtocol):
    """A protocol with a coordinator that is another one, as far as a run goes."""

    inner: StarProtocol
    name = "around"

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]
        """As the inner one."""
        return self.inner.needs_rows

    @property
    def on_cells(self) -> str:  # type: ignore[override]
        """As the inner one."""
        return self.inner.on_cells

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.inner.releases

    @property
    def asks(self) -> tuple[Release, ...]:
        return self.inner.asks

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        return self.inner.coordinator(rng)

    @property
    def steps(self) -> Mapping[str, Step]:
        return self.inner.steps
