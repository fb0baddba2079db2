"""How often GossipKMeans ends badly where users' rows are unlike: every run against pooled k-means.

Ten users on a ring; each class is split by Dirichlet(0.1), or every user has rows of two classes
only. A run is bad if its cost is more than 5 % above that of k-means on the pooled rows (best of
ten starts). Of MNIST there are the digits 0 to 6, 1000 rows each.

    unpooled reproduce gossip-quality --runs 100
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from sklearn.utils import Bunch

from unpooled import GossipKMeans, partition
from unpooled.experiments.gossip.setting import FIRST_SEED, center_cost, pooled_cost, rows_of
from unpooled.types import IntArray

QUALITY_USERS = 10
BAD = 1.05
QUALITY_SETS = {"s1": 15, "s2": 15, "digits": 10, "mnist": 7}
"""Files and numbers of clusters."""


def _dirichlet(y: IntArray, seed: int) -> IntArray:
    return partition.dirichlet(y, n_parties=QUALITY_USERS, alpha=0.1, random_state=seed)


def _two_classes(y: IntArray, seed: int) -> IntArray:
    return partition.by_class(y, n_parties=QUALITY_USERS, classes_per_party=2, random_state=seed)


USER_SPLITS: dict[str, Callable[[IntArray, int], IntArray]] = {
    "Dirichlet(0.1)": _dirichlet,
    "two classes each": _two_classes,
}


def report(runs: int) -> Iterator[str]:
    """The table, line by line as it gets done."""
    yield f"$ unpooled reproduce gossip-quality --runs {runs}"
    yield ""
    yield f"Cost over pooled k-means, ring of {QUALITY_USERS} users; bad is more than {BAD:g}"
    yield f"  {'':10}{'':18}{'runs':>6}{'bad':>6}{'mean':>10}{'worst':>10}"
    for name, n_clusters in QUALITY_SETS.items():
        data = rows_of(name)
        pooled = pooled_cost(data.X, n_clusters)
        for split in USER_SPLITS:
            seeds = range(FIRST_SEED, FIRST_SEED + runs)
            costs = [fitted_cost(data, n_clusters, split, seed) / pooled for seed in seeds]
            bad = sum(value > BAD for value in costs)
            yield (f"  {name:10}{split:18}{runs:6}{bad:6}{np.mean(costs):10.5f}{max(costs):10.5f}")


def fitted_cost(data: Bunch, n_clusters: int, split: str, seed: int) -> float:
    """One fit."""
    model = GossipKMeans(n_clusters, random_state=seed)
    model.fit(data.X, groups=USER_SPLITS[split](data.y, seed))
    return center_cost(data.X, model.cluster_centers_)
