"""Defaults on data as sites have them: cost beside k-means of the pooled rows.

Data and splits: heart disease at its four hospitals (missing values replaced by medians, columns
standardised; 2 and 4 clusters), 3,000 of the CIFAR-10 features over ten parties by Dirichlet(0.3)
and (0.1), wine and breast cancer (standardised) over five and ten, digits over ten by
Dirichlet(0.3). The number of local clusters, the width of the common start, and rho and solver of
DGC were first chosen on other data (Iris, S4, MNIST, Covertype, Mushrooms). But the rules for small
k and the most of 64 local clusters came after a look at these problems with seeds from 0 on, and
the principal components that OneShotKMeans makes them in after one with seeds from 100 on. Seeds
100 to 109 gave the same means to 0.0005; data that none of this was chosen on are not here.

A cost is that of all rows at ``cluster_centers_``, over that of the best of twenty k-means of the
pooled rows. The bars are our own, for every line: OneShotKMeans 1.004 in the mean; GossipKMeans
1.002 in the mean and 1.005 at worst, whatever the graph; DGC 1.02 in the mean. Exchanges are means
over runs. KarSwenson and ADMMKMeans are there to be seen; they have no bar.

Data: heart_4sites.npz and cifar10_efflite0_features.npz in the folder that UNPOOLED_DATA names; the
others come with scikit-learn, and without such a folder they are all.

    unpooled reproduce held-out --runs 10
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from unpooled import (
    DGC,
    ADMMKMeans,
    GossipKMeans,
    KarSwenson,
    OneShotKMeans,
    datasets,
    partition,
)
from unpooled.types import FloatArray, IntArray

STARTS = 20
"""Of the pooled reference."""
CIFAR_ROWS = 3000


@dataclass(frozen=True)
class Data:
    """Rows, a class or a site for each, and the cost of pooled k-means."""

    X: FloatArray
    y: IntArray
    n_clusters: int
    pooled: float


@dataclass(frozen=True)
class Problem:
    """Rows at parties; ``alpha`` is None where the data have sites of their own."""

    title: str
    name: str
    n_clusters: int
    n_parties: int
    alpha: float | None

    def groups(self, seed: int) -> IntArray:
        """The party of each row."""
        y = rows(self.name, self.n_clusters).y
        if self.alpha is None:
            return y
        return partition.dirichlet(y, n_parties=self.n_parties, alpha=self.alpha, random_state=seed)


HELD_OUT = (
    Problem("heart, 4 hospitals, k=2", "heart_4sites", 2, 4, None),
    Problem("heart, 4 hospitals, k=4", "heart_4sites", 4, 4, None),
    Problem("CIFAR features (0.3)", "cifar10_efflite0_features", 10, 10, 0.3),
    Problem("CIFAR features (0.1)", "cifar10_efflite0_features", 10, 10, 0.1),
    Problem("wine, 5 parties (0.3)", "wine", 3, 5, 0.3),
    Problem("wine, 10 parties (0.3)", "wine", 3, 10, 0.3),
    Problem("breast cancer, 5 (0.3)", "breast_cancer", 2, 5, 0.3),
    Problem("breast cancer, 10 (0.3)", "breast_cancer", 2, 10, 0.3),
    Problem("digits, 10 parties (0.3)", "digits", 10, 10, 0.3),
)


@dataclass(frozen=True)
class Defaults:
    """A method with its defaults but for what it is fitted on, and its bars."""

    make: Callable[..., Any]
    mean: float = np.inf
    worst: float = np.inf


METHODS = {
    "OneShotKMeans": Defaults(OneShotKMeans, mean=1.004),
    "GossipKMeans, ring": Defaults(GossipKMeans, 1.002, 1.005),
    "GossipKMeans, path": Defaults(partial(GossipKMeans, graph="path"), 1.002, 1.005),
    "GossipKMeans, star": Defaults(partial(GossipKMeans, graph="star"), 1.002, 1.005),
    "DGC, ring": Defaults(DGC, mean=1.02),
    "KarSwenson, ring": Defaults(KarSwenson),
    "ADMMKMeans, ring": Defaults(ADMMKMeans),
}


@cache
def rows(name: str, n_clusters: int) -> Data:
    """The data set, prepared as the module's text says."""
    data = datasets.load(name)
    X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
    if name.startswith("heart"):
        X, y = np.where(np.isnan(X), np.nanmedian(X, axis=0), X), data.site.astype(np.int64)
    if name.startswith("cifar"):
        kept = np.random.default_rng(0).choice(len(X), CIFAR_ROWS, replace=False)
        X, y = X[kept], y[kept]
    if name not in ("digits", "cifar10_efflite0_features"):
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    pooled = KMeans(n_clusters, n_init=STARTS, random_state=0).fit(X).inertia_
    return Data(X, y, n_clusters, float(pooled))


def held_out_cost(make: Callable[..., Any], problem: Problem, seed: int) -> tuple[float, int]:
    """The cost of one run over that of pooled k-means, and its exchanges."""
    data = rows(problem.name, problem.n_clusters)
    model = make(problem.n_clusters, random_state=seed).fit(data.X, groups=problem.groups(seed))
    squared = cdist(data.X, model.cluster_centers_, "sqeuclidean").min(axis=1)
    return float(squared.sum()) / data.pooled, model.traffic_.rounds


def report(runs: int) -> Iterator[str]:
    """The tables, line by line as they get done."""
    yield f"$ unpooled reproduce held-out --runs {runs}"
    yield ""
    yield f"Cost over pooled KMeans(n_init={STARTS}), {runs} runs"
    there = datasets.available()
    for problem in HELD_OUT:
        yield ""
        if problem.name not in there:
            yield f"{problem.title}: UNPOOLED_DATA names no folder with {problem.name}.npz"
            continue
        yield f"{problem.title:26}{'mean':>8}{'worst':>9}{'exchanges':>11}"
        for label, method in METHODS.items():
            yield line(label, method, problem, runs)


def line(label: str, method: Defaults, problem: Problem, runs: int) -> str:
    """Mean and worst cost of a method on a problem, and whether its bars are met."""
    done = [held_out_cost(method.make, problem, seed) for seed in range(runs)]
    costs = [cost for cost, _ in done]
    mean, worst = float(np.mean(costs)), max(costs)
    exchanges = np.mean([number for _, number in done])
    verdict = "met" if mean <= method.mean and worst <= method.worst else "missed"
    verdict = verdict if method.mean < np.inf else ""
    return f"  {label:24}{mean:8.4f}{worst:9.4f}{exchanges:11.0f}   {verdict}".rstrip()
