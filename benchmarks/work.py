"""What runs in the races of `make bench`: ours, and what it is compared with.

Work that goes in rounds is told how many there may be, and returns how many there were.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, cpu_count, delayed
from one_shot import CLUSTERS, bare_fits, clients
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from timing import per_round, seconds

from unpooled import DGC, FederatedKMeans, FuzzyCMeans, GossipKMeans
from unpooled.experiments.gossip.setting import FIRST_SEED, MNIST_RING
from unpooled.kernels.lloyd.kmeans import cluster
from unpooled.protocols.mesh import dgc as dgc_protocol

RHO = 10.0


@dataclass(frozen=True)
class Setting:
    """Rows, whose they are, and centres that all start from."""

    rows: np.ndarray
    groups: np.ndarray
    start: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, groups: np.ndarray, k: int) -> Setting:
        """With centres that are rows, drawn at random."""
        return cls(rows, groups, rows[np.random.default_rng(0).choice(len(rows), k, replace=False)])

    @property
    def k(self) -> int:
        return len(self.start)

    @cached_property
    def tables(self) -> list[np.ndarray]:
        return [self.rows[self.groups == user] for user in range(self.groups.max() + 1)]


@dataclass(frozen=True)
class Tables:
    """Tables that are clustered one by one."""

    tables: list[np.ndarray]
    k: int
    starts: int
    single: list[np.ndarray]
    """As Faiss takes them, in single precision."""
    iterations: int
    """As many as scikit-learn takes, since Faiss does not stop by itself."""

    @classmethod
    def of(cls, tables: list[np.ndarray], k: int, starts: int) -> Tables:
        fits = [KMeans(k, n_init=1, random_state=0).fit(rows) for rows in tables[:10]]
        single = [rows.astype(np.float32) for rows in tables]
        return cls(tables, k, starts, single, round(np.mean([fit.n_iter_ for fit in fits])))


def blobs(n_rows: int, width: int, n_places: int, seed: int = 0) -> np.ndarray:
    """Rows about places that overlap, so that k-means has something to do."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(n_places, width))
    return places[rng.integers(n_places, size=n_rows)] + rng.normal(size=(n_rows, width))


@cache
def images() -> Setting:
    return Setting.of(MNIST_RING.data.X, MNIST_RING.groups(FIRST_SEED), MNIST_RING.n_clusters)


@cache
def digits() -> Setting:
    rows = load_digits().data / 16.0
    return Setting.of(rows, np.arange(len(rows)) % 10, 10)


@cache
def long_table() -> Setting:
    rows = blobs(200_000, 16, 20)
    return Setting.of(rows, np.arange(len(rows)) % 10, 20)


@cache
def of_clients() -> Tables:
    return Tables.of(clients(100, 5000), CLUSTERS, starts=1)


@cache
def tiny() -> Tables:
    return Tables.of([blobs(100, 8, 30, seed) for seed in range(50)], 30, starts=10)


@cache
def middling() -> Tables:
    return Tables.of([blobs(5000, 32, 20)], 20, starts=10)


@cache
def wide() -> Tables:
    return Tables.of(images().tables[:1], 21, starts=10)


# DGC.


def dgc(setting: Setting, rounds: int, loss: Any = "kmeans") -> DGC:
    model = DGC(
        setting.k,
        rho=RHO,
        loss=loss,
        init=setting.start,
        max_rounds=rounds,
        tol=0.0,
        solver="plain",
    )
    return model.fit(setting.rows, groups=setting.groups)


def plain_dgc(setting: Setting, rounds: int) -> np.ndarray:
    """The same on a ring, with the k-means loss, as one would write it down."""
    numbers = np.arange(setting.k)
    x = np.stack([setting.start] * len(setting.tables))
    step = 1 / (max(map(len, setting.tables)) / RHO + 4)
    for _ in range(rounds):
        gradient = 2 * x - np.roll(x, 1, axis=0) - np.roll(x, -1, axis=0)
        for own, pull, rows in zip(x, gradient, setting.tables, strict=True):
            members = (squares(rows, own).argmin(axis=1)[:, None] == numbers).astype(float)
            pull += (members.sum(axis=0)[:, None] * own - members.T @ rows) / RHO
        x = x - step * gradient
    return x


