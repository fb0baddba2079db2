"""The clusters of a block's rows: labels, what the clusters hold, what they cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unpooled.kernels.assignment.lazy import LazyNearest
from unpooled.kernels.assignment.nearest import nearest
from unpooled.kernels.linalg.products import dots, squared_lengths
from unpooled.kernels.linalg.segments import ClusterSums, scatter_by_user, sum_by_user
from unpooled.losses import DistanceLoss, Euclidean, Loss, SquaredEuclidean
from unpooled.protocols.mesh.base import Block
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
        """The sums as they were last found."""
        self._stale: BoolArray = np.ones(n, dtype=bool)
        """Whose sums have changed since."""
        self._about_means = isinstance(loss, SquaredEuclidean) and isinstance(
            loss.metric, Euclidean
        )
        if self._about_means:
            weights, owner = parties.weights, parties.owner
            self._mean, self._scatter, _ = scatter_by_user(parties.rows, owner, weights, n)
        self.labels: IntArray = np.full(len(parties.rows), -1)
        self.changed: IntArray = np.zeros(n, dtype=np.int64)
        """How many of each user's rows were found to be in another cluster."""
        self._left: IntArray = np.full(len(parties.rows), -1)
        """The cluster that a row left when its user's labels last changed; -1 if it stayed."""
        self._moved_last: IntArray = np.empty(0, dtype=np.int64)
        """The rows that did not stay."""
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
        differs = np.flatnonzero(nearby != self.labels)
        differs = differs[users[owner[differs]]]
        self.changed = np.where(users, np.bincount(owner[differs], minlength=n), self.changed)
        moved = differs[change[owner[differs]]]
        self.moved = users & change & (self.changed > 0)
        self.returned = np.zeros(n, dtype=bool)
        self.returned[owner[moved[nearby[moved] == self._left[moved]]]] = True
        stayed = (users & change)[owner[self._moved_last]]
        self._left[self._moved_last[stayed]] = -1
        self._moved_last = np.concatenate([self._moved_last[~stayed], moved])
        if len(moved):
            self._stale |= self.moved
            self._left[moved] = self.labels[moved]
            self.labels = self.labels.copy()
            self.labels[moved] = nearby[moved]

    def sums(self, x: FloatArray) -> FloatArray:
        """(sum of w g y, sum of w g) of every cluster, (users, K, d + 1), with g = f'(t) / t.

        That is 1 for k-means, and taken as 1 for Bregman losses, whose centres are means as well.
        """
        if self._sums is None or not self.fixed:
            self._sums = self._sums_of(np.ones(self._n_users, dtype=bool), x)
        elif self._stale.any():
            self._sums = self._sums.copy()
            self._sums[self._stale] = self._sums_of(self._stale, x)
        self._stale = np.zeros(self._n_users, dtype=bool)
        return self._sums

    def _sums_of(self, users: BoolArray, x: FloatArray) -> FloatArray:
        """The sums of these users."""
        p = self._parties
        theirs = slice(None) if users.all() else np.flatnonzero(users[p.owner])
        rows, owner, labels = p.rows[theirs], p.owner[theirs], self.labels[theirs]
        weights = np.where(labels >= 0, p.weights[theirs], 0.0)
        labels = np.maximum(labels, 0)
        if isinstance(self._loss, DistanceLoss) and not self.fixed:
            t = np.sqrt(self._loss.metric.squared(x[owner, labels] - rows))
            weights = weights * self._loss.weight(t)
        place = np.cumsum(users) - 1
        clusters = ClusterSums(place[owner], labels, weights, (int(users.sum()), x.shape[1]))
        return np.concatenate([clusters(rows), clusters.weights()[..., None]], axis=2)

    def costs(self, x: FloatArray) -> FloatArray:
        """sum over r of w_r f(x, y_r) for every user, at its present labels."""
        if self._about_means and self._sums is not None and not self._stale.any():
            return self._by_sums(x, self._sums)
        parties, labels = self._parties, np.maximum(self.labels, 0)
        weights = np.where(self.labels >= 0, parties.weights, 0.0)
        terms = weights * self._loss.value(x[parties.owner, labels], parties.rows)
        return sum_by_user(parties.owner, terms, self._n_users)

    def _by_sums(self, x: FloatArray, sums: FloatArray) -> FloatArray:
        """1/2 sum w |y|^2 - sum_k x_k.S_k + 1/2 sum_k N_k |x_k|^2, about each user's mean."""
        x, weights = x - self._mean[:, None], sums[..., -1]
        moments = sums[..., :-1] - weights[..., None] * self._mean[:, None]
        pulls = dots(x, moments).sum(axis=1)
        cost = 0.5 * self._scatter - pulls + 0.5 * (weights * squared_lengths(x)).sum(axis=1)
        return np.asarray(np.maximum(cost, 0.0))
