"""One-shot k-means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from tests.cells import assert_only_cells_leave, cells_of, no_row_among
from tests.sentences import refuses
from unpooled import OneShotKMeans, partition
from unpooled.data.parties import Parties, PartyData
from unpooled.errors import ProtocolError
from unpooled.kernels.lloyd.kmeans import Clustering, cluster
from unpooled.messages.aggregate import aggregate
from unpooled.messages.message import Reply
from unpooled.messages.release import Release
from unpooled.metrics import center_distance
from unpooled.privacy.policy import DEPLOYMENT
from unpooled.protocols.star import one_shot


def blobs(
    sizes: list[int], d: int, apart: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes and places of round clusters about ``apart`` deviations from each other."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(len(sizes), d)) * apart / np.sqrt(2 * d)
    y = np.repeat(np.arange(len(sizes)), sizes)
    return places[y] + rng.normal(size=(len(y), d)), y, places


def pooled_cost(X: np.ndarray, k: int) -> float:
    return float(KMeans(k, n_init=10, random_state=0).fit(X).inertia_)


def test_by_hand() -> None:
    # A's two clusters are {0, 0, 3} and {10}, B's are {1} and {11, 13}: centroids 1 (3 rows),
    # 10 (1), 1 (1), 12 (2). Two clusters: (3 * 1 + 1 * 1) / 4 = 1 and (10 + 2 * 12) / 3 = 34/3.
    A, B = np.array([[0.0], [0.0], [3.0], [10.0]]), np.array([[1.0], [11.0], [13.0]])
    given = {"local_clusters": 2, "random_state": 0}
    model = OneShotKMeans(2, **given).fit({"A": A, "B": B})
    assert np.sort(model.cluster_centers_[:, 0]) == pytest.approx([1.0, 34 / 3])
    assert model.history_["received"].tolist() == [4]
    # In the round of refinement A answers 3 rows, sum 3, and 1 row, 10; B 1 row, 1, and 2 rows, 24.
    refined = OneShotKMeans(2, refine=True, **given).fit({"A": A, "B": B})
    assert np.sort(refined.cluster_centers_[:, 0]) == pytest.approx([4 / 4, 34 / 3])
    # A weight of 2 counts as two rows.
    weights = {"A": np.array([1.0, 1.0, 1.0, 2.0]), "B": np.ones(3)}
    model = OneShotKMeans(2, **given).fit({"A": A, "B": B}, sample_weight=weights)
    assert np.sort(model.cluster_centers_[:, 0]) == pytest.approx([1.0, 44 / 4])


def test_parties_that_send_every_row_get_pooled_k_means() -> None:
    X, _, _ = blobs([12, 15, 9], 2, 4.0)
    model = OneShotKMeans(3, local_clusters=12, random_state=0).fit([X[i::3] for i in range(3)])
    assert model.inertia_ <= pooled_cost(X, 3) * (1 + 1e-9)


def test_refinement_is_one_lloyd_step_on_the_pooled_rows() -> None:
    X, y, _ = blobs([60, 40, 80, 30], 3, 3.0)
    groups = partition.dirichlet(y, n_parties=5, alpha=0.3, random_state=0)
    plain = OneShotKMeans(4, random_state=1).fit(X, groups=groups)
    refined = OneShotKMeans(4, refine=True, random_state=1).fit(X, groups=groups)
    step = np.array([X[plain.labels_ == k].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(refined.cluster_centers_, step, rtol=0, atol=1e-9)
    assert refined.inertia_ <= plain.inertia_
    assert refined.n_rounds_ == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("d", "apart", "alpha", "local"),
    [(16, 4.0, 0.1, None), (16, 7.0, 0.1, None), (64, 7.0, 0.3, None), (2, 8.0, 0.1, "auto")],
)
def test_unbalanced_clusters_cost_what_they_cost_pooled(
    d: int, apart: float, alpha: float, local: Any
) -> None:
    sizes = np.geomspace(40, 800, 12).astype(int).tolist()  # 1 : 20
    X, y, _ = blobs(sizes, d, apart)
    groups = partition.dirichlet(y, n_parties=20, alpha=alpha, random_state=0)
    model = OneShotKMeans(12, local_clusters=local, random_state=0).fit(X, groups=groups)
    assert model.inertia_ <= 1.015 * pooled_cost(X, 12)


@pytest.mark.long
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_parties_that_hold_few_of_the_clusters(classes: int) -> None:
    X, y, _ = blobs([150] * 10, 8, 12.0)
    groups = partition.by_class(y, n_parties=20, classes_per_party=classes, random_state=0)
    model = OneShotKMeans(10, random_state=0).fit(X, groups=groups)
    assert model.inertia_ <= 1.005 * pooled_cost(X, 10)


def test_parties_need_not_know_k() -> None:
    X, y, places = blobs([200] * 6, 4, 14.0)
    groups = partition.dirichlet(y, n_parties=8, alpha=0.3, random_state=0)
    for local in ("auto", 6, 25):
        model = OneShotKMeans(6, local_clusters=local, random_state=0).fit(X, groups=groups)
        assert center_distance(model.cluster_centers_, places) < 0.5
    own = OneShotKMeans(6, local_clusters="auto", random_state=0).fit([X[:100], X[100:500]])
    # ceil(2 sqrt(100)) and ceil(2 sqrt(400)) centroids of 5 numbers
    assert own.traffic_.table["floats_up"].tolist() == [20 * 5, 40 * 5]


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 3, 7])
def test_the_coordinator_finds_the_number_of_clusters(number: int) -> None:
    for seed in range(2):
        X, y, _ = blobs([100] * number, 3, 20.0, seed)
        groups = partition.dirichlet(y, n_parties=4, alpha=0.5, random_state=seed)
        model = OneShotKMeans("auto", n_init=3, max_clusters=9, random_state=seed)
        model.fit(X, groups=groups)
        assert len(model.cluster_centers_) == number
    assert model.get_params()["n_clusters"] == "auto"


def test_bic_is_that_of_round_gaussians() -> None:
    X, _, _ = blobs([50, 30], 2, 9.0)
    found = cluster(X, np.ones(80), 2, 5, np.random.default_rng(0))
    variance = np.square(X - found.centers[found.labels]).sum() / (2 * 80)
    shares = found.counts / 80
    density = np.log(shares[found.labels]) - np.log(2 * np.pi * variance)
    density -= np.square(X - found.centers[found.labels]).sum(axis=1) / (2 * variance)
    expected = 2 * 3 * np.log(80) - 2 * density.sum()
    constant = 80 * 2 * (np.log(2 * np.pi) + 1)  # the same for every K
    assert one_shot.bic(X, np.ones(80), 0.0, found) == pytest.approx(expected - constant)


def test_outliers_are_left_out() -> None:
    X, y, places = blobs([200] * 5, 2, 15.0)
    rng = np.random.default_rng(1)
    strays = rng.uniform(-300, 300, size=(50, 2))
    rows, owner = np.vstack([X, strays]), np.concatenate([y, rng.integers(5, size=50)])
    groups = partition.dirichlet(owner, n_parties=6, alpha=0.5, random_state=0)
    plain = OneShotKMeans(5, random_state=0).fit(rows, groups=groups)
    robust = OneShotKMeans(5, trim=0.06, random_state=0).fit(rows, groups=groups)
    assert center_distance(plain.cluster_centers_, places) > 50
    assert center_distance(robust.cluster_centers_, places) < 1.5
    assert robust.traffic_.table["floats_up"].max() <= 15 * 3  # three times as many centroids


def test_radii_say_nothing_of_counts() -> None:
    X, _, places = blobs([400, 300, 300], 2, 15.0)
    groups = partition.iid(len(X), n_parties=5, random_state=0)
    model = OneShotKMeans(3, send="radii", random_state=0).fit(X, groups=groups)
    assert center_distance(model.cluster_centers_, places) < 0.5
    protocol = one_shot.OneShotKMeans(3, 3, send="radii")
    assert protocol.releases[0].fields == ("centroids", "radii")
    assert "counts" not in protocol.releases[0].discloses


def test_radii_stand_in_for_counts_where_clusters_scatter_alike() -> None:
    replies = {
        "A": {"radii": np.array([1.0, 2.0])},
        "B": {"radii": np.array([0.5, 0.5, 0.0])},
        "C": {"radii": np.empty(0)},
    }
    release = Release("centroids", ("radii",), ("sums",), "", union=("radii",))
    weights = one_shot._weights_from_radii(aggregate(release, replies))
    assert weights[:2] == pytest.approx([0.8, 0.2])
    assert weights[2:].sum() == pytest.approx(1.0)
    assert np.isfinite(weights).all()


def test_upload_is_what_the_docstring_says() -> None:
    X, _, _ = blobs([90, 50, 20, 7], 5, 8.0)
    tables = {"a": X[:3], "b": X[3:80], "c": X[80:]}
    k, d = 4, 5

    def local(n: int, options: dict[str, Any]) -> int:
        if options.keys() & {"local_clusters", "trim"}:
            return int(options.get("local_clusters", 3 * k))
        return max(3 * k, min(64, n // 3))

    assert [local(len(rows), {}) for rows in tables.values()] == [12, 25, 29]
    for options, each in (
        ({}, d + 1),
        ({"local_clusters": 6}, d + 1),
        ({"trim": 0.1}, d + 1),
        ({"send": "radii"}, d + 1),
        ({"refine": True}, d + 1),
    ):
        model = OneShotKMeans(k, random_state=0, **options).fit(tables)
        more = k * (d + 2) if options.get("refine") else 0
        expected = [
            min(len(rows), local(len(rows), options)) * each + more for rows in tables.values()
        ]
        if options.get("send") == "radii":  # what has fewer than 10 rows is not sent
            assert model.traffic_.table["floats_up"][0] == 0
            assert all(model.traffic_.table["floats_up"] % (d + 1) == 0)
            continue
        assert model.traffic_.table["floats_up"].tolist() == expected
        assert model.traffic_.floats_up == sum(expected)
    auto = OneShotKMeans("auto", local_clusters=6, max_clusters=5, random_state=0).fit(tables)
    assert auto.traffic_.table["floats_up"].tolist() == [3 * 7, 6 * 7, 6 * 7]


def test_under_deployment_only_cells_leave() -> None:
    X, _, places = blobs([200, 150, 100], 2, 15.0)
    tables = [X[:8], *np.array_split(X[np.random.default_rng(0).permutation(450)], 3)]
    model = OneShotKMeans(3, policy="deployment", random_state=0).fit(tables)
    assert model.traffic_.table["floats_up"][0] == 0
    what = "takes no part: its 8 rows do not make a cell of 10 persons, its minimum count"
    assert model.remarks_["0"] == [what]
    assert center_distance(model.cluster_centers_, places) < 0.5
    refined = OneShotKMeans(3, policy="deployment", refine=True, random_state=0).fit(tables)
    assert center_distance(refined.cluster_centers_, places) < 0.5
    refuses(
        lambda: OneShotKMeans(3, policy="deployment").fit([X[:8], X[8:12], X[12:20]]),
        "No party sent anything about its rows: each has fewer",
        ProtocolError,
    )


def test_every_centroid_is_a_mean_over_whole_cells() -> None:
    X, _, _ = blobs([200, 150, 100], 2, 5.0)
    tables = np.array_split(X[np.random.default_rng(0).permutation(450)], 3)
    parties = Parties.of(tables)
    for local in (3, 7, None):
        protocol = one_shot.OneShotKMeans(3, local)
        said = assert_only_cells_leave(protocol, parties)
        no_row_among(said, parties)
        replies = [message.body for message in said if isinstance(message, Reply)]
        for rows, reply in zip(tables, replies, strict=True):
            cells = cells_of(rows)
            # Local k-means is settled, so each cell belongs to the centroid nearest to it.
            nearest = cdist(cells.means, reply["centroids"]).argmin(axis=1)
            for k, centroid in enumerate(reply["centroids"]):
                whole = np.isin(cells.labels, np.flatnonzero(nearest == k))
                assert whole.sum() == reply["counts"][k] >= 10
                np.testing.assert_allclose(rows[whole].mean(axis=0), centroid, atol=1e-9)


@pytest.mark.parametrize(
    "protocol",
    [
        one_shot.OneShotKMeans(None, 5, max_clusters=6),
        one_shot.OneShotKMeans(3, 3, send="radii"),
        one_shot.OneShotKMeans(3, 5, refine=True),
        one_shot.OneShotKMeans(3, 9, trim=0.1),
    ],
    ids=["k unknown", "radii", "refined", "trimmed"],
)
def test_all_ways_send_what_follows_from_cells(protocol: one_shot.OneShotKMeans) -> None:
    X, _, _ = blobs([200, 150, 100], 2, 5.0)
    shuffled = X[np.random.default_rng(0).permutation(450)]
    parties = Parties.of(np.array_split(shuffled, 3))
    no_row_among(assert_only_cells_leave(protocol, parties), parties)


def test_the_scatter_of_all_clusters_has_that_within_cells() -> None:
    """Together it is the scatter of the rows about the centroids, where cells do not mix blobs."""
    X, _, _ = blobs([200, 150, 100], 2, 30.0)
    data = PartyData("A", X, np.ones(450))
    protocol = one_shot.OneShotKMeans(None, 3, max_clusters=6)
    seen = DEPLOYMENT.admitted(data)
    inside = X[cells_of(X).labels >= 0]
    reply, _ = protocol.centroids(seen, {}, {}, np.random.default_rng(0))
    squared = cdist(inside, reply["centroids"], "sqeuclidean").min(axis=1)
    assert reply["scatter"].sum() == pytest.approx(squared.sum(), rel=1e-9)
    assert reply["counts"].sum() == len(inside)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_clusters": "many"}, "n_clusters='many' must be a whole number of at least 1"),
        ({"n_clusters": 0}, "n_clusters=0 must be a whole number of at least 1"),
        ({"local_clusters": "some"}, "local_clusters='some' is not known; give 'auto'"),
        ({"local_clusters": 0}, "local_clusters=0 must be a whole number of at least 1"),
        ({"send": "rows"}, "send='rows' is not known; give 'counts' or 'radii'"),
        ({"trim": 1.0}, "trim=1.0 must be a share, from 0 to less than 1"),
        ({"trim": -0.1}, "trim=-0.1 must be a finite number of at least 0"),
        ({"refine": "yes"}, "refine='yes' must be True or False"),
        ({"max_clusters": 0}, "max_clusters=0 must be a whole number of at least 1"),
        ({"send": "radii", "refine": True}, "refine=True needs counts"),
        ({"send": "radii", "n_clusters": "auto"}, "n_clusters='auto' needs counts"),
        ({"trim": 0.1, "refine": True}, "refine=True counts all rows, also the outliers"),
        ({"trim": 0.1, "n_clusters": "auto"}, "n_clusters='auto' counts all rows"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    model = OneShotKMeans(**{"n_clusters": 2, **options})
    refuses(lambda: model.fit([np.eye(3), np.eye(3) + 5]), words)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_the_rest_of_a_clustering_keeps_its_shape() -> None:
    """What `cluster` returns is a clustering of the rows there are."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 2))
    weights = np.where(np.arange(30) < 5, 0.0, 1.0)
    found = cluster(rows, weights, 4, 3, rng)
    assert isinstance(found, Clustering)
    assert (found.labels[:5] == -1).all()
    for k in range(4):
        np.testing.assert_allclose(found.centers[k], rows[found.labels == k].mean(axis=0))
        assert found.counts[k] == (found.labels == k).sum()
