"""Rounds in which no row is checked, a few columns of the centres at a time, compiled.

A step treats every column of the centres by itself. So if no row need be checked for a number of
rounds, these can be run for a few columns of one cluster after the other, which then stay in the
processor's cache. How many such rounds there are is found in fewer coordinates before
(:mod:`unpooled.kernels.compiled.reduced`).
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.compiled._jit import inner, on_all_cores, one_at_a_time, prange
from unpooled.kernels.compiled.clusters import MASS, Clusters, Index
from unpooled.kernels.compiled.steps import StepRule, step_length, stepped
from unpooled.types import FloatArray

_IN_CACHE = 1 << 12
"""Numbers of an array that stay in the cache together with a few such arrays."""


@inner
def _advance(
    x: FloatArray,
    sums: FloatArray,
    rule: StepRule,
    rounds: int,
    before: FloatArray,
    after: FloatArray,
    k: Index,
    a: Index,
    z: Index,
) -> None:
    """`advance_columns` for the columns from a up to z of all users' centres k."""
    m, d, origin = len(x), z - a, sums.shape[1] - 1
    here, there, toward = np.empty((m, d)), np.empty((m, d)), np.empty(d)
    about, total, step = np.empty((m, d)), np.empty((m, d)), np.empty(m)
    for u in range(m):
        step[u] = step_length(rule, u, sums[u, k, MASS])
        for j in range(d):
            here[u, j] = x[u, k, a + j]
            about[u, j], total[u, j] = sums[u, origin, a + j], sums[u, k, a + j]
    for _ in range(rounds):
        for u in range(m):
            mass = sums[u, k, MASS]
            n, end = rule.first[u], rule.first[u + 1]
            if end - n < 2:
                for j in range(d):
                    toward[j] = 0.0
            else:  # the first two at once: in a ring there are no more
                one, two = rule.others[n], rule.others[n + 1]
                for j in range(d):
                    toward[j] = (here[u, j] - here[one, j]) + (here[u, j] - here[two, j])
                n += 2
            while n < end:
                other = rule.others[n]
                for j in range(d):
                    toward[j] += here[u, j] - here[other, j]
                n += 1
            for j in range(d):
                pull = mass * (here[u, j] - about[u, j]) - total[u, j]
                there[u, j] = stepped(here[u, j], toward[j], pull, rule.per_rho, step[u])
        here, there = there, here
    for u in range(m):
        for j in range(d):
            before[u, k, a + j], after[u, k, a + j] = there[u, j], here[u, j]


@on_all_cores
def _advance_all(
    x: FloatArray,
    sums: FloatArray,
    rule: StepRule,
    rounds: int,
    before: FloatArray,
    after: FloatArray,
) -> None:
    m, n_clusters, d = x.shape
    width = max(8, _IN_CACHE // m // 8 * 8)
    parts = (d + width - 1) // width
    for p in prange(n_clusters * parts):
        k, a = np.int64(p) // parts, np.int64(p) % parts * width
        _advance(x, sums, rule, rounds, before, after, k, a, min(a + width, d))


@one_at_a_time
def advance_columns(
    state: Clusters, x: FloatArray, rule: StepRule, rounds: int
) -> tuple[FloatArray, FloatArray]:
    """All users' centres, from ``x``, before and after the last of so many rounds, one at least.

    No row may have to be checked and none be outside the sums. Centres are the same to the last
    digit as by :func:`unpooled.kernels.compiled.rounds.run_rounds`.
    """
    before, after = np.empty_like(x), np.empty_like(x)
    _advance_all(x, state.sums, rule, rounds, before, after)
    return before, after
