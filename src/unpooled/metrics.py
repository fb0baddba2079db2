"""How good a clustering is: against known classes or centres, and without any, without pooling.

The three scores without classes (`silhouette`, `calinski_harabasz`, `davies_bouldin`) are
computed the way parties would compute them together. In each pass every party works on its own
rows, hands out sums per cluster only, and the sums are added in party order:

1. weight W_k and sum of rows of each cluster k, hence the global mean m and a first centre g_k;
2. the sums of w z and w |z|² with z = x - g_k, taken after moving the origin to m. With
   δ_k = Σ w z / W_k the centre is c_k = g_k + δ_k and the scatter about it is
   S_k = Σ w |z|² - W_k |δ_k|². Sums about a point this near lose no digits, however far from
   zero the data lie;
3. where a score needs it, the sum of a quantity of each row that depends on W, c and S only.

Weights count rows: a row of weight 2 is a row listed twice, a row of weight 0 is not there.

``X`` is one array or DataFrame, with ``groups`` giving each row's party, or a list, tuple or
dict of 2-D tables, one per party; ``labels`` and ``sample_weight`` come in the same container.
The columns of several DataFrames are matched by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.metrics import normalized_mutual_info_score

from unpooled.data.tables import LARGEST, Expected, has_missing, read
from unpooled.errors import InputError
from unpooled.kernels.linalg.products import lengths
from unpooled.types import Array, FloatArray, IntArray, all_rows

_SAME_PLACE = 1e-13
"""Distances below this share of the data's radius are rounding, not distance."""


def accuracy(y: Any, labels: Any, match: str = "best") -> float:
    """The share of rows whose cluster stands for their class.

    Where the numbers of clusters and classes differ, the rows of those left over count as wrong.

    Parameters
    ----------
    y : array of shape (n,)
        The class of each row.
    labels : array of shape (n,)
        The cluster of each row.
    match : {"best", "identity"}, default="best"
        Pairs clusters and classes one to one so that the share is largest; or takes the label
        itself for the class.

    Returns
    -------
    score : float
        From 0 to 1.
    """
    if match not in ("best", "identity"):
        raise InputError(f"match={match!r} is unknown: pass 'best' or 'identity'.")
    y, labels = _two_labellings(y, labels)
    if match == "identity":
        return float(np.mean(y == labels))
    table = _contingency(y, labels)
    return float(table[linear_sum_assignment(table, maximize=True)].sum() / len(y))


def purity(y: Any, labels: Any) -> float:
    """The share of rows that belong to the largest class of their cluster.

    Parameters
    ----------
    y : array of shape (n,)
        The class of each row.
    labels : array of shape (n,)
        The cluster of each row.

    Returns
    -------
    score : float
        From 0 to 1.
    """
    y, labels = _two_labellings(y, labels)
    return float(_contingency(y, labels).max(axis=0).sum() / len(y))


def nmi(y: Any, labels: Any) -> float:
    """Mutual information of the two labellings over the arithmetic mean of their entropies.

    Parameters
    ----------
    y : array of shape (n,)
        The class of each row.
    labels : array of shape (n,)
        The cluster of each row.

    Returns
    -------
    score : float
        From 0 to 1.
    """
    y, labels = (np.searchsorted(_distinct(v), v) for v in _two_labellings(y, labels))
    return float(normalized_mutual_info_score(y, labels, average_method="arithmetic"))


def center_distance(centers: Any, true_centers: Any) -> float:
    """The Frobenius norm of the difference between matched centres.

    (Σ_k |c_k - t_π(k)|²)^½, where the matching π makes the sum smallest. If there are more
    centres on one side, only the matched ones count: those left over add nothing.

    Parameters
    ----------
    centers : array of shape (K, d)
        The centres that were found.
    true_centers : array of shape (L, d)
        The centres to compare them with.

    Returns
    -------
    distance : float
        0 where they are the same.
    """
    found, true = _finite(centers, "centers", 2), _finite(true_centers, "true_centers", 2)
    if found.shape[1] != true.shape[1]:
        raise InputError(
            f"centers have {found.shape[1]} columns but true_centers {true.shape[1]}: "
            "pass centres of the same space."
        )
    squared = cdist(found, true, "sqeuclidean")
    return float(np.sqrt(squared[linear_sum_assignment(squared)].sum()))


