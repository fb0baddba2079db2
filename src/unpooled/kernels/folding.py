"""Fewer coordinates for centres while no row is looked at.

As long as no row changes its cluster, a round takes the centres x_i(k) of users i = 1..m to

    x_i(k) - a_i(k) ( sum_j (x_i(k) - x_j(k)) + (N_i(k) x_i(k) - b_i(k)) / rho )

with N and b = S + N o of :mod:`unpooled.kernels.clusters`. Whatever the number of columns d, for
each k all of this stays in the span of 2 m points p(k): those where centres are and the b_i(k), all
seen from some place r(k). So there are two ways to go on with 2 m numbers for each centre until a
row is due:

- in coordinates z_i(k) of an orthonormal basis Q(k) of that span, which keep lengths: how far
  centres go and are apart, and what they cost, round by round;
- as sums of the points, x_i(k) - r(k) = sum_c C_ic(k) p_c(k), where T rounds are the T-th power of
  one round: that is how centres are found in the end, each column from nothing but itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.kernels.clusters import MASS, Clusters
from unpooled.kernels.descent import Slope
from unpooled.types import FloatArray


def worth_folding(x: FloatArray) -> bool:
    """Whether there would be much fewer coordinates."""
    m, _, d = x.shape
    return bool(8 * m <= d)


@dataclass(frozen=True)
class Folded:
    """Centres in fewer coordinates."""

    state: Clusters
    """In the coordinates z, without any rows, but with the clock of the whole state."""
    z: FloatArray
    """(m, K, 2 m) Where centres start."""
    places: FloatArray
    """(K, d) r(k)."""
    points: FloatArray
    """(K, 2 m, d) p(k)."""
    round_: FloatArray
    """(K, 2 m, 2 m) What a round does to sums of points; the b_i(k) stay where they are."""

    def unfolded(self, rounds: int) -> FloatArray:
        """(m, K, d) The centres after so many rounds."""
        power = np.linalg.matrix_power(self.round_, rounds)[:, : len(self.z)]
        x: FloatArray = np.matmul(power, self.points).transpose(1, 0, 2)
        return np.ascontiguousarray(self.places + x)


def fold(s: Clusters, x: FloatArray, how: Slope) -> Folded:
    """The state in coordinates for centres at ``x`` and wherever they go from there."""
    m, n_clusters, d = x.shape
    mass = s.sums[:, :n_clusters, MASS]
    places = x.mean(axis=0)
    pulls = s.sums[:, :n_clusters, :d] - mass[..., None] * (places - s.sums[:, -1:, :d])
    points = np.ascontiguousarray(np.concatenate([x - places, pulls]).transpose(1, 0, 2))
    coordinates = np.linalg.qr(points.transpose(0, 2, 1)).R.transpose(2, 0, 1)
    width = coordinates.shape[2]
    sums = np.zeros((m, 2 * n_clusters + 1, width + 3))
    sums[:, :n_clusters, :width] = coordinates[m:]
    sums[:, :n_clusters, width:] = s.sums[:, :n_clusters, d:]
    rows = np.zeros((0, width))
    state = Clusters(rows, s.coarse[:0, :0], s.ledger[:0], np.zeros_like(s.starts), s.clock, sums)
    z = np.ascontiguousarray(coordinates[:m])
    return Folded(state, z, places, points, _round(mass, how))


def _round(mass: FloatArray, how: Slope) -> FloatArray:
    """(K, 2 m, 2 m) of `Folded`."""
    m, n_clusters = mass.shape
    links = np.zeros((m, m))
    np.add.at(links, (np.repeat(np.arange(m), np.diff(how.first)), how.others), 1.0)
    stiffness = mass * how.per_rho + links.sum(axis=1)[:, None]
    steps = np.broadcast_to(how.steps[:, None], mass.shape)
    if how.by_cluster:
        steps = np.divide(steps, stiffness, out=np.zeros_like(mass), where=stiffness > 0)
    result = np.tile(np.eye(2 * m), (n_clusters, 1, 1))
    for k in range(n_clusters):
        result[k, :m, :m] += steps[:, k, None] * (links - np.diag(stiffness[:, k]))
        result[k, :m, m:] = np.diag(steps[:, k] * how.per_rho)
    return result
