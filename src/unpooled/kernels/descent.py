"""Rounds of gradient clustering over a graph, compiled: see :mod:`unpooled.protocols.dgc`.

An exchange takes every user's centres x_i(k) a step down,

    x_i(k) <- x_i(k) - a_i(k) ( sum_{j in N_i} (x_i(k) - x_j(k)) + 1/rho G_i(k) ),

    G_i(k) = N (x_i(k) - o_i) - S + (what loose rows pull with),

with N, S, o and loose rows as in :mod:`unpooled.kernels.clusters`. Neighbours come in the order of
the links, so the sum over them is the same however users are spread over hosts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unpooled.kernels._jit import jit, on_all_cores, one_at_a_time, prange
from unpooled.kernels.clusters import (
    MOST,
    SCATTER,
    WEIGHT,
    Clusters,
    paid,
    pull_only,
    squared,
    visit,
)
from unpooled.types import FloatArray, IntArray

CHANGED, MOVED, HELD_COST, LOOSE_COST, APART = range(5)
"""What an exchange says of each user: rows that changed cluster; how far its fastest centre went;
what held rows cost after the step; what has to be added for loose rows to the cost before it (see
`visit`); the squared distances to neighbours before it. Costs are without 1/rho."""


_NOTHING = 1e-140
"""A gradient that takes centres nowhere."""


class Slope(NamedTuple):
    """How users step."""

    first: IntArray
    """User u hears ``others[first[u] : first[u + 1]]``, places in the array of all centres."""
    others: IntArray
    steps: FloatArray
    """(m,) a_i, or alpha where steps go by clusters."""
    by_cluster: bool
    """Whether a_i(k) = alpha / (N/rho + |N_i|), as Kar & Swenson step."""
    per_rho: float
    kind: int
    bend: float
    reach: float


@jit
def _step(
    x: FloatArray,
    k: int,
    u: int,
    others: IntArray,
    origin: FloatArray,
    sums: FloatArray,
    extra: FloatArray,
    step: float,
    by_cluster: bool,
    per_rho: float,
    new: FloatArray,
    work: FloatArray,
) -> tuple[float, float, float]:
    """One centre's step, to ``new``: how far it went, what it costs, how far neighbours are."""
    d, own, apart = len(new), x[u, k], 0.0
    weight = sums[WEIGHT]
    if by_cluster:
        stiffness = weight * per_rho + len(others)
        step = step / stiffness if stiffness > 0 else 0.0
    for j in range(d):
        work[j] = 0.0
    for n in range(len(others)):
        other = x[others[n], k]
        apart += squared(own, other, d)
        for j in range(d):
            work[j] += own[j] - other[j]
    if len(extra):
        for j in range(d):
            work[j] += ((weight * (own[j] - origin[j]) - sums[j]) + extra[j]) * per_rho
    else:
        for j in range(d):
            work[j] += (weight * (own[j] - origin[j]) - sums[j]) * per_rho
    for j in range(d):
        # A column that is zero in all rows would decay to numbers that processors are slow with.
        new[j] = own[j] - (step * work[j] if abs(work[j]) > _NOTHING else 0.0)
    moved = math.sqrt(squared(own, new, d))
    for j in range(d):
        work[j] = weight * (new[j] - origin[j])
    cost = sums[SCATTER]
    if weight > 0:
        cost += squared(work, sums, d) / weight
    return moved, 0.5 * cost, apart


@jit
def _turn(
    u: int,
    rows: FloatArray,
    weights: FloatArray,
    offsets: IntArray,
    place: IntArray,
    bounds: FloatArray,
    clock: FloatArray,
    origins: FloatArray,
    sums: FloatArray,
    rests: FloatArray,
    x: FloatArray,
    new: FloatArray,
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    by_cluster: bool,
    per_rho: float,
    kind: int,
    bend: float,
    reach: float,
    label: bool,
    moves: FloatArray,
    say: FloatArray,
) -> None:
    """One user's part of an exchange."""
    n_clusters, d = new.shape[1], new.shape[2]
    a, z = offsets[u], offsets[u + 1]
    pull = np.zeros((n_clusters, d if reach < math.inf else 0))
    if label:
        say[CHANGED, u], say[LOOSE_COST, u] = visit(
            rows[a:z], weights[a:z], place[a:z], bounds[a:z], clock[u], origins[u], sums[u],
            rests[u], x[u], pull, kind, bend, reach,
        )  # fmt: skip
    else:
        pull_only(rows[a:z], weights[a:z], place[a:z], x[u], pull, kind, bend)
    work = np.empty(d)
    near = others[first[u] : first[u + 1]]
    fastest, held, apart = 0.0, 0.0, 0.0
    for k in range(n_clusters):
        moved, cost, away = _step(
            x,
            k,
            u,
            near,
            origins[u],
            sums[u, k],
            pull[k],
            steps[u],
            by_cluster,
            per_rho,
            new[u, k],
            work,
        )
        moves[u, k] = moved
        fastest = max(fastest, moved)
        held += cost
        apart += away
    say[MOVED, u] = fastest
    say[HELD_COST, u] = held
    say[APART, u] = apart


