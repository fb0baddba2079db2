"""One-shot k-means: weighted k-means of the parties' centroids.

Every party runs k-means with k' clusters and several starts, and sends its centroids with the
number of rows in each, once. The coordinator runs k-means on the centroids, weighted by the counts,
and keeps the cheapest of many starts. Centroids c_j with counts n_j are a summary in which every
set of centres C costs what it costs on the rows but for a constant, up to rows whose nearest centre
is not that of their centroid:

    Σ_x min_c |x - c|²  <=  Σ_j n_j min_c |c_j - c|² + Σ_j Q_j,    Q_j = scatter about c_j.

A party that holds few of the clusters splits those it has, and one whose local optimum is poor
sends a few centroids that lie between clusters; both matter little, since the coordinator sees
every cluster from many sides and weighs them. Ten local starts and a hundred at the coordinator are
what makes the difference to a single one (fewer, down to ten, where it has many centroids).

**k' (``local_clusters``)**. The finer the summary, the fewer rows have another nearest centre than
their centroid. By default (``finer``) a party of n rows makes 3 k clusters, or n / 3 if these are
more, but then no more than 64: where k is small, 3 k are few for what rows are like, and sending
more costs little. Which of k centres is nearest to a row depends on its projection onto their span
alone, k - 1 columns, while rows of many columns lie far apart in all the others. So finer clusters
are made in the first max(20, 2 k) principal components of the party's rows; what is sent are means
of whole rows as ever. With k local clusters the cost is about 1 % above that of pooled k-means,
with the default a third of it or less. A party that sends radii makes k by default. With ``trim``
it is 3 k, since outliers take centroids of their own. ``local_clusters=None`` lets every party
choose 2 n^½ for its n rows: parties need not know k, the coordinator decides.

**k unknown (``n_clusters=None``)**: the coordinator tries 1..``max_clusters`` and takes the number
with the least BIC for round Gaussians of one variance (X-means, Pelleg & Moore 2000). Parties also
send Q_j, since Σ Q_j plus the coordinator's cost is the cost of the rows.

**Outliers (``trim``)**: that share of the weight is left out, the farthest first
(:mod:`unpooled.kernels.lloyd.trimmed`).

**Where counts may not leave (``send="radii"``)**: parties send r_j = (Q_j / n_j)^½ instead.
Clusters of a good k-means solution have about the same scatter (Gersho 1979), so 1 / r_j² stands
in for n_j, scaled to add up to 1 at each party. Clusters of fewer than 10 rows are not sent, their
radii being noise. Parties of unlike size count alike, so expect worse centres than with counts.

**Refinement (``refine=True``)**: one exact Lloyd round on all rows
(:mod:`unpooled.protocols.star.shared.sums`).

Decided here: a party with fewer distinct rows than k' sends each. If fewer than k distinct
centroids arrive, there are as many centres, and the estimator warns. Where rows are means of cells,
Q_j has the cells' own scatter in it, of which a party knows the total: each has its share by
weight.

Sent by a party: d + 1 numbers for each of at most k' centroids (d + 2 with ``n_clusters=None``),
by default at most max(3 k, 64) (d + 1); with ``refine`` k (d + 2) more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, sqrt
from typing import ClassVar

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.kernels.linalg.principal import principal_coordinates
from unpooled.kernels.lloyd.kmeans import (
    Clustering,
    cluster,
    distinct_rows,
    means_of,
    scatter_of,
)
from unpooled.kernels.lloyd.trimmed import trimmed_cluster
from unpooled.messages.aggregate import Aggregate
from unpooled.messages.message import Ask
from unpooled.messages.release import AtMost, Release
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.protocols.star.shared import sums
from unpooled.protocols.star.shared.centroids import CENTROIDS_ASK, ask_for_centroids, release
from unpooled.types import Array, Body, FloatArray, all_rows

SENT = ("counts", "radii")
LOCAL_PER_CENTER = 3
"""k' over k, by default."""
_FINE = 64
"""k' by default where k is small and the party has rows enough."""
_COMPONENTS = 20
"""Principal components that finer clusters are made in, or 2 k if these are more."""
_LEAST_FOR_RADII = 10
_TINY = np.finfo(float).tiny
_STARTS = (10, 100)
_WORK = 4_000_000
"""Points x clusters x starts at the coordinator, within the bounds above: about a second."""


