"""Whole kernel k-means fits against one draw of random features and one k-means on them.

Covertype, 100,000 rows x 54 (columns scaled to [0, 1]) at five parties, D = 256, s = 10, k = 7. The
peer is scikit-learn's ``RBFSampler(n_components=256).fit_transform`` and ``KMeans(7, n_init=1)`` on
the pooled rows. Runs alternate; the ratio of medians is shown. Then the memory that a fit takes
beside the data (tracemalloc's peak) against 1.5 times (embedding + one copy of the rows) + 64 MiB,
and the time for a quarter and a half of the rows.

    UNPOOLED_DATA=folder python benchmarks/kernel.py [--runs 5]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from statistics import median

import numpy as np
from joblib import cpu_count
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import RBFSampler

from unpooled import KernelKMeans, datasets

PARTIES, CLUSTERS, FEATURES, COMPONENTS = 5, 7, 256, 10


def rows() -> np.ndarray:
    X = datasets.load("covtype_100k").X
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0)


def peer(X: np.ndarray, gamma: float) -> None:
    sampler = RBFSampler(gamma=gamma, n_components=FEATURES, random_state=0)
    KMeans(CLUSTERS, n_init=1, random_state=0).fit(sampler.fit_transform(X))


def ours(X: np.ndarray) -> KernelKMeans:
    model = KernelKMeans(CLUSTERS, n_features=FEATURES, n_components=COMPONENTS, random_state=0)
    return model.fit(X, groups=np.arange(len(X)) % PARTIES)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    X = rows()
    gamma = ours(X).gamma_  # and everything is warm
    taken: dict[str, list[float]] = {"peer": [], "ours": []}
    for _ in range(options.runs):
        taken["peer"].append(seconds(lambda: peer(X, gamma)))
        taken["ours"].append(seconds(lambda: ours(X)))
    print(
        f"{len(X)} rows x {X.shape[1]}, D = {FEATURES}, s = {COMPONENTS}, k = {CLUSTERS}, "
        f"{cpu_count()} cores, median of {options.runs}"
    )
    theirs, own = median(taken["peer"]), median(taken["ours"])
    print(f"RBFSampler and KMeans(n_init=1)   {theirs:6.2f} s")
    print(f"KernelKMeans                      {own:6.2f} s   ratio {own / theirs:.2f} (bar: 3)")

    tracemalloc.start()
    ours(X)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    allowed = 1.5 * 8 * len(X) * (COMPONENTS + X.shape[1]) / 2**20 + 64
    print(f"memory beside the data            {peak:6.0f} MiB (bar: {allowed:.0f})")

    for n in (len(X) // 4, len(X) // 2, len(X)):
        part = np.ascontiguousarray(X[:: len(X) // n][:n])
        spent = median(seconds(lambda part=part: ours(part)) for _ in range(options.runs))
        print(f"{n:7} rows                      {spent:6.2f} s   {1e6 * spent / n:.1f} us a row")


if __name__ == "__main__":
    main()
