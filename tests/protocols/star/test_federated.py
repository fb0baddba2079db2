"""Federated k-means is Lloyd's iteration on the pooled rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from unpooled import FederatedKMeans
from unpooled.data.parties import Parties
from unpooled.kernels.assignment import bounds
from unpooled.kernels.assignment.centers import label
from unpooled.kernels.lloyd import cluster_sums
from unpooled.messages.codec import decode_state, encode_state
from unpooled.messages.message import Ask, Message, Reply, sealed
from unpooled.privacy.policy import STUDY, Deployment, Policy
from unpooled.protocols.star import federated
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.protocols.star.shared import sums
from unpooled.simulate import Options, Run, run_star
from unpooled.simulate.faults import AnswerLost, UserDown


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


@pytest.mark.bits
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


@pytest.mark.parametrize("policy", [STUDY, Deployment(least_parties=2)], ids=["rows", "cells"])
@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_the_scale_of_weights_does_not_matter(scale: float, policy: Policy) -> None:
    rng = np.random.default_rng(0)
    start = np.array([[1.0, 1.0], [8.0, 1.0]])
    rows = [np.repeat(start, n, axis=0) + rng.normal(size=(2 * n, 2)) for n in (12, 15)]
    weights = [np.full(len(own), scale) for own in rows]
    plain = FederatedKMeans(2, init=start, policy=policy).fit(rows)
    model = FederatedKMeans(2, init=start, policy=policy).fit(rows, sample_weight=weights)
    np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-9)


def test_a_cluster_that_cannot_be_filled_is_not_tried_for_ever() -> None:
    # Fifteen rows are one cell of at least ten, never two: the second centre has nothing to stand
    # for, however often it is put beside the first.
    rows = np.random.default_rng(0).normal(size=(15, 2))
    start = np.array([[0.0, 0.0], [1000.0, 1000.0]])
    policy = Deployment(least_parties=1)
    model = FederatedKMeans(2, init=start, policy=policy, random_state=0).fit([rows])
    np.testing.assert_allclose(model.cluster_centers_[0], rows.mean(axis=0), atol=1e-12)
    assert model.n_rounds_ < 20


def test_the_start_is_not_changed() -> None:
    rows, _ = unequal(0)
    start = rows[2][[3, 5, 7]].copy()
    before = start.copy()
    FederatedKMeans(3, init=start).fit(rows)
    assert np.array_equal(start, before)


# --- What a party remembers -----------------------------------------------------------------------


def plain_answer(
    rows: np.ndarray, weights: np.ndarray, centers: np.ndarray
) -> dict[str, np.ndarray]:
    """One round without any shortcut, sums to the last digit."""
    squared = np.array([[float(((x - c) ** 2).sum()) for c in centers] for x in rows])
    labels = squared.argmin(axis=1)
    own = squared[np.arange(len(rows)), labels]
    members = [np.flatnonzero(labels == k) for k in range(len(centers))]
    d = rows.shape[1]
    return {
        "labels": labels,
        "sums": np.array([[fsum((weights * rows[:, j])[i]) for j in range(d)] for i in members]),
        "counts": np.array([fsum(weights[i]) for i in members]),
        "scatter": np.array([fsum((weights * own)[i]) for i in members]),
        "sizes": np.array([fsum((weights * np.abs(rows).max(axis=1))[i]) for i in members]),
    }


def assert_equal_answers(said: Any, expected: dict[str, np.ndarray]) -> None:
    gaps = np.abs(said["sums"] - expected["sums"]).max(axis=1)
    assert (gaps <= 1e-12 * expected["sizes"]).all()
    np.testing.assert_allclose(said["counts"], expected["counts"], rtol=1e-12, atol=0)
    np.testing.assert_allclose(said["scatter"], expected["scatter"], rtol=1e-12, atol=1e-300)
    assert not said["sums"][expected["counts"] == 0].any()


def awkward(world: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and weights of one party."""
    rng = np.random.default_rng(5)
    rows, weights = rng.normal(size=(80, 3)), np.ones(80)
    grid = rng.integers(-3, 4, size=(80, 3)).astype(float)
    if world == "blobs":
        rows += 5.0 * rng.integers(4, size=(80, 1))
    elif world == "weights, some of them zero":
        weights = np.where(rng.random(80) < 0.3, 0.0, rng.uniform(0.1, 3.0, size=80))
    elif world == "ties and duplicates":
        rows = grid
    elif world == "on boundaries, or all but":
        rows = 0.5 * grid + rng.choice([0.0, 1e-16, 1e-15, 1e-12], size=(80, 3))
    elif world == "far from zero":
        rows += 1e6
    elif world == "ties far from zero":
        rows = grid + 1e6
    elif world == "tight":
        rows = 1e-7 * rows + grid[:4][rng.integers(4, size=80)]
    elif world == "all rows equal":
        rows = np.full((80, 3), 0.1)
    elif world == "one row outweighs and outreaches all":
        rows[7], weights[7] = 1e9, 1e6
    elif world == "tiny":
        rows *= 1e-140
    elif world == "wide":
        rows = rng.normal(size=(40, 70))
        weights = np.ones(40)
    return rows, weights