@on_all_cores
def _exchange(
    rows: FloatArray,
    weights: FloatArray,
    offsets: IntArray,
    place: IntArray,
    bounds: FloatArray,
    clock: FloatArray,
    origins: FloatArray,
    sums: FloatArray,
    rests: FloatArray,
    x: FloatArray,
    new: FloatArray,
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    by_cluster: bool,
    per_rho: float,
    kind: int,
    bend: float,
    reach: float,
    label: bool,
    moves: FloatArray,
    say: FloatArray,
) -> None:
    for u in prange(len(new)):
        _turn(
            u, rows, weights, offsets, place, bounds, clock, origins, sums, rests, x, new, first,
            others, steps, by_cluster, per_rho, kind, bend, reach, label, moves, say,
        )  # fmt: skip


@one_at_a_time
def exchange(
    s: Clusters, x: FloatArray, new: FloatArray, how: Slope, say: FloatArray, label: bool
) -> None:
    """One exchange: from ``x``, the block's centres and then those heard, to ``new``.

    With ``label`` rows are put in clusters first. Into ``say`` (5, m) goes what there is to say.
    """
    _exchange(*s, x, new, *how, label, np.empty(new.shape[:2]), say)


@on_all_cores
def _innovate(
    rows: FloatArray,
    weights: FloatArray,
    offsets: IntArray,
    place: IntArray,
    bounds: FloatArray,
    clock: FloatArray,
    origins: FloatArray,
    sums: FloatArray,
    rests: FloatArray,
    x: FloatArray,
    out: FloatArray,
    kind: int,
    bend: float,
    reach: float,
    label: bool,
    say: FloatArray,
) -> None:
    m, n_clusters, d = x.shape
    for u in prange(m):
        own = slice(offsets[u], offsets[u + 1])
        if label:
            changed, loose = visit(
                rows[own], weights[own], place[own], bounds[own], clock[u], origins[u], sums[u],
                rests[u], x[u], out[u], kind, bend, reach,
            )  # fmt: skip
            say[CHANGED, u], say[LOOSE_COST, u] = changed, loose
        else:
            pull_only(rows[own], weights[own], place[own], x[u], out[u], kind, bend)
        for k in range(n_clusters):
            weight = sums[u, k, WEIGHT]
            for j in range(d):
                out[u, k, j] += weight * (x[u, k, j] - origins[u, j]) - sums[u, k, j]


@one_at_a_time
def innovate(s: Clusters, x: FloatArray, how: Slope, say: FloatArray, label: bool) -> FloatArray:
    """G of the text above, for metrics in which a step is more than that."""
    out = np.zeros_like(x)
    _innovate(*s, x, out, how.kind, how.bend, how.reach, label, say)
    return out


@on_all_cores
def _costs(
    rows: FloatArray,
    weights: FloatArray,
    offsets: IntArray,
    place: IntArray,
    origins: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    kind: int,
    bend: float,
    reach: float,
    out: FloatArray,
) -> None:
    m, n_clusters, d = x.shape
    for u in prange(m):
        a, z = offsets[u], offsets[u + 1]
        if reach < math.inf:
            out[u] = paid(rows[a:z], weights[a:z], place[a:z], x[u], kind, bend)
        else:
            out[u] = 0.0
            work = np.empty(d)
            for k in range(n_clusters):
                weight = sums[u, k, WEIGHT]
                for j in range(d):
                    work[j] = weight * (x[u, k, j] - origins[u, j])
                if weight > 0:
                    squares = squared(work, sums[u, k], d)
                    out[u] += 0.5 * (sums[u, k, SCATTER] + squares / weight)


@one_at_a_time
def costs(s: Clusters, x: FloatArray, kind: int, bend: float, reach: float) -> FloatArray:
    """(m,) What users' rows cost with centres ``x``, in the clusters they are in."""
    out = np.empty(len(x))
    _costs(s.rows, s.weights, s.offsets, s.place, s.origins, s.sums, x, kind, bend, reach, out)
    return out


