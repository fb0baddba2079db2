"""Federated k-means: Lloyd's iteration on all parties' rows from sums and counts.

The centres of every round are those of Lloyd's iteration on the pooled rows from the same start
(:mod:`unpooled.protocols.sums` is one round, and says what becomes of empty clusters, and of
parties with a minimum count). It ends when no centre moves by more than ``tol``
times the root mean square distance of a row to its centre, or after ``max_rounds``; with ``tol=0``
when nothing moves at all. The start is :class:`~unpooled.protocols.oneshot.OneShotKMeans`, which
sends no row, or given centres.

Sent by a party: what the start sends, and K (d + 2) numbers a round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unpooled.kernels.centers import movement
from unpooled.protocols import sums
from unpooled.protocols.centroids import refuse_silence
from unpooled.protocols.oneshot import OneShotKMeans
from unpooled.protocols.star import Coordinator, StarProtocol, Step
from unpooled.types import FloatArray, in_c_order
from unpooled.wire.message import Ask, Note
from unpooled.wire.policy import Release, Size


@dataclass(frozen=True, eq=False)
class FederatedKMeans(StarProtocol):
    """The protocol; ``start`` finds the first centres, or is them."""

    start: OneShotKMeans | FloatArray
    max_rounds: int = 100
    tol: float = 1e-4
    name: ClassVar[str] = "federated k-means"

    @property
    def releases(self) -> tuple[Release, ...]:
        start = self.start.releases if isinstance(self.start, OneShotKMeans) else ()
        return (*start, sums.release(self._clusters))

    @property
    def asks(self) -> tuple[Release, ...]:
        start = self.start.asks if isinstance(self.start, OneShotKMeans) else ()
        return (*start, sums.question(self._clusters))

    @property
    def _clusters(self) -> Size:
        return self.start.found if isinstance(self.start, OneShotKMeans) else len(self.start)

    @property
    def steps(self) -> Mapping[str, Step]:
        start = self.start.steps if isinstance(self.start, OneShotKMeans) else {}
        return {**start, "sums": sums.cluster_sums}

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        if isinstance(self.start, OneShotKMeans):
            centers = (yield from self.start.one_shot(rng))["centers"]
        else:
            centers = in_c_order(self.start)
        converged = False
        relocations = len(centers)  # of empty clusters; more would be going round in circles
        for number in range(self.max_rounds):
            replies = yield Ask("sums", {"centers": centers}, number)
            total, counts, scatter = sums.added(replies)
            if not counts.any():  # every party holds back everything
                refuse_silence(number)
                break
            fresh = sums.means(total, counts, scatter, centers, rng if relocations > 0 else None)
            relocations -= int((counts == 0).sum())
            moved = movement(centers, fresh)
            typical = float(np.sqrt(scatter.sum() / counts.sum()))
            yield Note(number, {"cost": np.array(scatter.sum()), "movement": np.array(moved)})
            centers = fresh
            converged = moved <= self.tol * typical
            if converged:
                break
        return {
            "centers": centers,
            "rounds": np.array(number + 1),
            "converged": np.array(converged),
        }
