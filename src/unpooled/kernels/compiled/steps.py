"""One exchange of gradient clustering over a graph, compiled: every user's centres take a step.

With users' centres x_i(k), the gradient of :mod:`unpooled.protocols.mesh.dgc` leads to

    x_i(k) <- x_i(k) - a_i(k) ( sum_{j in N_i} (x_i(k) - x_j(k)) + 1/rho G_i(k) ),

    G_i(k) = N (x_i(k) - o_i) - S + (the pull of rows outside the sums),

with N, S, o and rows outside the sums as in :mod:`unpooled.kernels.compiled.clusters`. Neighbours
come in the order of the links, so the sum over them is the same however users are spread over
hosts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unpooled.kernels.compiled._jit import inlined, inner, inner_on_all_cores, prange
from unpooled.kernels.compiled.assign import add_pulls, assign_rows
from unpooled.kernels.compiled.clusters import (
    MASS,
    MAX_DRIFT,
    N_OUTSIDE,
    NEXT_CHECK,
    SCATTER,
    Clusters,
    Index,
    clusters_of,
)
from unpooled.kernels.compiled.distances import pairwise_sum
from unpooled.kernels.compiled.loss_terms import KMEANS, LossTerms
from unpooled.types import FloatArray, IntArray

USER_CHANGED, USER_COST, USER_APART = -3, -2, -1
"""What `exchange_all` notes of each user, after the lengths of its K steps: how many rows changed
cluster; what its rows cost before the step, in the clusters they were in, without 1/rho; the sum of
its squared distances to its neighbours before the step."""

ONE_CORE = 1 << 12
"""Numbers with which one core is done before another would have started."""
_NEGLIGIBLE = 1e-140
"""A gradient that is taken for 0."""

# The rows of `work` in a step, one number for each column of the centres.
_COST, _APART, _SQUARES, _TOWARD, _PULL = range(5)


class StepRule(NamedTuple):
    """How users step: their neighbours, step lengths and loss."""

    first: IntArray
    """User u hears ``others[first[u] : first[u + 1]]``, places in the array of all centres."""
    others: IntArray
    steps: FloatArray
    """(m,) a_i; or alpha, if steps go by clusters."""
    by_cluster: bool
    """Whether a_i(k) = alpha / (N/rho + |N_i|), as Kar & Swenson step."""
    pull_only: bool
    """Whether G takes the place of the new centres."""
    per_rho: float
    """1/rho."""
    kind: int
    """The loss, as in `LossTerms`."""
    bend: float
    reach: float

    def lengths(self, mass: FloatArray) -> FloatArray:
        """(m, K) a_i(k), for clusters of these weights."""
        lengths = np.broadcast_to(self.steps[:, None], mass.shape)
        if not self.by_cluster:
            return lengths
        stiffness = mass * self.per_rho + np.diff(self.first)[:, None]
        return np.divide(lengths, stiffness, out=np.zeros_like(mass), where=stiffness > 0)


def step_rule(
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    rho: float,
    loss: LossTerms,
    *,
    by_cluster: bool = False,
    pull_only: bool = False,
) -> StepRule:
    """A rule whose parts have the types that code is compiled for."""
    return StepRule(
        first.astype(np.int64),
        others.astype(np.int64),
        steps,
        bool(by_cluster),
        bool(pull_only),
        1.0 / rho,
        int(loss.kind),
        float(loss.bend),
        float(loss.reach),
    )


@inlined
def step_length(rule: StepRule, u: Index, mass: float) -> float:
    """a_u(k) for a cluster of this weight."""
    alpha: float = rule.steps[u]
    if rule.by_cluster:
        stiffness = mass * rule.per_rho + (rule.first[u + 1] - rule.first[u])
        return alpha / stiffness if stiffness > 0 else 0.0
    return alpha


@inlined
def stepped(x: float, toward: float, pull: float, per_rho: float, step: float) -> float:
    """Where a step leads from x, one coordinate of a centre."""
    gradient = toward + pull * per_rho
    # Columns that are zero in all rows would decay to subnormal numbers, which are slow.
    return x - (step * gradient if abs(gradient) > _NEGLIGIBLE else 0.0)


@inner
def _exchange_of(
    u: Index,
    state: Clusters,
    x: FloatArray,
    new: FloatArray,
    rule: StepRule,
    label: bool,
    out: FloatArray,
) -> None:
    """One user's part of an exchange."""
    _, n_clusters, d = new.shape
    user, own = clusters_of(state, u), x[u]
    loss = LossTerms(rule.kind, rule.bend, rule.reach)
    pull = np.zeros((n_clusters, d if rule.kind != KMEANS else 0))
    changed, cost = 0, 0.0
    if label:
        changed, cost = assign_rows(user, own, pull, loss)
    elif rule.kind != KMEANS:
        add_pulls(user, own, pull, loss)
    work = np.zeros((5, d))
    for k in range(n_clusters):
        cost += 0.5 * user.sums[k, SCATTER]
        _find_pull(user.sums, own, pull, k, work)
        if rule.pull_only:
            for j in range(d):
                new[u, k, j] = work[_PULL, j]
            continue
        _find_disagreement(rule, u, x, k, work)
        step = step_length(rule, u, user.sums[k, MASS])
        for j in range(d):
            new[u, k, j] = stepped(own[k, j], work[_TOWARD, j], work[_PULL, j], rule.per_rho, step)
        for j in range(d):
            move = new[u, k, j] - own[k, j]
            work[_SQUARES, j] = move * move
        out[u, k] = math.sqrt(pairwise_sum(work, _SQUARES, d))
    out[u, USER_COST] = cost + pairwise_sum(work, _COST, d)
    out[u, USER_CHANGED], out[u, USER_APART] = changed, pairwise_sum(work, _APART, d)


