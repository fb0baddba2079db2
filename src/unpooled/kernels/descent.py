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

from unpooled.kernels._jit import (
    inner,
    inner_on_all_cores,
    jit,
    one_at_a_time,
    prange,
)
from unpooled.kernels.clusters import (
    LOOSE,
    MASS,
    MOST,
    SCATTER,
    SOONEST,
    Clusters,
    Coarse,
    fold,
    paid,
    pull_only,
    visit,
)
from unpooled.types import FloatArray, IntArray

CHANGED, MOVED, COST, APART, SPREAD = range(5)
"""What is noted of a round: how many rows changed cluster; how far the fastest centre went; what
rows cost before the step, in the clusters they were in, without 1/rho; the squared distances of
users to their neighbours before it; the largest distance of a user's centre to the mean over users
after it."""
_CHANGED, _COST, _APART = -3, -2, -1

_BY_CLUSTER, _PER_RHO, _KIND, _BEND, _REACH = range(5)

_LITTLE = 1 << 17
"""Numbers that one core is soon through with."""
_NOTHING = 1e-140
"""A gradient that takes centres nowhere."""


class Slope(NamedTuple):
    """How users step."""

    first: IntArray
    """User u hears ``others[first[u] : first[u + 1]]``, places in the array of all centres."""
    others: IntArray
    steps: FloatArray
    """(m,) a_i, or alpha where steps go by clusters."""
    terms: FloatArray
    """(5,) Whether a_i(k) = alpha / (N/rho + |N_i|), as Kar & Swenson step; 1/rho; the loss: its
    kind, where it bends, and up to where it is the square."""

    @property
    def by_cluster(self) -> bool:
        """Whether steps go by the weight of clusters."""
        return bool(self.terms[_BY_CLUSTER] > 0)

    @property
    def per_rho(self) -> float:
        """1/rho."""
        return float(self.terms[_PER_RHO])


def slope(
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    rho: float,
    loss: tuple[float, float, float],
    *,
    by_cluster: bool,
) -> Slope:
    """The slope of a loss, given as the last three of its terms."""
    terms = np.array([float(by_cluster), 1.0 / rho, *loss])
    return Slope(first.astype(np.int64), others.astype(np.int64), steps, terms)


@inner
def _turn(
    u: int,
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    starts: IntArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    new: FloatArray,
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    terms: FloatArray,
    label: bool,
    out: FloatArray,
) -> None:
    """One user's part of an exchange."""
    _, n_clusters, d = new.shape
    a, z = starts[u], starts[u + 1]
    kind, bend, reach = terms[_KIND], terms[_BEND], terms[_REACH]
    pull = np.zeros((n_clusters, d if reach < math.inf else 0))
    changed, cost = 0, 0.0
    if label:
        changed, cost = visit(
            rows[a:z], coarse[a:z], ledger[a:z], clock[u], sums[u], x[u], pull, kind, bend, reach
        )
    elif reach < math.inf:
        pull_only(rows[a:z], ledger[a:z], x[u], pull, kind, bend)
    per_rho, work, lap = terms[_PER_RHO], np.zeros((3, d)), np.zeros((2, n_clusters * d))
    flat = x.reshape(len(x), n_clusters * d)
    for n in range(first[u], first[u + 1]):
        other = others[n]
        for j in range(n_clusters * d):
            difference = flat[u, j] - flat[other, j]
            lap[0, j] += difference
            lap[1, j] += difference * difference
    toward = lap.reshape(2, n_clusters, d)
    for k in range(n_clusters):
        mass = sums[u, k, MASS]
        half = 0.5 / mass if mass > 0 else 0.0
        cost += 0.5 * sums[u, k, SCATTER]
        for j in range(d):
            error = mass * (x[u, k, j] - sums[u, 2 * n_clusters, j]) - sums[u, k, j]
            work[0, j] += half * error * error
            work[1, j] = error
        if reach < math.inf:
            for j in range(d):
                work[1, j] += pull[k, j]
        step = steps[u]
        if terms[_BY_CLUSTER] > 0:
            stiffness = mass * per_rho + (first[u + 1] - first[u])
            step = step / stiffness if stiffness > 0 else 0.0
        for j in range(d):
            gradient = toward[0, k, j] + work[1, j] * per_rho
            # Columns that are zero in all rows would decay to numbers that take processors long.
            way = step * gradient if abs(gradient) > _NOTHING else 0.0
            new[u, k, j] = x[u, k, j] - way
            way = new[u, k, j] - x[u, k, j]
            work[2, j] = way * way
        out[u, k] = math.sqrt(fold(work, 2, d))
    cost += fold(work, 0, d)
    apart = fold(lap, 1, n_clusters * d)
    out[u, _CHANGED], out[u, _COST], out[u, _APART] = changed, cost, apart