def squares(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Squared distances, by a product of matrices."""
    own = np.square(rows).sum(axis=1)[:, None]
    return own - 2 * rows @ centers.T + np.square(centers).sum(axis=1)


@cache
def refuse_other_centers() -> None:
    """Both ways must give the same; in so many rounds that ours are compiled."""
    ours = dgc(images(), 200).peer_centers_
    np.testing.assert_allclose(plain_dgc(images(), 200), ours, rtol=0, atol=1e-9)


def dgc_fit() -> float:
    return seconds(partial(dgc, images(), 4000))


def pooled_fit(setting: Setting) -> None:
    KMeans(setting.k, n_init=10, random_state=0).fit(setting.rows)


def dgc_round() -> float:
    """A round of the whole fit without its set-up, for which a fit of one round stands."""
    with patch.object(dgc_protocol, "WORTH_COMPILING", 0):  # for one round it would not be
        return per_round(lambda rounds: dgc(images(), rounds).n_rounds_, 1, 4000)


def dgc_later_round(loss: Any) -> float:
    return per_round(lambda rounds: dgc(images(), rounds, loss).n_rounds_, 100, 300)


def plain_dgc_round() -> float:
    refuse_other_centers()
    return seconds(lambda: plain_dgc(images(), 30)) / 30


# Peers, and what else goes in rounds.


def lloyd(setting: Setting, iterations: int) -> int:
    start = setting.start
    model = KMeans(setting.k, init=start, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd")
    return model.fit(setting.rows).n_iter_


def federated(setting: Setting, rounds: int) -> int:
    model = FederatedKMeans(setting.k, init=setting.start, max_rounds=rounds, tol=0.0)
    return model.fit(setting.rows, groups=setting.groups).n_rounds_


def gossip(setting: Setting, steps: int) -> int:
    """Exchanges, of which a Lloyd step takes several."""
    model = GossipKMeans(setting.k, init=setting.start, max_rounds=steps, tol=0.0)
    return model.fit(setting.rows, groups=setting.groups).traffic_.rounds


def fuzzy(setting: Setting, rounds: int) -> int:
    """With one local step, rounds are steps of fuzzy c-means on the pooled rows."""
    model = FuzzyCMeans(
        setting.k, merge="average", local_steps=1, max_rounds=rounds, tol=0.0, random_state=0
    )
    return model.fit(setting.rows, groups=setting.groups).n_rounds_


def plain_fuzzy(setting: Setting, steps: int) -> int:
    """The same with m = 2, as one would write it down."""
    rows, centers = setting.rows, setting.start + 0.01
    for _ in range(steps):
        squared = squares(rows, centers)
        degrees = np.square(1 / (squared * (1 / squared).sum(axis=1, keepdims=True)))
        centers = degrees.T @ rows / degrees.sum(axis=0)[:, None]
    return steps


def faiss_kmeans(rows: np.ndarray, k: int, iterations: int, **options: Any) -> Any:
    """On all rows: by default Faiss takes a sample."""
    import faiss

    return faiss.Kmeans(
        rows.shape[1],
        k,
        niter=iterations,
        min_points_per_centroid=1,
        max_points_per_centroid=len(rows),
        **options,
    )


def faiss_rounds(setting: Setting, iterations: int) -> int:
    rows, start = setting.rows.astype(np.float32), setting.start.astype(np.float32)
    faiss_kmeans(rows, setting.k, iterations).train(rows, init_centroids=start)
    return iterations


# Restarts of k-means, table by table.


def our_restarts(these: Tables) -> None:
    for seed, rows in enumerate(these.tables):
        rng = np.random.default_rng(seed)
        cluster(rows, np.ones(len(rows)), these.k, these.starts, rng)


def sklearn_restarts(these: Tables) -> None:
    for seed, rows in enumerate(these.tables):
        KMeans(these.k, n_init=these.starts, random_state=seed).fit(rows)


def faiss_restarts(these: Tables) -> None:
    for rows in these.single:
        faiss_kmeans(rows, these.k, these.iterations, nredo=these.starts).train(rows)


def one_shot(method: type, these: Tables) -> None:
    method(these.k, n_init=these.starts, random_state=0).fit(these.tables)


def sklearn_of_all(these: Tables) -> None:
    bare_fits(these.tables, these.starts)


def faiss_of_all(these: Tables) -> None:
    """Each table on one core, as scikit-learn's."""

    def one(rows: np.ndarray) -> None:
        import faiss

        faiss.omp_set_num_threads(1)  # of this thread
        faiss_kmeans(rows, these.k, these.iterations, nredo=these.starts).train(rows)

    Parallel(cpu_count(), prefer="threads")(delayed(one)(rows) for rows in these.single)


# Starting.


FIRST_FIT = """
from time import perf_counter
from sklearn.datasets import load_digits
from unpooled import DGC
rows = load_digits().data
model = DGC(10, rho=10.0, init=rows[:10], solver="plain", max_rounds=100, tol=0.0)
began = perf_counter()
model.fit([rows[user::10] for user in range(10)])
print(perf_counter() - began)
"""


def fresh_process(code: str, **environment: str) -> str:
    """What a new interpreter prints."""
    command, there = [sys.executable, "-c", code], {**os.environ, **environment}
    return subprocess.run(command, env=there, capture_output=True, text=True, check=True).stdout


def first_fit() -> float:
    with tempfile.TemporaryDirectory() as empty:
        return float(fresh_process(FIRST_FIT, NUMBA_CACHE_DIR=empty))


def first_fit_once_compiled() -> float:
    return float(fresh_process(FIRST_FIT, NUMBA_CACHE_DIR=filled_cache().name))


@cache
def filled_cache() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    fresh_process(FIRST_FIT, NUMBA_CACHE_DIR=folder.name)
    return folder
