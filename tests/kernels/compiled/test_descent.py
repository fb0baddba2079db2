"""Compiled exchanges and rounds against plain NumPy, and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled import losses
from unpooled.graphs.reading import topology
from unpooled.kernels.assignment.nearest import nearest
from unpooled.kernels.compiled import clusters, descent
from unpooled.kernels.compiled.folding import fold

RHO = 3.0
LOSSES = {
    "k-means": (losses.SquaredEuclidean(), (clusters.KMEANS, np.inf, np.inf)),
    "huber": (losses.Huber(1.5), (clusters.HUBER, 1.5, 1.5)),
    "logistic": (losses.Logistic(), (clusters.LOGISTIC, 1.0, clusters.SATURATED)),
    "fair": (losses.Fair(1.0), (clusters.FAIR, 1.0, -1.0)),
}
SIZES = np.array([0, 9, 9, 30, 41])
"""Where users' rows start; one has none."""
OWNER = np.repeat(np.arange(4), np.diff(SIZES))
GRAPH = topology("star", ("A", "B", "C", "D"))


def _case(
    loss: str, d: int, *, by_cluster: bool = False, seed: int = 0
) -> tuple[clusters.Clusters, np.ndarray, descent.Slope, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(41, d)) + 2 * rng.integers(2, size=(41, 1))
    weights = rng.choice([0.0, 1.0, 2.0], size=41)
    links = GRAPH.adjacency
    steps = np.full(4, 0.5 if by_cluster else 0.02)
    how = descent.slope(
        links.indptr, links.indices, steps, RHO, LOSSES[loss][1], by_cluster=by_cluster
    )
    return clusters.clusters(rows, weights, SIZES, 3), rng.normal(size=(4, 3, d)), how, weights


def _plain(loss, s, x, how, weights):  # type: ignore[no-untyped-def]
    """One exchange: labels, new centres, and what it says of the state before the step."""
    f, adjacency = LOSSES[loss][0], GRAPH.adjacency.toarray()
    labels = nearest(s.rows, OWNER, x)
    gradient = weights[:, None] * f.gradient(x[OWNER, labels], s.rows)
    innovation, mass = np.zeros_like(x), np.zeros(x.shape[:2])
    np.add.at(innovation, (OWNER, labels), gradient)
    held = np.sqrt(np.sum((x[OWNER, labels] - s.rows) ** 2, axis=1)) <= LOSSES[loss][1][2]
    np.add.at(mass, (OWNER, labels), weights * held)  # by which k-means and Huber step, if they do
    difference = x[:, None] - x[None]
    lap = np.einsum("ij,ijkd->ikd", adjacency, difference)
    apart = np.einsum("ij,ijkd->i", adjacency, difference**2)
    step = np.broadcast_to(how.steps[:, None], mass.shape)
    if how.terms[descent._BY_CLUSTER]:
        step = how.steps[:, None] / (mass / RHO + adjacency.sum(axis=1)[:, None])
    return labels, x - step[..., None] * (lap + innovation / RHO), apart


