"""Distributed k-means of Kar & Swenson (2019): DGC for k-means with a step per user and cluster.

The cost is J_rho of :mod:`unpooled.protocols.dgc` with f = |x - y|^2 / 2. A round assigns rows to
the nearest own centre, exchanges centres once, and steps

    x_i(k) <- x_i(k) - alpha_i(k) ( sum_{j in N_i} (x_i(k) - x_j(k))
                                    + 1/rho sum_{r in C_i(k)} w_ir (x_i(k) - y_ir) ),

    alpha_i(k) = alpha / (W_i(k)/rho + |N_i|),   W_i(k) = sum_{r in C_i(k)} w_ir,

    alpha < min_i |N_i| / (max_i W_i / rho + lambda_max(L)).

Large clusters take smaller steps, which DGC does for all clusters alike. A user alone has no
|N_i|; there alpha = 1, and the step is Lloyd's.

What leaves a user, and what can be read from it: see
:class:`unpooled.protocols.rounds.CentersProtocol`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.kernels.assignment import nearest
from unpooled.kernels.segments import ClusterSums
from unpooled.losses import SquaredEuclidean
from unpooled.protocols.limits import Limits, find_limits
from unpooled.protocols.mesh import Block, Peer
from unpooled.protocols.rounds import CentersProtocol, compare
from unpooled.protocols.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray
from unpooled.wire.message import Note

_LOSS = SquaredEuclidean()


@dataclass(frozen=True, kw_only=True)
class KarSwenson(CentersProtocol):
    """The parameters; ``step_size=None`` takes alpha at its bound."""

    name = "kar-swenson"

    rho: float = 10.0
    step_size: float | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        auto, stops = self.step_size is None, self.tol > 0
        return (
            *(("weight",) if auto or stops else ()),
            *(("edge degree", "loneliness") if auto else ()),
            *(("spread",) if stops else ()),
        )

    def peer(self, block: Block) -> Peer[Body]:
        """One block's part of the algorithm."""
        parties = block.parties
        x = yield from self.start.centers(block, _LOSS)
        limits = yield from find_limits(block, x, self.wanted)
        alpha = self._alpha(block, limits)
        pace = self._pace(block, alpha, limits)
        stopping = Stopping(block, self.tol, limits.get("spread", np.zeros(len(block))))
        labels: IntArray = np.full(len(parties.rows), -1)

        for t in range(self.max_rounds):
            x_before, labels_before = x, labels
            labels = nearest(parties.rows, parties.owner, x)
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            heard = yield from stopping.exchange(t, x)
            innovation = clusters(x[parties.owner, labels] - parties.rows)
            gradient = heard.disagreement("centers") + innovation / self.rho
            stiffness = clusters.weights() / self.rho + heard.degrees[:, None]
            steps = np.divide(alpha, stiffness, out=np.zeros_like(stiffness), where=stiffness > 0)
            x = stopping.move(x, x - steps[..., None] * gradient)

            note = compare(block, _LOSS, (x_before, labels_before), (x, labels), self.rho)
            yield Note(t, note)
            if stopping.end_round(note["movement"] / pace, note["changed"]):
                break

        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def _alpha(self, block: Block, limits: Limits) -> FloatArray:
        if self.step_size is not None:
            return np.full((len(block), 1), self.step_size)
        bound = limits["weight"] / self.rho + limits["edge degree"]
        fewest = -limits["loneliness"]
        return np.divide(fewest, bound, out=np.ones_like(bound), where=fewest > 0)

    def _pace(self, block: Block, alpha: FloatArray, limits: Limits) -> FloatArray:
        """The part of the way that centres go in a round: alpha w/(w + |N_i|), w = W/rho."""
        if "weight" not in limits:
            return np.ones(len(block))
        w = limits["weight"][:, 0] / self.rho
        pace = np.minimum(1.0, alpha[:, 0] * w / (w + block.neighbourhood.degrees))
        return np.where(pace > 0, pace, 1.0)