@inner
def _is_little(
    rows: FloatArray, clock: FloatArray, new: FloatArray, label: bool, terms: FloatArray
) -> bool:
    """Whether one core is done before another would have come to help (on a busy machine that may
    take a while)."""
    if new.size > _LITTLE:
        return False
    if terms[_REACH] < math.inf or label:
        for u in range(len(new)):
            if clock[u, LOOSE] > 0 or not clock[u, MOST] < clock[u, SOONEST]:
                return rows.size <= _LITTLE
    return True


@inner_on_all_cores
def _turns(
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    starts: IntArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    new: FloatArray,
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    terms: FloatArray,
    label: bool,
    out: FloatArray,
) -> None:
    for u in prange(len(new)):
        _turn(
            u, rows, coarse, ledger, starts, clock, sums, x, new, first, others, steps, terms,
            label, out,
        )  # fmt: skip


@inner
def _exchange(
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    starts: IntArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    new: FloatArray,
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    terms: FloatArray,
    label: bool,
    out: FloatArray,
) -> None:
    if _is_little(rows, clock, new, label, terms):
        for u in range(len(new)):
            _turn(
                u, rows, coarse, ledger, starts, clock, sums, x, new, first, others, steps, terms,
                label, out,
            )  # fmt: skip
    else:
        _turns(
            rows, coarse, ledger, starts, clock, sums, x, new, first, others, steps, terms, label,
            out,
        )  # fmt: skip


@jit
def _once(
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    starts: IntArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    new: FloatArray,
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    terms: FloatArray,
    label: bool,
    out: FloatArray,
) -> None:
    _exchange(
        rows, coarse, ledger, starts, clock, sums, x, new, first, others, steps, terms, label, out
    )  # fmt: skip


@one_at_a_time
def exchange(s: Clusters, x: FloatArray, new: FloatArray, how: Slope, label: bool) -> FloatArray:
    """One exchange: from ``x``, the block's centres and then those heard, to ``new``.

    With ``label`` rows are put in clusters first. Returns how many changed at each user.
    """
    out = np.empty((len(new), new.shape[1] + 3))
    _once(*s, x, new, *how, label, out)
    return out[:, _CHANGED]


@inner
def _innovation(
    u: int,
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    starts: IntArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    out: FloatArray,
    terms: FloatArray,
    label: bool,
    moved: FloatArray,
) -> None:
    """G of one user."""
    _, n_clusters, d = x.shape
    kind, bend, reach = terms[_KIND], terms[_BEND], terms[_REACH]
    a, z = starts[u], starts[u + 1]
    if label:
        moved[u], _ = visit(
            rows[a:z], coarse[a:z], ledger[a:z], clock[u], sums[u], x[u], out[u], kind, bend, reach
        )
    else:
        pull_only(rows[a:z], ledger[a:z], x[u], out[u], kind, bend)
    for k in range(n_clusters):
        mass = sums[u, k, MASS]
        for j in range(d):
            out[u, k, j] += mass * (x[u, k, j] - sums[u, 2 * n_clusters, j]) - sums[u, k, j]


@inner_on_all_cores
def _innovations(
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    starts: IntArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    out: FloatArray,
    terms: FloatArray,
    label: bool,
    moved: FloatArray,
) -> None:
    for u in prange(len(x)):
        _innovation(u, rows, coarse, ledger, starts, clock, sums, x, out, terms, label, moved)