@pytest.mark.parametrize("by_cluster", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_exchanges_are_those_of_plain_numpy(loss: str, by_cluster: bool) -> None:
    if by_cluster and loss in ("logistic", "fair"):
        pytest.skip("steps by cluster are for losses that hold rows")
    s, x, how, weights = _case(loss, 5, by_cluster=by_cluster)
    for _ in range(12):
        labels, expected, _ = _plain(loss, s, x, how, weights)
        new = np.empty_like(x)
        before = s.ledger[:, clusters.LABEL].copy()
        changed = descent.exchange(s, x, new, how, True)
        np.testing.assert_array_equal(s.ledger[:, clusters.LABEL], labels)
        np.testing.assert_array_equal(changed, np.bincount(OWNER, labels != before, 4))
        np.testing.assert_allclose(new, expected, atol=1e-12)
        cost = weights * LOSSES[loss][0].value(new[OWNER, labels], s.rows)
        np.testing.assert_allclose(descent.costs(s, new, how), np.bincount(OWNER, cost, 4))
        descent.follow(s, x, new)
        x = new


@pytest.mark.parametrize("loss", LOSSES)
def test_leaps_are_exchanges_one_after_the_other(loss: str) -> None:
    s, x, how, weights = _case(loss, 5)
    one, y, _, _ = _case(loss, 5)
    book = np.zeros((30, 5))
    rest = descent.Rest(0, 0.0, np.ones(4), np.array([np.inf, 0.0]))
    here, there = x.copy(), np.empty_like(x)
    rounds, end = descent.leap(s, here, there, how, rest, book, 0, 1e100)
    assert (rounds, end) == (30, descent.RAN_ON)
    labels = np.full(41, -1)
    for t in range(30):
        _, _, apart = _plain(loss, one, y, how, weights)
        cost = weights * LOSSES[loss][0].value(y[OWNER, labels], one.rows)
        if t:
            assert book[t, descent.COST] == pytest.approx(cost.sum())
        assert book[t, descent.APART] == pytest.approx(apart.sum())
        new = np.empty_like(y)
        changed = descent.exchange(one, y, new, how, True)
        labels = one.ledger[:, clusters.LABEL].astype(int)
        assert book[t, descent.CHANGED] == changed.sum()
        assert book[t, descent.MOVED] == pytest.approx(np.linalg.norm(new - y, axis=2).max())
        away = np.linalg.norm(new - new.mean(axis=0), axis=2).max()
        assert book[t, descent.SPREAD] == pytest.approx(away)
        descent.follow(one, y, new)
        y = new
    np.testing.assert_array_equal(here, y)


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_pull_alone(loss: str, label: bool) -> None:
    s, x, how, weights = _case(loss, 5)
    labels, stepped, _ = _plain(loss, s, x, how, weights)
    if not label:
        descent.exchange(s, x, np.empty_like(x), how, True)
    links = GRAPH.adjacency
    only = descent.slope(
        links.indptr, links.indices, how.steps, RHO, LOSSES[loss][1], pull_only=True
    )
    pull = np.empty_like(x)
    descent.exchange(s, x, pull, only, label)
    np.testing.assert_array_equal(s.ledger[:, clusters.LABEL], labels)
    toward = np.einsum("ij,ijkd->ikd", links.toarray(), x[:, None] - x[None])
    np.testing.assert_allclose(pull / RHO, (x - stepped) / 0.02 - toward, atol=1e-12)


def _calm(by_cluster: bool, graph: str, d: int = 70):  # type: ignore[no-untyped-def]
    """A state in which no row is to be looked at again."""
    s, x, how, _ = _case("k-means", d, by_cluster=by_cluster)
    links = topology(graph, ("A", "B", "C", "D")).adjacency
    how = descent.slope(
        links.indptr, links.indices, how.steps, RHO, LOSSES["k-means"][1], by_cluster=by_cluster
    )
    descent.exchange(s, x, np.empty_like(x), how, True)
    s.clock[:, clusters.SOONEST] = np.inf
    return s, x, how


def _leapt(s, x, how, rounds: int, **named):  # type: ignore[no-untyped-def]
    rest = descent.Rest(0, 0.0, np.ones(4), np.array([np.inf, 0.0]))
    here, there, book = x.copy(), np.empty_like(x), np.zeros((rounds, 5))
    ended = descent.leap(s, here, there, how, rest, book, 0, 1e100, **named)
    assert ended == (rounds, descent.RAN_ON)
    return book, (there, here) if rounds % 2 else (here, there)


@pytest.mark.parametrize("graph", ["star", "path", "ring", "complete"])
@pytest.mark.parametrize("by_cluster", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 25])
def test_columns_on_their_own_are_the_same_to_the_last_digit(
    graph: str, by_cluster: bool, rounds: int
) -> None:
    s, x, how = _calm(by_cluster, graph)
    before, after = descent.drift(s, x, how, rounds)
    _, (last, last_but_one) = _leapt(s, x, how, rounds)
    np.testing.assert_array_equal(after, last)
    np.testing.assert_array_equal(before, last_but_one)


@pytest.mark.parametrize("by_cluster", [False, True])
def test_folded_rounds_are_the_same_rounds(by_cluster: bool) -> None:
    s, x, how = _calm(by_cluster, "star")
    part, clock = fold(s, x, how), s.clock.copy()
    folded, _ = _leapt(part.state, part.z, how, 25, slack=part.slack)
    seen = s.clock.copy()
    s.clock[:] = clock
    whole, _ = _leapt(s, x, how, 25)
    np.testing.assert_allclose(folded, whole, rtol=1e-9, atol=1e-12)
    ways = [*range(3), clusters.MOST]
    assert (seen[:, ways] >= s.clock[:, ways]).all()  # never less than centres have come
    np.testing.assert_allclose(seen, s.clock, rtol=1e-9)


def test_folded_rounds_end_when_a_row_is_due() -> None:
    s, x, how, _ = _case("k-means", 40)
    descent.exchange(s, x, np.empty_like(x), how, True)
    part = fold(s, x, how)
    s.clock[2, clusters.SOONEST] = s.clock[2, clusters.MOST]
    rest = descent.Rest(0, 0.0, np.ones(4), np.array([np.inf, 0.0]))
    ended = descent.leap(
        part.state, part.z, part.z.copy(), how, rest, np.zeros((9, 5)), 3, 1e100, slack=part.slack
    )
    assert ended == (3, descent.ROWS_DUE)
