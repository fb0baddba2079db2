"""The methods that are compared, and what is measured of a fit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin_min
from threadpoolctl import threadpool_limits

from unpooled import catalog, metrics
from unpooled.errors import UnpooledError
from unpooled.experiments.comparison.data import dealt, sample
from unpooled.types import FloatArray, IntArray

POOLED = "pooled k-means"
KERNELS = ("KernelKMeans", "RandomFeatureKMeans", "KernelPCAKMeans")
"""Methods whose centres are points of another space."""
SHOW_ROWS = ("CoresetKMeans", "RandomFeatureKMeans", "KernelPCAKMeans")
"""Methods with a coordinator whose parties send rows, or features of rows (under ``study``)."""


@dataclass(frozen=True)
class Compared:
    """A method as it is compared: with its defaults, but for what makes a variant of it."""

    title: str
    estimator: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def role(self) -> str:
        """ "star" (with a coordinator) or "mesh" (peer to peer)."""
        return catalog.find(self.estimator).role

    def model(self, n_clusters: int, seed: int) -> Any:
        """The estimator."""
        given = {"graph": "ring"} if self.role == "mesh" else {}
        make = catalog.find(self.estimator).estimator
        return make(n_clusters, random_state=seed, **given, **self.options)


COMPARED = {
    method.title: method
    for method in (
        Compared("OneShotKMeans", "OneShotKMeans"),
        Compared("OneShotKMeans, refined", "OneShotKMeans", {"refine": True}),
        *(
            Compared(name, name)
            for name in (
                "FederatedKMeans",
                "FeCA",
                "KFED",
                "MatchedAveraging",
                "FuzzyCMeans",
                "CoresetKMeans",
                "KernelKMeans",
                "RandomFeatureKMeans",
                "KernelPCAKMeans",
                "GossipKMeans",
                "DGC",
                "KarSwenson",
                "ADMMKMeans",
            )
        ),
    )
}


def partition_cost(X: FloatArray, labels: IntArray) -> float:
    """Σ_k Σ_{i in k} |x_i - c_k|² with c_k the mean of the rows of cluster k."""
    cost = 0.0
    for k in np.unique(labels):
        rows = X[labels == k]
        cost += float(np.sum((rows - rows.mean(axis=0)) ** 2))
    return cost


def pooled_fit(file: str, seed: int, most: int) -> dict[str, float]:
    """k-means on all rows together, the reference."""
    rows = sample(file, seed, most)
    model = KMeans(len(np.unique(rows.y)), n_init=10, random_state=seed)
    with threadpool_limits(1):
        begin = process_time()
        model.fit(rows.X)
        seconds = process_time() - begin
    return _quality(rows.X, rows.y, model.labels_) | {"rows": len(rows.X), "seconds": seconds}


def deployed_fit(file: str, how: str, seed: int, method: str, most: int) -> dict[str, Any]:
    """The same where every party is its cells; ``refused`` says why where nothing came of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer centres than asked for; FeCA on cells
        try:
            found = compared_fit(file, how, seed, method, most, "deployment")
        except UnpooledError as error:
            return {"refused": str(error)}
    return {name: found[name] for name in ("cost", "nmi", "bytes")}


def compared_fit(
    file: str, how: str, seed: int, method: str, most: int, policy: str = "study"
) -> dict[str, Any]:
    """What one fit came to; ``center_cost`` is that of rows to their nearest centre."""
    rows = sample(file, seed, most)
    groups = dealt(rows, how, seed)
    model = COMPARED[method].model(len(np.unique(rows.y)), seed).set_params(policy=policy)
    with threadpool_limits(1):
        begin = process_time()
        model.fit(rows.X, groups=groups)
        seconds = process_time() - begin
    traffic = model.traffic_
    found: dict[str, Any] = _quality(rows.X, rows.y, np.asarray(model.labels_))
    if method not in KERNELS:
        distances = pairwise_distances_argmin_min(
            rows.X, model.cluster_centers_, metric="sqeuclidean"
        )[1]
        found["center_cost"] = float(distances.sum())
    return found | {
        "bytes": traffic.bytes_up,
        "floats": traffic.floats_up,
        "rounds": traffic.rounds,
        "parties": len(traffic.table),
        "seconds": seconds,
    }


def _quality(X: FloatArray, y: IntArray, labels: IntArray) -> dict[str, float]:
    return {
        "cost": partition_cost(X, labels),
        "nmi": metrics.nmi(y, labels),
        "accuracy": metrics.accuracy(y, labels),
    }
