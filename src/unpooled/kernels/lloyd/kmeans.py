"""k-means of one table: scikit-learn's, with its corner cases settled.

Lloyd's iteration and restarts are scikit-learn's, or for many restarts the same in compiled code
(:mod:`unpooled.kernels.compiled.restarts`). Added here are cases of few, repeated or weightless
rows, and centres that are exactly the means of the rows with their labels: so what a party sends
about a cluster is true of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn import config_context
from sklearn.cluster import KMeans

from unpooled.kernels.assignment.centers import squared_to_own
from unpooled.kernels.linalg.segments import sums_by_label
from unpooled.kernels.lloyd.seeding import Seeding
from unpooled.types import FloatArray, IntArray

WORTH_COMPILING: float = 50_000
"""The number of seeds, of all starts on all tables of a study, from which on compiled code runs
them. It takes half a second to load, and some more to compile the first time ever; scikit-learn
takes 40 µs or more for each seed beside the arithmetic, compiled code next to nothing."""
_LONG = 4096
"""Rows of a table on which matrix products, as in scikit-learn, are as fast as compiled code."""


@dataclass(frozen=True)
class Clustering:
    """Centres (k, d), and the centre of each row; -1 for a row without weight."""

    centers: FloatArray
    labels: IntArray
    counts: FloatArray
    """The weight of each cluster's rows."""


def cluster(
    rows: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    n_init: int,
    rng: np.random.Generator,
    tables: int = 1,
) -> Clustering:
    """The best of ``n_init`` runs of k-means.

    There are as many centres as were asked for, or as many as there are distinct rows; none is
    without rows. Rows of weight zero are as good as absent. ``tables`` is how many such tables the
    whole study clusters: all parties know it, so all agree on whether compiled code is used,
    whichever of them run in one process.
    """
    there = weights > 0
    if not there.all():
        inner = cluster(rows[there], weights[there], n_clusters, n_init, rng, tables)
        labels = np.full(len(rows), -1, dtype=np.int64)
        labels[there] = inner.labels
        return Clustering(inner.centers, labels, inner.counts)
    few = distinct_rows(rows, n_clusters)
    if few is not None:
        places, labels = few
        return Clustering(places, labels, np.bincount(labels, weights, len(places)).astype(float))
    seed = int(rng.integers(2**31 - 1))
    if tables * n_init * n_clusters >= WORTH_COMPILING and len(rows) <= _LONG:
        from unpooled.kernels.compiled.restarts import best_labels

        return means_of(rows, weights, best_labels(rows, weights, n_clusters, n_init, seed))
    model = KMeans(n_clusters, init=Seeding(weights), n_init=n_init, random_state=seed)
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return means_of(rows, weights, model.fit(rows, sample_weight=weights).labels_)


def means_of(rows: FloatArray, weights: FloatArray, labels: IntArray) -> Clustering:
    """The clustering with these labels; numbers that no row has are left out, -1 is no cluster."""
    used = np.flatnonzero(np.bincount(labels + 1)[1:])
    labels = renumbered(labels, used)
    sums, counts = sums_by_label(rows, weights, labels, len(used))
    return Clustering(sums / counts[:, None], labels, counts)


def renumbered(labels: IntArray, kept: IntArray) -> IntArray:
    """The labels ``kept`` as 0, 1, ... in this order; -1 for all others."""
    highest = max(int(labels.max(initial=-1)), int(kept.max(initial=-1)))
    place = np.full(highest + 2, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    return place[labels]  # -1 is the last place


def scatter_of(rows: FloatArray, weights: FloatArray, found: Clustering) -> FloatArray:
    """Σ w |x - c|² over the rows of each centre."""
    squared = weights * squared_to_own(rows, found.centers, found.labels)
    # Counted from label -1 on, which is left out.
    sums = np.bincount(found.labels + 1, squared, len(found.centers) + 1)[1:]
    return sums.astype(np.float64)


def distinct_rows(rows: FloatArray, most: int) -> tuple[FloatArray, IntArray] | None:
    """The distinct rows and which of them each row equals; None if there are more than ``most``."""
    few = rows[: 4 * most + 1]  # these almost always show that there are more
    with np.errstate(over="ignore", invalid="ignore"):
        sums = few.sum(axis=1)  # rows differ where these do
    if len(np.unique(sums)) > most:
        return None
    if len(rows) > len(few) and len(np.unique(few, axis=0)) > most:
        return None
    places, labels = np.unique(rows, axis=0, return_inverse=True)
    return (places, labels.reshape(-1).astype(np.int64)) if len(places) <= most else None
