"""FeCA against cases worked out by hand and against Algorithms 2 to 5 as plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from unpooled import FeCA
from unpooled.data.parties import Parties, PartyData
from unpooled.errors import ProtocolError
from unpooled.kernels.lloyd.kmeans import Clustering, cluster, means_of
from unpooled.messages.message import Reply
from unpooled.privacy.policy import Deployment
from unpooled.protocols.star import feca
from unpooled.simulate import Options, run_star

Cluster = tuple[np.ndarray, np.ndarray]
"""Rows and weights."""


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def clustering(*clusters: list[float]) -> tuple[np.ndarray, np.ndarray, Clustering]:
    """Rows in one column, their weights and the clustering, cluster by cluster."""
    rows = column(*(value for own in clusters for value in own))
    labels = np.repeat(np.arange(len(clusters)), [len(own) for own in clusters])
    weights = np.ones(len(rows))
    return rows, weights, means_of(rows, weights, labels)


# --- The algorithms once more, as plain loops over clusters and rows -----------------------------


def mean(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    total, weight = np.zeros(rows.shape[1]), 0.0
    for x, w in zip(rows, weights, strict=True):
        total, weight = total + w * x, weight + w
    return total / weight


def squares(rows: np.ndarray, weights: np.ndarray, center: np.ndarray) -> float:
    return sum(w * float((x - center) @ (x - center)) for x, w in zip(rows, weights, strict=True))


def closest_pair(centers: list[np.ndarray]) -> tuple[int, int]:
    best, pair = np.inf, (0, 0)
    for p in range(len(centers)):
        for q in range(p + 1, len(centers)):
            distance = float(np.linalg.norm(centers[p] - centers[q]))
            if distance < best:
                best, pair = distance, (p, q)
    return pair


def algorithm_2(clusters: list[Cluster], merge: bool) -> list[Cluster]:
    clusters = list(clusters)
    while len(clusters) > 1:
        centers = [mean(*own) for own in clusters]
        G = [squares(*own, center) for own, center in zip(clusters, centers, strict=True)]
        spread = [np.sqrt(g / weights.sum()) for g, (_, weights) in zip(G, clusters, strict=True)]
        i = int(np.argmax(spread))
        p, q = closest_pair(centers)
        both = tuple(np.concatenate(parts) for parts in zip(clusters[p], clusters[q], strict=True))
        if G[i] < squares(*both, mean(*both)):
            break
        if merge:
            clusters[p] = both
        clusters = [own for k, own in enumerate(clusters) if k != i and not (merge and k == q)]
    return clusters


def algorithm_3(centers: list[np.ndarray], outermost: list[float]) -> list[float]:
    left = list(range(len(centers)))
    for i in range(len(centers)):
        others = [j for j in left if j != i]
        if i not in left or not others:
            continue
        apart = [np.linalg.norm(centers[i] - centers[j]) for j in others]
        j = others[int(np.argmin(apart))]
        if outermost[i] + outermost[j] > min(apart):
            left = [k for k in left if k not in (i, j)]
    if len(left) < 2:
        left = list(range(len(centers)))
    apart = [np.linalg.norm(centers[i] - centers[j]) for i in left for j in left if i != j]
    return [min(apart) / 2] * len(centers)


def algorithm_4(centers: list[np.ndarray], outermost: list[float]) -> list[float]:
    radii = []
    for i, own in enumerate(centers):
        apart = [np.linalg.norm(own - other) for j, other in enumerate(centers) if j != i]
        radii.append(min(outermost[i], min(apart) / 2))
    return radii


def algorithm_5(centroids: np.ndarray, radii: np.ndarray, k: int) -> list[np.ndarray]:
    left = list(range(len(centroids)))
    groups = []
    while left:
        i = max(left, key=lambda t: (radii[t], -t))
        group = [t for t in left if np.linalg.norm(centroids[t] - centroids[i]) <= radii[i]]
        groups.append(group)
        left = [t for t in left if t not in group]
    chosen = []
    while groups and len(chosen) < k:
        largest = max(map(len, groups))
        chosen.append(next(group for group in groups if len(group) == largest))
        groups.remove(chosen[-1])
    return [np.mean([centroids[t] for t in group], axis=0) for group in chosen]


def gaps(points: np.ndarray, centers: np.ndarray) -> list[float]:
    return [min(float(np.linalg.norm(c - own)) for own in centers) for c in points]


# --- Refinement ----------------------------------------------------------------------------------


def test_the_printed_loop_deletes_good_centroids_and_merging_does_not() -> None:
    rows, weights, found = clustering([0, 10], [100], [101], [200, 202, 204], [300, 301])
    # {0, 10}: mean 5, G = 50, spread 5, the largest. Closest: 100 and 101, together G = 0.5. 50 is
    # more: it goes.
    # Printed: next is {200, 202, 204} with G = 8, spread 1.63; 8 >= 0.5: it goes, though good.
    # Then {300, 301} with G = 0.5, spread 0.5; 0.5 >= 0.5: it goes. Two are left, the pair itself.
    printed = feca.refined(rows, weights, found, merge=False)
    assert printed.centers.tolist() == [[100.0], [101.0]]
    assert printed.labels.tolist() == [-1, -1, 0, 1, -1, -1, -1, -1, -1]
    assert printed.counts.tolist() == [1.0, 1.0]
    # Merged: 100.5, 202, 300.5 are left; the closest pair is the last two (98.5 apart), and 202 has
    # the largest spread: G = 8 < 8 + 0.5 + 3 x 2 / 5 x 98.5^2. It ends.
    merged = feca.refined(rows, weights, found, merge=True)
    assert merged.centers.tolist() == [[100.5], [202.0], [300.5]]
    assert merged.labels.tolist() == [-1, -1, 0, 0, 1, 1, 1, 2, 2]
    assert merged.counts.tolist() == [2.0, 3.0, 2.0]


@pytest.mark.parametrize("merge", [False, True])
def test_nothing_is_removed_from_a_good_solution(merge: bool) -> None:
    rows, weights, found = clustering([0, 2], [10, 12], [20, 22])
    # Every G is 2; any two together have 2 + 2 + 1 x 10^2 = 104.
    kept = feca.refined(rows, weights, found, merge)
    assert kept.centers.tolist() == found.centers.tolist() == [[1.0], [11.0], [21.0]]
    assert kept.labels.tolist() == found.labels.tolist()
    assert kept.counts.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("merge", [False, True])
def test_a_pair_of_equal_cost_is_enough_and_a_costlier_one_is_not(merge: bool) -> None:
    # {100, 102}: G = 2, spread 1. {0}, {2}: together 1 + 1 = 2. Equal: it goes.
    rows, weights, found = clustering([0], [2], [100, 102])
    left = feca.refined(rows, weights, found, merge).centers.tolist()
    assert left == ([[1.0]] if merge else [[0.0], [2.0]])
    # {0}, {2.25}: together 2.25^2 / 2 = 2.53 > 2. All stay.
    rows, weights, found = clustering([0], [2.25], [100, 102])
    assert len(feca.refined(rows, weights, found, merge).centers) == 3


@pytest.mark.parametrize("merge", [False, True])
def test_one_and_two_centroids_are_never_dropped(merge: bool) -> None:
    for clusters in ([[0, 100]], [[0, 100], [90, 300]], [[0, 100], [50.5]]):
        rows, weights, found = clustering(*clusters)
        kept = feca.refined(rows, weights, found, merge)
        assert np.array_equal(kept.centers, found.centers)
        assert np.array_equal(kept.labels, found.labels)


def test_a_merged_pair_may_be_merged_again() -> None:
    rows, weights, found = clustering([0, 60], [1000, 1080], [2000], [2001], [2005])
    # G: 1800 (spread 30), 3200 (spread 40), 0, 0, 0. First 1040 goes, paid by 2000 and 2001
    # (0.5); they become 2000.5. Then 30 goes, paid by 2000.5 and 2005 (0.5 + 2/3 x 4.5^2 = 14).
    kept = feca.refined(rows, weights, found, merge=True)
    assert kept.centers == pytest.approx(np.array([[2002.0]]))
    assert kept.labels.tolist() == [-1, -1, -1, -1, 0, 0, 0]


def random_clustering(seed: int) -> tuple[np.ndarray, np.ndarray, Clustering]:
    """Blobs clustered badly: by the nearest of rows drawn at random, some weights zero."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 30, size=(5, 2))
    rows = corners[rng.integers(5, size=60)] + rng.normal(size=(60, 2))
    weights = rng.uniform(0.1, 3.0, size=60)
    weights[rng.integers(60, size=4)] = 0.0
    drawn = rows[rng.choice(60, size=9, replace=False)]
    labels = np.square(rows[:, None] - drawn).sum(axis=2).argmin(axis=1)
    labels = np.where(weights > 0, labels, -1)
    return rows, weights, means_of(rows, weights, labels)


