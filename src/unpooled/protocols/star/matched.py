"""Matched averaging: the mean of local centroids that stand for the same cluster.

Every party runs k-means with k clusters and sends its centroids, once. The coordinator pairs them
one to one by the optimal assignment (least sum of squared distances) and returns the mean of what
was paired; every party counts alike (the baseline M-Avg of Xu et al. 2024).

With more than two parties it matters what is paired with what. Here all are paired with one
reference, first the centroids of the party that sent most (the first of them), then the means; the
two steps are repeated until the pairing stays
(:func:`unpooled.kernels.lloyd.matching.matched_mean`). A party with fewer than k centroids
contributes to as many means. If no party sent k, there are as many centres as the largest party
sent, and the estimator warns.

Sent by a party: d numbers for each centroid, at most k d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.kernels.lloyd.kmeans import cluster
from unpooled.kernels.lloyd.matching import matched_mean
from unpooled.messages.aggregate import Aggregate
from unpooled.messages.release import Release
from unpooled.protocols.star.base import Answer
from unpooled.protocols.star.shared.centroids import CentroidsProtocol, release
from unpooled.types import Body, all_rows


@dataclass(frozen=True)
class MatchedAveraging(CentroidsProtocol):
    """The protocol; the parameters are those of the estimator."""

    n_clusters: int
    n_init: int = 10
    name: ClassVar[str] = "matched averaging"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (release(self.n_clusters, "means of local clusters' rows"),)

    def aggregate(self, reply: Aggregate, rng: np.random.Generator) -> Body:
        sets = reply.by_party("centroids")
        reference = max(sets, key=len)
        return {"centers": matched_mean(sets, [np.ones(len(own)) for own in sets], reference)}

    def centroids(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """The party's own k-means."""
        found = cluster(all_rows(data.rows), data.weights, self.n_clusters, self.n_init, rng)
        return {"centroids": found.centers}, {}
