"""The assignment step: which cluster each row is in, what clusters add up to, what they cost.

Labels change only when their user updates them. A user that waits (:class:`RelabelBackoff`)
compares its labels with the nearest centres but keeps them. Where sums depend on labels alone, they
are found anew only for users whose labels changed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unpooled.kernels.assignment.bounds import UserBounds
from unpooled.kernels.assignment.nearest import nearest
from unpooled.kernels.linalg.products import dots, squared_lengths
from unpooled.kernels.linalg.segments import ClusterSums, scatter_by_user, sum_by_user
from unpooled.losses import DistanceLoss, Euclidean, Loss, SquaredEuclidean
from unpooled.protocols.mesh.base import Block
from unpooled.types import BoolArray, FloatArray, IntArray

_AT_ONCE = 20
"""For so many cycles users change a label as soon as another centre is nearer."""
_MAX_EXPONENT = 6
"""Later they wait for at most 2 to this power of cycles."""


class RowAssignment:
    """The labels of a block's rows; -1 for rows that have none yet."""

    def __init__(self, block: Block, loss: Loss) -> None:
        n, parties = len(block), block.parties
        self._parties, self._loss, self._n_users = parties, loss, n
        self._nearest: Callable[[FloatArray], IntArray] = self._all_nearest
        if isinstance(loss, DistanceLoss):
            bounds = UserBounds(parties.rows, parties.owner, n, loss.metric.squared)
            self._nearest = bounds.assign
        self.labels_fix_sums = isinstance(loss, SquaredEuclidean) or not isinstance(
            loss, DistanceLoss
        )
        """Whether sums depend on the labels alone."""
        self._sums: FloatArray | None = None
        """The sums as they were last found."""
        self._stale: BoolArray = np.ones(n, dtype=bool)
        """Whose sums have changed since."""
        self._cost_by_sums = isinstance(loss, SquaredEuclidean) and isinstance(
            loss.metric, Euclidean
        )
        """Whether costs follow from the sums."""
        if self._cost_by_sums:
            weights, owner = parties.weights, parties.owner
            self._mean, self._scatter, _ = scatter_by_user(parties.rows, owner, weights, n)
        self.labels: IntArray = np.full(len(parties.rows), -1)
        self.changed: IntArray = np.zeros(n, dtype=np.int64)
        """How many of each user's rows are nearest to another centre than that of their label."""
        self._left: IntArray = np.full(len(parties.rows), -1)
        """The cluster that a row left when its user's labels last changed; -1 if it stayed."""
        self._moved_last: IntArray = np.empty(0, dtype=np.int64)
        """The rows that did not stay."""
        self.returned: BoolArray = np.zeros(n, dtype=bool)
        """Whose rows, one of them at least, went straight back to the cluster they had left."""
        self.moved: BoolArray = np.zeros(n, dtype=bool)
        """Whose labels changed."""

    def _all_nearest(self, x: FloatArray) -> IntArray:
        return nearest(self._parties.rows, self._parties.owner, x, self._loss.dissimilarity)

    def update(self, users: BoolArray, x: FloatArray, change: BoolArray) -> None:
        """Compares these users' labels with the nearest centres; ``change`` marks who adopts them.

        The others only learn how many of their rows would change.
        """
        owner, n = self._parties.owner, self._n_users
        closest = self._nearest(x)
        differs = np.flatnonzero(closest != self.labels)
        differs = differs[users[owner[differs]]]
        self.changed = np.where(users, np.bincount(owner[differs], minlength=n), self.changed)
        moved = differs[change[owner[differs]]]
        self.moved = users & change & (self.changed > 0)
        self.returned = np.zeros(n, dtype=bool)
        self.returned[owner[moved[closest[moved] == self._left[moved]]]] = True
        # Rows that moved the time before: this time they stayed, or are among those moved now.
        settled = (users & change)[owner[self._moved_last]]
        self._left[self._moved_last[settled]] = -1
        self._moved_last = np.concatenate([self._moved_last[~settled], moved])
        if len(moved):
            self._stale |= self.moved
            self._left[moved] = self.labels[moved]
            self.labels = self.labels.copy()
            self.labels[moved] = closest[moved]

    def sums(self, x: FloatArray) -> FloatArray:
        """(sum of w g y, sum of w g) of every cluster, (users, K, d + 1), with g = f'(t) / t.

        That is 1 for k-means, and taken as 1 for Bregman losses, whose centres are means as well.
        """
        if self._sums is None or not self.labels_fix_sums:
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
        # Rows without a label count as weightless rows of cluster 0.
        weights = np.where(labels >= 0, p.weights[theirs], 0.0)
        labels = np.maximum(labels, 0)
        if isinstance(self._loss, DistanceLoss) and not self.labels_fix_sums:
            t = np.sqrt(self._loss.metric.squared(x[owner, labels] - rows))
            weights = weights * self._loss.weight(t)
        place = np.cumsum(users) - 1
        clusters = ClusterSums(place[owner], labels, weights, (int(users.sum()), x.shape[1]))
        return np.concatenate([clusters(rows), clusters.weights()[..., None]], axis=2)

    def costs(self, x: FloatArray) -> FloatArray:
        """sum over r of w_r f(x, y_r) for every user, at its present labels."""
        if self._cost_by_sums and self._sums is not None and not self._stale.any():
            return self._costs_by_sums(x, self._sums)
        parties, labels = self._parties, np.maximum(self.labels, 0)
        weights = np.where(self.labels >= 0, parties.weights, 0.0)
        terms = weights * self._loss.value(x[parties.owner, labels], parties.rows)
        return sum_by_user(parties.owner, terms, self._n_users)

    def _costs_by_sums(self, x: FloatArray, sums: FloatArray) -> FloatArray:
        """1/2 sum w |y|^2 - sum_k x_k.S_k + 1/2 sum_k N_k |x_k|^2, about each user's mean."""
        x, weights = x - self._mean[:, None], sums[..., -1]
        moments = sums[..., :-1] - weights[..., None] * self._mean[:, None]
        pulls = dots(x, moments).sum(axis=1)
        cost = 0.5 * self._scatter - pulls + 0.5 * (weights * squared_lengths(x)).sum(axis=1)
        return np.asarray(np.maximum(cost, 0.0))


class RelabelBackoff:
    """How long users wait between changes of labels, where means are not exact.

    A row may otherwise change cluster to and fro for ever, as its own move changes the means. So
    from its 20th cycle on, a user waits twice as long whenever one of its rows went straight back:
    in the meantime means become more exact. It waits half as long again when rows move and none
    goes back. From then on every user waits for at least two cycles, and for twice as many with
    every hundred cycles.
    """

    def __init__(self, n_users: int) -> None:
        self._exponent: IntArray = np.zeros(n_users, dtype=np.int64)

    def interval(self, age: IntArray) -> IntArray:
        """Every how many cycles users of this age (in cycles of their epoch) change labels."""
        exponent = np.maximum(self._exponent, 1 + age // 100)
        return np.asarray(2 ** np.where(age >= _AT_ONCE, np.minimum(exponent, _MAX_EXPONENT), 0))

    def learn(self, age: IntArray, rows: RowAssignment) -> None:
        """Takes account of how rows moved when labels last changed."""
        shorter = self._exponent - rows.moved
        exponent = np.where(rows.returned, self._exponent + 1, shorter)
        self._exponent = np.where(age >= _AT_ONCE, np.clip(exponent, 0, _MAX_EXPONENT), 0)