def consensus_distance(peer_centers: Any) -> float:
    """The largest distance of a user's centre to the mean over users of the centre of that index.

    max_{i,k} |c_ik - (1/m) Σ_j c_jk| for an array (m, K, d) of the K centres of m users.

    Parameters
    ----------
    peer_centers : array of shape (m, K, d)
        The K centres of m users.

    Returns
    -------
    distance : float
        0 where users agree.
    """
    peers = _finite(peer_centers, "peer_centers", 3)
    moved = peers - peers[0]  # so that users who agree are at distance 0, not at rounding error
    return float(lengths(moved - moved.mean(axis=0)).max())


def silhouette(X: Any, labels: Any, *, groups: Any = None, sample_weight: Any = None) -> float:
    """The mean silhouette in squared Euclidean distance, without pooling.

    The mean squared distance of x to the rows of cluster k is |x - c_k|² + S_k / W_k. So with
    l the cluster of x,

        a(x) = (W_l |x - c_l|² + S_l) / (W_l - 1),
        b(x) = min_{k ≠ l} |x - c_k|² + S_k / W_k,

    and the score is Σ w s / Σ w with s = (b - a) / max(a, b); s = 0 in a cluster whose weight is
    at most 1 and where a = b = 0. Equals scikit-learn's
    ``silhouette_score(metric="sqeuclidean")`` of the pooled rows.

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
    parties, clusters = _summarise(X, labels, groups, sample_weight)
    (total,) = _add(parties, lambda party: (party.per_cluster(_silhouettes(party, clusters)),))
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
    _, clusters = _summarise(X, labels, groups, sample_weight)
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
    the pooled rows, with two differences in rounding: this score does not take distances below
    1e-8 for 0, and finds r_k = 0 where a cluster's rows coincide, which scikit-learn may miss by
    about 1e-7.

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
    parties, clusters = _summarise(X, labels, groups, sample_weight)

    def distances(party: _Party) -> tuple[FloatArray]:
        offset = party.rows - clusters.origin - clusters.center[party.codes]
        return (party.per_cluster(lengths(offset)),)

    radius = _add(parties, distances)[0] / clusters.weight
    apart = cdist(clusters.center, clusters.center)
    apart[apart**2 <= clusters.negligible] = np.inf
    return float(np.mean(np.max((radius[:, None] + radius) / apart, axis=1)))


@dataclass(frozen=True)
class _Party:
    """One party's own rows; ``codes`` numbers their clusters from 0 to n_clusters - 1."""

    rows: FloatArray
    codes: IntArray
    weights: FloatArray
    n_clusters: int

    @cached_property
    def membership(self) -> sp.csc_array:
        """The weight of each row (across) in each cluster (down)."""
        shape = self.n_clusters, len(self.rows)
        return sp.csc_array((self.weights, self.codes, np.arange(shape[1] + 1)), shape=shape)

    def per_cluster(self, values: FloatArray) -> FloatArray:
        """The weighted sum of ``values``, one per row, over the rows of each cluster."""
        return np.asarray(self.membership @ values)


@dataclass(frozen=True)
class _Clusters:
    """What the parties know together; centres and mean are relative to ``origin``."""

    origin: FloatArray
    weight: FloatArray
    center: FloatArray
    scatter: FloatArray

    @property
    def mean(self) -> FloatArray:
        return np.asarray(np.sum(self.weight[:, None] * self.center, axis=0) / self.weight.sum())

    @property
    def negligible(self) -> float:
        """The squared distance below which rows and centres are at the same place."""
        moment = self.scatter + self.weight * np.sum(self.center**2, axis=1)
        return float(_SAME_PLACE**2 * moment.sum() / self.weight.sum())


def _add(parties: list[_Party], sums: Callable[[_Party], tuple[Any, ...]]) -> tuple[Any, ...]:
    """One pass: every party's sums, added in party order."""
    totals = sums(parties[0])
    for party in parties[1:]:
        totals = tuple(total + part for total, part in zip(totals, sums(party), strict=True))
    return totals


