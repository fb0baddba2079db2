"""The clusters of a block's rows: labels, what the clusters hold, what they cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unpooled.kernels.assignment import nearest
from unpooled.kernels.lazy import LazyNearest
from unpooled.kernels.segments import ClusterSums, scatter_by_user, sum_by_user
from unpooled.losses import DistanceLoss, Euclidean, Loss, SquaredEuclidean
from unpooled.protocols.mesh import Block
from unpooled.types import BoolArray, FloatArray, IntArray


class Labelling:
    """Labels that change when users look; -1 for rows that were never looked at."""

    def __init__(self, block: Block, loss: Loss) -> None:
        n, parties = len(block), block.parties
        self._parties, self._loss, self._n_users = parties, loss, n
        self._nearest: Callable[[FloatArray], IntArray] = self._all_nearest
        if isinstance(loss, DistanceLoss):
            self._nearest = LazyNearest(parties.rows, parties.owner, n, loss.metric.squared)
        self.fixed = isinstance(loss, SquaredEuclidean) or not isinstance(loss, DistanceLoss)
        """Whether sums depend on the labels alone."""
        self._sums: FloatArray | None = None
        """The sums, while they hold."""
        self._scatter: tuple[FloatArray, FloatArray] | None = None
        self.labels: IntArray = np.full(len(parties.rows), -1)
        self.changed: IntArray = np.zeros(n, dtype=np.int64)
        """How many of each user's rows were found to be in another cluster."""
        self._left: IntArray = np.full(len(parties.rows), -1)
        """The cluster that a row left when its user's labels last changed; -1 if it stayed."""
        self.returned: BoolArray = np.zeros(n, dtype=bool)
        """Whose rows went back at once to where they had come from, one of them at least."""
        self.moved: BoolArray = np.zeros(n, dtype=bool)
        """Whose labels changed."""

    def _all_nearest(self, x: FloatArray) -> IntArray:
        return nearest(self._parties.rows, self._parties.owner, x, self._loss.dissimilarity)

    def look(self, users: BoolArray, x: FloatArray, change: BoolArray) -> None:
        """Labels the rows of these users; but those whom ``change`` does not mark only look."""
        owner, n = self._parties.owner, self._n_users
        nearby = self._nearest(x)
        differs = (nearby != self.labels) & users[owner]
        self.changed = np.where(users, np.bincount(owner[differs], minlength=n), self.changed)
        moved = np.flatnonzero(differs & change[owner])
        self.moved, self.returned = np.zeros((2, n), dtype=bool)
        self.moved[owner[moved]] = True
        self.returned[owner[moved[nearby[moved] == self._left[moved]]]] = True
        self._left[(users & change)[owner]] = -1
        if len(moved):
            self._sums = None
            self._left[moved] = self.labels[moved]
            self.labels = self.labels.copy()
            self.labels[moved] = nearby[moved]

    def sums(self, x: FloatArray) -> FloatArray:
        """(sum of w g y, sum of w g) of every cluster, (users, K, d + 1), with g = f'(t) / t.

        That is 1 for k-means, and taken as 1 for Bregman losses, whose centres are means as well.
        """
        if self._sums is not None:
            return self._sums
        rows, owner = self._parties.rows, self._parties.owner
        weights = np.where(self.labels >= 0, self._parties.weights, 0.0)
        labels = np.maximum(self.labels, 0)
        if isinstance(self._loss, DistanceLoss) and not self.fixed:
            t = np.sqrt(self._loss.metric.squared(x[owner, labels] - rows))
            weights = weights * self._loss.weight(t)
        clusters = ClusterSums(owner, labels, weights, x.shape[:2])
        sums = np.concatenate([clusters(rows), clusters.weights()[..., None]], axis=2)
        self._sums = sums if self.fixed else None
        return sums

    def costs(self, x: FloatArray) -> FloatArray:
        """sum over r of w_r f(x, y_r) for every user, at its present labels."""
        if (
            isinstance(self._loss, SquaredEuclidean)
            and isinstance(self._loss.metric, Euclidean)
            and self._sums is not None
        ):
            return self._by_sums(x, self._sums)
        parties, labels = self._parties, np.maximum(self.labels, 0)
        weights = np.where(self.labels >= 0, parties.weights, 0.0)
        terms = weights * self._loss.value(x[parties.owner, labels], parties.rows)
        return sum_by_user(parties.owner, terms, self._n_users)

    def _by_sums(self, x: FloatArray, sums: FloatArray) -> FloatArray:
        """1/2 sum w |y|^2 - sum_k x_k.S_k + 1/2 sum_k N_k |x_k|^2, about each user's mean."""
        if self._scatter is None:
            p = self._parties
            mean, squares, _ = scatter_by_user(p.rows, p.owner, p.weights, self._n_users)
            self._scatter = mean, squares
        mean, squares = self._scatter
        x, weights = x - mean[:, None], sums[..., -1]
        moments = sums[..., :-1] - weights[..., None] * mean[:, None]
        pulls = np.vecdot(x, moments).sum(axis=1)
        cost = 0.5 * squares - pulls + 0.5 * (weights * np.vecdot(x, x)).sum(axis=1)
        return np.asarray(np.maximum(cost, 0.0))
