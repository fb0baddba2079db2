"""Whole one-shot fits against the scikit-learn fits inside them.

1,000 clients hold 5,000 rows each (d = 32, k = 20). The peer runs the clients' k-means with
scikit-learn and joblib on all cores, one thread each, and nothing else: no reading of the data, no
messages, no refinement, no aggregation, no labels. Runs alternate; the ratio of medians is shown.

    python benchmarks/one_shot.py [--clients 1000] [--rows 5000] [--runs 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from joblib import Parallel, cpu_count, delayed
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from unpooled import FeCA, OneShotKMeans

FEATURES, CLUSTERS = 32, 20


def clients(n_clients: int, n_rows: int) -> list[np.ndarray]:
    """Rows about 20 places that overlap, of which each client prefers some."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(CLUSTERS, FEATURES)) * 1.5
    tables = []
    for _ in range(n_clients):
        shares = rng.dirichlet(np.full(CLUSTERS, 0.5))
        members = rng.choice(CLUSTERS, size=n_rows, p=shares)
        tables.append(places[members] + rng.normal(size=(n_rows, FEATURES)))
    return tables


def one_fit(rows: np.ndarray, n_init: int, seed: int) -> np.ndarray:
    with threadpool_limits(1):
        return KMeans(CLUSTERS, n_init=n_init, random_state=seed).fit(rows).cluster_centers_


def bare_fits(tables: list[np.ndarray], n_init: int) -> None:
    Parallel(cpu_count())(delayed(one_fit)(rows, n_init, i) for i, rows in enumerate(tables))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    tables = clients(options.clients, options.rows)
    work = {
        "scikit-learn's fits alone": lambda: bare_fits(tables, options.starts),
        "FeCA": lambda: FeCA(CLUSTERS, n_init=options.starts, random_state=0).fit(tables),
        "OneShotKMeans": lambda: OneShotKMeans(CLUSTERS, n_init=options.starts, random_state=0).fit(
            tables
        ),
    }
    bare_fits(tables[:4], 1)  # joblib's processes start before the clock does
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(options.runs):
        for name, run in work.items():
            taken[name].append(seconds(run))
    peer = median(taken["scikit-learn's fits alone"])
    print(
        f"{options.clients} clients x {options.rows} rows, d = {FEATURES}, k = {CLUSTERS}, "
        f"n_init = {options.starts}, {cpu_count()} cores, median of {options.runs}"
    )
    for name, times in taken.items():
        print(f"{name:28}{median(times):8.1f} s   ratio {median(times) / peer:.2f}")


if __name__ == "__main__":
    main()
