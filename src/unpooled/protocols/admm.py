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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.kernels.assignment import nearest
from unpooled.kernels.segments import ClusterSums, means_or_keep
from unpooled.losses import SquaredEuclidean
from unpooled.protocols.limits import find_limits, limits_releases
from unpooled.protocols.mesh import Block, MeshProtocol, Peer
from unpooled.protocols.rounds import centers_release, compare
from unpooled.protocols.starts import Start
from unpooled.protocols.stopping import Stopping
from unpooled.types import Body, IntArray
from unpooled.wire.message import Note, Post
from unpooled.wire.policy import Release

_LOSS = SquaredEuclidean()


@dataclass(frozen=True)
class ADMMKMeans(MeshProtocol):
    """The parameters."""

    name = "admm"

    start: Start
    eta: float = 1.0
    max_rounds: int = 1000
    tol: float = 1e-6

    @property
    def releases(self) -> tuple[Release, ...]:
        return (
            *self.start.releases,
            *limits_releases(_LOSS, ask=self.tol > 0),
            centers_release(self.start),
        )

    def peer(self, block: Block) -> Peer[Body]:
        """One block's part of the algorithm."""
        parties = block.parties
        x = yield from self.start.centers(block, _LOSS)
        limits = yield from find_limits(block, _LOSS, x, ask=self.tol > 0)
        stopping = Stopping(block, self.tol, limits.spread)
        p = np.zeros_like(x)
        labels: IntArray = np.full(len(parties.rows), -1)

        for t in range(self.max_rounds):
            x_before, labels_before = x, labels
            labels = nearest(parties.rows, parties.owner, x)
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            body = {"centers": x, **stopping.field()}
            heard = yield Post("centers", t, body, senders=stopping.running)
            stopping.hear(heard)
            apart = heard.disagreement("centers")
            p = stopping.step(heard, p, p + self.eta * apart)
            links = heard.degrees[:, None]
            pull = self.eta * (2.0 * links[..., None] * x - apart)  # eta sum_j (x_i + x_j)
            target = clusters(parties.rows) - p + pull
            solved = means_or_keep(target, clusters.weights() + 2.0 * self.eta * links, x)
            x = stopping.step(heard, x, solved)

            note = compare(block, _LOSS, (x_before, labels_before), (x, labels))
            yield Note(t, note)
            if stopping.end_round(note):
                break

        return {"centers": x, "rounds": stopping.rounds}
