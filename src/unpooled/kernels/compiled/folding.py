"""Fewer coordinates for centres while no row is looked at.

As long as no row changes its cluster, a round takes the centres x_i(k) of users i = 1..m to

    x_i(k) - a_i(k) ( sum_j (x_i(k) - x_j(k)) + (N_i(k) x_i(k) - b_i(k)) / rho )

with N and b = S + N o of :mod:`unpooled.kernels.compiled.clusters`. Whatever the number of columns
d, for each k all of this stays in the span of 2 m points: those where centres are and the b_i(k),
all seen from some place r(k). In coordinates of an orthonormal basis of that span, which keep
lengths, it is cheap to see how far centres go and are apart, and what they cost, round by round
until one is due. The centres themselves then go as many rounds
(:func:`unpooled.kernels.compiled.descent.drift`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unpooled.kernels.compiled.clusters import MASS, Clusters
from unpooled.kernels.compiled.descent import Slope
from unpooled.kernels.linalg.products import lengths
from unpooled.types import FloatArray

_FOLDED = 1e-12
"""Of lengths in the new coordinates: more than what rounding does to them, there and on the way."""
_STORED = 1e-14
"""The same for lengths as they are."""


def worth_folding(x: FloatArray) -> bool:
    """Whether there would be much fewer coordinates."""
    m, _, d = x.shape
    return bool(8 * m <= d)


class Folded(NamedTuple):
    """Centres in fewer coordinates."""

    state: Clusters
    """Without any rows, but with the clock of the whole state."""
    z: FloatArray
    """(m, K, 2 m) Where centres start."""
    slack: float
    """What rounding may add to or take off a step, here or where the centres are."""


def fold(s: Clusters, x: FloatArray, how: Slope) -> Folded:
    """The state in coordinates for centres at ``x`` and wherever they go from there."""
    m, n_clusters, d = x.shape
    mass, total, origin = s.sums[:, :n_clusters, MASS], s.sums[:, :n_clusters, :d], s.sums[:, -1:]
    places = x.mean(axis=0)
    pulls = total - mass[..., None] * (places - origin[..., :d])
    points = np.concatenate([x - places, pulls]).transpose(1, 2, 0)
    coordinates = np.linalg.qr(points).R.transpose(2, 0, 1)
    width = coordinates.shape[2]
    sums = np.zeros((m, 2 * n_clusters + 1, width + 3))
    sums[:, :n_clusters, :width] = coordinates[m:]
    sums[:, :n_clusters, width:] = s.sums[:, :n_clusters, d:]
    rows = np.zeros((0, width))
    state = Clusters(rows, s.coarse[:0, :0], s.ledger[:0], np.zeros_like(s.starts), s.clock, sums)
    z = np.ascontiguousarray(coordinates[:m])
    weight = how.per_rho * how.lengths(mass).max()
    slack = _FOLDED * (_longest(x - places) + weight * _longest(pulls)) + _STORED * (
        _longest(x) + _longest(origin[..., :d]) + weight * _longest(total)
    )
    return Folded(state, z, slack)


def _longest(vectors: FloatArray) -> float:
    return float(lengths(vectors).max())
