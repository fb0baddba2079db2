"""Distributed k-means of Kar & Swenson (2019): DGC for k-means with a step per user and cluster.

The cost is J_rho of :mod:`unpooled.protocols.mesh.dgc` with f = |x - y|^2 / 2. A round assigns rows
to the nearest own centre, exchanges centres once, and steps

    x_i(k) <- x_i(k) - alpha_i(k) ( sum_{j in N_i} (x_i(k) - x_j(k))
                                    + 1/rho sum_{r in C_i(k)} w_ir (x_i(k) - y_ir) ),

    alpha_i(k) = alpha / (W_i(k)/rho + |N_i|),   W_i(k) = sum_{r in C_i(k)} w_ir,

    alpha < min_i |N_i| / (max_i W_i / rho + lambda_max(L)).

Large clusters take smaller steps, which DGC does for all clusters alike. A user alone has no
|N_i|; there alpha = 1, and the step is Lloyd's.

What leaves a user, and what can be read from it: see
:class:`unpooled.protocols.mesh.shared.rounds.CentersProtocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unpooled.kernels.linalg.segments import ClusterSums
from unpooled.protocols.mesh.base import Block, Heard
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.shared.global_bounds import Limits
from unpooled.types import FloatArray


@dataclass(frozen=True, kw_only=True)
class KarSwenson(DGC):
    """DGC with other steps; ``step_size`` is alpha, None takes it at its bound."""

    name = "kar-swenson"
    by_cluster = True

    solver: str = field(default="plain", init=False)

    @property
    def wanted(self) -> tuple[str, ...]:
        return (*super().wanted, *(("loneliness",) if self.step_size is None else ()))

    def alpha(self, block: Block, limits: Limits) -> FloatArray:
        """alpha of the formula above for each user."""
        if self.step_size is not None:
            return np.full((len(block), 1, 1), self.step_size)
        bound = limits["weight"] / self.rho + limits["edge degree"]
        fewest = -limits["loneliness"]
        alpha = np.divide(fewest, bound, out=np.ones_like(bound), where=fewest > 0)
        return alpha[..., None]

    def steps(self, alpha: FloatArray, clusters: ClusterSums, heard: Heard) -> FloatArray:
        """alpha_i(k), 0 where nothing pulls."""
        stiffness = clusters.weights()[..., None] / self.rho + heard.degrees[:, None, None]
        return np.divide(alpha, stiffness, out=np.zeros_like(stiffness), where=stiffness > 0)

    def pace(self, block: Block, alpha: FloatArray, limits: Limits) -> FloatArray:
        """alpha w/(w + |N_i|) with w = W/rho, at most 1; 1 where nothing is weighed."""
        if "weight" not in limits:
            return np.ones(len(block))
        w = limits["weight"][:, 0] / self.rho
        pace = np.minimum(1.0, alpha[:, 0, 0] * w / (w + block.neighbourhood.degrees))
        return np.where(pace > 0, pace, 1.0)