# Each loop over columns below writes to one array only: such loops the compiler turns into
# instructions for several numbers at a time.


@inlined
def _find_pull(sums: FloatArray, x: FloatArray, pull: FloatArray, k: int, work: FloatArray) -> None:
    """G of cluster k; adds to what rows in the sums cost, column by column."""
    d, origin, mass = x.shape[1], 2 * len(x), sums[k, MASS]
    half = 0.5 / mass if mass > 0 else 0.0
    for j in range(d):
        work[_PULL, j] = mass * (x[k, j] - sums[origin, j]) - sums[k, j]
    for j in range(d):
        work[_COST, j] += half * work[_PULL, j] * work[_PULL, j]
    if pull.shape[1] > 0:
        for j in range(d):
            work[_PULL, j] += pull[k, j]


@inlined
def _find_disagreement(rule: StepRule, u: Index, x: FloatArray, k: int, work: FloatArray) -> None:
    """The sum of x_u(k) - x_j(k) over neighbours j; adds to that of the squares."""
    d = x.shape[2]
    for j in range(d):
        work[_TOWARD, j] = 0.0
    for n in range(rule.first[u], rule.first[u + 1]):
        other = rule.others[n]
        for j in range(d):
            work[_SQUARES, j] = x[u, k, j] - x[other, k, j]
        for j in range(d):
            work[_TOWARD, j] += work[_SQUARES, j]
        for j in range(d):
            work[_APART, j] += work[_SQUARES, j] * work[_SQUARES, j]


@inner
def _is_for_one_core(state: Clusters, new: FloatArray, rule: StepRule, label: bool) -> bool:
    """Whether one core is done before another could help (on a busy machine that takes a while)."""
    if new.size > ONE_CORE:
        return False
    if rule.kind != KMEANS or label:
        per_user = state.per_user
        for u in range(len(new)):
            if per_user[u, N_OUTSIDE] > 0 or not per_user[u, MAX_DRIFT] < per_user[u, NEXT_CHECK]:
                return state.rows.size <= ONE_CORE
    return True


@inner_on_all_cores
def exchange_all(
    state: Clusters, x: FloatArray, new: FloatArray, rule: StepRule, label: bool, out: FloatArray
) -> None:
    """An exchange of all users: from ``x``, the block's centres and then those heard, to ``new``.

    With ``label`` rows are assigned to clusters first. ``out`` (m, K + 3) is what there is to note.
    """
    if _is_for_one_core(state, new, rule, label):
        for u in range(len(new)):
            _exchange_of(u, state, x, new, rule, label, out)
    else:
        for u in prange(len(new)):
            _exchange_of(np.int64(u), state, x, new, rule, label, out)