def clusters_of(rows: np.ndarray, weights: np.ndarray, found: Clustering) -> list[Cluster]:
    return [(rows[found.labels == k], weights[found.labels == k]) for k in range(len(found.counts))]


@pytest.mark.parametrize("merge", [False, True])
def test_refinement_equals_the_plain_loop(merge: bool) -> None:
    removed = []
    for seed in range(40):
        rows, weights, found = random_clustering(seed)
        expected = algorithm_2(clusters_of(rows, weights, found), merge)
        kept = feca.refined(rows, weights, found, merge)
        removed.append(len(found.centers) - len(expected))
        assert len(kept.centers) == len(expected)
        for k, (own, own_weights) in enumerate(expected):
            np.testing.assert_allclose(kept.centers[k], mean(own, own_weights), atol=1e-9)
            assert kept.counts[k] == pytest.approx(own_weights.sum())
            members = rows[kept.labels == k]
            assert sorted(map(tuple, members)) == sorted(map(tuple, own))
        assert (kept.labels[weights == 0] == -1).all()
    assert max(removed) >= 3  # the loop really went round
    assert min(removed) == 0


@pytest.mark.parametrize("merge", [False, True])
def test_a_whole_weight_is_as_good_as_repeated_rows(merge: bool) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows, _, found = random_clustering(seed)
        labels = np.maximum(found.labels, 0)
        times = rng.integers(1, 4, size=len(rows))
        again = [np.repeat(values, times, axis=0) for values in (rows, labels)]
        weighted = feca.refined(rows, times * 1.0, means_of(rows, times * 1.0, labels), merge)
        ones = np.ones(len(again[0]))
        repeated = feca.refined(again[0], ones, means_of(again[0], ones, again[1]), merge)
        np.testing.assert_allclose(weighted.centers, repeated.centers, atol=1e-9)
        np.testing.assert_allclose(weighted.counts, repeated.counts)
        assert np.array_equal(np.repeat(weighted.labels, times), repeated.labels)
        outer = [
            feca.outermost_distances(rows, weighted),
            feca.outermost_distances(again[0], repeated),
        ]
        np.testing.assert_allclose(*outer, atol=1e-9)
        for rule in feca.RADII:
            radii = [
                feca.radii(own.centers, o, rule)
                for own, o in zip((weighted, repeated), outer, strict=True)
            ]
            np.testing.assert_allclose(*radii, atol=1e-9)


