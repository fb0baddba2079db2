"""The races of `make bench`, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import work
from timing import Clock, Group, Peer, Race, per_round, seconds
from work import Setting, Tables, digits, images, long_table, middling, of_clients, tiny, wide

from unpooled import FeCA, OneShotKMeans
from unpooled.losses import Huber

sklearn, faiss, numpy = partial(Peer, "sklearn"), partial(Peer, "faiss"), partial(Peer, "numpy")


def race(name: str, what: str, clock: Clock, *peers: Peer, runs: int = 5) -> Race:
    return Race(name, what, clock, peers, runs)


# Clocks that start when the data are there.


def whole(run: Callable[[Any], object], data: Callable[[], Any]) -> Clock:
    return lambda: seconds(partial(run, data()))


def rounds(
    run: Callable[[Any, int], int], data: Callable[[], Setting], most: int = 31, times: int = 1
) -> Clock:
    """``times`` is for fits that are over too soon to be timed."""

    def fits(setting: Setting, rounds: int) -> int:
        return sum(run(setting, rounds) for _ in range(times))

    return lambda: per_round(partial(fits, data()), 1, most)


def importing(module: str) -> Clock:
    return whole(work.fresh_process, lambda: f"import {module}")


# What there is several of.


def lloyd(data: Callable[[], Setting], bar: float | None = None, times: int = 1) -> Peer:
    clock = rounds(work.lloyd, data, times=times)
    return sklearn("a Lloyd iteration of scikit-learn", clock, bar)


def later_round(name: str, loss: Any, called: str) -> Race:
    clock = partial(work.dgc_later_round, loss)
    return race(name, f"rounds 100 to 300 of DGC, {called}", clock, lloyd(images, 0.7))


def restarts(name: str, what: str, data: Callable[[], Tables]) -> Race:
    return race(
        name,
        f"our k-means, best of 10, {what}",
        whole(work.our_restarts, data),
        sklearn("scikit-learn's KMeans(n_init=10)", whole(work.sklearn_restarts, data)),
        faiss("Faiss' Kmeans(nredo=10)", whole(work.faiss_restarts, data)),
    )


def one_shot(name: str, method: type) -> Race:
    return race(
        name,
        f"a fit of {method.__name__}",
        whole(partial(work.one_shot, method), of_clients),
        sklearn("scikit-learn's fits of the clients", whole(work.sklearn_of_all, of_clients)),
        faiss("Faiss' fits of the clients", whole(work.faiss_of_all, of_clients)),
        runs=3,
    )


PAGE = (
    Group(
        "MNIST, digits 0-6: 7,000 rows x 784 in 0..1, 7 clusters, 10 users on a ring, rho = 10",
        (
            race(
                "dgc-kmeans",
                "a round of DGC, of 4,000",
                work.dgc_round,
                lloyd(images, 1 / 50),
                numpy("a round of a NumPy loop", work.plain_dgc_round),
            ),
            race(
                "dgc-kmeans-fit",
                "a fit of DGC, 4,000 rounds",
                work.dgc_fit,
                sklearn("KMeans(n_init=10) of all rows", whole(work.pooled_fit, images), 1.0),
                runs=3,
            ),
            later_round("dgc-huber", Huber(5.0), "Huber loss (delta 5: one row in ten nearer)"),
            later_round("dgc-logistic", "logistic", "logistic loss"),
            later_round("dgc-fair", "fair", "fair loss"),
            restarts("kmeans-wide", "21 clusters of one user's rows", wide),
        ),
        needs="mnist",
    ),
    Group(
        "Tables with overlapping clusters, one after the other",
        (
            restarts("kmeans-tiny", "50 tables of 100 rows x 8, 30 clusters", tiny),
            restarts("kmeans-table", "5,000 rows x 32, 20 clusters", middling),
        ),
    ),
    Group(
        "100 clients of 5,000 rows x 32, 20 clusters, n_init = 1, side by side on all cores",
        (one_shot("one-shot", OneShotKMeans), one_shot("feca", FeCA)),
    ),
    Group(
        "200,000 rows x 16 at 10 parties, 20 clusters",
        (
            race(
                "federated",
                "a round of FederatedKMeans",
                rounds(work.federated, long_table),
                lloyd(long_table),
                faiss("an iteration of Faiss' Kmeans", rounds(work.faiss_rounds, long_table)),
            ),
            race(
                "fuzzy",
                "a round of FuzzyCMeans, one step at each party",
                rounds(work.fuzzy, long_table, 11),
                numpy("a step in NumPy on all rows", rounds(work.plain_fuzzy, long_table, 11)),
            ),
        ),
    ),
    Group(
        "scikit-learn's digits: 1,797 rows x 64, 10 clusters, 10 users on a ring",
        (
            race(
                "gossip",
                "an exchange of GossipKMeans",
                rounds(work.gossip, digits, times=3),
                lloyd(digits, times=20),
            ),
            race(
                "first-fit",
                "a process's first fit of DGC, 100 rounds, nothing compiled yet",
                work.first_fit,
                Peer("compiled", "the same, compiled before", work.first_fit_once_compiled),
                runs=3,
            ),
        ),
    ),
    Group(
        "Fresh processes",
        (
            race(
                "import",
                "import unpooled",
                importing("unpooled"),
                sklearn("import sklearn.cluster", importing("sklearn.cluster"), 1.5),
                runs=7,
            ),
        ),
    ),
)
