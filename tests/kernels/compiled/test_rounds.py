"""Compiled exchanges and rounds against plain NumPy, and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled import losses
from unpooled.graphs.reading import topology
from unpooled.kernels.assignment.nearest import nearest
from unpooled.kernels.compiled import rounds as compiled
from unpooled.kernels.compiled.clusters import (
    LABEL,
    MAX_DRIFT,
    NEXT_CHECK,
    Clusters,
    empty_clusters,
)
from unpooled.kernels.compiled.columns import advance_columns
from unpooled.kernels.compiled.costs import costs
from unpooled.kernels.compiled.loss_terms import (
    FAIR,
    HUBER,
    KMEANS,
    LOGISTIC,
    SATURATED,
    LossTerms,
)
from unpooled.kernels.compiled.reduced import reduce_coordinates
from unpooled.kernels.compiled.steps import StepRule, step_rule

RHO = 3.0
LOSSES = {
    "k-means": (losses.SquaredEuclidean(), LossTerms(KMEANS, np.inf, np.inf)),
    "huber": (losses.Huber(1.5), LossTerms(HUBER, 1.5, 1.5)),
    "logistic": (losses.Logistic(), LossTerms(LOGISTIC, 1.0, SATURATED)),
    "fair": (losses.Fair(1.0), LossTerms(FAIR, 1.0, -1.0)),
}
SIZES = np.array([0, 9, 9, 30, 41])
"""Where users' rows start; one has none."""
OWNER = np.repeat(np.arange(4), np.diff(SIZES))
GRAPH = topology("star", ("A", "B", "C", "D"))


def _case(
    loss: str, d: int, *, by_cluster: bool = False, seed: int = 0
) -> tuple[Clusters, np.ndarray, StepRule, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(41, d)) + 2 * rng.integers(2, size=(41, 1))
    weights = rng.choice([0.0, 1.0, 2.0], size=41)
    links = GRAPH.adjacency
    steps = np.full(4, 0.5 if by_cluster else 0.02)
    rule = step_rule(
        links.indptr, links.indices, steps, RHO, LOSSES[loss][1], by_cluster=by_cluster
    )
    return empty_clusters(rows, weights, SIZES, 3), rng.normal(size=(4, 3, d)), rule, weights


def _plain(loss, state, x, rule, weights):  # type: ignore[no-untyped-def]
    """One exchange: labels, new centres, and how far users were apart before the step."""
    f, adjacency = LOSSES[loss][0], GRAPH.adjacency.toarray()
    labels = nearest(state.rows, OWNER, x)
    gradient = weights[:, None] * f.gradient(x[OWNER, labels], state.rows)
    innovation, mass = np.zeros_like(x), np.zeros(x.shape[:2])
    np.add.at(innovation, (OWNER, labels), gradient)
    square = np.sqrt(np.sum((x[OWNER, labels] - state.rows) ** 2, axis=1)) <= LOSSES[loss][1].reach
    np.add.at(mass, (OWNER, labels), weights * square)  # by which k-means and Huber may step
    difference = x[:, None] - x[None]
    lap = np.einsum("ij,ijkd->ikd", adjacency, difference)
    apart = np.einsum("ij,ijkd->i", adjacency, difference**2)
    step = np.broadcast_to(rule.steps[:, None], mass.shape)
    if rule.by_cluster:
        step = rule.steps[:, None] / (mass / RHO + adjacency.sum(axis=1)[:, None])
    return labels, x - step[..., None] * (lap + innovation / RHO), apart