AWKWARD = (
    "blobs",
    "weights, some of them zero",
    "ties and duplicates",
    "on boundaries, or all but",
    "far from zero",
    "ties far from zero",
    "tight",
    "all rows equal",
    "one row outweighs and outreaches all",
    "tiny",
    "wide",
)


def questions(rows: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Centres that take steps of all sizes, leave, coincide, come back, and end on rows."""
    rng = np.random.default_rng(seed)
    start = rows[rng.choice(len(rows), 5, replace=False)]
    extent = np.ptp(rows, axis=0).max() or 1.0
    yield (centers := start.copy())
    for number in range(14):
        size = extent * 10.0 ** -float(rng.integers(0, 17))
        moving = rng.random(5) < 0.6
        centers = centers + size * rng.normal(size=centers.shape) * moving[:, None]
        if number == 5:
            centers[1] = centers[3]
        if number == 7:
            centers[2] += 1e4 * extent
        if number == 9:
            centers = start.copy()
        if number == 11:
            centers[4] = (centers[0] + centers[1]) / 2
        yield centers.copy()
    yield centers  # once more the same


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("world", AWKWARD)
def test_remembering_changes_no_answer(world: str, seed: int) -> None:
    rows, weights = awkward(world)
    party, rng = Parties.of([rows], weights=[weights])[0], np.random.default_rng(seed)
    state: Any = {}
    for centers in questions(rows, seed):
        expected = plain_answer(rows, weights, centers)
        said, after = sums.cluster_sums(party, state, {"centers": centers}, rng)
        assert np.array_equal(after["labels"], expected["labels"])
        assert_equal_answers(said, expected)
        # A party that has forgotten everything, and one that begins in another process.
        forgot, anew = sums.cluster_sums(party, {}, {"centers": centers}, rng)
        assert np.array_equal(anew["labels"], after["labels"])
        assert_equal_answers(forgot, expected)
        state = decode_state(encode_state(sealed(after)))
        if rng.random() < 0.1:
            state = {}


def remembering_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "fitting", lambda *_: [])
    monkeypatch.setattr(cluster_sums, "fitting", lambda *_: [])


@pytest.mark.parametrize("policy", ["study", "deployment"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("empty", [0, 2])
def test_a_whole_run_is_that_of_parties_that_remember_nothing(
    policy: str, offset: float, empty: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    corners = rng.uniform(0, 6, size=(5, 2)) + offset
    rows = [corners[rng.integers(5, size=n)] + rng.normal(size=(n, 2)) for n in (150, 90, 40)]
    start = np.concatenate([rows[0][:5], offset + np.full((empty, 2), 1e5)])
    options = {"init": start, "tol": 0, "policy": policy, "random_state": 0}
    model = FederatedKMeans(5 + empty, **options).fit(rows)
    remembering_nothing(monkeypatch)
    other = FederatedKMeans(5 + empty, **options).fit(rows)
    np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, rtol=1e-12)
    assert model.n_rounds_ == other.n_rounds_ > 2
    assert model.converged_ == other.converged_
    np.testing.assert_allclose(model.history_["cost"], other.history_["cost"], rtol=1e-9)
    for own, others in zip(model.labels_, other.labels_, strict=True):
        assert np.array_equal(own, others)


def test_a_party_that_was_away_goes_on_from_what_it_knew(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = unequal(1)
    faults = (UserDown(2, 1, 3), AnswerLost(1, 2))
    protocol, parties = federated.FederatedKMeans(rows[2][[3, 5, 7]], 9, 0.0), Parties.of(rows)
    options = Options(faults=faults, quorum=2)
    found = run_star(protocol, parties, options=options).result["centers"]
    remembering_nothing(monkeypatch)
    expected = run_star(protocol, parties, options=options).result["centers"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_few_rows_are_looked_at_and_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 20, size=(4, 3))
    rows = corners[rng.integers(4, size=2000)] + rng.normal(size=(2000, 3))
    party, state = Parties.of([rows])[0], {}
    seen: dict[str, list[int]] = {"looked at": [], "added up": []}
    nearest, totals = bounds.labels_and_gaps, cluster_sums._totals

    def counted_nearest(rows: Any, centers: Any, some: Any = None) -> Any:
        seen["looked at"].append(len(rows if some is None else some))
        return nearest(rows, centers, some)

    def counted_totals(rows: Any, *rest: Any) -> Any:
        seen["added up"].append(len(rows))
        return totals(rows, *rest)

    monkeypatch.setattr(bounds, "labels_and_gaps", counted_nearest)
    monkeypatch.setattr(cluster_sums, "_totals", counted_totals)
    centers = corners.copy()
    for _ in range(20):
        said, state = sums.cluster_sums(party, state, {"centers": centers}, rng)
        centers = said["sums"] / said["counts"][:, None] + 1e-4 * rng.normal(size=(4, 3))
    assert seen["looked at"][0] == seen["added up"][0] == 2000
    assert sum(seen["looked at"][1:]) < 1000
    assert sum(seen["added up"][1:]) < 500
    # Two short numbers a row.
    assert sum(value.nbytes for value in state.values()) < 8 * 2000 + 1000


def test_a_party_with_very_many_rows_remembers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, weights = awkward("blobs")
    party, rng = Parties.of([rows], weights=[weights])[0], np.random.default_rng(0)
    monkeypatch.setattr(sums, "MOST_REMEMBERED", len(rows) - 1)
    said, state = sums.cluster_sums(party, {}, {"centers": rows[:4]}, rng)
    assert state == {}
    assert_equal_answers(said, plain_answer(rows, weights, rows[:4]))


def test_what_does_not_fit_is_forgotten() -> None:
    rows, weights = awkward("weights, some of them zero")
    party, rng = Parties.of([rows], weights=[weights])[0], np.random.default_rng(0)
    centers = rows[:4]
    _, state = sums.cluster_sums(party, {}, {"centers": centers}, rng)
    shorter = Parties.of([rows[:50]], weights=[weights[:50]])[0]
    for other, asked, known in (
        (party, rows[:5] + 0.1, state),  # another number of centres
        (shorter, centers + 0.1, state),  # other rows
        (party, centers + 0.1, {**state, "labels": state["labels"] + 3}),
        (party, centers + 0.1, {**state, "members": state["labels"] + 3}),
        (party, centers + 0.1, {**state, "members": state["labels"] - 9}),
        (party, centers + 0.1, {**state, "members": state["labels"][:3]}),
        (party, centers + 0.1, {name: state[name] for name in ("labels", "bounds")}),
    ):
        said, _ = sums.cluster_sums(other, known, {"centers": asked}, rng)
        assert_equal_answers(said, plain_answer(other.rows, other.weights, asked))


@pytest.mark.parametrize("scale", [1e-170, 1e160, 1e300])
def test_what_is_beyond_all_numbers_is_looked_at_anew(scale: float) -> None:
    # Squares overflow or vanish: the first centre is as near as any, and stays so only until the
    # question has numbers again that can be squared.
    rows, _ = awkward("blobs")
    party, rng = Parties.of([rows])[0], np.random.default_rng(0)
    state: Any = {}
    with np.errstate(all="ignore"):
        for centers in (rows[:3], scale * rows[:3], rows[3:6], rows[3:6] + 1e-3):
            said, state = sums.cluster_sums(party, state, {"centers": centers}, rng)
    expected = plain_answer(rows, party.weights, centers)
    assert np.array_equal(state["labels"], expected["labels"])
    assert_equal_answers(said, expected)


@hypothesis.given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([0.0, 1e3, 1e8]))
def test_labels_are_those_of_plain_distances(seed: int, n_clusters: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-4, 5, size=(50, 2)).astype(float) + offset
    rows[::3] += 10.0 ** -rng.integers(1, 17, size=(17, 2))
    centers = rows[rng.integers(50, size=n_clusters)] + rng.choice([0.0, 0.5, 1e-13])
    assert np.array_equal(label(rows, centers), cdist(rows, centers, "sqeuclidean").argmin(axis=1))
