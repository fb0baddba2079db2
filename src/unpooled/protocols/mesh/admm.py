"""Distributed k-means by ADMM (Forero, Cano & Giannakis 2011).

Users agree exactly: minimise sum_i sum_k sum_{r in C_i(k)} w_ir |x_i(k) - y_ir|^2 / 2 subject to
x_i(k) = x_j(k) on every edge. The duals of the two sides of an edge only ever enter through their
sum p_i(k) over a user's edges, so that is what a user keeps. A round assigns rows to the nearest
own centre, exchanges centres once, and with eta > 0 does

    p_i(k) <- p_i(k) + eta sum_{j in N_i} (x_i(k) - x_j(k))

    x_i(k) <- ( sum_{r in C_i(k)} w_ir y_ir - p_i(k) + eta sum_{j in N_i} (x_i(k) + x_j(k)) )
              / ( W_i(k) + 2 eta |N_i| ),        W_i(k) = sum_{r in C_i(k)} w_ir.

The p_i(k) sum to zero over users, so a fixed point is a Lloyd point of the pooled rows. For fixed
clusters this converges for every eta; with clusters that change it is a heuristic, and a good one.
``eta=None`` takes max_i W_i / K, the weight of a cluster at the largest user.

That the p_i(k) sum to zero needs every exchange to be heard by both sides of a link or by neither:
a message lost one way leaves a lasting error, so a driver must resend it.

**Stopping.** Besides standing still (a round goes W / (W + 2 eta |N_i|) of the way), users must
agree: how far a user is from the mean of its neighbours counts as way to go.

What leaves a user, and what can be read from it: see
:class:`unpooled.protocols.mesh.shared.rounds.CentersProtocol`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.kernels.assignment.nearest import nearest
from unpooled.kernels.linalg.segments import ClusterSums, means_or_keep
from unpooled.losses import SquaredEuclidean
from unpooled.messages.message import Note
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.shared.global_bounds import Limits, find_limits
from unpooled.protocols.mesh.shared.rounds import CentersProtocol, compare, farthest
from unpooled.protocols.mesh.shared.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray

_LOSS = SquaredEuclidean()


@dataclass(frozen=True, kw_only=True)
class ADMMKMeans(CentersProtocol):
    """The parameters."""

    name = "admm"

    eta: float | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        auto, stops = self.eta is None, self.tol > 0
        return (*(("weight",) if auto or stops else ()), *(("spread",) if stops else ()))

    def peer(self, block: Block) -> Peer[Body]:
        """One block's part of the algorithm."""
        parties, links = block.parties, np.maximum(block.neighbourhood.degrees, 1)
        x = yield from self.start.centers(block, _LOSS)
        limits = yield from find_limits(block, x, self.wanted)
        eta = self._eta(block, limits)
        pace = self._pace(block, eta, limits)
        stopping = Stopping(block, self.tol, limits.get("spread", np.zeros(len(block))))
        p = np.zeros_like(x)
        labels: IntArray = np.full(len(parties.rows), -1)

        for t in range(self.max_rounds):
            x_before, labels_before = x, labels
            labels = nearest(parties.rows, parties.owner, x)
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            heard = yield from stopping.exchange(t, x)
            apart = heard.disagreement("centers")
            degrees = heard.degrees[:, None]
            p = stopping.move(p, p + eta * apart)
            pull = eta * (2.0 * degrees[..., None] * x - apart)  # eta sum_j (x_i + x_j)
            mass = clusters.weights() + 2.0 * eta[..., 0] * degrees
            x = stopping.move(x, means_or_keep(clusters(parties.rows) - p + pull, mass, x))

            note = compare(block, _LOSS, (x_before, labels_before), (x, labels))
            yield Note(t, note)
            distance = np.maximum(note["movement"] / pace, farthest(apart) / links)
            if stopping.end_round(distance, note["changed"]):
                break

        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def _eta(self, block: Block, limits: Limits) -> FloatArray:
        if self.eta is not None:
            return np.full((len(block), 1, 1), self.eta)
        return limits["weight"][..., None] / self.start.n_clusters

    def _pace(self, block: Block, eta: FloatArray, limits: Limits) -> FloatArray:
        if "weight" not in limits:
            return np.ones(len(block))
        weight = limits["weight"][:, 0]
        pull = 2.0 * eta[:, 0, 0] * block.neighbourhood.degrees
        return np.where(weight > 0, weight / np.maximum(weight + pull, np.finfo(float).tiny), 1.0)