@dataclass(frozen=True)
class OneShotKMeans(StarProtocol):
    """The protocol; None stands for the estimator's "auto"."""

    n_clusters: int | None
    local_clusters: int | None
    n_init: int = 10
    send: str = "counts"
    trim: float = 0.0
    refine: bool = False
    max_clusters: int = 30
    finer: bool = False
    name: ClassVar[str] = "one-shot k-means"

    @property
    def releases(self) -> tuple[Release, ...]:
        # What a party chooses by itself goes by its number of rows, which nobody else knows.
        most = max(self.local_clusters, _FINE * self.finer) if self.local_clusters else inf
        if self.send == "radii":
            why = "means of the rows of local clusters, and their root mean square distances"
            return (release(most, why, ("radii",)),)
        why = "means and numbers of the rows of local clusters"
        beside = ("counts", *(("scatter",) if self.n_clusters is None else ()))
        first = release(most, why, beside, ("sums", "counts"))
        return (first, sums.release(self.found)) if self.refine else (first,)

    @property
    def asks(self) -> tuple[Release, ...]:
        return (CENTROIDS_ASK, sums.question(self.found)) if self.refine else (CENTROIDS_ASK,)

    @property
    def found(self) -> AtMost:
        """How many centres there may be in the end."""
        most = self.max_clusters if self.n_clusters is None else self.n_clusters
        return AtMost(most, "clusters")

    @property
    def steps(self) -> Mapping[str, Step]:
        first: dict[str, Step] = {"centroids": self.centroids}
        return {**first, "sums": sums.cluster_sums} if self.refine else first

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        result = yield from self.one_shot(rng)
        if not self.refine:
            return result
        centers = result["centers"]
        reply = yield Ask("sums", {"centers": centers})
        total, counts, scatter = (reply[field] for field in sums.FIELDS)
        return {"centers": sums.means(total, counts, scatter, centers, rng)}

    def one_shot(self, rng: np.random.Generator) -> Coordinator:
        """The coordinator without the refinement."""
        reply = yield from ask_for_centroids()
        points = reply["centroids"]
        weights = reply["counts"] if self.send == "counts" else _weights_from_radii(reply)
        if self.n_clusters is not None:
            return {"centers": self._aggregated(points, weights, self.n_clusters, rng).centers}
        scatter = float(reply["scatter"].sum())
        return {"centers": self._best_number(points, weights, scatter, rng).centers}

    def _aggregated(
        self, points: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator
    ) -> Clustering:
        starts = int(np.clip(_WORK // (len(points) * k), *_STARTS))
        if self.trim > 0:
            return trimmed_cluster(points, weights, k, self.trim, starts, rng)
        return cluster(points, weights, k, starts, rng)

    def _best_number(
        self, points: FloatArray, weights: FloatArray, scatter: float, rng: np.random.Generator
    ) -> Clustering:
        """The clustering of least BIC."""
        tried = range(1, min(self.max_clusters, len(points)) + 1)
        found = [self._aggregated(points, weights, k, rng) for k in tried]
        return min(found, key=lambda own: bic(points, weights, scatter, own))

    def _local(self, data: PartyData, rows: FloatArray, rng: np.random.Generator) -> Clustering:
        """Clusters of the party's rows, finer ones in the principal components of these."""
        wanted = self._wanted(len(rows))
        leading, k = rows, self.n_clusters or 1
        if self.finer and wanted > k and distinct_rows(rows, wanted) is None:
            leading = principal_coordinates(rows, data.weights, max(_COMPONENTS, 2 * k))
        found = cluster(leading, data.weights, wanted, self.n_init, rng)
        return found if leading is rows else means_of(rows, data.weights, found.labels)

    def _wanted(self, n_rows: int) -> int:
        """How many clusters a party looks for, 2 n^½ if it is left to it."""
        if self.local_clusters is None:
            return max(1, min(ceil(2 * sqrt(n_rows)), n_rows))
        if not self.finer or self.n_clusters is None:
            return self.local_clusters
        if self.send == "radii":
            return self.n_clusters
        return max(self.local_clusters, min(n_rows // 3, _FINE))

    def centroids(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """The party's own k-means."""
        rows = all_rows(data.rows)
        found = self._local(data, rows, rng)
        if self.send == "counts" and self.n_clusters is not None:
            return {"centroids": found.centers, "counts": found.counts}, {}
        scatter = scatter_of(rows, data.weights, found)
        if data.scatter is not None:
            scatter += found.counts * (data.scatter.sum() / max(data.weights.sum(), _TINY))
        if self.send == "counts":
            return {"centroids": found.centers, "counts": found.counts, "scatter": scatter}, {}
        sizes: Array = found.counts  # a cell is many rows
        if data.scatter is None:
            sizes = np.bincount(found.labels[found.labels >= 0], minlength=len(found.centers))
        kept = sizes >= _LEAST_FOR_RADII
        radii = np.sqrt(scatter[kept] / found.counts[kept])
        return {"centroids": found.centers[kept], "radii": radii}, {}


def _weights_from_radii(reply: Aggregate) -> FloatArray:
    """1 / r², adding up to 1 at each party; a radius of 0 is that of rows that coincide."""
    parts = []
    for radii in reply.by_party("radii"):
        floor = 1e-3 * radii.max(initial=0.0) or 1.0
        weights = np.maximum(radii, floor) ** -2.0
        parts.append(weights / max(weights.sum(), _TINY))
    return np.concatenate(parts)


def bic(points: FloatArray, weights: FloatArray, scatter: float, found: Clustering) -> float:
    """-2 log likelihood + (number of parameters) log n of round Gaussians of one variance.

    With n rows of d columns, n_k of them in cluster k, and σ² = cost / (d n), where the cost is the
    rows' scatter about the parties' centroids plus the centroids' about the centres, and but for a
    constant:

        BIC = K (d + 1) log n - 2 Σ_k n_k log(n_k / n) + n d log σ².
    """
    total, d, k = float(weights.sum()), points.shape[1], len(found.centers)
    cost = scatter + float(scatter_of(points, weights, found).sum())
    if cost <= 0:
        return -np.inf
    entropy = float((found.counts * np.log(found.counts / total)).sum())
    return float(k * (d + 1) * np.log(total) - 2 * entropy + total * d * np.log(cost / (d * total)))
