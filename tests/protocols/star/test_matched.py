"""Matched averaging: who is paired with whom, by hand and by trying all ways."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from unpooled import MatchedAveraging
from unpooled.errors import ProtocolError
from unpooled.kernels.lloyd.matching import matched, matched_mean
from unpooled.messages.aggregate import aggregate
from unpooled.protocols.star import matched as protocol


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def result(*sent: np.ndarray, k: int = 2) -> list[list[float]]:
    """The coordinator's centres when parties send these centroids."""
    method = protocol.MatchedAveraging(k)
    coordinator = method.coordinator(np.random.default_rng(0))
    next(coordinator)
    replies = {str(i): {"centroids": own} for i, own in enumerate(sent)}
    coordinator.send(aggregate(method.releases[0], replies))
    with pytest.raises(StopIteration) as end:
        coordinator.send(None)
    return end.value.value["centers"].tolist()


def test_permuted_centroids_by_hand() -> None:
    # 0 with 2, 10 with 12, in the order of the party that comes first.
    assert result(column(0, 10), column(12, 2)) == [[1.0], [11.0]]
    assert result(column(12, 2), column(0, 10)) == [[11.0], [1.0]]
    # 0, 1 and 5; 10, 14 and 12.
    assert result(column(0, 10), column(14, 1), column(5, 12)) == [[2.0], [12.0]]
    assert result(column(4)) == [[4.0]]


def test_the_matching_is_the_best_of_all_not_the_nearest_first() -> None:
    # Nearest first would take 3 and 2 (cost 1), then 0 and 5 (25). The best: 0 with 2, 3 with 5
    # (4 + 4).
    assert result(column(0, 3), column(2, 5)) == [[1.0], [4.0]]
    assert matched(column(2, 5), column(0, 3)).tolist() == [0, 1]
    assert matched(column(5, 2), column(0, 3)).tolist() == [1, 0]


def test_the_matching_is_repeated_with_the_means() -> None:
    # 0, 10 is the reference. (6, 20): 6 with 0, 20 with 10. (4, 7): 4 with 0, 7 with 10. So is
    # (9, -1) turned round. Means (0 + 6 + 4 - 1) / 4 = 2.25, (10 + 20 + 7 + 9) / 4 = 11.5.
    assert result(column(0, 10), column(6, 20), column(4, 7), column(9, -1)) == [[2.25], [11.5]]
    # In the plane: rows a = (0, 0), (4, 0); b = (3, 3), (1, 3.2): as sent they cost 18 + 19.24,
    # crossed 11.24 + 10. Twice as many parties with b move the reference, and crossed it stays.
    a, b = np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([[3.0, 3.0], [1.0, 3.2]])
    crossed = (a + 2 * b[::-1]) / 3
    assert result(a, b, b) == [pytest.approx(row) for row in crossed.tolist()]


def test_a_party_with_fewer_centroids_helps_with_as_many_means() -> None:
    few, many = column(21, 1), column(0, 10, 20)
    assert result(many, few, k=3) == [[0.5], [10.0], [20.5]]
    # The party that sent most is the reference, wherever it stands.
    assert result(few, many, k=3) == [[0.5], [10.0], [20.5]]
    assert result(np.empty((0, 1)), many, few, k=3) == [[0.5], [10.0], [20.5]]
    with pytest.raises(ProtocolError, match="No party sent anything about its rows"):
        result(np.empty((0, 1)), np.empty((0, 1)))


def test_parties_count_alike_whatever_their_size() -> None:
    tables = [np.repeat(column(0, 10), 50, axis=0), column(2, 2, 14)]
    weights = [np.ones(100), np.array([7.0, 7.0, 7.0])]
    for given in (None, weights):
        model = MatchedAveraging(2, random_state=0).fit(tables, sample_weight=given)
        assert sorted(model.cluster_centers_[:, 0]) == [1.0, 12.0]


