"""What parties send is what the docstrings say, to the number.

Every party holds tight blobs at corners far apart, so that everyone knows what its clusters are and
how many rows each has. What may leave is worked out here from these numbers alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cells import cells_of
from unpooled import (
    KFED,
    FeCA,
    FederatedKMeans,
    FuzzyCMeans,
    MatchedAveraging,
    OneShotKMeans,
)
from unpooled.preprocessing import StandardScaler
from unpooled.privacy.traffic import Traffic

D, K, MIN = 4, 3, 10
CORNERS = np.array([[0.0, 10.0, 0.0, 5.0], [20.0, 0.0, 0.0, 5.0], [0.0, 0.0, 30.0, 5.0]])
BLOBS = {
    "north": (12, 15, 4),
    "south": (20, 11, 13),
    "tiny": (3, 0, 2),
    "west": (14, 16, 18),
    "nines": (9, 9, 9),
    "east": (10, 10, 6),
}
"""Rows of each party at each corner; the rows of "tiny" coincide."""


def tables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    made = {}
    for name, sizes in BLOBS.items():
        rows = np.repeat(CORNERS, sizes, axis=0)
        spread = 0.0 if name == "tiny" else 0.05
        made[name] = rng.permutation(rows + spread * rng.normal(size=rows.shape))
    return made


TABLES = tables()
warning_of_cells = pytest.mark.filterwarnings("ignore:FeCA goes by the distances of single rows")
policies = pytest.mark.parametrize("policy", ["study", "deployment"])


CELLS = {name: cells_of(rows, MIN) for name, rows in TABLES.items()}


def kept(policy: str) -> list[int]:
    """Of how many clusters each party speaks: of no more than it has blobs, or cells."""
    if policy == "study":
        return [sum(size > 0 for size in sizes) for sizes in BLOBS.values()]
    return [min(K, len(cells.counts)) for cells in CELLS.values()]


def test_what_leaves_by_hand() -> None:
    assert kept("study") == [3, 3, 2, 3, 3, 3]
    # 31 rows are three cells at most, but 4 must go with others; 5 are none; 26 are two at most.
    assert kept("deployment")[:4] == [2, 3, 0, 3]
    assert 1 <= kept("deployment")[4] <= 2
    assert kept("deployment")[5] == 2
    assert all(cells.counts.min(initial=MIN) >= MIN for cells in CELLS.values())


def agree(traffic: Traffic, numbers: list[int]) -> None:
    assert traffic.table["party"].tolist() == list(BLOBS)
    assert traffic.table["floats_up"].tolist() == numbers
    assert traffic.floats_up == sum(numbers)


def fitted(estimator: Any, policy: str, **options: Any) -> Any:
    return estimator(K, policy=policy, random_state=0, **options).fit(TABLES)


ONE_SHOT = {
    "FeCA: d + 1 for each centroid kept": (FeCA, {}, D + 1),
    "FeCA, theoretical": (FeCA, {"radius": "theoretical", "merge": False, "n_init": 3}, D + 1),
    "KFED: d for each centroid": (KFED, {"local_clusters": K}, D),
    "MatchedAveraging: d for each centroid": (MatchedAveraging, {}, D),
    "OneShotKMeans: d + 1 for each centroid": (OneShotKMeans, {"local_clusters": K}, D + 1),
}


@policies
@warning_of_cells
@pytest.mark.parametrize("case", ONE_SHOT)
def test_one_shot_methods(case: str, policy: str) -> None:
    estimator, options, each = ONE_SHOT[case]
    traffic = fitted(estimator, policy, **options).traffic_
    agree(traffic, [each * number for number in kept(policy)])
    assert traffic.floats_down == 0
    assert traffic.messages == len(BLOBS)
    assert traffic.rounds == 1


def test_feca_pays_for_what_is_left_after_refinement_only() -> None:
    # Four are looked for where there are three blobs, so one blob is halved. The closest pair are
    # its halves, which together are a blob. Nothing has more spread but another blob: that is
    # dropped, if its scatter is more. Sent are the centroids left, of at most four.
    model = FeCA(K, local_clusters=4, n_init=3, random_state=0).fit(TABLES)
    received = int(model.history_["received"][0])
    assert model.traffic_.floats_up == received * (D + 1)
    most = [4, 4, 2, 4, 4, 4]
    up = model.traffic_.table["floats_up"]
    assert (up % (D + 1) == 0).all()
    assert (up <= np.multiply(most, D + 1)).all()
    assert (up >= D + 1).all()


@pytest.mark.parametrize("local", [1, 2, 3])
def test_kfed_sends_as_many_centroids_as_are_looked_for(local: int) -> None:
    model = fitted(KFED, "study", local_clusters=local)
    distinct = [len(np.unique(table, axis=0)) for table in TABLES.values()]
    assert distinct == [31, 44, 2, 48, 27, 26]
    agree(model.traffic_, [D * min(local, n) for n in distinct])


@policies
@pytest.mark.parametrize("merge", ["average", "kmeans"])
@pytest.mark.parametrize("max_rounds", [1, 4])
def test_fuzzy_c_means(policy: str, merge: str, max_rounds: int) -> None:
    given = {"merge": merge, "max_rounds": max_rounds, "tol": 0, "local_steps": 1}
    # At first d + 1 for each centre, of which there are no more than rows, or cells, that differ.
    # Then K (d + 1) in every round.
    model = fitted(FuzzyCMeans, policy, **given)
    first = model.traffic_.by_round["start", 0]["floats_up"]
    received = int(model.history_["received"][0])
    assert first == received * (D + 1)
    assert received == sum(kept(policy))
    found = len(model.cluster_centers_)
    later = (model.n_rounds_ - 1) * found * (D + 1)
    assert model.traffic_.floats_up == first + len(BLOBS) * later
    assert model.n_rounds_ == model.traffic_.rounds <= max_rounds
    assert model.traffic_.floats_down == len(BLOBS) * (model.n_rounds_ - 1) * found * D


@policies
@pytest.mark.parametrize("max_rounds", [1, 5])
def test_federated_k_means_from_given_centres(policy: str, max_rounds: int) -> None:
    start = np.array([[0.0, 0.0, 0.0, 5.0], [1.0, 1.0, 1.0, 5.0], [9.0, 9.0, 9.0, 5.0]])
    model = fitted(FederatedKMeans, policy, init=start, max_rounds=max_rounds, tol=0)
    assert 1 <= model.n_rounds_ <= max_rounds
    agree(model.traffic_, [model.n_rounds_ * K * (D + 2)] * len(BLOBS))
    assert model.traffic_.floats_down == len(BLOBS) * model.n_rounds_ * K * D


@policies
def test_federated_k_means_from_the_default_start(policy: str) -> None:
    model = fitted(FederatedKMeans, policy)
    # The start is that of OneShotKMeans: d + 1 for each centroid.
    rounds = model.n_rounds_ * K * (D + 2)
    agree(model.traffic_, [number * (D + 1) + rounds for number in kept(policy)])
    assert model.traffic_.rounds == 1 + model.n_rounds_
    by_kind = model.traffic_.by_kind
    assert by_kind["centroids"]["floats_up"] == sum(kept(policy)) * (D + 1)
    assert by_kind["sums"]["floats_up"] == len(BLOBS) * rounds


@policies
def test_moments(policy: str) -> None:
    model = StandardScaler(policy=policy).fit(TABLES)
    # d + 1 and 2 d + 1, which are zeros where the party has no cell.
    agree(model.traffic_, [3 * D + 2] * len(BLOBS))
    assert model.traffic_.rounds == 2
    everything = sum(map(sum, BLOBS.values()))
    in_cells = sum(cells.counts.sum() for cells in CELLS.values())
    assert model.n_samples_seen_ == (everything if policy == "study" else in_cells)


@pytest.mark.parametrize(
    "estimator", [FeCA, KFED, MatchedAveraging, FederatedKMeans, OneShotKMeans]
)
@warning_of_cells
def test_what_is_held_back_is_remarked_and_nothing_else(estimator: Any) -> None:
    model = fitted(estimator, "study")
    assert model.remarks_ == {}
    model = fitted(estimator, "deployment")
    out = {name: int((cells.labels < 0).sum()) for name, cells in CELLS.items()}
    short = {name: n for name, n in out.items() if n}
    assert {"tiny"} <= set(short) <= {"north", "tiny", "nines", "east"}
    assert set(model.remarks_) == set(short)
    assert model.remarks_.pop("tiny")[0].startswith("takes no part: its 5 rows do not make a cell")
    for name, [remark] in model.remarks_.items():
        assert f"{short[name]} of {len(TABLES[name])} rows held back" in remark
