"""Sums over the rows of every cluster of every user."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unpooled.kernels.linalg.products import squared_lengths
from unpooled.types import FloatArray, IntArray


class ClusterSums:
    """The linear map that adds up weighted rows by (user, cluster).

    It is a sparse matrix with one row per (user, cluster) that holds the weights of its members in
    the order of the rows, so that each sum has one order of addition.
    """

    def __init__(
        self, owner: IntArray, labels: IntArray, weights: FloatArray, shape: tuple[int, int]
    ) -> None:
        self.shape = shape
        segment = owner * shape[1] + labels
        order = np.argsort(segment, kind="stable")
        counts = np.bincount(segment, minlength=shape[0] * shape[1])
        self._matrix = sp.csr_array(
            (weights[order], order, np.concatenate([[0], np.cumsum(counts)])),
            shape=(shape[0] * shape[1], len(owner)),
        )

    def __call__(self, values: FloatArray) -> FloatArray:
        """sum over r in C_i(k) of w_r values_r, as (users, K, d)."""
        return np.asarray(self._matrix @ values).reshape(*self.shape, values.shape[1])

    def weights(self) -> FloatArray:
        """sum over r in C_i(k) of w_r, as (users, K)."""
        ones = np.ones(self._matrix.shape[1])
        return np.asarray(self._matrix @ ones).reshape(self.shape)


def sums_by_label(
    rows: FloatArray, weights: FloatArray, labels: IntArray, n_labels: int
) -> tuple[FloatArray, FloatArray]:
    """The sum of w x, (n_labels, d), and of w, over the rows of each label; -1 counts nowhere."""
    counted = np.where(labels >= 0, weights, 0.0)
    place = np.maximum(labels, 0)
    members = sp.csc_array((counted, place, np.arange(len(rows) + 1)), shape=(n_labels, len(rows)))
    return np.asarray(members @ rows), np.asarray(np.bincount(place, counted, n_labels), float)


def sum_by_user(owner: IntArray, values: FloatArray, n_users: int) -> FloatArray:
    """The sum of ``values`` over the rows of each user."""
    return np.bincount(owner, weights=values, minlength=n_users).astype(np.float64)


def scatter_by_user(
    rows: FloatArray, owner: IntArray, weights: FloatArray, n_users: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Each user's mean (users, d), sum of w |y - mean|^2, and sum of w, which is never quite 0."""
    sums = ClusterSums(owner, np.zeros_like(owner), weights, (n_users, 1))
    total = np.maximum(sums.weights(), np.finfo(float).tiny)
    mean = sums(rows)[:, 0] / total
    deviation = rows - mean[owner]
    squares = sum_by_user(owner, weights * squared_lengths(deviation), n_users)
    return mean, squares, total[:, 0]


def means_or_keep(sums: FloatArray, weights: FloatArray, centers: FloatArray) -> FloatArray:
    """sums / weights where a cluster has any weight; its centre stays where it has none."""
    filled = weights > 0
    divisor = np.where(filled, weights, 1.0)
    return np.where(filled[..., None], sums / divisor[..., None], centers)
