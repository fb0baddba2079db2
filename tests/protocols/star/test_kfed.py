"""k-FED: the coordinator's choice and the parties' clusters, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from tests.sentences import refuses
from unpooled import KFED
from unpooled.errors import ProtocolError
from unpooled.kernels.lloyd.kmeans import cluster
from unpooled.messages.aggregate import aggregate
from unpooled.protocols.star import kfed


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def result(sent: list[np.ndarray], k: int, seed: int = 0) -> np.ndarray:
    """The coordinator's centres when parties send these centroids."""
    method = kfed.KFED(k, 2)
    coordinator = method.coordinator(np.random.default_rng(seed))
    next(coordinator)
    replies = {str(i): {"centroids": own} for i, own in enumerate(sent)}
    coordinator.send(aggregate(method.releases[0], replies))
    with pytest.raises(StopIteration) as end:
        coordinator.send(None)
    return end.value.value["centers"]


SENT = [column(0, 10), column(1, 30), column(11, 31, 16)]


def test_the_farthest_centroids_are_added_in_order() -> None:
    points = np.concatenate(SENT)
    # From 0 and 10, squared gaps: 1: 1, 30: 400, 11: 1, 31: 441, 16: 36. So 31; then 30: 1, 16: 36.
    assert kfed.spread_out(points, SENT[0], 3)[:, 0].tolist() == [0, 10, 31]
    assert kfed.spread_out(points, SENT[0], 4)[:, 0].tolist() == [0, 10, 31, 16]
    # All others are then 1 away, and the first of them comes first.
    assert kfed.spread_out(points, SENT[0], 9)[:, 0].tolist() == [0, 10, 31, 16, 1, 30, 11]
    # More than k: the first k.
    assert kfed.spread_out(points, SENT[2], 2)[:, 0].tolist() == [11, 31]


def test_one_round_of_lloyd_by_hand() -> None:
    points = np.concatenate(SENT)
    # {0, 1}, {10, 11}, {31, 30}, {16}.
    assert kfed.one_round(points, column(0, 10, 31, 16))[:, 0].tolist() == [0.5, 10.5, 30.5, 16.0]
    # One only: {0, 4, 5} -> 3, {9, 10, 30} -> 16.33, and in a second 9 would go over.
    centers = kfed.one_round(column(0, 4, 5, 9, 10, 30), column(4, 10))
    assert centers[:, 0].tolist() == pytest.approx([3.0, 49 / 3])
    # A tie goes to the lower index: 5 is 5 from both.
    assert kfed.one_round(column(0, 5, 10), column(0, 10))[:, 0].tolist() == [2.5, 10.0]


def test_the_coordinator_starts_from_one_party_drawn_at_random() -> None:
    # From party 0: 0, 10, 31, 16 as above.
    # From party 1 (1, 30): squared gaps 0: 1, 10: 81, 11: 100, 31: 1, 16: 196. So 16; then 10: 36,
    # 11: 25. So 10. Round: {0, 1}, {30, 31}, {16}, {10, 11}.
    # From party 2 (11, 31, 16): 0: 121, so 0. Round: {10, 11}, {30, 31}, {16}, {0, 1}.
    by_party = [[0.5, 10.5, 30.5, 16.0], [0.5, 30.5, 16.0, 10.5], [10.5, 30.5, 16.0, 0.5]]
    found = [result(SENT, 4, seed)[:, 0].tolist() for seed in range(30)]
    assert all(own in by_party for own in found)
    assert all(own in found for own in by_party)


def test_a_party_that_sent_nothing_is_not_drawn() -> None:
    sent = [np.empty((0, 1)), column(3, 9), np.empty((0, 1))]
    for seed in range(10):
        assert result(sent, 2, seed)[:, 0].tolist() == [3.0, 9.0]
    with pytest.raises(ProtocolError, match="No party sent anything about its rows"):
        result([np.empty((0, 1))], 2)


def test_every_centroid_counts_once() -> None:
    # Party 0 has 101 rows about 0, party 1 has two about 2, far from the others at 50 and 52.
    tables = [np.concatenate([np.zeros((101, 1)), column(50)]), column(2, 2, 52)]
    model = KFED(2, local_clusters=2, random_state=0).fit(tables)
    assert sorted(model.cluster_centers_[:, 0]) == [1.0, 51.0]


