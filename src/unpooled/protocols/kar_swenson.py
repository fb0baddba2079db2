"""Distributed k-means of Kar & Swenson (2019): DGC for k-means with a step per user and cluster.

The cost is J_rho of :mod:`unpooled.protocols.dgc` with f = |x - y|^2 / 2. A round assigns rows to
the nearest own centre, exchanges centres once, and steps

    x_i(k) <- x_i(k) - alpha_i(k) ( sum_{j in N_i} (x_i(k) - x_j(k))
                                    + 1/rho sum_{r in C_i(k)} w_ir (x_i(k) - y_ir) ),

    alpha_i(k) = alpha / (W_i(k)/rho + |N_i|),   W_i(k) = sum_{r in C_i(k)} w_ir,

    alpha < min_i |N_i| / (max_i W_i / rho + lambda_max(L)).

Large clusters take smaller steps, which DGC does for all clusters alike. A user alone has no
|N_i|; there alpha = 1, and the step is Lloyd's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.kernels.assignment import nearest
from unpooled.kernels.segments import ClusterSums
from unpooled.losses import SquaredEuclidean
from unpooled.protocols.limits import Limits, find_limits, limits_releases
from unpooled.protocols.mesh import Block, MeshProtocol, Peer
from unpooled.protocols.rounds import centers_release, compare
from unpooled.protocols.starts import Start
from unpooled.protocols.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray
from unpooled.wire.message import Note, Post
from unpooled.wire.policy import Release

_LOSS = SquaredEuclidean()


@dataclass(frozen=True)
class KarSwenson(MeshProtocol):
    """The parameters; ``step_size=None`` takes alpha at its bound."""

    name = "kar-swenson"

    start: Start
    rho: float = 10.0
    step_size: float | None = None
    max_rounds: int = 1000
    tol: float = 1e-6

    @property
    def asks_limits(self) -> bool:
        """Whether anything that users have to ask each other for is needed."""
        return self.step_size is None or self.tol > 0

    @property
    def releases(self) -> tuple[Release, ...]:
        return (
            *self.start.releases,
            *limits_releases(_LOSS, ask=self.asks_limits),
            centers_release(self.start),
        )

    def peer(self, block: Block) -> Peer[Body]:
        """One block's part of the algorithm."""
        parties = block.parties
        x = yield from self.start.centers(block, _LOSS)
        limits = yield from find_limits(block, _LOSS, x, ask=self.asks_limits)
        alpha = self._alpha(limits)
        stopping = Stopping(block, self.tol, limits.spread)
        labels: IntArray = np.full(len(parties.rows), -1)

        for t in range(self.max_rounds):
            x_before, labels_before = x, labels
            labels = nearest(parties.rows, parties.owner, x)
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            body = {"centers": x, **stopping.field()}
            heard = yield Post("centers", t, body, senders=stopping.running)
            stopping.hear(heard)
            innovation = clusters(x[parties.owner, labels] - parties.rows)
            gradient = heard.disagreement("centers") + innovation / self.rho
            stiffness = clusters.weights() / self.rho + heard.degrees[:, None]
            steps = np.divide(alpha, stiffness, out=np.zeros_like(stiffness), where=stiffness > 0)
            x = stopping.step(heard, x, x - steps[..., None] * gradient)

            note = compare(block, _LOSS, (x_before, labels_before), (x, labels), self.rho)
            yield Note(t, note)
            if stopping.end_round(note):
                break

        return {"centers": x, "rounds": stopping.rounds}

    def _alpha(self, limits: Limits) -> FloatArray:
        if self.step_size is not None:
            return np.full((len(limits.weight), 1), self.step_size)
        bound = limits.weight / self.rho + limits.edge_degree
        linked = limits.fewest_links > 0
        alpha = np.divide(limits.fewest_links, bound, out=np.ones_like(bound), where=linked)
        return alpha[:, None]
