"""Distributed k-means by ADMM (Forero, Cano & Giannakis 2011): users agree exactly.

They minimise sum_i sum_k sum_{r in C_i(k)} w_ir |x_i(k) - y_ir|^2 / 2 subject to x_i(k) = x_j(k) on
every edge. Each side of an edge has a dual variable. These enter only through their sum p_i(k) over
a user's edges, so a user keeps this sum. A round assigns rows to the nearest own centre, exchanges
centres once, and with eta > 0 does

    p_i(k) <- p_i(k) + eta sum_{j in N_i} (x_i(k) - x_j(k))

    x_i(k) <- ( sum_{r in C_i(k)} w_ir y_ir - p_i(k) + eta sum_{j in N_i} (x_i(k) + x_j(k)) )
              / ( W_i(k) + 2 eta |N_i| ),        W_i(k) = sum_{r in C_i(k)} w_ir.

The p_i(k) sum to zero over users, so a fixed point is a Lloyd point of the pooled rows. For fixed
clusters this converges for every eta; with clusters that change it is a heuristic, and a good one.
``eta=None`` takes max_i W_i / K, the weight of a cluster at the largest user.

**Lost messages.** The p_i(k) sum to zero only if both sides of a link hear an exchange or neither
does. A message lost one way leaves a lasting error, so it must be retransmitted.

**Stopping.** The remaining distance is the larger of two: a round's movement over the pace,
W / (W + 2 eta |N_i|), and how far a user is from the mean of its neighbours. So users that stop
have come to rest and agree.

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
from unpooled.protocols.mesh.shared.global_bounds import GlobalBounds, find_bounds
from unpooled.protocols.mesh.shared.rounds import CentersProtocol, farthest, round_summary
from unpooled.protocols.mesh.shared.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray

_LOSS = SquaredEuclidean()


@dataclass(frozen=True, kw_only=True)
class ADMMKMeans(CentersProtocol):
    """The parameters of the module's text; ``eta=None`` takes the value given there."""

    name = "admm"

    eta: float | None = None

    @property
    def needed_bounds(self) -> tuple[str, ...]:
        auto, stops = self.eta is None, self.tol > 0
        return (*(("weight",) if auto or stops else ()), *(("spread",) if stops else ()))

    def peer(self, block: Block) -> Peer[Body]:
        """The algorithm as the users of one block run it."""
        parties, links = block.parties, np.maximum(block.neighbourhood.degrees, 1)
        x = yield from self.start.find(block, _LOSS)
        bounds = yield from find_bounds(block, x, self.needed_bounds)
        eta = self._eta(block, bounds)
        pace = self._pace(block, eta, bounds)
        stopping = Stopping(block, self.tol, bounds.get("spread", np.zeros(len(block))))
        p = np.zeros_like(x)
        labels: IntArray = np.full(len(parties.rows), -1)

        for t in range(self.max_rounds):
            x_before, labels_before = x, labels
            labels = nearest(parties.rows, parties.owner, x)
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            heard = yield from stopping.exchange(t, x)
            disagreement = heard.disagreement("centers")
            degrees = heard.degrees[:, None]
            p = stopping.move(p, p + eta * disagreement)
            # eta sum_j (x_i + x_j), from the disagreement sum_j (x_i - x_j)
            pull = eta * (2.0 * degrees[..., None] * x - disagreement)
            mass = clusters.weights() + 2.0 * eta[..., 0] * degrees
            x = stopping.move(x, means_or_keep(clusters(parties.rows) - p + pull, mass, x))

            note = round_summary(block, _LOSS, (x_before, labels_before), (x, labels))
            yield Note(t, note)
            distance = np.maximum(note["movement"] / pace, farthest(disagreement) / links)
            if stopping.end_round(distance, note["changed"]):
                break

        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def _eta(self, block: Block, bounds: GlobalBounds) -> FloatArray:
        if self.eta is not None:
            return np.full((len(block), 1, 1), self.eta)
        return bounds["weight"][..., None] / self.start.n_clusters

    def _pace(self, block: Block, eta: FloatArray, bounds: GlobalBounds) -> FloatArray:
        if "weight" not in bounds:
            return np.ones(len(block))
        weight = bounds["weight"][:, 0]
        pull = 2.0 * eta[:, 0, 0] * block.neighbourhood.degrees
        return np.where(weight > 0, weight / np.maximum(weight + pull, np.finfo(float).tiny), 1.0)