@pytest.mark.parametrize("by_cluster", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_exchanges_are_those_of_plain_numpy(loss: str, by_cluster: bool) -> None:
    if by_cluster and loss in ("logistic", "fair"):
        pytest.skip("steps by cluster are for losses with rows in the sums")
    state, x, rule, weights = _case(loss, 5, by_cluster=by_cluster)
    for _ in range(12):
        labels, expected, _ = _plain(loss, state, x, rule, weights)
        new = np.empty_like(x)
        before = state.per_row[:, LABEL].copy()
        changed = compiled.exchange(state, x, new, rule, True)
        np.testing.assert_array_equal(state.per_row[:, LABEL], labels)
        np.testing.assert_array_equal(changed, np.bincount(OWNER, labels != before, 4))
        np.testing.assert_allclose(new, expected, atol=1e-12)
        cost = weights * LOSSES[loss][0].value(new[OWNER, labels], state.rows)
        np.testing.assert_allclose(costs(state, new, rule), np.bincount(OWNER, cost, 4))
        compiled.add_drift(state, x, new)
        x = new


@pytest.mark.parametrize("loss", LOSSES)
def test_many_rounds_are_exchanges_one_after_the_other(loss: str) -> None:
    state, x, rule, weights = _case(loss, 5)
    one, y, _, _ = _case(loss, 5)
    history = np.zeros((30, 5))
    stop = compiled.StoppingRule(0, 0.0, np.ones(4), np.array([np.inf, 0.0]))
    here, there = x.copy(), np.empty_like(x)
    rounds, end = compiled.run_rounds(state, here, there, rule, stop, history, 0, 1e100)
    assert (rounds, end) == (30, compiled.HISTORY_FULL)
    labels = np.full(41, -1)
    for t in range(30):
        _, _, apart = _plain(loss, one, y, rule, weights)
        cost = weights * LOSSES[loss][0].value(y[OWNER, labels], one.rows)
        if t:
            assert history[t, compiled.COST] == pytest.approx(cost.sum())
        assert history[t, compiled.APART] == pytest.approx(apart.sum())
        new = np.empty_like(y)
        changed = compiled.exchange(one, y, new, rule, True)
        labels = one.per_row[:, LABEL].astype(int)
        assert history[t, compiled.CHANGED] == changed.sum()
        assert history[t, compiled.MOVED] == pytest.approx(np.linalg.norm(new - y, axis=2).max())
        away = np.linalg.norm(new - new.mean(axis=0), axis=2).max()
        assert history[t, compiled.SPREAD] == pytest.approx(away)
        compiled.add_drift(one, y, new)
        y = new
    np.testing.assert_array_equal(here, y)


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_pull_alone(loss: str, label: bool) -> None:
    state, x, rule, weights = _case(loss, 5)
    labels, stepped, _ = _plain(loss, state, x, rule, weights)
    if not label:
        compiled.exchange(state, x, np.empty_like(x), rule, True)
    links = GRAPH.adjacency
    only = step_rule(links.indptr, links.indices, rule.steps, RHO, LOSSES[loss][1], pull_only=True)
    pull = np.empty_like(x)
    compiled.exchange(state, x, pull, only, label)
    np.testing.assert_array_equal(state.per_row[:, LABEL], labels)
    toward = np.einsum("ij,ijkd->ikd", links.toarray(), x[:, None] - x[None])
    np.testing.assert_allclose(pull / RHO, (x - stepped) / 0.02 - toward, atol=1e-12)


def _unchecked(by_cluster: bool, graph: str, d: int = 70):  # type: ignore[no-untyped-def]
    """A state in which no row need be checked."""
    state, x, rule, _ = _case("k-means", d, by_cluster=by_cluster)
    links = topology(graph, ("A", "B", "C", "D")).adjacency
    rule = step_rule(
        links.indptr, links.indices, rule.steps, RHO, LOSSES["k-means"][1], by_cluster=by_cluster
    )
    compiled.exchange(state, x, np.empty_like(x), rule, True)
    state.per_user[:, NEXT_CHECK] = np.inf
    return state, x, rule


def _run(state, x, rule, rounds: int, **named):  # type: ignore[no-untyped-def]
    stop = compiled.StoppingRule(0, 0.0, np.ones(4), np.array([np.inf, 0.0]))
    here, there, history = x.copy(), np.empty_like(x), np.zeros((rounds, 5))
    ended = compiled.run_rounds(state, here, there, rule, stop, history, 0, 1e100, **named)
    assert ended == (rounds, compiled.HISTORY_FULL)
    return history, (there, here) if rounds % 2 else (here, there)


@pytest.mark.parametrize("graph", ["star", "path", "ring", "complete"])
@pytest.mark.parametrize("by_cluster", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 25])
def test_columns_on_their_own_are_the_same_to_the_last_digit(
    graph: str, by_cluster: bool, rounds: int
) -> None:
    state, x, rule = _unchecked(by_cluster, graph)
    before, after = advance_columns(state, x, rule, rounds)
    _, (last, last_but_one) = _run(state, x, rule, rounds)
    np.testing.assert_array_equal(after, last)
    np.testing.assert_array_equal(before, last_but_one)


@pytest.mark.parametrize("by_cluster", [False, True])
def test_rounds_in_reduced_coordinates_are_the_same(by_cluster: bool) -> None:
    state, x, rule = _unchecked(by_cluster, "star")
    part, drift = reduce_coordinates(state, x, rule), state.per_user.copy()
    reduced, _ = _run(part.state, part.z, rule, 25, slack=part.slack)
    seen = state.per_user.copy()
    state.per_user[:] = drift
    whole, _ = _run(state, x, rule, 25)
    np.testing.assert_allclose(reduced, whole, rtol=1e-9, atol=1e-12)
    drifts = [*range(3), MAX_DRIFT]
    # Never less than centres have drifted.
    assert (seen[:, drifts] >= state.per_user[:, drifts]).all()
    np.testing.assert_allclose(seen, state.per_user, rtol=1e-9)


def test_rounds_in_reduced_coordinates_end_when_a_row_must_be_checked() -> None:
    state, x, rule, _ = _case("k-means", 40)
    compiled.exchange(state, x, np.empty_like(x), rule, True)
    part = reduce_coordinates(state, x, rule)
    state.per_user[2, NEXT_CHECK] = state.per_user[2, MAX_DRIFT]
    stop = compiled.StoppingRule(0, 0.0, np.ones(4), np.array([np.inf, 0.0]))
    ended = compiled.run_rounds(
        part.state, part.z, part.z.copy(), rule, stop, np.zeros((9, 5)), 3, 1e100, slack=part.slack
    )
    assert ended == (3, compiled.ROWS_TO_CHECK)
