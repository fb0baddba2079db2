"""The update step: centres are sums over weights, or lie beyond them while rows change cluster.

**Means.** Averages are exact up to a share of how far a cycle moved them (``contraction``), so a
cluster of very little weight may be empty or not: it is *in doubt*. Where a cluster is empty or in
doubt, its centre stays.

**Momentum.** While rows change cluster, centres go beyond the means, by half of the means' last
move: fewer cycles are then needed. It is allowed in the first cycles only. After these come Lloyd's
own steps, of which there are finitely many.
"""

from __future__ import annotations

import numpy as np

from unpooled.losses import Loss
from unpooled.protocols.mesh.base import only
from unpooled.protocols.mesh.shared.common_start import CommonStart
from unpooled.protocols.mesh.shared.rounds import farthest
from unpooled.types import BoolArray, FloatArray

_NONE = 1e-12
"""A share of all weight that is nothing but rounding."""
_NEGLIGIBLE = 1e-9
"""A share of all weight by which no cluster is in doubt."""
_MOMENTUM = 0.5
"""How far beyond the means centres go, over how far the means moved."""


class CenterUpdate:
    """The centres of a block's users, and what the last update did to them."""

    def __init__(self, start: CommonStart, loss: Loss) -> None:
        n = len(start.centers)
        self._loss = loss
        self.centers, self.known = start.centers, start.known
        self.movement: FloatArray = np.zeros(n)
        """How far the centre that moved most has moved."""
        self.in_doubt: BoolArray = np.ones(n, dtype=bool)
        """Which users have a cluster that may be empty or not."""
        self.beyond: BoolArray = np.zeros(n, dtype=bool)
        """Which users' centres lie beyond the means."""
        self._last_means = start.centers

    def apply(
        self,
        users: BoolArray,
        sums: FloatArray,
        sums_before: FloatArray,
        contraction: float,
        momentum: BoolArray,
    ) -> None:
        """New centres for these users; ``momentum`` marks those that may go beyond the means.

        ``sums_before`` are those as the cycle began.
        """
        means = self._means(users, sums, sums_before, contraction)
        x = self._extrapolated(users, means, momentum)
        self.movement = np.where(users, farthest(x - self.centers), self.movement)
        self.centers = x

    def _means(
        self, users: BoolArray, sums: FloatArray, sums_before: FloatArray, contraction: float
    ) -> FloatArray:
        """Sums over weights, for clusters that surely have any; the others' centres stay.

        Weights err by ``contraction`` of how far the cycle moved them. Sums and weights err alike,
        so a mean is more exact than either.
        """
        weights = sums[..., -1]
        total = np.maximum(weights.sum(axis=1, keepdims=True), 0.0)
        moved = np.abs(weights - sums_before[..., -1])
        filled = weights > np.maximum(_NONE * total, 2 * contraction * moved)
        means = sums[..., :-1] / np.where(filled, weights, 1.0)[..., None]
        filled &= self._loss.inside(means)
        in_doubt = (~filled & (contraction * moved > _NEGLIGIBLE * total)).any(axis=1)
        self.in_doubt = np.where(users, in_doubt, self.in_doubt)
        # A user without centres takes them all at once. Those of empty clusters repeat another
        # centre, and so stay empty.
        new_here = users & ~self.known & filled.any(axis=1)
        spare = means[np.arange(len(means)), filled.argmax(axis=1)]
        old = np.where(new_here[:, None, None], spare[:, None, :], self.centers)
        self.known = self.known | new_here
        new = np.where((filled & self.known[:, None])[..., None], means, old)
        return only(users, new, self.centers)

    def _extrapolated(self, users: BoolArray, means: FloatArray, momentum: BoolArray) -> FloatArray:
        """The means, or points beyond them in the direction in which they moved."""
        further = users & momentum & self.known
        beyond = means + _MOMENTUM * (means - self._last_means)
        further &= self._loss.inside(beyond).all(axis=1)
        self._last_means = only(users, means, self._last_means)
        self.beyond = np.where(users, further, self.beyond)
        return only(further, beyond, means)
