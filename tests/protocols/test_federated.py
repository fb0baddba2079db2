"""Federated k-means is Lloyd's iteration on the pooled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from unpooled import FederatedKMeans
from unpooled.drivers.local import Options, Run, run_star
from unpooled.protocols import federated, sums
from unpooled.protocols.oneshot import OneShotKMeans
from unpooled.types import Parties
from unpooled.wire.message import Ask, Message, Reply


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def lloyd(
    rows: np.ndarray, weights: np.ndarray, start: np.ndarray, rounds: int
) -> tuple[list[np.ndarray], list[float]]:
    """The centres after each round, and the cost of those it began with, as plain loops."""
    centers, trajectory, costs = start.copy(), [], []
    for _ in range(rounds):
        total, weight, cost = np.zeros_like(centers), np.zeros(len(centers)), 0.0
        for x, w in zip(rows, weights, strict=True):
            squared = [float((x - c) @ (x - c)) for c in centers]
            k = int(np.argmin(squared))
            total[k] += w * x
            weight[k] += w
            cost += w * squared[k]
        assert (weight > 0).all()
        centers = total / weight[:, None]
        trajectory.append(centers)
        costs.append(cost)
    return trajectory, costs


def unequal(seed: int, offset: float = 0.0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Parties of 1, 4, 40 and 15 rows; blobs that overlap, so that it takes a while."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 4, size=(4, 3)) + offset
    sizes = (1, 4, 40, 15)
    rows = [corners[rng.integers(4, size=n)] + rng.normal(size=(n, 3)) for n in sizes]
    weights = [rng.uniform(0.2, 3.0, size=n) for n in sizes]
    weights[2][:2] = 0.0
    return rows, weights


def watched(
    protocol: federated.FederatedKMeans, parties: Parties, **options: Any
) -> tuple[Run, list[tuple[str, Message]]]:
    messages: list[tuple[str, Message]] = []
    how = Options(watch=lambda *said: messages.append(said), **options)
    return run_star(protocol, parties, options=how), messages


def centers_by_round(run: Run, messages: list[tuple[str, Message]]) -> list[np.ndarray]:
    asked = [said for _, said in messages if isinstance(said, Ask) and said.kind == "sums"]
    return [*(said.body["centers"] for said in asked), run.result["centers"]]


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_round_is_lloyds_on_the_pooled_rows(seed: int, weighted: bool, offset: float) -> None:
    rows, weights = unequal(seed, offset)
    parties = Parties.of(rows, weights=weights if weighted else None)
    start = rows[2][[3, 5, 7]]
    run, messages = watched(federated.FederatedKMeans(start, 8, 0.0), parties)
    found = centers_by_round(run, messages)
    assert np.array_equal(found[0], start)
    expected, _ = lloyd(parties.rows, parties.weights, start, len(found) - 1)
    assert len(found) > 4
    for own, other in zip(found[1:], expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-9 if offset == 0 else 5e-9)


@pytest.mark.parametrize("seed", range(5))
def test_it_ends_where_scikit_learn_ends(seed: int) -> None:
    rows, weights = unequal(seed)
    pooled = np.concatenate(rows)
    start = rows[2][[3, 5, 7]]
    for given in (None, weights):
        model = FederatedKMeans(3, init=start, tol=0).fit(rows, sample_weight=given)
        flat = None if given is None else np.concatenate(given)
        other = KMeans(3, init=start, n_init=1, tol=0).fit(pooled, sample_weight=flat)
        np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, atol=1e-9)
        assert np.array_equal(np.concatenate(model.labels_), other.labels_)
        assert model.inertia_ == pytest.approx(other.inertia_, rel=1e-9)
        assert model.converged_


@pytest.mark.parametrize("seed", range(3))
def test_the_default_start_ends_in_a_lloyd_point_as_good_as_pooled(seed: int) -> None:
    rows, _ = unequal(seed)
    pooled = np.concatenate(rows)
    model = FederatedKMeans(3, tol=0, random_state=seed).fit(rows)
    assert model.converged_
    (step,), _ = lloyd(pooled, np.ones(len(pooled)), model.cluster_centers_, 1)
    np.testing.assert_allclose(step, model.cluster_centers_, atol=1e-9)
    assert model.inertia_ <= 1.1 * KMeans(3, n_init=20, random_state=0).fit(pooled).inertia_


def test_far_from_zero_rows_still_go_to_the_nearest_centre() -> None:
    # Up there the square of a value is rounded by 2.
    rows = 1e8 + np.random.default_rng(0).normal(size=(90, 3))
    start = rows[:4].copy()
    model = FederatedKMeans(4, init=start, max_rounds=1).fit([rows[:30], rows[30:]])
    (expected,), (cost,) = lloyd(rows, np.ones(90), start, 1)
    np.testing.assert_allclose(model.cluster_centers_, expected, rtol=0, atol=1e-6)
    assert model.history_["cost"][0] == pytest.approx(cost)


def test_one_round_by_hand() -> None:
    # Centres 0 and 10. Party a: 1 and 3 with 0, 9 with 10; b: 2 (weight 3) with 0, 20 with 10.
    # S = 1 + 3 + 6 = 10, N = 5: 2. S = 9 + 20 = 29, N = 2: 14.5. Q = 1 + 9 + 12 + 1 + 100 = 123.
    tables, weights = [column(1, 3, 9), column(2, 20)], [np.ones(3), np.array([3.0, 1.0])]
    model = FederatedKMeans(2, init=column(0, 10), max_rounds=1).fit(tables, sample_weight=weights)
    assert model.cluster_centers_.tolist() == [[2.0], [14.5]]
    assert model.history_["cost"].tolist() == [123.0]
    assert model.history_["movement"].tolist() == [4.5]
    assert (model.n_rounds_, model.traffic_.rounds) == (1, 1)
    assert not model.converged_
    # Labels and cost are those of the new centres: 9 is 7 from 2 and 5.5 from 14.5.
    assert [own.tolist() for own in model.labels_] == [[0, 0, 1], [0, 1]]
    assert model.inertia_ == 1 + 1 + 5.5**2 + 0 + 5.5**2
    parties = Parties.of(tables, weights=weights)
    _, messages = watched(federated.FederatedKMeans(column(0, 10), 1), parties)
    sent = {who: said.body for who, said in messages if isinstance(said, Reply)}
    assert sent["1"]["sums"].tolist() == [[6.0], [20.0]]
    assert sent["1"]["counts"].tolist() == [3.0, 1.0]
    assert sent["1"]["scatter"].tolist() == [12.0, 100.0]


def test_history_is_that_of_pooled_rows_and_never_rises() -> None:
    rows, weights = unequal(1)
    parties = Parties.of(rows, weights=weights)
    start = rows[2][[3, 5, 7]]
    model = FederatedKMeans(3, init=start, tol=0).fit(rows, sample_weight=weights)
    trajectory, costs = lloyd(parties.rows, parties.weights, start, model.n_rounds_)
    np.testing.assert_allclose(model.history_["cost"], costs, rtol=1e-9)
    assert np.diff(costs).max() <= 1e-9
    moved = [
        max(float(np.linalg.norm(a - b)) for a, b in zip(old, new, strict=True))
        for old, new in zip([start, *trajectory], trajectory, strict=False)
    ]
    np.testing.assert_allclose(model.history_["movement"], moved, atol=1e-9)


def test_it_stops_by_tolerance() -> None:
    rows, _ = unequal(0)
    start = rows[2][[3, 5, 7]]
    n = sum(map(len, rows))
    counts = []
    for tol in (100.0, 0.2, 0.0):
        model = FederatedKMeans(3, init=start, tol=tol).fit(rows)
        typical = np.sqrt(model.history_["cost"] / n)
        calm = model.history_["movement"] <= tol * typical
        assert calm.tolist() == [False] * (model.n_rounds_ - 1) + [True]
        assert model.converged_
        counts.append(model.n_rounds_)
    assert counts[0] == 1
    assert counts[0] < counts[1] < counts[2] < 100
    assert model.history_["movement"][-1] == 0
    short = FederatedKMeans(3, init=start, tol=0, max_rounds=counts[2] - 1).fit(rows)
    assert not short.converged_
    assert short.n_rounds_ == counts[2] - 1
    with_start = FederatedKMeans(3, tol=0.05, random_state=0).fit(rows)
    assert with_start.traffic_.rounds == with_start.n_rounds_ + 1


def test_no_row_is_sent_under_the_default_start() -> None:
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    tables = [np.repeat(corners, n, axis=0) + rng.normal(size=(3 * n, 2)) for n in (4, 8, 30)]
    parties = Parties.of(tables)
    protocol = federated.FederatedKMeans(OneShotKMeans(3, 3), 20, 0.0)
    _, messages = watched(protocol, parties)
    assert {said.kind for _, said in messages} == {"centroids", "sums"}
    looked_at = 0
    for _, said in messages:
        for values in said.body.values():
            if values.ndim == 2:
                looked_at += len(values)
                assert np.abs(parties.rows[:, None] - values).max(axis=2).min() > 1e-6
        if isinstance(said, Reply):
            assert said.body["counts"].min() > 1  # a cluster of one row would be that row
    assert looked_at > 30


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_an_empty_cluster_is_filled(far: float) -> None:
    rows, _ = unequal(2)
    pooled = np.concatenate(rows)
    good = rows[2][[3, 5]]
    two = KMeans(2, init=good, n_init=1, tol=0).fit(pooled).inertia_
    for extra in (1, 2):
        start = np.concatenate([good, np.full((extra, 3), far)])
        model = FederatedKMeans(2 + extra, init=start, tol=0, random_state=0).fit(rows)
        labels = np.concatenate(model.labels_)
        assert set(labels) == set(range(2 + extra))
        assert model.inertia_ < two
        assert model.converged_
        (step,), _ = lloyd(pooled, np.ones(len(pooled)), model.cluster_centers_, 1)
        np.testing.assert_allclose(step, model.cluster_centers_, atol=1e-9)


def test_where_an_empty_clusters_centre_goes() -> None:
    # Cluster 1 is empty, cluster 2 has the largest Q: 50 with N = 2, radius 5, mean (7, 7).
    old = np.array([[0.0, 0.0], [99.0, 99.0], [8.0, 8.0]])
    total, counts = np.array([[3.0, 0.0], [0.0, 0.0], [14.0, 14.0]]), np.array([3.0, 0.0, 2.0])
    scatter = np.array([4.0, 0.0, 50.0])
    directions = []
    for seed in range(20):
        fresh = sums.means(total, counts, scatter, old, np.random.default_rng(seed))
        assert fresh[[0, 2]].tolist() == [[1.0, 0.0], [7.0, 7.0]]
        assert np.linalg.norm(fresh[1] - fresh[2]) == pytest.approx(0.05)
        directions.append(fresh[1] - fresh[2])
    assert np.abs(np.mean(directions, axis=0)).max() < 0.03  # any direction
    # Two empty clusters go to two different ones.
    old, total = np.vstack([old, [[77.0, 77.0]]]), np.vstack([total, [[0.0, 0.0]]])
    counts, scatter = np.append(counts, 0.0), np.append(scatter, 0.0)
    fresh = sums.means(total, counts, scatter, old, np.random.default_rng(0))
    assert np.linalg.norm(fresh[1] - [7.0, 7.0]) == pytest.approx(0.05)
    assert np.linalg.norm(fresh[3] - [1.0, 0.0]) == pytest.approx(0.01 * np.sqrt(4 / 3))
    # Nothing has any extent: it stays.
    fresh = sums.means(total, counts, np.zeros(4), old, np.random.default_rng(0))
    assert fresh[[1, 3]].tolist() == old[[1, 3]].tolist()


def test_rows_that_are_all_equal() -> None:
    model = FederatedKMeans(1, random_state=0).fit([np.full((4, 2), 3.0), np.full((2, 2), 3.0)])
    assert model.cluster_centers_.tolist() == [[3.0, 3.0]]
    assert (model.inertia_, model.converged_, model.n_rounds_) == (0.0, True, 1)
    model = FederatedKMeans(1, init=[[5.0, 5.0]]).fit([np.full((4, 2), 3.0)])
    assert model.cluster_centers_.tolist() == [[3.0, 3.0]]
    assert model.converged_
    # As many clusters as distinct rows.
    tables = [column(0, 0, 5), column(5, 0)]
    model = FederatedKMeans(2, random_state=0).fit(tables)
    assert sorted(model.cluster_centers_.tolist()) == [[0.0], [5.0]]
    assert model.inertia_ == 0


def test_rows_without_weight_are_as_good_as_absent() -> None:
    rows, _ = unequal(0)
    start = rows[2][[3, 5, 7]]
    padded = [*rows[:3], np.concatenate([rows[3], np.full((3, 3), 500.0)])]
    weights = [np.ones(len(own)) for own in padded]
    weights[3][-3:] = 0
    plain = FederatedKMeans(3, init=start).fit(rows)
    model = FederatedKMeans(3, init=start).fit(padded, sample_weight=weights)
    np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-12)
    assert model.inertia_ == pytest.approx(plain.inertia_)


@pytest.mark.parametrize("policy", ["study", "deployment"])
@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_the_scale_of_weights_does_not_matter(scale: float, policy: str) -> None:
    rng = np.random.default_rng(0)
    start = np.array([[1.0, 1.0], [8.0, 1.0]])
    rows = [np.repeat(start, n, axis=0) + rng.normal(size=(2 * n, 2)) for n in (12, 15)]
    weights = [np.full(len(own), scale) for own in rows]
    plain = FederatedKMeans(2, init=start, policy=policy).fit(rows)
    model = FederatedKMeans(2, init=start, policy=policy).fit(rows, sample_weight=weights)
    np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-9)


def test_a_cluster_that_cannot_be_filled_is_not_tried_for_ever() -> None:
    # Fifteen rows are one cluster of at least ten, never two: the second centre has nothing to
    # stand for, however often it is put beside the first.
    rows = np.random.default_rng(0).normal(size=(15, 2))
    start = np.array([[0.0, 0.0], [1000.0, 1000.0]])
    model = FederatedKMeans(2, init=start, policy="deployment", random_state=0).fit([rows])
    np.testing.assert_allclose(model.cluster_centers_[0], rows.mean(axis=0), atol=0.1)
    assert model.n_rounds_ < 20
    # Silence says nothing about the cost, and is no sign that the centres are right.
    assert (model.history_["cost"] > 0).all()


def test_the_start_is_not_changed() -> None:
    rows, _ = unequal(0)
    start = rows[2][[3, 5, 7]].copy()
    before = start.copy()
    FederatedKMeans(3, init=start).fit(rows)
    assert np.array_equal(start, before)
