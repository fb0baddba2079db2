"""What the methods on random features of a kernel share.

A run draws one seed; every question about features carries it and γ, so that all parties make the
same features (:mod:`unpooled.kernels.linalg.features`) without any of them travelling, and a party
that joins late needs nothing it has missed.

A **solver** finds a map M (D, s), or (T D, s) if it draws features T times, whose columns are
directions in feature space: the embedding of a row is h(x) = z(x) M. The top eigenvectors of Σ w
z(x) z(x)' are the best such directions: with K = Z Z' = U Λ U', they make Z M = U Λ^½, on which
k-means is kernel k-means but for what lies beyond s (Ding et al. 2005, Cohen et al. 2015).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from unpooled.data.tables import LARGEST
from unpooled.errors import ProtocolError
from unpooled.kernels.linalg.features import Features
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import FINITE, Release
from unpooled.protocols.star.base import Step
from unpooled.types import Body, FloatArray

GAMMA, SEED, MAP = "kernel.gamma", "kernel.seed", "kernel.map"


@dataclass(frozen=True)
class Kernel:
    """A kernel and how its features are drawn."""

    name: str
    n_features: int
    frequencies: str = "orthogonal"
    form: str = "cos-sin"

    def features(self, body: Body, draw: int = 1) -> Features:
        """The features that a question is about."""
        gamma, seed = float(body[GAMMA][0]), int(body[SEED][0])
        if not gamma > 0 or seed < 0 or draw < 0:
            raise ProtocolError(f"There are no features of gamma={gamma:g} and seed {seed}.")
        return Features(self.name, gamma, self.n_features, seed, draw, self.frequencies, self.form)

    def embedded(self, rows: FloatArray, parameters: Body) -> FloatArray:
        """h(x) for every row, from γ, the seed and the map."""
        onto = parameters[MAP]
        if not len(onto) or len(onto) % self.n_features:
            raise ProtocolError(
                f"A map of {len(onto)} lines does not go with {self.n_features} features."
            )
        out = np.zeros((len(rows), onto.shape[1]))
        for draw, start in enumerate(range(0, len(onto), self.n_features), start=1):
            part = onto[start : start + self.n_features]
            features = self.features(parameters, draw)
            out += finite(features.project(rows, part), features)
        return out


def finite(values: FloatArray, features: Features) -> FloatArray:
    """The values, if their squares are numbers too: features of dot products grow fast."""
    if not (np.abs(values) <= LARGEST).all():
        raise ProtocolError(
            f"The {features.kernel} kernel of gamma={features.gamma:g} overflows on some rows; "
            "give a smaller gamma or scale the rows."
        )
    return values


def about_features(ask: Release) -> Release:
    """The question with γ and the seed."""
    return replace(
        ask,
        fields=(*ask.fields, GAMMA, SEED),
        why=f"{ask.why}; the kernel's scale and a seed for its features",
        shapes={**ask.shapes, GAMMA: (1,), SEED: (1,)},
        bounds={**ask.bounds, GAMMA: FINITE},
        types={**ask.types, SEED: "int64"},
    )


@dataclass(frozen=True)
class FeatureDraw:
    """γ, the seed, and what the coordinator knows of the data: the parties' means, if anything."""

    gamma: float
    seed: int
    means: FloatArray | None

    @property
    def question(self) -> Body:
        """What goes with every question."""
        return {GAMMA: np.array([self.gamma]), SEED: np.array([self.seed], dtype=np.int64)}


@dataclass(frozen=True)
class Solution:
    """The map, and what each of its columns stands for; columns beyond the rank are zero."""

    onto: FloatArray
    eigenvalues: FloatArray


Solving: TypeAlias = Generator[Ask | Note, Any, Solution]


class Solver(ABC):
    """Finds a map with the parties' help."""

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """What parties send for it."""

    @property
    @abstractmethod
    def asks(self) -> tuple[Release, ...]:
        """What they are asked."""

    @property
    @abstractmethod
    def steps(self) -> Mapping[str, Step]:
        """What they do for it."""

    @abstractmethod
    def find(self, draw: FeatureDraw, rng: np.random.Generator) -> Solving:
        """The coordinator's side."""


def padded(columns: FloatArray, count: int) -> FloatArray:
    """The same with zero columns, up to ``count``."""
    return np.pad(columns, ((0, 0), (0, count - columns.shape[1])))
