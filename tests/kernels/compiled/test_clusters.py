"""What clusters hold while centres move, against plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled import losses
from unpooled.kernels.assignment.nearest import all_pairs
from unpooled.kernels.compiled import clusters
from unpooled.kernels.compiled._jit import jit
from unpooled.kernels.compiled.clusters import (
    DUE,
    HELD,
    LABEL,
    LOOSE,
    MASS,
    MOST,
    SCATTER,
    SIZE,
    WEIGHT,
)

KINDS = {
    "k-means": (losses.SquaredEuclidean(), clusters.KMEANS, np.inf, np.inf),
    "huber": (losses.Huber(1.2), clusters.HUBER, 1.2, 1.2),
    "logistic": (losses.Logistic(), clusters.LOGISTIC, 1.0, clusters.SATURATED),
    "fair": (losses.Fair(0.8), clusters.FAIR, 0.8, -1.0),
}


def callable_from_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is compiled for calls from compiled code only has no other way in."""
    return jit(lambda *arguments: function(*arguments))


squared = callable_from_here(clusters.squared)
fold = callable_from_here(clusters.fold)
value = callable_from_here(clusters.value)
force = callable_from_here(clusters.force)
between = callable_from_here(clusters._between)
visit = callable_from_here(clusters.visit)
pull_only = callable_from_here(clusters.pull_only)
paid = callable_from_here(clusters.paid)


@given(d=st.integers(1, 200), seed=st.integers(0, 100))
def test_squared_distances_and_sums(d: int, seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, 3, d))
    room = np.empty((1, d))
    assert squared(x, 1, y, 2, room) == pytest.approx(np.sum((x[1] - y[2]) ** 2), rel=1e-13)
    assert fold(x.copy(), 1, d) == pytest.approx(x[1].sum(), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("t", [0.0, 1e-9, 0.5, 1.2, 3.0, 40.0])
def test_values_and_forces_are_those_of_the_losses(kind: str, t: float) -> None:
    loss, number, bend, _ = KINDS[kind]
    x, y = np.array([[t, 0.0]]), np.zeros((1, 2))
    assert value(number, bend, t**2) == pytest.approx(loss.value(x, y)[0], rel=1e-13, abs=1e-300)
    assert force(number, bend, t**2) == pytest.approx(loss.weight(np.array([t]))[0], rel=1e-13)


def test_the_logistic_loss_is_saturated_where_it_is_said_to_be() -> None:
    assert 1.0 + np.exp(-(clusters.SATURATED**2)) == 1.0
    far = np.array([[clusters.SATURATED, 0.0]])
    assert losses.Logistic().gradient(far, np.zeros((1, 2)))[0, 0] == 2.0 * clusters.SATURATED


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e120])
@pytest.mark.parametrize("far", [1.0, 1e6, 1e30])
def test_bounds_in_half_the_digits_hold(size: float, far: float) -> None:
    """However large rows are, and however far the centre is."""
    rng = np.random.default_rng(0)
    rows = size * rng.normal(size=(20, 300))
    s = clusters.clusters(rows, np.ones(20), np.array([0, 20]), 1)
    x = rows[3:4] + far * size * rng.normal(size=(1, 300))
    scale = s.clock[0, clusters.SCALE]
    with np.errstate(over="ignore"):
        near = np.zeros((1, 320), dtype=np.float32)
        near[0, :300] = (x[0] - rows[0]) / scale
    for r in range(20):
        work, room = np.empty((1, 320), dtype=np.float32), np.empty((1, 300))
        with np.errstate(over="ignore"):
            lower, upper = between(rows, s.coarse, r, x, near, 0, work, room, s.clock[0])
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
def test_visits_find_what_plain_numpy_finds(kind: str, d: int) -> None:
    loss, number, bend, reach = KINDS[kind]
    if isinstance(loss, losses.Huber):
        bend = reach = bend * np.sqrt(d)
        loss = losses.Huber(bend)
    rows, weights, path = _moving(np.random.default_rng(d), d)
    s = clusters.clusters(rows, weights, np.array([0, 60]), 3)
    labels, passed_by, before = np.full(60, -1), 0, path[0]
    logistic = number == clusters.LOGISTIC
    unit = 2.0 if logistic else 1.0
    for x in path:
        moves = np.linalg.norm(x - before, axis=1)
        s.clock[0, :3] += moves
        s.clock[0, MOST] += moves.max()
        way = s.clock[0, np.maximum(labels, 0)]
        passed_by += (way + s.clock[0, MOST] < s.ledger[:, DUE]).sum()
        pull = np.zeros((3, d if kind != "k-means" else 0))
        had_cost = np.where(labels >= 0, weights * loss.value(x[labels], rows), 0.0).sum()
        changed, extra = visit(
            rows, s.coarse, s.ledger, s.clock[0], s.sums[0], x, pull, number, bend, reach
        )
        distances = all_pairs(rows, np.zeros(60, int), x[None])
        fresh = distances.argmin(axis=1)
        np.testing.assert_array_equal(s.ledger[:, LABEL], fresh)
        assert changed == (fresh != labels).sum()
        own = np.sqrt(distances[np.arange(60), fresh])
        held = own >= reach if logistic else own <= reach
        np.testing.assert_array_equal(s.ledger[:, HELD] > 0, held)
        assert s.clock[0, LOOSE] == (~held).sum()
        held_cost = 0.0
        for k in range(3):
            inside = held & (fresh == k)
            w, y = unit * weights[inside], rows[inside]
            sums = s.sums[0, k]
            np.testing.assert_allclose(sums[:d], w @ (y - rows[0]), rtol=0, atol=1e-13 * 60)
            assert sums[MASS] == w.sum()
            assert sums[SIZE] == inside.sum()
            mean = np.average(y, axis=0, weights=w) if w.sum() > 0 else np.zeros(d)
            scatter = w @ np.sum((y - mean) ** 2, axis=1)
            assert sums[SCATTER] == pytest.approx(scatter, abs=1e-12 * d)
            held_cost += 0.5 * w @ np.sum((x[k] - y) ** 2, axis=1)
            if kind != "k-means":
                loose = ~held & (fresh == k)
                g = weights[loose] * loss.weight(own[loose])
                np.testing.assert_allclose(pull[k], g @ (x[k] - rows[loose]), atol=1e-12)
        if (labels >= 0).all():
            assert held_cost + extra == pytest.approx(had_cost, rel=1e-12)
        if kind != "k-means":
            again = np.zeros_like(pull)
            pull_only(rows, s.ledger, x, again, number, bend)
            np.testing.assert_allclose(again, pull, atol=1e-12)
        cost = weights @ loss.value(x[fresh], rows)
        assert paid(rows, s.ledger, x, number, bend) == pytest.approx(cost, rel=1e-12)
        labels, before = fresh, x
    np.testing.assert_array_equal(s.ledger[:, WEIGHT], weights)
    assert passed_by > 100  # or there is nothing lazy about it
