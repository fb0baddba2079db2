"""The front door to k-means by ADMM."""

from __future__ import annotations

from typing import Any

from unpooled.checks import number, number_or, whole
from unpooled.estimators.mesh import MeshEstimator
from unpooled.losses import Loss, SquaredEuclidean
from unpooled.protocols import admm
from unpooled.protocols.starts import Start


class ADMMKMeans(MeshEstimator):
    """Peer-to-peer k-means by ADMM (Forero et al. 2011): users come to agree exactly.

    ``eta`` weighs agreement against fit while users are on the way; it changes the path, not the
    fixed points. "auto" is the weight of a cluster at the largest user. The other parameters and
    the attributes are those of :class:`~unpooled.DGC`; ``history_["cost"]`` is the k-means cost of
    the users' own centres, without a penalty, and may rise now and then.
    """

    penalised = False

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        eta: Any = "auto",
        graph: Any = "ring",
        init: Any = "dkm+c",
        init_rounds: int = 3,
        max_rounds: int = 1000,
        tol: float = 1e-6,
        policy: Any = "study",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.eta = eta
        self.graph = graph
        self.init = init
        self.init_rounds = init_rounds
        self.max_rounds = max_rounds
        self.tol = tol
        self.policy = policy
        self.verbose = verbose
        self.random_state = random_state

    def _loss(self) -> Loss:
        return SquaredEuclidean()

    def _protocol(self, start: Start, loss: Loss) -> admm.ADMMKMeans:
        return admm.ADMMKMeans(
            start=start,
            eta=number_or("auto", "eta", self.eta),
            max_rounds=whole("max_rounds", self.max_rounds, 1),
            tol=number("tol", self.tol),
        )