@jit
def _innovate(
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    starts: IntArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    out: FloatArray,
    terms: FloatArray,
    label: bool,
    moved: FloatArray,
) -> None:
    if _is_little(rows, clock, x, label, terms):
        for u in range(len(x)):
            _innovation(u, rows, coarse, ledger, starts, clock, sums, x, out, terms, label, moved)
    else:
        _innovations(rows, coarse, ledger, starts, clock, sums, x, out, terms, label, moved)


@one_at_a_time
def innovate(s: Clusters, x: FloatArray, how: Slope, label: bool) -> tuple[FloatArray, FloatArray]:
    """G of the text above, for metrics in which a step is more than that; and how many rows of
    each user changed cluster."""
    out, changed = np.zeros_like(x), np.zeros(len(x))
    _innovate(*s, x, out, how.terms, label, changed)
    return out, changed


@inner
def _bill(
    u: int,
    rows: FloatArray,
    ledger: FloatArray,
    starts: IntArray,
    x: FloatArray,
    terms: FloatArray,
    out: FloatArray,
) -> None:
    a, z = starts[u], starts[u + 1]
    out[u] = paid(rows[a:z], ledger[a:z], x[u], terms[_KIND], terms[_BEND])


@inner_on_all_cores
def _bills(
    rows: FloatArray,
    ledger: FloatArray,
    starts: IntArray,
    x: FloatArray,
    terms: FloatArray,
    out: FloatArray,
) -> None:
    for u in prange(len(x)):
        _bill(u, rows, ledger, starts, x, terms, out)


@jit
def _paid(
    rows: FloatArray,
    ledger: FloatArray,
    starts: IntArray,
    x: FloatArray,
    terms: FloatArray,
    out: FloatArray,
) -> None:
    if rows.size <= _LITTLE:
        for u in range(len(x)):
            _bill(u, rows, ledger, starts, x, terms, out)
    else:
        _bills(rows, ledger, starts, x, terms, out)


@one_at_a_time
def costs(s: Clusters, x: FloatArray, how: Slope) -> FloatArray:
    """(m,) What users' rows cost with centres ``x``, in the clusters they are in."""
    _, n_clusters, d = x.shape
    if how.terms[_REACH] < math.inf:
        out = np.empty(len(x))
        _paid(s.rows, s.ledger, s.starts, x, how.terms, out)
        return out
    sums, mass = s.sums[:, :n_clusters], s.sums[:, :n_clusters, MASS]
    error = mass[..., None] * (x - s.sums[:, -1:, :d]) - sums[..., :d]
    about = np.divide(np.vecdot(error, error), mass, out=np.zeros_like(mass), where=mass > 0)
    return np.asarray(0.5 * (sums[..., SCATTER] + about).sum(axis=1))


@jit
def _advance(clock: FloatArray, moves: FloatArray) -> None:
    """Centres have moved."""
    for u in range(len(clock)):
        fastest = 0.0
        for k in range(clock.shape[1] - 5):
            clock[u, k] += moves[u, k]
            fastest = max(fastest, moves[u, k])
        clock[u, MOST] += fastest


@one_at_a_time
def follow(s: Clusters, before: FloatArray, x: FloatArray) -> None:
    """Centres are ``x`` now, after they were ``before``."""
    _advance(s.clock, np.sqrt(np.square(x - before).sum(axis=2)))


class Rest(NamedTuple):
    """By which users that are all in one block know when to stop."""

    window: int
    """Exchanges; 0 for never."""
    tol: float
    units: FloatArray
    """(m,) What a move is divided by, to tell how far there is to go over the spread of rows."""
    largest: FloatArray
    """(2,) The largest unrest of the window before, and of the present one so far."""


RAN_ON, AT_REST, TOO_FAR, CALM, ROWS_DUE = range(5)
"""How rounds ended: there was no room for more; users came to rest; centres may have gone too far;
no row will be due for a good while; a row is due."""

_GOOD_WHILE = 64
"""Rounds without a look at any row that are worth changing coordinates for."""