# --- Radii ---------------------------------------------------------------------------------------


def test_radii_by_hand() -> None:
    # Nearest others: 3, 3, 7 away.
    centroids, outermost = column(0, 3, 10), np.array([2.0, 1.0, 4.0])
    assert feca.radii(centroids, outermost, "empirical").tolist() == [1.5, 1.0, 3.5]
    # 2 + 1 = 3 is no overlap, nor 4 + 1 < 7: all stay, the smallest distance is 3.
    assert feca.radii(centroids, outermost, "theoretical").tolist() == [1.5] * 3


@pytest.mark.parametrize(
    ("places", "outermost", "radius"),
    [
        # 0 and 3 overlap (2.5 + 1 > 3) and are set aside; 10 and 18 do not (4 + 1 < 8): 8 / 2.
        ((0, 3, 10, 18), (2.5, 1, 4, 1), 4.0),
        # 0 and 3 go; the nearest that is *left* to 5 is 20, though 3 would overlap it: 15 / 2.
        ((0, 3, 5, 20), (2.5, 1, 1.5, 1), 7.5),
        # 0 and 3 go, then 10 and 14 (4 + 1 > 4): none is left, the smallest of all is 3.
        ((0, 3, 10, 14), (2.5, 1, 4, 1), 1.5),
        # 0 and 3 go, 10 alone is left: the smallest of all is 3.
        ((0, 3, 10), (2.5, 1, 4), 1.5),
        # Two that overlap.
        ((0, 3), (2.5, 1), 1.5),
    ],
)
def test_the_theoretical_radius_by_hand(places: Any, outermost: Any, radius: float) -> None:
    found = feca.radii(column(*places), np.array(outermost, dtype=float), "theoretical")
    assert found.tolist() == [radius] * len(places)