@jit
def _advance(clock: FloatArray, moves: FloatArray) -> None:
    """Centres have moved."""
    for u in range(len(clock)):
        fastest = 0.0
        for k in range(moves.shape[1]):
            clock[u, k] += moves[u, k]
            fastest = max(fastest, moves[u, k])
        clock[u, MOST] += fastest


@one_at_a_time
def follow(s: Clusters, before: FloatArray, x: FloatArray) -> None:
    """Centres are ``x`` now, after they were ``before``."""
    moves = np.sqrt(np.square(x - before).sum(axis=2))
    _advance(s.clock, moves)


class Rest(NamedTuple):
    """By which users that are all in one block know when to stop."""

    window: int
    """Exchanges; 0 for never."""
    tol: float
    units: FloatArray
    """(m,) What a move is divided by, to tell how far there is to go over the spread of rows."""
    largest: FloatArray
    """(2,) The largest unrest of the window before, and of the present one so far."""


_COLUMNS = 128


@on_all_cores
def _consensus(x: FloatArray, squares: FloatArray) -> None:
    """|x_i(k) - mean over users|^2 for all of them."""
    m, n_clusters, d = x.shape
    for k in prange(n_clusters):
        mean = np.empty(_COLUMNS)
        for i in range(m):
            squares[k, i] = 0.0
        for start in range(0, d, _COLUMNS):
            width = min(_COLUMNS, d - start)
            for j in range(width):
                mean[j] = 0.0
            origin = x[0, k, start:]
            for i in range(1, m):
                other = x[i, k, start:]
                for j in range(width):
                    mean[j] += other[j] - origin[j]
            for j in range(width):
                mean[j] = origin[j] + mean[j] / m
            for i in range(m):
                squares[k, i] += squared(x[i, k, start:], mean, width)


@jit
def _leap(
    rows: FloatArray,
    weights: FloatArray,
    offsets: IntArray,
    place: IntArray,
    bounds: FloatArray,
    clock: FloatArray,
    origins: FloatArray,
    sums: FloatArray,
    rests: FloatArray,
    x: FloatArray,
    new: FloatArray,
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    by_cluster: bool,
    per_rho: float,
    kind: int,
    bend: float,
    reach: float,
    window: int,
    tol: float,
    units: FloatArray,
    largest: FloatArray,
    book: FloatArray,
    spread: FloatArray,
    bound: float,
) -> tuple[int, bool]:
    m, n_clusters, _ = x.shape
    moves, squares = np.zeros((m, n_clusters)), np.zeros((n_clusters, m))
    for t in range(len(book)):
        _exchange(
            rows, weights, offsets, place, bounds, clock, origins, sums, rests, x, new, first,
            others, steps, by_cluster, per_rho, kind, bend, reach, True, moves, book[t],
        )  # fmt: skip
        _advance(clock, moves)
        x, new = new, x
        _consensus(x, squares)
        worst, unrest, farthest = 0.0, 0.0, 0.0
        for u in range(m):
            for k in range(n_clusters):
                worst = max(worst, squares[k, u])
            farthest = max(farthest, clock[u, MOST])
            changed = book[t, CHANGED, u] > 0
            unrest = max(unrest, math.inf if changed else book[t, MOVED, u] / units[u])
        spread[t] = math.sqrt(worst)
        largest[1] = max(largest[1], unrest)
        if not farthest <= bound:
            return t + 1, False
        if window > 0 and (t + 1) % window == 0:
            if largest[0] <= tol:
                return t + 1, True
            largest[0], largest[1] = largest[1], 0.0
    return len(book), False


@one_at_a_time
def leap(
    s: Clusters,
    x: FloatArray,
    new: FloatArray,
    how: Slope,
    rest: Rest,
    book: FloatArray,
    spread: FloatArray,
    bound: float,
) -> tuple[int, bool]:
    """As many rounds of one exchange as the book (T, 5, m) has room for.

    It ends earlier if users come to rest, or centres may have gone farther than ``bound``. Returns
    how many rounds there were, and whether users are at rest; centres are in ``new`` if rounds are
    odd in number, else in ``x``. Into ``spread`` (T,) goes the largest distance of a user's centre
    to the mean over users.
    """
    rounds, at_rest = _leap(*s, x, new, *how, *rest, book, spread, bound)
    return int(rounds), bool(at_rest)
