"""Many rounds of gradient clustering over a graph in one call of compiled code.

A round is one exchange (:mod:`unpooled.kernels.compiled.steps`), after which centres are compared
with each other and what there is to report of the round is written to a history. Rounds end when
the history is full, when users have converged, when centres may have gone too far, or when rounds
are better run in another way (:mod:`unpooled.kernels.compiled.reduced`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unpooled.kernels.compiled._jit import (
    inlined,
    inner,
    inner_on_all_cores,
    jit,
    one_at_a_time,
    prange,
)
from unpooled.kernels.compiled.clusters import (
    MAX_DRIFT,
    N_OUTSIDE,
    NEXT_CHECK,
    Clusters,
    Index,
)
from unpooled.kernels.compiled.distances import pairwise_sum
from unpooled.kernels.compiled.steps import (
    ONE_CORE,
    USER_APART,
    USER_CHANGED,
    USER_COST,
    StepRule,
    exchange_all,
)
from unpooled.types import FloatArray

CHANGED, MOVED, COST, APART, SPREAD = range(5)
"""The columns of a history: how many rows changed cluster; how far the fastest centre moved; what
rows cost before the step, in the clusters they were in, without 1/rho; the sum of the squared
distances of users to their neighbours before the step; the largest distance of a user's centre to
the mean over users after it."""

HISTORY_FULL, CONVERGED, TOO_FAR, CAN_REDUCE, ROWS_TO_CHECK = range(5)
"""Why rounds ended: there is no room for more; users have converged; centres may have gone too far;
no row need be checked for many rounds; a row must be checked."""

_MANY_ROUNDS = 64
"""Rounds without a row to check from which on it is worth changing coordinates."""


class StoppingRule(NamedTuple):
    """When users that are all in one block stop."""

    window: int
    """Users decide after this many exchanges; never, if 0."""
    tol: float
    units: FloatArray
    """(m,) What a move is divided by to estimate the residual: how far the user's centres still
    have to go, relative to the spread of rows."""
    largest: FloatArray
    """(2,) The largest residual of the window before, and of the present one so far."""


class _Span(NamedTuple):
    """Which rounds are to be run."""

    begun: int
    """The number of the first."""
    bound: float
    """How far centres may drift."""
    slack: float
    """As in `run_rounds`."""
    label: bool
    """Whether rows are assigned to clusters."""
    once: bool
    """Whether one exchange is all, of which nothing is written down."""
    may_reduce: bool
    """As in `run_rounds`."""


@inner
def _find_spread(x: FloatArray, k: Index, squares: FloatArray) -> None:
    """|x_i(k) - mean over users|^2 for all users i."""
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
        squares[k, i] = pairwise_sum(work, 1, d)


@inner_on_all_cores
def _find_spreads(x: FloatArray, squares: FloatArray) -> None:
    """(K, m) |x_i(k) - mean over users|^2."""
    if x.size <= ONE_CORE:
        for k in range(x.shape[1]):
            _find_spread(x, k, squares)
    else:
        for k in prange(x.shape[1]):
            _find_spread(x, np.int64(k), squares)


@inlined
def _must_check(per_user: FloatArray) -> bool:
    """Whether a row of any user must be checked."""
    must = False
    for u in range(len(per_user)):
        must |= not per_user[u, MAX_DRIFT] < per_user[u, NEXT_CHECK]
    return must


@inlined
def _note(
    out: FloatArray,
    squares: FloatArray,
    per_user: FloatArray,
    stop: StoppingRule,
    slack: float,
    line: FloatArray,
) -> tuple[float, bool]:
    """Adds a round to drifts, residuals and the ``line`` of its history.

    Returns the largest MAX_DRIFT of a user; and whether no row need be checked for many rounds.
    """
    n_clusters, m = squares.shape
    farthest, unchecked, worst, residual = 0.0, True, 0.0, 0.0
    slack = max(slack, 0.0)
    for u in range(m):
        fastest = 0.0
        for k in range(n_clusters):
            per_user[u, k] += out[u, k] + slack
            fastest = max(fastest, out[u, k])
            worst = max(worst, squares[k, u])
        per_user[u, MAX_DRIFT] += fastest + slack
        farthest = max(farthest, per_user[u, MAX_DRIFT])
        left = per_user[u, NEXT_CHECK] - per_user[u, MAX_DRIFT]
        if per_user[u, N_OUTSIDE] > 0 or left < _MANY_ROUNDS * fastest:
            unchecked = False
        changed = out[u, USER_CHANGED] > 0
        residual = max(residual, math.inf if changed else fastest / stop.units[u])
        line[CHANGED] += out[u, USER_CHANGED]
        line[MOVED] = max(line[MOVED], fastest)
        line[COST] += out[u, USER_COST]
        line[APART] += out[u, USER_APART]
    line[SPREAD] = math.sqrt(worst)
    stop.largest[1] = max(stop.largest[1], residual)
    return farthest, unchecked


@jit
def _run_rounds(
    state: Clusters,
    x: FloatArray,
    new: FloatArray,
    rule: StepRule,
    stop: StoppingRule,
    history: FloatArray,
    span: _Span,
    out: FloatArray,
) -> tuple[int, int]:
    # The one function for all that is compiled of rounds: each further one that calls
    # `exchange_all` would take as long to compile.
    m, n_clusters, _ = new.shape
    squares = np.zeros((n_clusters, m))
    for t in range(span.begun, len(history)):
        if span.slack >= 0 and _must_check(state.per_user):
            return t, ROWS_TO_CHECK
        exchange_all(state, x, new, rule, span.label, out)
        if span.once:
            return t + 1, HISTORY_FULL
        x, new = new, x
        _find_spreads(x, squares)
        farthest, unchecked = _note(out, squares, state.per_user, stop, span.slack, history[t])
        if not farthest <= span.bound:  # also if it is not a number
            return t + 1, TOO_FAR
        if stop.window > 0 and (t + 1) % stop.window == 0:
            if stop.largest[0] <= stop.tol:
                return t + 1, CONVERGED
            stop.largest[0], stop.largest[1] = stop.largest[1], 0.0
        if span.may_reduce and unchecked:
            return t + 1, CAN_REDUCE
    return len(history), HISTORY_FULL


@one_at_a_time
def run_rounds(
    state: Clusters,
    x: FloatArray,
    new: FloatArray,
    rule: StepRule,
    stop: StoppingRule,
    history: FloatArray,
    begun: int,
    bound: float,
    *,
    slack: float = -1.0,
    may_reduce: bool = False,
) -> tuple[int, int]:
    """Rounds of one exchange, from number ``begun`` on, as many as the history (T, 5) has room for.

    Returns how many rounds there have been then, and why they ended. Centres, which start in ``x``,
    are in ``new`` after an odd number of rounds. ``bound`` is how far they may drift.

    In coordinates of :mod:`unpooled.kernels.compiled.reduced`, ``slack`` is how much farther than
    seen there centres may have moved in a round, and rounds end before a row must be checked.
    Elsewhere ``slack`` is negative, and with ``may_reduce`` rounds end when they could go on there.
    """
    out = np.empty((len(new), new.shape[1] + 3))
    span = _Span(begun, bound, slack, True, False, may_reduce)
    rounds, end = _run_rounds(state, x, new, rule, stop, history, span, out)
    return int(rounds), int(end)


@one_at_a_time
def exchange(
    state: Clusters, x: FloatArray, new: FloatArray, rule: StepRule, label: bool
) -> FloatArray:
    """One exchange: from ``x``, the block's centres and then those heard, to ``new``.

    With ``label`` rows are assigned to clusters first. Returns how many changed, for each user.
    """
    out = np.empty((len(new), new.shape[1] + 3))
    stop = StoppingRule(0, 0.0, np.empty(0), np.empty(0))
    span = _Span(0, math.inf, -1.0, bool(label), True, False)
    x = np.require(x, requirements=["C", "W"])  # another layout would be compiled for once more
    _run_rounds(state, x, new, rule, stop, np.empty((1, 5)), span, out)
    return out[:, USER_CHANGED]


def add_drift(state: Clusters, before: FloatArray, x: FloatArray) -> None:
    """Adds the lengths of the moves from ``before`` to ``x``, where centres are now, to drifts."""
    moves = np.sqrt(np.square(x - before).sum(axis=2))
    state.per_user[:, : x.shape[1]] += moves
    state.per_user[:, MAX_DRIFT] += moves.max(axis=1)
