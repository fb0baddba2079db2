"""Scores of clusters against known classes: accuracy, purity, normalised mutual information."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score

from unpooled.errors import InputError
from unpooled.metrics.inputs import distinct_labels, label_vector, plain_array
from unpooled.types import Array, IntArray


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
    y, labels = (np.searchsorted(distinct_labels(v), v) for v in _two_labellings(y, labels))
    return float(normalized_mutual_info_score(y, labels, average_method="arithmetic"))


def _two_labellings(y: Any, labels: Any) -> tuple[Array, Array]:
    n = np.size(plain_array(y, "y"))
    if n == 0:
        raise InputError("y is empty: pass one class label for each row.")
    return label_vector(y, n, "y"), label_vector(labels, n, "labels")


def _contingency(y: Array, labels: Array) -> IntArray:
    """Rows of each class (down) and cluster (across)."""
    classes, clusters = (np.searchsorted(distinct_labels(v), v) for v in (y, labels))
    table = np.zeros((classes.max() + 1, clusters.max() + 1), dtype=np.int64)
    np.add.at(table, (classes, clusters), 1)
    return table