@pytest.mark.parametrize("rule", feca.RADII)
def test_an_only_centroid_has_its_outermost_row_as_radius(rule: str) -> None:
    assert feca.radii(column(4), np.array([2.5]), rule).tolist() == [2.5]
    assert feca.radii(np.empty((0, 1)), np.empty(0), rule).tolist() == []


def test_the_outermost_distance_by_hand() -> None:
    rows, _, found = clustering([0, 1, 2, 9], [100, 104])
    # Means 3 and 102; distances 3, 2, 1, 6 and 2, 2.
    assert feca.outermost_distances(rows, found).tolist() == [6.0, 2.0]


@pytest.mark.parametrize("rule", feca.RADII)
def test_radii_equal_the_plain_loop(rule: str) -> None:
    plain = algorithm_3 if rule == "theoretical" else algorithm_4
    seen = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        centroids = rng.uniform(0, 10, size=(rng.integers(2, 9), 2))
        outermost = rng.uniform(0, 2.5, size=len(centroids))
        expected = plain(list(centroids), list(outermost))
        np.testing.assert_allclose(feca.radii(centroids, outermost, rule), expected, atol=1e-12)
        smallest = min(algorithm_4(list(centroids), [np.inf] * len(centroids)))
        seen.add(expected[0] > smallest + 1e-9)
    assert seen == {False, True}


# --- Aggregation ---------------------------------------------------------------------------------

CENTROIDS, RADII = column(0, 0.5, 10, 10.4, 11, 30), np.array([1.0, 0.2, 0.5, 0.5, 2.0, 0.1])


def test_aggregation_by_hand() -> None:
    # 11 has the largest radius: {10, 10.4, 11}, mean 31.4 / 3. Then 0: {0, 0.5}, mean 0.25; 30.
    first = 31.4 / 3
    for k, expected in ((1, [first]), (2, [first, 0.25]), (3, [first, 0.25, 30.0])):
        centers, n_groups = feca.aggregated(CENTROIDS, RADII, k)
        assert centers[:, 0].tolist() == pytest.approx(expected)
        assert n_groups == k


def test_fewer_groups_than_clusters_are_filled_up_with_the_farthest() -> None:
    # Squared gaps to 10.467, 0.25, 30: 0 and 0.5: 0.0625; 10: 0.218; 10.4: 0.004; 11: 0.284; 30: 0.
    filled = [31.4 / 3, 0.25, 30.0, 11.0, 10.0, 0.0, 0.5, 10.4]
    for k in (4, 5, 6, 7, 8):
        centers, n_groups = feca.aggregated(CENTROIDS, RADII, k)
        assert centers[:, 0].tolist() == pytest.approx(filled[:k])
        assert n_groups == 3
    assert len(feca.aggregated(CENTROIDS, RADII, 9)[0]) == 8  # no other was received


