"""Federated fuzzy c-means (Stallmann & Wilbik 2022), with both merges and any number of rounds.

Fuzzy c-means minimises Σ_r w_r Σ_k u_rk^m |x_r - c_k|² over memberships u (each row's add up to 1)
and centres c, in turn: u by :func:`unpooled.kernels.lloyd.fuzzy.memberships`, then c_k = Σ_r w_r
u_rk^m x_r / Σ_r w_r u_rk^m.

In each round every party is sent the K global centres, runs fuzzy c-means on its own rows from them
(``local_steps`` iterations, or until the centres stay), and answers with its centres c_ik and their
support s_ik = Σ_r w_r u_rk^m. The coordinator merges:

- "average" (the paper's first version): c_k = Σ_i s_ik c_ik / Σ_i s_ik, by index. With
  ``local_steps=1`` this is fuzzy c-means of the pooled rows, exactly.
- "kmeans" (the second): k-means with restarts on all the parties' centres, each counting once.

It ends after ``max_rounds``, or when no centre moves by more than ``tol`` times the largest
distance between two of them.

Decided here: no row may serve as a start, so in round 0 parties start by themselves (k-means of
their own rows, one start, k-means++) and the coordinator merges what they found; for "average" it
aligns their indices first, by optimal matching as in matched averaging, weighted by support. Later
rounds go by index. A party with fewer than K distinct rows has as many centres in round 0, and
afterwards centres that stay where they were sent to it.

Sent by a party: K (d + 1) numbers a round (in round 0: d + 1 for each centre it found).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import pdist

from unpooled.data.parties import PartyData
from unpooled.kernels.assignment.centers import movement
from unpooled.kernels.linalg.segments import means_or_keep
from unpooled.kernels.lloyd.fuzzy import fuzzy_c_means
from unpooled.kernels.lloyd.kmeans import cluster
from unpooled.kernels.lloyd.matching import matched, matched_mean
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import COLUMNS, AtMost, Release
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.protocols.star.shared.centroids import gathered, received
from unpooled.types import Body, FloatArray, PartyId, all_rows

MERGES = ("average", "kmeans")
_LOCAL_STEPS = 300
_LOCAL_TOL = 1e-6


@dataclass(frozen=True)
class FuzzyCMeans(StarProtocol):
    """The protocol; ``local_steps=None`` iterates until a party's centres stay."""

    n_clusters: int
    fuzzifier: float = 2.0
    merge: str = "kmeans"
    max_rounds: int = 10
    tol: float = 1e-4
    local_steps: int | None = None
    n_init: int = 10
    name: ClassVar[str] = "fuzzy c-means"

    @property
    def releases(self) -> tuple[Release, ...]:
        why = "means of rows weighted by membership, and the sums of these weights"
        fields = ("centers", "support")
        shapes = {"centers": (self._found, COLUMNS), "support": (self._found,)}
        return (
            Release("start", fields, ("sums", "counts"), why, shapes=shapes),
            Release("centers", fields, ("sums", "counts"), why, shapes=shapes),
        )

    @property
    def asks(self) -> tuple[Release, ...]:
        why, shapes = "the centres of all parties' rows", {"centers": (self._found, COLUMNS)}
        return (
            Release("start", (), ("model",), "nothing but the question"),
            Release("centers", ("centers",), ("model",), why, shapes=shapes),
        )

    @property
    def _found(self) -> AtMost:
        return AtMost(self.n_clusters, "centers")

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        replies = yield Ask("start")
        yield received(len(gathered(replies, "centers")))
        centers = self._merged(replies, None, rng)
        converged = False
        number, moved = 0, np.inf
        while not converged and number + 1 < self.max_rounds:
            number += 1
            replies = yield Ask("centers", {"centers": centers}, number)
            fresh = self._merged(replies, centers, rng)
            moved = _movement(centers, fresh)
            yield Note(number, {"movement": np.array(moved)})
            converged = moved <= self.tol * pdist(fresh).max(initial=0.0)
            # Where parties come and go, a round may tell of fewer of them than the last.
            centers = fresh if len(fresh) >= len(centers) else centers
        return {
            "centers": centers,
            "rounds": np.array(number + 1),
            "movement": np.array(moved),
            "converged": np.array(converged),
        }

    def _merged(
        self, replies: Mapping[PartyId, Body], last: FloatArray | None, rng: np.random.Generator
    ) -> FloatArray:
        sets = [reply["centers"] for reply in replies.values()]
        support = [reply["support"] for reply in replies.values()]
        if self.merge == "average":
            if last is None:
                return matched_mean(sets, support, max(sets, key=len))
            total = np.sum([s[:, None] * c for s, c in zip(support, sets, strict=True)], axis=0)
            return means_or_keep(total, np.sum(support, axis=0), last)
        heard = np.concatenate(sets)[np.concatenate(support) > 0]
        found = cluster(heard, np.ones(len(heard)), self.n_clusters, self.n_init, rng).centers
        if last is None or len(found) != len(last):
            return found
        # The numbers of the new centres follow the old ones, so that movement means something.
        return found[np.argsort(matched(found, last))]

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"start": self.begin, "centers": self.go_on}

    def begin(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Fuzzy c-means from a start of the party's own."""
        start = cluster(all_rows(data.rows), data.weights, self.n_clusters, 1, rng).centers
        return self._answer(data, start)

    def go_on(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Fuzzy c-means from the global centres."""
        return self._answer(data, body["centers"])

    def _answer(self, data: PartyData, start: FloatArray) -> Answer:
        rows, weights = all_rows(data.rows), data.weights
        centers, support = np.zeros_like(start), np.zeros(len(start))
        if len(rows) and len(start):
            extent = float(np.ptp(rows, axis=0).max())
            steps = self.local_steps or _LOCAL_STEPS
            centers, support = fuzzy_c_means(
                rows, weights, start, self.fuzzifier, steps, _LOCAL_TOL * extent
            )
        return {"centers": centers, "support": support}, {}


def _movement(before: FloatArray, after: FloatArray) -> float:
    """How far the farthest centre has moved; infinite if there are more or fewer of them."""
    if len(before) != len(after):
        return np.inf
    return movement(before, after)
