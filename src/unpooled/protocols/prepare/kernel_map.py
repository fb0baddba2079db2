"""Kernel methods as preparations: rows are mapped so that plain k-means of them is kernel k-means.

1. ``spread``, if γ is to be found: :mod:`unpooled.protocols.prepare.bandwidth`.
2. A solver (:mod:`unpooled.protocols.prepare.krylov`, :mod:`unpooled.protocols.prepare.dspgd`)
   finds the map M by which rows are embedded, h(x) = z(x) M in R^s: :class:`KernelMap`.

What follows is any protocol for k-means on the embedded rows (:class:`.then.Then`).

**Without a solver** the rows are embedded by their D features, h(x) = z(x): k-means on random
features, as Chitta, Jin & Jain (2012) have it (:class:`RandomFeatures`). There is nothing to find
then but γ, and everything that the inner protocol sends is D wide.

**Other embeddings of the same map.** With K = U Λ U', Z M = U Λ^½ is kernel k-means'. ``power`` p
makes it U Λ^p: with p < ½ directions beyond the first few, where finer structure is, count more; at
p = 0 all count alike, as in spectral clustering. ``normalise`` makes it h(x) / |h(x)|, so that only
where rows point to counts (Ng, Jordan & Weiss 2002). Neither sends a number more.

The result has the centres of the inner protocol, γ, the seed and M: what it takes to label new
rows.

Sent by a party: d + 2 numbers for γ, what the solver asks for, and what the inner protocol sends of
rows of s columns.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unpooled.kernels.linalg.lanczos import signs
from unpooled.kernels.linalg.products import lengths
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import FINITE, AtMost, Release
from unpooled.protocols.prepare import bandwidth
from unpooled.protocols.prepare.kernel import (
    MAP,
    FeatureDraw,
    Kernel,
    Solver,
    about_features,
    finite,
)
from unpooled.protocols.prepare.then import Conversation, Finding, Preparation
from unpooled.types import Body, FloatArray


@dataclass(frozen=True)
class OnFeatures(Preparation):
    """What all have: a kernel, and γ or None if it is to be found from the data."""

    kernel: Kernel
    gamma: float | None

    def _drawn(self, rng: np.random.Generator) -> Generator[Ask | Note, Any, FeatureDraw]:
        seed = int(rng.integers(2**62))
        if self.gamma is not None:
            return FeatureDraw(self.gamma, seed, None)
        spread = yield from bandwidth.find_spread()
        gamma = bandwidth.in_units(self.kernel.name, spread.gamma, spread.means.shape[1])
        return FeatureDraw(gamma, seed, spread.means)

    @property
    def conversation(self) -> Conversation:
        if self.gamma is not None:
            return (), (), {}
        return (bandwidth.SPREAD_RELEASE,), (bandwidth.SPREAD_ASK,), {"spread": bandwidth.spread}


@dataclass(frozen=True)
class RandomFeatures(OnFeatures):
    """The features themselves."""

    name: ClassVar[str] = "random features"

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """As many as there are features."""
        return self.kernel.n_features

    @property
    def parameters(self) -> Release:
        return about_features(Release("features", (), ("model",), "which features to take"))

    def find(self, rng: np.random.Generator) -> Finding:
        draw = yield from self._drawn(rng)
        return draw.question, {}

    def transform(self, rows: FloatArray, parameters: Body) -> FloatArray:
        features = self.kernel.features(parameters)
        return finite(features.transform(rows), features)


@dataclass(frozen=True)
class KernelMap(OnFeatures):
    """The ``n_components`` directions that the solver finds in ``draws`` draws of features."""

    solver: Solver
    n_components: int
    draws: int = 1
    power: float = 0.5
    normalise: bool = False
    name: ClassVar[str] = "kernel map"

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """As many as there are directions."""
        return self.n_components

    @property
    def parameters(self) -> Release:
        why = "the map by which rows are embedded"
        shapes = {MAP: (AtMost(self.draws * self.kernel.n_features), self.n_components)}
        release = Release("map", (MAP,), ("model",), why, shapes=shapes, bounds={MAP: FINITE})
        return about_features(release)

    @property
    def conversation(self) -> Conversation:
        releases, asks, steps = super().conversation
        solver = self.solver
        return (
            (*releases, *solver.releases),
            (*asks, *solver.asks),
            {**steps, **solver.steps},
        )

    def find(self, rng: np.random.Generator) -> Finding:
        draw = yield from self._drawn(rng)
        solution = yield from self.solver.find(draw, rng)
        values = solution.eigenvalues
        weights = np.where(values > 0, values, 1.0) ** (self.power - 0.5)
        onto = solution.onto * signs(solution.onto)
        onto[:, : len(values)] *= weights
        return {**draw.question, MAP: onto}, {"eigenvalues": values}

    def transform(self, rows: FloatArray, parameters: Body) -> FloatArray:
        embedded = self.kernel.embedded(rows, parameters)
        if self.normalise:
            length = lengths(embedded)[:, None]
            embedded /= np.where(length > 0, length, 1.0)
        return embedded
