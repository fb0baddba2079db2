"""k-FED: one-shot clustering for parties that hold few of the clusters (Dennis et al. 2021).

Every party finds k' clusters in its rows by the method of Awasthi & Sheffet (2012), as the paper
has it: project the rows on their k' leading singular vectors, cluster the projections (k-means++
and restarts stand in for the 10-approximation), keep of each cluster r the rows that are three
times nearer to its centre than to any other,

    S_r = {x : |Px - ν_r| <= |Px - ν_s| / 3 for all s ≠ r},

and run Lloyd's iteration on all rows from the means of the S_r. It sends its k' centroids.

The coordinator takes the centroids of one party, drawn at random, and adds the centroid that lies
farthest from all chosen ones until there are k. One round of Lloyd's iteration on all centroids
from these gives the k centres: means of centroids, each counting once.

Decided here: an S_r without rows is replaced by its whole cluster. If the drawn party has more than
k centroids, the first k are taken. A party with fewer than k' distinct rows sends each. If there
are fewer than k centroids that differ, there are fewer than k centres, and the estimator warns.

Sent by a party: d numbers for each centroid, at most k' d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from unpooled.data.parties import PartyData
from unpooled.kernels.assignment.centers import label
from unpooled.kernels.linalg.products import matmul_nt
from unpooled.kernels.linalg.segments import means_or_keep, sums_by_label
from unpooled.kernels.lloyd.kmeans import Clustering, cluster, means_of
from unpooled.messages.aggregate import Aggregate
from unpooled.messages.release import Release
from unpooled.protocols.star.base import Answer
from unpooled.protocols.star.shared.centroids import CentroidsProtocol, release, spread_out
from unpooled.types import Body, FloatArray, all_rows


@dataclass(frozen=True)
class KFED(CentroidsProtocol):
    """The protocol; the parameters are those of the estimator."""

    n_clusters: int
    local_clusters: int
    n_init: int = 10
    name: ClassVar[str] = "k-fed"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (release(self.local_clusters, "means of local clusters' rows"),)

    def aggregate(self, reply: Aggregate, rng: np.random.Generator) -> Body:
        centroids = reply["centroids"]
        sent = [own for own in reply.by_party("centroids") if len(own)]
        chosen = spread_out(centroids, sent[int(rng.integers(len(sent)))], self.n_clusters)
        return {"centers": one_round(centroids, chosen)}

    def centroids(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """The party's k' clusters."""
        found = awasthi_sheffet(
            all_rows(data.rows), data.weights, self.local_clusters, self.n_init, rng
        )
        return {"centroids": found.centers}, {}


def awasthi_sheffet(
    rows: FloatArray, weights: FloatArray, n_clusters: int, n_init: int, rng: np.random.Generator
) -> Clustering:
    """Clusters by projection, the rows well inside, and Lloyd's iteration."""
    there = weights > 0
    x, w = rows[there], weights[there]
    projected = _projected(x, w, n_clusters)
    near = cluster(projected, w, n_clusters, n_init, rng)
    if len(near.centers) < n_clusters:  # no more rows than clusters: nothing to improve
        return cluster(rows, weights, n_clusters, n_init, rng)
    distance = cdist(projected, near.centers)
    own = distance[np.arange(len(x)), near.labels]
    distance[np.arange(len(x)), near.labels] = np.inf
    inside = np.where(own <= distance.min(axis=1, initial=np.inf) / 3, near.labels, -1)
    whole = sums_by_label(x, w, near.labels, n_clusters)
    starts = means_or_keep(*sums_by_label(x, w, inside, n_clusters), whole[0] / whole[1][:, None])
    model = KMeans(n_clusters, init=starts, n_init=1, tol=0.0).fit(x, sample_weight=w)
    labels = np.full(len(rows), -1, dtype=np.int64)
    labels[there] = model.labels_
    return means_of(rows, weights, labels)


def _projected(rows: FloatArray, weights: FloatArray, rank: int) -> FloatArray:
    """The rows on the leading right singular vectors of the weighted table."""
    if rank >= min(rows.shape):
        return rows
    vectors = np.linalg.svd(np.sqrt(weights)[:, None] * rows, full_matrices=False)[2][:rank]
    return matmul_nt(rows, vectors)


def one_round(points: FloatArray, centers: FloatArray) -> FloatArray:
    """One round of Lloyd's iteration."""
    sums, counts = sums_by_label(points, np.ones(len(points)), label(points, centers), len(centers))
    return means_or_keep(sums, counts, centers)