@inner
def _apart(x: FloatArray, k: int, squares: FloatArray) -> None:
    """|x_i(k) - mean over users|^2 for all of them."""
    m, _, d = x.shape
    work = np.zeros((2, d))
    for i in range(1, m):
        for j in range(d):
            work[0, j] += x[i, k, j] - x[0, k, j]
    for j in range(d):
        work[0, j] = x[0, k, j] + work[0, j] / m
    for i in range(m):
        for j in range(d):
            z = x[i, k, j] - work[0, j]
            work[1, j] = z * z
        squares[k, i] = fold(work, 1, d)


@inner_on_all_cores
def _all_apart(x: FloatArray, squares: FloatArray) -> None:
    for k in prange(x.shape[1]):
        _apart(x, k, squares)


@inner
def _consensus(x: FloatArray, squares: FloatArray) -> None:
    """(K, m) |x_i(k) - mean over users|^2."""
    if x.size > _LITTLE:
        _all_apart(x, squares)
    else:
        for k in range(x.shape[1]):
            _apart(x, k, squares)


@jit
def _leap(
    rows: FloatArray,
    coarse: Coarse,
    ledger: FloatArray,
    starts: IntArray,
    clock: FloatArray,
    sums: FloatArray,
    x: FloatArray,
    new: FloatArray,
    first: IntArray,
    others: IntArray,
    steps: FloatArray,
    terms: FloatArray,
    window: int,
    tol: float,
    units: FloatArray,
    largest: FloatArray,
    book: FloatArray,
    begun: int,
    bound: float,
    folded: bool,
    may_fold: bool,
) -> tuple[int, int]:
    m, n_clusters, _ = x.shape
    out, squares = np.zeros((m, n_clusters + 3)), np.zeros((n_clusters, m))
    for t in range(begun, len(book)):
        if folded:
            for u in range(m):
                if not clock[u, MOST] < clock[u, SOONEST]:
                    return t, ROWS_DUE
        _exchange(
            rows, coarse, ledger, starts, clock, sums, x, new, first, others, steps, terms, True,
            out,
        )  # fmt: skip
        _advance(clock, out)
        x, new = new, x
        _consensus(x, squares)
        worst, unrest, farthest, calm = 0.0, 0.0, 0.0, may_fold
        for u in range(m):
            fastest = 0.0
            for k in range(n_clusters):
                fastest = max(fastest, out[u, k])
                worst = max(worst, squares[k, u])
            farthest = max(farthest, clock[u, MOST])
            changed = out[u, _CHANGED] > 0
            unrest = max(unrest, math.inf if changed else fastest / units[u])
            if clock[u, LOOSE] > 0 or clock[u, SOONEST] - clock[u, MOST] < _GOOD_WHILE * fastest:
                calm = False
            book[t, CHANGED] += out[u, _CHANGED]
            book[t, MOVED] = max(book[t, MOVED], fastest)
            book[t, COST] += out[u, _COST]
            book[t, APART] += out[u, _APART]
        book[t, SPREAD] = math.sqrt(worst)
        largest[1] = max(largest[1], unrest)
        if not farthest <= bound:
            return t + 1, TOO_FAR
        if window > 0 and (t + 1) % window == 0:
            if largest[0] <= tol:
                return t + 1, AT_REST
            largest[0], largest[1] = largest[1], 0.0
        if calm:
            return t + 1, CALM
    return len(book), RAN_ON


@one_at_a_time
def leap(
    s: Clusters,
    x: FloatArray,
    new: FloatArray,
    how: Slope,
    rest: Rest,
    book: FloatArray,
    begun: int,
    bound: float,
    *,
    folded: bool = False,
    may_fold: bool = False,
) -> tuple[int, int]:
    """Rounds of one exchange, from number ``begun`` on, as many as the book (T, 5) has room for.

    Returns how many rounds there have been then, and how they ended; centres are in ``new`` if
    there were an odd number of rounds, else in ``x``. ``bound`` is how far centres may go; see
    :mod:`unpooled.kernels.folding` for the rest.
    """
    rounds, end = _leap(*s, x, new, *how, *rest, book, begun, bound, folded, may_fold)
    return int(rounds), int(end)
