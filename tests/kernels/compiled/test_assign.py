"""Compiled assignment of rows while centres move, against plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled import losses
from unpooled.kernels.assignment.nearest import all_pairs
from unpooled.kernels.compiled import assign, bounds, distances, loss_terms
from unpooled.kernels.compiled._jit import jit
from unpooled.kernels.compiled.clusters import (
    CHECK_AT,
    IN_SUMS,
    LABEL,
    MASS,
    MAX_DRIFT,
    N_OUTSIDE,
    SCALE,
    SCATTER,
    SIZE,
    WEIGHT,
    clusters_of,
    empty_clusters,
)
from unpooled.kernels.compiled.loss_terms import SATURATED, LossTerms

KINDS = {
    "k-means": (losses.SquaredEuclidean(), LossTerms(loss_terms.KMEANS, np.inf, np.inf)),
    "huber": (losses.Huber(1.2), LossTerms(loss_terms.HUBER, 1.2, 1.2)),
    "logistic": (losses.Logistic(), LossTerms(loss_terms.LOGISTIC, 1.0, SATURATED)),
    "fair": (losses.Fair(0.8), LossTerms(loss_terms.FAIR, 0.8, -1.0)),
}


def callable_from_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is compiled for calls from compiled code only has no other way in."""
    return jit(lambda *arguments: function(*arguments))


squared_between = callable_from_here(distances.squared_between)
pairwise_sum = callable_from_here(distances.pairwise_sum)
loss_value = callable_from_here(loss_terms.loss_value)
loss_weight = callable_from_here(loss_terms.loss_weight)
distance_bounds = callable_from_here(bounds.distance_bounds)
assign_rows = callable_from_here(assign.assign_rows)
add_pulls = callable_from_here(assign.add_pulls)
cost_of_rows = callable_from_here(assign.cost_of_rows)
user_of = jit(lambda state, u: clusters_of(state, u))


@given(d=st.integers(1, 200), seed=st.integers(0, 100))
def test_squared_distances_and_sums(d: int, seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, 3, d))
    room = np.empty((1, d))
    assert squared_between(x, 1, y, 2, room) == pytest.approx(np.sum((x[1] - y[2]) ** 2), rel=1e-13)
    assert pairwise_sum(x.copy(), 1, d) == pytest.approx(x[1].sum(), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("t", [0.0, 1e-9, 0.5, 1.2, 3.0, 40.0])
def test_values_and_weights_are_those_of_the_losses(kind: str, t: float) -> None:
    loss, terms = KINDS[kind]
    x, y = np.array([[t, 0.0]]), np.zeros((1, 2))
    assert loss_value(terms, t**2) == pytest.approx(loss.value(x, y)[0], rel=1e-13, abs=1e-300)
    assert loss_weight(terms, t**2) == pytest.approx(loss.weight(np.array([t]))[0], rel=1e-13)


def test_the_logistic_loss_is_saturated_where_it_is_said_to_be() -> None:
    assert 1.0 + np.exp(-(SATURATED**2)) == 1.0
    far = np.array([[SATURATED, 0.0]])
    assert losses.Logistic().gradient(far, np.zeros((1, 2)))[0, 0] == 2.0 * SATURATED


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e120])
@pytest.mark.parametrize("far", [1.0, 1e6, 1e30])
def test_bounds_in_single_precision_hold(size: float, far: float) -> None:
    """However large rows are, and however far the centre is."""
    rng = np.random.default_rng(0)
    rows = size * rng.normal(size=(20, 300))
    state = empty_clusters(rows, np.ones(20), np.array([0, 20]), 1)
    x = rows[3:4] + far * size * rng.normal(size=(1, 300))
    drift = state.per_user[0]
    scale = drift[SCALE]
    with np.errstate(over="ignore"):
        coarse_x = np.zeros((1, 320), dtype=np.float32)
        coarse_x[0, :300] = (x[0] - rows[0]) / scale
    for r in range(20):
        work, room = np.empty((1, 320), dtype=np.float32), np.empty((1, 300))
        with np.errstate(over="ignore"):
            lower, upper = distance_bounds(rows, state.coarse, r, drift, x, coarse_x, 0, work, room)
        true = size * np.linalg.norm((x[0] - rows[r]) / size)
        assert lower <= true <= upper
        assert upper - lower < 1e-4 * (true + scale) or far == 1e30