def test_ties_go_to_who_comes_first() -> None:
    # Equal radii: 0 goes first and takes 1 (at its radius exactly), then 2 is alone.
    centers, _ = feca.aggregated(column(0, 1, 2), np.ones(3), 1)
    assert centers.tolist() == [[0.5]]
    # Groups of equal size: the one formed first, of the larger radius, comes first.
    centers, _ = feca.aggregated(column(0, 10), np.array([1.0, 2.0]), 2)
    assert centers.tolist() == [[10.0], [0.0]]
    # Radius 0 holds equal centroids together.
    centers, n_groups = feca.aggregated(column(5, 7, 5), np.zeros(3), 3)
    assert (centers.tolist(), n_groups) == ([[5.0], [7.0]], 2)


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 8))
def test_aggregation_equals_the_plain_loop(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    centroids = rng.uniform(0, 10, size=(n, 2))
    radii = rng.choice([rng.uniform(0, 5), *rng.uniform(0, 5, size=n)], size=n)  # some are equal
    expected = algorithm_5(centroids, radii, k)
    centers, n_groups = feca.aggregated(centroids, radii, k)
    assert n_groups == len(expected)
    np.testing.assert_allclose(centers[:n_groups], np.array(expected), atol=1e-12)
    # What is added is each time as far from all before it as any (two members of a group are
    # equally far from its mean, up to rounding).
    for number in range(n_groups, len(centers)):
        far = max(gaps(centroids, centers[:number]))
        assert gaps(centers[number : number + 1], centers[:number])[0] == pytest.approx(far)
        assert (centroids == centers[number]).all(axis=1).any()
    assert len(centers) == k or max(gaps(centroids, centers)) == 0


# --- The whole ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", feca.RADII)
@pytest.mark.parametrize("merge", [False, True])
def test_a_party_sends_what_the_algorithms_say(merge: bool, rule: str) -> None:
    dropped = 0
    for seed in range(12):
        rows, weights, _ = random_clustering(seed)
        protocol = feca.FeCA(5, 9, rule, merge, n_init=1)
        data = PartyData("a", rows, weights)
        answer, state = protocol.centroids(data, {}, {}, np.random.default_rng(seed))
        found = cluster(rows, weights, 9, 1, np.random.default_rng(seed))
        kept = algorithm_2(clusters_of(rows, weights, found), merge)
        centers = [mean(*own) for own in kept]
        outermost = [
            max(float(np.linalg.norm(x - center)) for x in own)
            for (own, _), center in zip(kept, centers, strict=True)
        ]
        plain = algorithm_3 if rule == "theoretical" else algorithm_4
        radii = plain(centers, outermost) if len(centers) > 1 else outermost
        np.testing.assert_allclose(answer["centroids"], np.array(centers), atol=1e-9)
        np.testing.assert_allclose(answer["radii"], radii, atol=1e-9)
        assert state == {}
        dropped += 9 - len(kept)
    assert dropped > 0


def test_without_removal_a_party_sends_all_its_centroids() -> None:
    fewer = 0
    for seed in range(12):
        rows, weights, _ = random_clustering(seed)
        data = PartyData("a", rows, weights)
        sent = {
            remove: feca.FeCA(5, 9, n_init=1, remove=remove).centroids(
                data, {}, {}, np.random.default_rng(seed)
            )[0]
            for remove in (True, False)
        }
        found = cluster(rows, weights, 9, 1, np.random.default_rng(seed))
        outermost = feca.outermost_distances(rows, found)
        assert sent[False]["centroids"].tolist() == found.centers.tolist()
        expected = feca.radii(found.centers, outermost, "empirical")
        assert sent[False]["radii"].tolist() == expected.tolist()
        fewer += len(sent[True]["centroids"]) < len(sent[False]["centroids"])
    assert fewer > 0


def said(protocol: feca.FeCA, parties: Parties, **options: Any) -> dict[str, Any]:
    replies = {}

    def watch(who: str, message: Any) -> None:
        if isinstance(message, Reply):
            replies[who] = message.body

    run_star(protocol, parties, options=Options(watch=watch, **options))
    return replies


def test_a_party_with_fewer_rows_than_clusters_sends_each_with_radius_0() -> None:
    parties = Parties.of([column(5, 0, 5), column(0, 1, 20, 21, 40, 41)])
    replies = said(feca.FeCA(3, 3), parties)
    assert replies["0"]["centroids"].tolist() == [[0.0], [5.0]]
    assert replies["0"]["radii"].tolist() == [0.0, 0.0]
    assert sorted(replies["1"]["centroids"][:, 0]) == [0.5, 20.5, 40.5]
    assert replies["1"]["radii"].tolist() == [0.5, 0.5, 0.5]


def test_parties_may_look_for_more_clusters_than_there_are_to_be() -> None:
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    halves = [corners[[0, 1]], corners[[2, 3]], corners[[1, 2]]]
    tables = [np.repeat(own, 15, axis=0) + rng.normal(size=(30, 2)) for own in halves]
    model = FeCA(4, local_clusters=2, random_state=0).fit(tables)
    assert model.history_["received"].tolist() == [6]
    assert model.n_groups_ == 4
    apart = np.linalg.norm(model.cluster_centers_[:, None] - corners, axis=2)
    assert sorted(apart.argmin(axis=1)) == [0, 1, 2, 3]
    assert apart.min(axis=1).max() < 1.5
    assert FeCA(2, local_clusters=4, random_state=0).fit(tables).cluster_centers_.shape == (2, 2)


def test_the_number_of_groups_is_reported() -> None:
    # One centroid each: 5 with radius 5 and 6 with radius 2: one group, mean 5.5; both are 0.5
    # away from it, and the first is added.
    tables = [column(0, 10), column(4, 8)]
    model = FeCA(2, local_clusters=1, random_state=0).fit(tables)
    assert model.cluster_centers_.tolist() == [[5.5], [5.0]]
    assert model.n_groups_ == 1
    # With two each (single rows, radius 0) there are four groups.
    model = FeCA(2, random_state=0).fit(tables)
    assert model.n_groups_ == 2


def test_fewer_centres_than_asked_for_are_never_silent() -> None:
    tables = [column(0, 1, 2), column(0, 1, 2)]
    model = FeCA(3, local_clusters=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="found 1 centres, fewer than n_clusters=3"):
        model.fit(tables)
    assert model.cluster_centers_.tolist() == [[1.0]]
    assert model.n_groups_ == 1
    assert [own.tolist() for own in model.labels_] == [[0, 0, 0], [0, 0, 0]]


def test_weights_shift_centroids() -> None:
    # Means (0 x 3 + 4) / 4 = 1 and (20 + 24 x 3) / 4 = 23; the outermost rows are 3 away.
    parties = Parties.of([column(0, 4, 20, 24)], weights=[np.array([3.0, 1.0, 1.0, 3.0])])
    replies = said(feca.FeCA(2, 2), parties)
    assert sorted(replies["0"]["centroids"][:, 0]) == [1.0, 23.0]
    assert replies["0"]["radii"].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_the_scale_of_weights_does_not_matter(scale: float) -> None:
    parties = Parties.of([column(0, 4, 20, 24)], weights=[scale * np.array([3.0, 1.0, 1.0, 3.0])])
    replies = said(feca.FeCA(2, 2), parties)
    assert sorted(replies["0"]["centroids"][:, 0]) == pytest.approx([1.0, 23.0])


def test_with_a_minimum_count_centroids_and_radii_are_those_of_cells() -> None:
    # Cells of three: means 1, 51 and 101, all of three rows. Centroids are these, and no radius is
    # left of any; with two clusters, of those of 1 and 51 the mean is 26 and the radius 25.
    rows = column(0, 1, 2, 50, 51, 52, 100, 101, 102)
    policy = Deployment(min_count=3, least_parties=1)
    replies = said(feca.FeCA(3, 3), Parties.of([rows]), policy=policy)
    assert sorted(replies["0"]["centroids"][:, 0]) == [1.0, 51.0, 101.0]
    assert replies["0"]["radii"].tolist() == [0.0, 0.0, 0.0]
    alone = Parties.of([rows[:6]])
    replies = said(feca.FeCA(1, 1), alone, policy=policy)
    assert (replies["0"]["centroids"].tolist(), replies["0"]["radii"].tolist()) == (
        [[26.0]],
        [25.0],
    )
    with pytest.raises(ProtocolError, match="No party sent anything about its rows"):
        said(feca.FeCA(3, 3), alone, policy=Deployment(min_count=9, least_parties=1))
