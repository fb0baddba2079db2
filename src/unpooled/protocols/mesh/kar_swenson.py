"""Distributed k-means of Kar & Swenson (2019): DGC with a step size per user and cluster.

The cost is J_rho of :mod:`unpooled.protocols.mesh.dgc` with f = |x - y|^2 / 2. A round assigns rows
to the nearest own centre, exchanges centres once, and steps

    x_i(k) <- x_i(k) - alpha_i(k) ( sum_{j in N_i} (x_i(k) - x_j(k))
                                    + 1/rho sum_{r in C_i(k)} w_ir (x_i(k) - y_ir) ),

    alpha_i(k) = alpha / (W_i(k)/rho + |N_i|),   W_i(k) = sum_{r in C_i(k)} w_ir,

    alpha < min_i |N_i| / (max_i W_i / rho + lambda_max(L)).

Large clusters take smaller steps, while in DGC all clusters take the same. A user without links has
|N_i| = 0; there alpha = 1, and the step is Lloyd's.

The rounds are those of DGC. This file has what differs: the bounds that are needed, alpha, the
steps, and the pace by which a round's movement is divided to estimate the remaining distance.

What leaves a user, and what can be read from it: see
:class:`unpooled.protocols.mesh.shared.rounds.CentersProtocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unpooled.kernels.linalg.segments import ClusterSums
from unpooled.protocols.mesh.base import Block, Heard
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.shared.global_bounds import GlobalBounds
from unpooled.types import FloatArray


@dataclass(frozen=True, kw_only=True)
class KarSwenson(DGC):
    """DGC with other steps; ``step_size`` is alpha, None takes it at its bound."""

    name = "kar-swenson"
    by_cluster = True

    solver: str = field(default="plain", init=False)

    @property
    def needed_bounds(self) -> tuple[str, ...]:
        return (*super().needed_bounds, *(("minus degree",) if self.step_size is None else ()))

    def alpha(self, block: Block, bounds: GlobalBounds) -> FloatArray:
        """alpha of the formula above for each user."""
        if self.step_size is not None:
            return np.full((len(block), 1, 1), self.step_size)
        bound = bounds["weight"] / self.rho + bounds["edge degree"]
        min_degree = -bounds["minus degree"]
        alpha = np.divide(min_degree, bound, out=np.ones_like(bound), where=min_degree > 0)
        return alpha[..., None]

    def steps(self, alpha: FloatArray, clusters: ClusterSums, heard: Heard) -> FloatArray:
        """alpha_i(k), 0 for clusters without weight of users without links."""
        stiffness = clusters.weights()[..., None] / self.rho + heard.degrees[:, None, None]
        return np.divide(alpha, stiffness, out=np.zeros_like(stiffness), where=stiffness > 0)

    def pace(self, block: Block, alpha: FloatArray, bounds: GlobalBounds) -> FloatArray:
        """alpha w/(w + |N_i|) with w = W/rho, at most 1; 1 for users without any weight."""
        if "weight" not in bounds:
            return np.ones(len(block))
        w = bounds["weight"][:, 0] / self.rho
        pace = np.minimum(1.0, alpha[:, 0, 0] * w / (w + block.neighbourhood.degrees))
        return np.where(pace > 0, pace, 1.0)
