"""Centres in fewer coordinates, for rounds in which no row need be checked.

As long as no row changes its cluster, a round takes the centres x_i(k) of users i = 1..m to

    x_i(k) - a_i(k) ( sum_j (x_i(k) - x_j(k)) + (N_i(k) x_i(k) - b_i(k)) / rho )

with N and b = S + N o of :mod:`unpooled.kernels.compiled.clusters`. However many columns there are,
for each k all of this stays in the span of 2 m points: the centres at the start and the b_i(k), as
differences from some place r(k). In coordinates of an orthonormal basis of that span, which keep
lengths, it is cheap to find how far centres move, how far they are apart and what they cost, round
by round until a row must be checked. The centres themselves are then advanced by as many rounds
(:func:`unpooled.kernels.compiled.columns.advance_columns`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unpooled.kernels.compiled.clusters import MASS, Clusters
from unpooled.kernels.compiled.steps import StepRule
from unpooled.kernels.linalg.products import lengths
from unpooled.types import FloatArray

_REDUCED_ROUNDING = 1e-12
"""Of lengths in the new coordinates: more than the rounding errors of them and of the change."""
_STORED_ROUNDING = 1e-14
"""Of lengths in the coordinates of the rows: more than their rounding errors."""


def worth_reducing(x: FloatArray) -> bool:
    """Whether there would be far fewer coordinates."""
    m, _, d = x.shape
    return bool(8 * m <= d)


class Reduced(NamedTuple):
    """Centres in fewer coordinates."""

    state: Clusters
    """Without any rows; ``per_user`` is that of the whole state, so drifts are counted there."""
    z: FloatArray
    """(m, K, 2 m) Where centres start."""
    slack: float
    """What rounding may add to or take off the length of a step, in either coordinates."""


def reduce_coordinates(state: Clusters, x: FloatArray, rule: StepRule) -> Reduced:
    """The state in coordinates for centres at ``x`` and wherever they go from there."""
    m, n_clusters, d = x.shape
    whole, origin = state.sums[:, :n_clusters], state.sums[:, -1:, :d]
    mass, total = whole[..., MASS], whole[..., :d]
    places = x.mean(axis=0)
    pulls = total - mass[..., None] * (places - origin)
    points = np.concatenate([x - places, pulls]).transpose(1, 2, 0)
    coordinates = np.linalg.qr(points).R.transpose(2, 0, 1)
    width = coordinates.shape[2]
    sums = np.zeros((m, 2 * n_clusters + 1, width + 3))
    sums[:, :n_clusters, :width] = coordinates[m:]
    sums[:, :n_clusters, width:] = whole[..., d:]
    reduced = Clusters(
        np.zeros((0, width)),
        state.coarse[:0, :0],
        state.per_row[:0],
        np.zeros_like(state.starts),
        state.per_user,
        sums,
    )
    z = np.ascontiguousarray(coordinates[:m])
    weight = rule.per_rho * rule.lengths(mass).max()
    slack = _REDUCED_ROUNDING * (_longest(x - places) + weight * _longest(pulls))
    slack += _STORED_ROUNDING * (_longest(x) + _longest(origin) + weight * _longest(total))
    return Reduced(reduced, z, slack)


def _longest(vectors: FloatArray) -> float:
    return float(lengths(vectors).max())