def _moving(rng: np.random.Generator, d: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Rows with weights, and centres on their way: fast at first, then slowly."""
    rows = np.concatenate([rng.normal(size=(40, d)), rng.integers(-1, 2, size=(20, d))])
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], size=60)
    path = [rows[[0, 20, 59]] + 0.3]
    for t in range(25):
        path.append(path[-1] + 0.3 * 0.8**t * rng.normal(size=path[0].shape))
    return rows, weights, path


@pytest.mark.long
@pytest.mark.parametrize("d", [1, 3, 20, 260])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_assigned_as_by_plain_numpy(kind: str, d: int) -> None:
    loss, terms = KINDS[kind]
    if isinstance(loss, losses.Huber):
        delta = float(loss.delta * np.sqrt(d))
        loss, terms = losses.Huber(delta), terms._replace(bend=delta, reach=delta)
    rows, weights, path = _moving(np.random.default_rng(d), d)
    state = empty_clusters(rows, weights, np.array([0, 60]), 3)
    user, drift, per_row = user_of(state, 0), state.per_user[0], state.per_row
    labels, skipped, before = np.full(60, -1), 0, path[0]
    logistic = terms.kind == loss_terms.LOGISTIC
    unit = 2.0 if logistic else 1.0
    for x in path:
        moves = np.linalg.norm(x - before, axis=1)
        drift[:3] += moves
        drift[MAX_DRIFT] += moves.max()
        own_drift = drift[np.maximum(labels, 0)]
        skipped += (own_drift + drift[MAX_DRIFT] < per_row[:, CHECK_AT]).sum()
        pull = np.zeros((3, d if kind != "k-means" else 0))
        had_cost = np.where(labels >= 0, weights * loss.value(x[labels], rows), 0.0).sum()
        changed, extra = assign_rows(user, x, pull, terms)
        distances = all_pairs(rows, np.zeros(60, int), x[None])
        fresh = distances.argmin(axis=1)
        np.testing.assert_array_equal(per_row[:, LABEL], fresh)
        assert changed == (fresh != labels).sum()
        own = np.sqrt(distances[np.arange(60), fresh])
        inside_sums = own >= terms.reach if logistic else own <= terms.reach
        np.testing.assert_array_equal(per_row[:, IN_SUMS] > 0, inside_sums)
        assert drift[N_OUTSIDE] == (~inside_sums).sum()
        sums_cost = 0.0
        for k in range(3):
            members = inside_sums & (fresh == k)
            w, y = unit * weights[members], rows[members]
            sums = state.sums[0, k]
            np.testing.assert_allclose(sums[:d], w @ (y - rows[0]), rtol=0, atol=1e-13 * 60)
            assert sums[MASS] == w.sum()
            assert sums[SIZE] == members.sum()
            mean = np.average(y, axis=0, weights=w) if w.sum() > 0 else np.zeros(d)
            scatter = w @ np.sum((y - mean) ** 2, axis=1)
            assert sums[SCATTER] == pytest.approx(scatter, abs=1e-12 * d)
            sums_cost += 0.5 * w @ np.sum((x[k] - y) ** 2, axis=1)
            if kind != "k-means":
                outside = ~inside_sums & (fresh == k)
                g = weights[outside] * loss.weight(own[outside])
                np.testing.assert_allclose(pull[k], g @ (x[k] - rows[outside]), atol=1e-12)
        if (labels >= 0).all():
            assert sums_cost + extra == pytest.approx(had_cost, rel=1e-12)
        if kind != "k-means":
            again = np.zeros_like(pull)
            add_pulls(user, x, again, terms)
            np.testing.assert_allclose(again, pull, atol=1e-12)
        cost = weights @ loss.value(x[fresh], rows)
        assert cost_of_rows(user, x, terms) == pytest.approx(cost, rel=1e-12)
        labels, before = fresh, x
    np.testing.assert_array_equal(per_row[:, WEIGHT], weights)
    assert skipped > 100  # or bounds are of no use
