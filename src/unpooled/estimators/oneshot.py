"""The front door to one-shot k-means."""

from __future__ import annotations

from typing import Any

from unpooled.checks import flag, whole, whole_or_none
from unpooled.estimators.star import StarEstimator
from unpooled.protocols import oneshot
from unpooled.types import Parties


class OneShotKMeans(StarEstimator):
    """placeholder"""

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        local_clusters: int | None = None,
        n_init: int = 10,
        refine: bool = False,
        policy: Any = "study",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.local_clusters = local_clusters
        self.n_init = n_init
        self.refine = refine
        self.policy = policy
        self.random_state = random_state

    def _protocol(self, n_clusters: int, parties: Parties) -> oneshot.OneShotKMeans:
        return oneshot.OneShotKMeans(
            n_clusters,
            whole_or_none("local_clusters", self.local_clusters, 1) or n_clusters,
            n_init=whole("n_init", self.n_init, 1),
            refine=flag("refine", self.refine),
        )