def test_weights_of_rows_shift_a_partys_centroids() -> None:
    # (0 x 3 + 4) / 4 = 1 and 21, with 3 and 25.
    tables = [column(0, 4, 20, 22), column(3, 25)]
    weights = [np.array([3.0, 1.0, 1.0, 1.0]), np.ones(2)]
    model = MatchedAveraging(2, random_state=0).fit(tables, sample_weight=weights)
    assert sorted(model.cluster_centers_[:, 0]) == [2.0, 23.0]


def test_fewer_centres_than_asked_for_are_never_silent() -> None:
    model = MatchedAveraging(3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="found 2 centres, fewer than n_clusters=3"):
        model.fit([column(0, 10), column(1), column(12)])
    # 1 goes with 0, 12 with 10.
    assert model.cluster_centers_.tolist() == [[0.5], [11.0]]


Sets = list[np.ndarray]


def cost_of_best(own: np.ndarray, weight: np.ndarray, reference: np.ndarray) -> float:
    """The least weighted sum of squared distances over all one to one matchings."""
    return min(
        sum(
            weight[i] * float(np.square(own[i] - reference[k]).sum())
            for i, k in enumerate(matching)
        )
        for matching in permutations(range(len(reference)), len(own))
    )


def objective(sets: Sets, weights: Sets, reference: np.ndarray) -> float:
    return sum(cost_of_best(*own, reference) for own in zip(sets, weights, strict=True))


def problem(seed: int, weighted: bool) -> tuple[Sets, Sets]:
    rng = np.random.default_rng(seed)
    sets = [rng.normal(size=(n, 2)) for n in (4, 4, 2, 3, 4)]
    weights = [rng.exponential(size=len(own)) ** 2 for own in sets]
    return sets, weights if weighted else [np.ones(len(own)) for own in sets]


def test_the_matching_is_the_best_of_all_ways() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        own, reference = rng.normal(size=(rng.integers(1, 5), 3)), rng.normal(size=(4, 3))
        found = matched(own, reference)
        assert len(set(found.tolist())) == len(own)
        cost = float(np.square(own - reference[found]).sum())
        assert cost == pytest.approx(cost_of_best(own, np.ones(len(own)), reference))


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_the_objective_never_rises(weighted: bool) -> None:
    falls = 0
    for seed in range(25):
        sets, weights = problem(seed, weighted)
        costs = [objective(sets, weights, sets[0])]
        for rounds in range(1, 7):
            centers = matched_mean(sets, weights, sets[0], max_rounds=rounds)
            costs.append(objective(sets, weights, centers))
        assert np.diff(costs).max() <= 1e-9, f"seed {seed}: {costs}"
        falls += costs[2] < costs[1] - 1e-9
    assert falls > 3  # a second round matters


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_it_ends_where_the_centres_are_the_means_of_their_best_matches(weighted: bool) -> None:
    for seed in range(25):
        sets, weights = problem(seed, weighted)
        centers = matched_mean(sets, weights, sets[0])
        assert np.array_equal(centers, matched_mean(sets, weights, sets[0], max_rounds=101))
        total, weight = np.zeros_like(centers), np.zeros(len(centers))
        for own, w in zip(sets, weights, strict=True):
            ways = permutations(range(len(centers)), len(own))
            costs = {
                way: sum(
                    w[i] * float(np.square(own[i] - centers[k]).sum()) for i, k in enumerate(way)
                )
                for way in ways
            }
            for i, k in enumerate(min(costs, key=costs.__getitem__)):
                total[k] += w[i] * own[i]
                weight[k] += w[i]
        np.testing.assert_allclose(centers, total / weight[:, None], atol=1e-9)


def test_a_centre_without_weight_stays() -> None:
    centers = matched_mean([column(1, 9)], [np.array([2.0, 0.0])], column(0, 10))
    assert centers.tolist() == [[1.0], [10.0]]
