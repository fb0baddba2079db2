"""The front door to the method of Kar & Swenson."""

from __future__ import annotations

from typing import Any

from unpooled.checks import number, number_or, whole
from unpooled.estimators.mesh import MeshEstimator
from unpooled.losses import Loss, SquaredEuclidean
from unpooled.protocols import kar_swenson
from unpooled.protocols.starts import Start


class KarSwenson(MeshEstimator):
    """Peer-to-peer k-means of Kar & Swenson (2019): DGC with a step per user and cluster.

    Parameters and attributes are those of :class:`~unpooled.DGC`, where it has them; ``step_size``
    is the alpha of :mod:`unpooled.protocols.kar_swenson`.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        rho: float = 10.0,
        graph: Any = "ring",
        init: Any = "dkm+c",
        init_rounds: int = 3,
        step_size: Any = "auto",
        max_rounds: int = 1000,
        tol: float = 1e-6,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.rho = rho
        self.graph = graph
        self.init = init
        self.init_rounds = init_rounds
        self.step_size = step_size
        self.max_rounds = max_rounds
        self.tol = tol
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self) -> Loss:
        return SquaredEuclidean()

    def _protocol(self, start: Start, loss: Loss) -> kar_swenson.KarSwenson:
        return kar_swenson.KarSwenson(
            start=start,
            rho=number("rho", self.rho, above=0.0),
            step_size=number_or("auto", "step_size", self.step_size),
            max_rounds=whole("max_rounds", self.max_rounds, 1),
            tol=number("tol", self.tol),
        )
