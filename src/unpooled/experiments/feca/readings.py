"""Weaker readings of the baselines, to see which of them the FeCA paper may have run.

Plain readings do far better than the paper prints. These differ from them in one choice each, and
stand beside them as evidence; no other table shows them in the methods' place.

- Matched averaging here seeks pairs again with the means until they stay. "matched once": every
  party's centroids are paired with those of one party, and averaged, once.
- k-FED as published adds, to one party's centroids, those farthest from all chosen ones, then takes
  means. "any 15": 15 of all centroids at random instead. "no means": the chosen centroids
  themselves; with k' = k* that is "the centroids of one randomly chosen client", as the paper says.
- Fuzzy c-means here begins in every party by itself. "common start": 15 random rows, the same for
  all, as in pooled fuzzy c-means; no party could send them. The coordinator's k-means of version 2
  has one random start in place of ten good ones ("weak server").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from unpooled.types import FloatArray, IntArray

_LOCAL_STEPS = 30

Solver = Callable[[Sequence[FloatArray], int, int], FloatArray]
"""Centres from parties' rows, the number of clusters and a seed."""


@dataclass
class Reading:
    """A reading as an object that is fitted like the estimators."""

    solve: Solver
    n_clusters: int
    random_state: int = 0
    cluster_centers_: FloatArray = field(default_factory=lambda: np.empty((0, 0)), init=False)

    def fit(self, X: FloatArray, groups: IntArray) -> Reading:
        """Fits the rows of all groups."""
        parties = [X[groups == i] for i in np.unique(groups)]
        self.cluster_centers_ = self.solve(parties, self.n_clusters, self.random_state)
        return self


def weak_kfed(
    parties: Sequence[FloatArray],
    n_clusters: int,
    seed: int,
    *,
    local: int,
    farthest: bool,
    means: bool,
) -> FloatArray:
    """k-FED with one start in each party, and another choice of centroids."""
    rng = np.random.default_rng(seed)
    sets: list[FloatArray] = [_kmeans(rows, local, seed).cluster_centers_ for rows in parties]
    points = np.concatenate(sets)
    if farthest:
        chosen = sets[int(rng.integers(len(sets)))][:n_clusters]
        while len(chosen) < min(n_clusters, len(points)):
            apart = cdist(points, chosen).min(axis=1)
            chosen = np.vstack([chosen, points[int(np.argmax(apart))]])
    else:
        chosen = points[rng.permutation(len(points))[:n_clusters]]
    if not means:
        return chosen
    labels = cdist(points, chosen).argmin(axis=1)
    return np.array(
        [
            points[labels == k].mean(axis=0) if (labels == k).any() else chosen[k]
            for k in range(len(chosen))
        ]
    )


def weak_matching(parties: Sequence[FloatArray], n_clusters: int, seed: int) -> FloatArray:
    """Means of centroids that are paired with those of one party, drawn at random, once."""
    sets: list[FloatArray] = [_kmeans(rows, n_clusters, seed).cluster_centers_ for rows in parties]
    whole = [own for own in sets if len(own) == n_clusters] or [max(sets, key=len)]
    first = whole[int(np.random.default_rng(seed).integers(len(whole)))]
    sums, counts = np.zeros_like(first), np.zeros((len(first), 1))
    for own in sets:
        mine, theirs = linear_sum_assignment(cdist(own, first, "sqeuclidean"))
        sums[theirs] += own[mine]
        counts[theirs] += 1
    found: FloatArray = sums / counts
    return found


def weak_ffcm(
    parties: Sequence[FloatArray],
    n_clusters: int,
    seed: int,
    *,
    average: bool,
    rounds: int,
    common: bool,
) -> FloatArray:
    """Fuzzy c-means with a common start, or a coordinator whose k-means has one random start."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate(parties)
    start = rows[rng.choice(len(rows), n_clusters, replace=False)]
    starts = [
        start if common else own[rng.choice(len(own), min(n_clusters, len(own)), replace=False)]
        for own in parties
    ]
    for _ in range(rounds):
        found = [_fuzzy(own, begin) for own, begin in zip(parties, starts, strict=True)]
        if average:
            support = np.array([own for _, own in found])[..., None]
            start = (support * np.array([own for own, _ in found])).sum(axis=0) / support.sum(
                axis=0
            )
        else:
            heard = np.concatenate([own for own, _ in found])
            start = _kmeans(heard, n_clusters, seed, init="random").cluster_centers_
        starts = [start] * len(parties)
    return start


def _kmeans(rows: FloatArray, n_clusters: int, seed: int, init: str = "k-means++") -> Any:
    few = min(n_clusters, len(np.unique(rows, axis=0)))
    return KMeans(few, init=init, n_init=1, random_state=seed).fit(rows)


def _fuzzy(rows: FloatArray, centers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Steps of fuzzy c-means with fuzzifier 2: centres and their support."""
    support = np.ones(len(centers))
    for _ in range(_LOCAL_STEPS):
        inverse = 1 / np.maximum(cdist(rows, centers, "sqeuclidean"), 1e-12)
        members = (inverse / inverse.sum(axis=1, keepdims=True)) ** 2
        support = members.sum(axis=0)
        centers = members.T @ rows / support[:, None]
    return centers, support


def _of(solve: Callable[..., FloatArray], **choices: Any) -> Callable[..., Reading]:
    return partial(Reading, partial(solve, **choices))


def _any(local: int, n_clusters: int, random_state: int) -> Reading:
    return _of(weak_kfed, local=local, farthest=False, means=True)(n_clusters, random_state)


def _no_means(local: int, n_clusters: int, random_state: int) -> Reading:
    return _of(weak_kfed, local=local, farthest=True, means=False)(n_clusters, random_state)


KFED_CHOICES = {"k-FED, any 15": _any, "k-FED, no means": _no_means}
"""Other choices of k-FED's coordinator, for any k'."""
READINGS: dict[str, tuple[Callable[..., Reading], str]] = {
    "M-Avg, matched once": (_of(weak_matching), "M-Avg"),
    "k-FED, 1 start": (_of(weak_kfed, local=5, farthest=True, means=True), "k-FED"),
    **{f"{name}, k' = 5": (partial(make, 5), "k-FED") for name, make in KFED_CHOICES.items()},
    "k-FED, any 15, no means": (_of(weak_kfed, local=5, farthest=False, means=False), "k-FED"),
    "k-FED, one client": (_of(weak_kfed, local=15, farthest=True, means=False), "k-FED"),
    "FFCM v1, 1 round, common start": (
        _of(weak_ffcm, average=True, rounds=1, common=True),
        "FFCM v1, 1 round",
    ),
    "FFCM v1, 10 rounds, common start": (
        _of(weak_ffcm, average=True, rounds=10, common=True),
        "FFCM v1, 10 rounds",
    ),
    "FFCM v2, 1 round, weak server": (
        _of(weak_ffcm, average=False, rounds=1, common=False),
        "FFCM v2, 1 round",
    ),
    "FFCM v2, 1 round, common start, weak server": (
        _of(weak_ffcm, average=False, rounds=1, common=True),
        "FFCM v2, 1 round",
    ),
    "FFCM v2, 10 rounds, common start, weak server": (
        _of(weak_ffcm, average=False, rounds=10, common=True),
        "FFCM v2, 10 rounds",
    ),
}
"""How to make each, and the row of the paper that it is compared with."""