def found_by(rows: np.ndarray, k: int, weights: np.ndarray | None = None) -> list[list[float]]:
    weights = np.ones(len(rows)) if weights is None else weights
    found = kfed.awasthi_sheffet(rows, weights, k, 10, np.random.default_rng(0))
    for own, center in enumerate(found.centers):  # they are means of what they are the centres of
        members = found.labels == own
        expected = np.average(rows[members], axis=0, weights=weights[members])
        np.testing.assert_allclose(center, expected, atol=1e-9)
        assert found.counts[own] == pytest.approx(weights[members].sum())
    return sorted(found.centers.tolist())


def test_the_rule_of_a_third_by_hand() -> None:
    # k-means: {0, 11} and {20 nine times}: centres 5.5 and 20, cost 60.5. 0 is inside: 5.5 <= 20/3.
    # 11 is not: 5.5 > 9/3. So Lloyd starts from 0 and 20, where 11 is nearer to 20: the second
    # centre becomes (11 + 180) / 10 = 19.1, which is as near as that to 11. (Cost 72.9.)
    rows = column(0, 11, *[20] * 9)
    best = KMeans(2, n_init=10, random_state=0).fit(rows).cluster_centers_
    assert sorted(best[:, 0]) == pytest.approx([5.5, 20.0])
    assert found_by(rows, 2) == [[0.0], [pytest.approx(19.1)]]
    # A row of weight 9 is nine rows, and a row without weight is none.
    weights = np.array([1.0, 1.0, 9.0, 0.0])
    assert found_by(column(0, 11, 20, 500), 2, weights) == [[0.0], [pytest.approx(19.1)]]


def test_the_rule_is_of_a_third_not_of_a_half() -> None:
    # k-means: {2, 5, 11} and {15, 22} with centres 41 / 7 = 5.86 and 163 / 9 = 18.11, cost 193.8
    # ({2, 5} and {11, 15, 22} cost 202.4). Inside are 2, 5 and 22; not 11 (5.14 > 7.11 / 3), nor
    # 15 (3.11 > 9.14 / 3 = 3.05). So Lloyd starts from 19 / 5 = 3.8 and 22, and as 12.9 is between
    # them ends where k-means did. With 15 inside (a half would do) it would start from 3.8 and
    # 18.11, give 11 to the second, and end in 3.8 and 185 / 11.
    weights = np.array([2.0, 3.0, 2.0, 5.0, 4.0])
    found = found_by(column(2, 5, 11, 15, 22), 2, weights)
    assert found == [[pytest.approx(41 / 7)], [pytest.approx(163 / 9)]]


def test_a_cluster_with_no_row_inside_is_taken_whole() -> None:
    # (100, 50 +- 4.5) and (110, 50): together with centre (100, 50) the first two cost 40.5, and
    # any other pair more; 4.5 is more than a third of their distance to (110, 50), 10.97 / 3.
    rows = np.array([[100.0, 45.5], [100.0, 54.5], [110.0, 50.0]])
    assert found_by(rows, 2) == [[100.0, 50.0], [110.0, 50.0]]


def test_rows_are_projected_when_there_are_more_columns_than_clusters() -> None:
    # Singular values, squared: 8 x 100^2, 8 x 5 for -3, -1, 1, 3, and 8 x 4.41 for +-2.1. Two are
    # kept: the third column is not seen, though splitting it saves 8 x 4.41, more than 8 x 4.
    rows = np.array([[100.0, x, y] for x in (-3.0, -1.0, 1.0, 3.0) for y in (-2.1, 2.1)])
    best = KMeans(2, n_init=10, random_state=0).fit(rows).cluster_centers_
    assert sorted(best[:, 2]) == pytest.approx([-2.1, 2.1])
    expected = np.array([[100.0, -2.0, 0.0], [100.0, 2.0, 0.0]])
    np.testing.assert_allclose(found_by(rows, 2), expected, atol=1e-9)
    # Without the second column nothing is lost in projecting.
    np.testing.assert_allclose(
        found_by(rows[:, [0, 2]], 2), np.array([[100.0, -2.1], [100.0, 2.1]]), atol=1e-9
    )


