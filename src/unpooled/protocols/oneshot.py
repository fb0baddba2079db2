"""placeholder"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unpooled.kernels.kmeans import cluster
from unpooled.protocols import sums
from unpooled.protocols.centroids import gathered, presentable, refuse_too_few, summary
from unpooled.protocols.star import Answer, Coordinator, StarProtocol, Step
from unpooled.types import Body, PartyData
from unpooled.wire.message import Ask, Note
from unpooled.wire.policy import Release


@dataclass(frozen=True)
class OneShotKMeans(StarProtocol):
    n_clusters: int
    local_clusters: int
    n_init: int = 10
    refine: bool = False
    name: ClassVar[str] = "one-shot k-means"

    @property
    def releases(self) -> tuple[Release, ...]:
        why = "means and numbers of the rows of local clusters"
        first = Release("centroids", ("centroids", "counts"), ("sums", "counts"), why)
        return (first, sums.RELEASE) if self.refine else (first,)

    @property
    def asks(self) -> tuple[Release, ...]:
        first = Release("centroids", (), ("model",), "nothing but the question")
        return (first, sums.ASK) if self.refine else (first,)

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        result = yield from self.one_shot(rng)
        if not self.refine:
            return result
        centers = result["centers"]
        replies = yield Ask("sums", {"centers": centers})
        return {"centers": sums.means(*sums.added(replies), centers, rng)}

    def one_shot(self, rng: np.random.Generator) -> Coordinator:
        replies = yield Ask("centroids")
        centroids, counts = gathered(replies, "centroids"), gathered(replies, "counts")
        refuse_too_few(len(centroids), 1)
        yield Note(0, {"received": np.array(len(centroids))})
        return {"centers": cluster(centroids, counts, self.n_clusters, 50, rng).centers}

    @property
    def steps(self) -> Mapping[str, Step]:
        first: dict[str, Step] = {"centroids": self.centroids}
        return {**first, "sums": sums.cluster_sums} if self.refine else first

    def centroids(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        found = cluster(data.rows, data.weights, self.local_clusters, self.n_init, rng)
        kept = presentable(found, data)
        reply = {"centroids": found.centers[kept], "counts": found.counts[kept]}
        answer = summary(reply, found, kept)
        return answer, sums.atoms_after(data, answer.behind)
