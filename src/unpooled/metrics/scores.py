"""Scores of a clustering without known classes: silhouette, Calinski-Harabasz, Davies-Bouldin.

Each is computed from sums per cluster that parties would send: see :mod:`.sums`, where W_k, c_k and
S_k are defined.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.kernels.linalg.products import lengths
from unpooled.metrics.sums import ClusterMoments, LabelledRows, added_over_parties, summarise
from unpooled.types import FloatArray


def silhouette(X: Any, labels: Any, *, groups: Any = None, sample_weight: Any = None) -> float:
    """The mean silhouette in squared Euclidean distance, without pooling.

    The mean squared distance of x to the rows of cluster k is |x - c_k|² + S_k / W_k. So with l the
    cluster of x,

        a(x) = (W_l |x - c_l|² + S_l) / (W_l - 1),
        b(x) = min_{k ≠ l} |x - c_k|² + S_k / W_k,

    and the score is Σ w s / Σ w with s = (b - a) / max(a, b); s = 0 in a cluster whose weight is at
    most 1 and where a = b = 0. Equals scikit-learn's ``silhouette_score(metric="sqeuclidean")`` of
    the pooled rows.

    Parameters
    ----------
    X : array, data frame, or list, tuple or dict of these
        Rows in any form that the estimators take.
    labels : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    groups : array of shape (n,) or str, default=None
        The party of each row of one table, or the name of the column that has it, which is no
        feature then. Without it there is one party.
    sample_weight : array of shape (n,), or list, tuple or dict of these, default=None
        A weight for each row, in the container of ``X``; None weighs all rows alike.

    Returns
    -------
    score : float
        From -1 to 1, higher is better.
    """
    parties, clusters = summarise(X, labels, groups, sample_weight)
    (total,) = added_over_parties(
        parties, lambda party: (party.per_cluster(_silhouettes(party, clusters)),)
    )
    return float(total.sum() / clusters.weight.sum())


def calinski_harabasz(
    X: Any, labels: Any, *, groups: Any = None, sample_weight: Any = None
) -> float:
    """The ratio of the scatter between and within clusters, without pooling.

    With W = Σ W_k rows and c = Σ W_k c_k / W the score is

        (Σ W_k |c_k - c|² / (K - 1)) / (Σ S_k / (W - K)),

    and 1 if no cluster has any scatter. Equals scikit-learn's ``calinski_harabasz_score`` of the
    pooled rows.

    Parameters
    ----------
    X : array, data frame, or list, tuple or dict of these
        Rows in any form that the estimators take.
    labels : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    groups : array of shape (n,) or str, default=None
        The party of each row of one table, or the name of the column that has it, which is no
        feature then. Without it there is one party.
    sample_weight : array of shape (n,), or list, tuple or dict of these, default=None
        A weight for each row, in the container of ``X``; None weighs all rows alike.

    Returns
    -------
    score : float
        From 0 on, higher is better.
    """
    _, clusters = summarise(X, labels, groups, sample_weight)
    weight, k = clusters.weight.sum(), len(clusters.weight)
    within = clusters.scatter.sum()
    if within <= weight * clusters.negligible:
        return 1.0
    between = np.sum(clusters.weight[:, None] * (clusters.center - clusters.mean) ** 2)
    return float(between * (weight - k) / (within * (k - 1)))


def davies_bouldin(X: Any, labels: Any, *, groups: Any = None, sample_weight: Any = None) -> float:
    """The mean over clusters of the likeness to the most alike other cluster, without pooling.

    With r_k = Σ w |x - c_k| / W_k over the rows of cluster k the score is

        (1/K) Σ_k max_{j ≠ k} (r_k + r_j) / |c_k - c_j|,

    where a pair with the same centre counts 0. Equals scikit-learn's ``davies_bouldin_score`` of
    the pooled rows, with two differences in rounding: this score does not take distances below 1e-8
    for 0, and finds r_k = 0 where a cluster's rows coincide, which scikit-learn may miss by about
    1e-7.

    Parameters
    ----------
    X : array, data frame, or list, tuple or dict of these
        Rows in any form that the estimators take.
    labels : array of shape (n,), or list, tuple or dict of these
        The cluster of each row, in the container of ``X``.
    groups : array of shape (n,) or str, default=None
        The party of each row of one table, or the name of the column that has it, which is no
        feature then. Without it there is one party.
    sample_weight : array of shape (n,), or list, tuple or dict of these, default=None
        A weight for each row, in the container of ``X``; None weighs all rows alike.

    Returns
    -------
    score : float
        From 0 on, lower is better.
    """
    parties, clusters = summarise(X, labels, groups, sample_weight)

    def distances(party: LabelledRows) -> tuple[FloatArray]:
        offset = party.rows - clusters.origin - clusters.center[party.codes]
        return (party.per_cluster(lengths(offset)),)

    radius = added_over_parties(parties, distances)[0] / clusters.weight
    apart = cdist(clusters.center, clusters.center)
    apart[apart**2 <= clusters.negligible] = np.inf
    return float(np.mean(np.max((radius[:, None] + radius) / apart, axis=1)))


def _silhouettes(party: LabelledRows, clusters: ClusterMoments) -> FloatArray:
    """s for each of the party's rows."""
    own = np.arange(len(party.rows)), party.codes
    squared = cdist(party.rows - clusters.origin, clusters.center, "sqeuclidean")
    weight, scatter = clusters.weight[party.codes], clusters.scatter[party.codes]
    several = weight > 1
    a = (weight * squared[own] + scatter) / np.where(several, weight - 1, 1.0)
    squared += clusters.scatter / clusters.weight
    squared[own] = np.inf  # the minimum is over the other clusters
    b = squared.min(axis=1)
    largest = np.maximum(a, b)
    defined = several & (largest > clusters.negligible)
    return np.where(defined, (b - a) / np.where(defined, largest, 1.0), 0.0)