def test_weights_decide_what_the_leading_directions_are() -> None:
    # As above, but the third column matters more once the rows at -3 and 3 weigh a tenth:
    # (0.2 x 9 + 2 x 1) / 2.2 = 1.7 < 4.41.
    rows = np.array([[100.0, x, y] for x in (-3.0, -1.0, 1.0, 3.0) for y in (-2.1, 2.1)])
    weights = np.where(np.abs(rows[:, 1]) == 3, 0.1, 1.0)
    expected = np.array([[100.0, 0.0, -2.1], [100.0, 0.0, 2.1]])
    np.testing.assert_allclose(found_by(rows, 2, weights), expected, atol=1e-9)


def test_a_party_with_few_distinct_rows_sends_each() -> None:
    rows = np.array([[3.0, 1.0, 7.0], [5.0, 5.0, 0.0], [3.0, 1.0, 7.0]])
    assert found_by(rows, 3) == [[3.0, 1.0, 7.0], [5.0, 5.0, 0.0]]
    assert found_by(rows, 2) == [[3.0, 1.0, 7.0], [5.0, 5.0, 0.0]]
    # Distinct only where the projection does not look: still both.
    flat = np.array([[100.0, 1.0], [100.0, -1.0]])
    assert found_by(flat, 1) == [[100.0, 0.0]]
    assert found_by(flat, 2) == [[100.0, -1.0], [100.0, 1.0]]


def test_well_separated_clusters_are_found_whatever_the_dimension() -> None:
    rng = np.random.default_rng(0)
    for d in (1, 2, 6):
        corners = 20.0 * np.arange(1, 4)[:, None] * np.ones(d)
        rows = np.repeat(corners, 20, axis=0) + rng.normal(size=(60, d))
        means = rows.reshape(3, 20, d).mean(axis=1)
        np.testing.assert_allclose(found_by(rows, 3), means, atol=1e-9)
        plain = cluster(rows, np.ones(60), 3, 10, np.random.default_rng(0))
        np.testing.assert_allclose(sorted(plain.centers.tolist()), means, atol=1e-9)


@pytest.mark.parametrize(
    ("n_clusters", "n_parties", "local"),
    # The larger of sqrt(k), rounded up, and k / m, rounded up.
    [(9, 4, 3), (9, 2, 5), (10, 20, 4), (5, 4, 3), (4, 1, 4), (1, 3, 1), (16, 4, 4)],
)
def test_local_clusters_by_default(n_clusters: int, n_parties: int, local: int) -> None:
    rng = np.random.default_rng(0)
    tables = [rng.uniform(size=(12, 2)) for _ in range(n_parties)]
    model = KFED(n_clusters, n_init=1, random_state=0).fit(tables)
    assert model.history_["received"].tolist() == [n_parties * local]
    assert model.cluster_centers_.shape == (n_clusters, 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"local_clusters": 2},
            "local_clusters=2 at 3 parties makes fewer than n_clusters=7 centroids; "
            "ask for at least 3",
        ),
        ({"local_clusters": 0}, "local_clusters=0 must be a whole number of at least 1"),
        ({"local_clusters": "sqrt"}, "local_clusters='sqrt' must be a whole number"),
    ],
)
def test_too_few_local_clusters_are_refused(options: dict[str, Any], words: str) -> None:
    tables = [np.random.default_rng(i).uniform(size=(9, 2)) for i in range(3)]
    refuses(lambda: KFED(7, **options).fit(tables), words)
    assert KFED(7, local_clusters=3, random_state=0).fit(tables).cluster_centers_.shape == (7, 2)


def test_fewer_centres_than_asked_for_are_never_silent() -> None:
    model = KFED(3, local_clusters=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="found 2 centres, fewer than n_clusters=3"):
        model.fit([column(0, 1, 10, 11), column(0, 1, 10, 11)])
    assert sorted(model.cluster_centers_[:, 0]) == [0.5, 10.5]


def test_parties_that_hold_few_clusters_each() -> None:
    rng = np.random.default_rng(1)
    corners = 15.0 * rng.permutation(9)[:, None] * np.array([[1.0, 1.0]])
    holds = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 4, 8), (2, 3, 7)]
    tables = [
        np.concatenate([corners[k] + rng.normal(size=(10 + k, 2)) for k in own]) for own in holds
    ]
    model = KFED(9, random_state=0).fit(tables)
    assert model.history_["received"].tolist() == [15]
    gaps = np.linalg.norm(model.cluster_centers_[:, None] - corners, axis=2)
    assert sorted(gaps.argmin(axis=1)) == list(range(9))
    assert gaps.min(axis=1).max() < 1.5