def _summarise(
    X: Any, labels: Any, groups: Any, sample_weight: Any
) -> tuple[list[_Party], _Clusters]:
    """Passes 1 and 2."""
    parties = _parties(X, labels, groups, sample_weight)

    def plain(party: _Party) -> tuple[FloatArray, FloatArray]:
        return party.per_cluster(np.ones(len(party.rows))), party.per_cluster(party.rows)

    weight, total = _add(parties, plain)
    if weight.sum() <= len(weight):
        raise InputError(
            f"The weights add up to {weight.sum():g} rows for {len(weight)} clusters: a score "
            "needs more rows than clusters, and weights count rows."
        )
    origin = total.sum(axis=0) / weight.sum()
    guess = total / weight[:, None] - origin

    def about_the_guess(party: _Party) -> tuple[FloatArray, FloatArray]:
        z = party.rows - origin - guess[party.codes]
        return party.per_cluster(z), party.per_cluster(np.sum(z**2, axis=1))

    first, second = _add(parties, about_the_guess)
    shift = first / weight[:, None]
    scatter = np.maximum(second - weight * np.sum(shift**2, axis=1), 0.0)
    return parties, _Clusters(origin, weight, guess + shift, scatter)


def _silhouettes(party: _Party, clusters: _Clusters) -> FloatArray:
    own = np.arange(len(party.rows)), party.codes
    squared = cdist(party.rows - clusters.origin, clusters.center, "sqeuclidean")
    weight, scatter = clusters.weight[party.codes], clusters.scatter[party.codes]
    crowded = weight > 1
    a = (weight * squared[own] + scatter) / np.where(crowded, weight - 1, 1.0)
    squared += clusters.scatter / clusters.weight
    squared[own] = np.inf
    b = squared.min(axis=1)
    largest = np.maximum(a, b)
    defined = crowded & (largest > clusters.negligible)
    return np.where(defined, (b - a) / np.where(defined, largest, 1.0), 0.0)


def _parties(X: Any, labels: Any, groups: Any, sample_weight: Any) -> list[_Party]:
    """Every party's rows with the numbers of their clusters, without the rows of weight 0."""
    table = read(X, groups, sample_weight, Expected("a score"))
    own = table.per_row(labels, "labels")
    there = table.parties.weights > 0
    names = _distinct(own[there])
    if len(names) < 2:
        raise InputError(f"labels name {len(names)} cluster(s): a score needs at least 2.")
    codes = np.searchsorted(names, np.where(there, own, names[0]))
    parties = []
    for party in range(len(table.parties)):
        span = slice(*table.parties.offsets[party : party + 2])
        kept = there[span]
        data = table.parties[party]
        parties.append(
            _Party(all_rows(data.rows)[kept], codes[span][kept], data.weights[kept], len(names))
        )
    return parties


def _two_labellings(y: Any, labels: Any) -> tuple[Array, Array]:
    n = np.size(_array(y, "y"))
    if n == 0:
        raise InputError("y is empty: pass one class label for each row.")
    return _vector(y, n, "y"), _vector(labels, n, "labels")


def _contingency(y: Array, labels: Array) -> IntArray:
    """Rows of each class (down) and cluster (across)."""
    classes, clusters = (np.searchsorted(_distinct(v), v) for v in (y, labels))
    table = np.zeros((classes.max() + 1, clusters.max() + 1), dtype=np.int64)
    np.add.at(table, (classes, clusters), 1)
    return table


def _distinct(labels: Array) -> Array:
    try:
        return np.unique(labels)
    except TypeError as error:
        raise InputError("Labels cannot be compared: use all numbers or all strings.") from error


def _vector(values: Any, n: int, what: str, dtype: Any = None) -> Array:
    if has_missing(values):
        raise InputError(f"{what} contains NaN or another missing value: give every row one.")
    vector = _array(values, what, dtype)
    if vector.shape != (n,):
        raise InputError(
            f"{what} has the shape {vector.shape} where there are {n} rows: pass one value a row."
        )
    if vector.dtype.kind == "f" and not np.isfinite(vector).all():
        raise InputError(f"{what} contains NaN or infinity: give every row a proper value.")
    return vector


def _finite(values: Any, what: str, ndim: int) -> FloatArray:
    array: FloatArray = _array(values, what, np.float64)
    if array.ndim != ndim or array.size == 0:
        raise InputError(
            f"{what} has the shape {array.shape}: pass {ndim} dimensions, none of them empty."
        )
    if not (np.abs(array) <= LARGEST).all():
        raise InputError(
            f"{what} contains NaN, infinity or values beyond {LARGEST:g}: drop or rescale them."
        )
    return array


def _array(values: Any, what: str, dtype: Any = None) -> Array:
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        kind = "numbers" if dtype else "labels"
        raise InputError(f"{what} is not an array of {kind}: pass a plain one.") from error
