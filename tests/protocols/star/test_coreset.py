"""Distributed coresets, from the first question to the centres."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

from tests.cells import assert_only_cells_leave, in_cells, no_row_among
from tests.sentences import refuses
from unpooled.data.parties import Parties
from unpooled.kernels.lloyd import kmedian
from unpooled.kernels.lloyd.coreset import row_costs
from unpooled.messages.message import Message, Reply
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.simulate import Options, run_star

IRIS = load_iris(return_X_y=True)[0]
PARTIES = Parties.of(np.split(IRIS[np.random.default_rng(0).permutation(150)], [20, 60, 61, 63]))
both = pytest.mark.parametrize("objective", ["kmeans", "kmedian"])


def parts(protocol: CoresetKMeans, parties: Parties) -> dict[str, Reply]:
    """What each party sent in the second round."""
    said: list[tuple[str, Message]] = []
    watch = Options(watch=lambda who, message: said.append((who, message)))
    run_star(protocol, parties, options=watch)
    return {who: m for who, m in said if isinstance(m, Reply) and m.kind == "coreset"}


def test_by_hand() -> None:
    parties = Parties.of([np.array([[-1.0], [1.0]]), np.array([[10.0], [14.0]])])
    # k-means: centres 0 and 12, costs 2 and 8, t = 5: 1 and 4 draws, which count 10 / (5 c).
    sent = parts(CoresetKMeans(1, 5), parties)
    assert sent["0"].body["weights"].tolist() == [2.0]
    assert sent["1"].body["weights"].tolist() == [0.5] * 4
    assert [sent[i].body["centers"].tolist() for i in "01"] == [[[0.0]], [[12.0]]]
    assert [sent[i].body["center_weights"].tolist() for i in "01"] == [[0.0], [0.0]]
    # k-median: a row is the centre and the other pays 2 or 4; of t = 3 the draws count 6 / (3 c).
    sent = parts(CoresetKMeans(1, 3, "kmedian"), parties)
    assert sent["0"].body["weights"].tolist() == [1.0]
    assert sent["1"].body["weights"].tolist() == [0.5, 0.5]
    assert [sent[i].body["center_weights"].tolist() for i in "01"] == [[1.0], [1.0]]
    for i, rows in enumerate([{-1.0, 1.0}, {10.0, 14.0}]):
        body = sent[str(i)].body
        assert {*body["rows"][:, 0], *body["centers"][:, 0]} == rows


@both
def test_parties_send_what_the_docstring_says(objective: str) -> None:
    protocol = CoresetKMeans(3, 40, objective)
    sent = parts(protocol, PARTIES)
    drawn = {who: len(reply.body["rows"]) for who, reply in sent.items()}
    centers = {who: len(reply.body["centers"]) for who, reply in sent.items()}
    assert sum(drawn.values()) == 40
    assert centers == {"0": 3, "1": 3, "2": 1, "3": 2, "4": 3}
    assert drawn["2"] == drawn["3"] == 0  # they have one and two rows, all of them centres
    traffic = run_star(protocol, PARTIES).traffic
    assert traffic.rounds == 2
    numbers = [1 + (drawn[who] + centers[who]) * (4 + 1) for who in PARTIES.names]
    assert traffic.table["floats_up"].tolist() == numbers
    assert traffic.floats_down == 5 * (1 + 2 * 5)


@both
def test_little_is_lost_compared_with_all_rows_in_one_place(objective: str) -> None:
    power = 2 if objective == "kmeans" else 1
    pooled = (
        KMeans(3, n_init=10, random_state=0).fit(IRIS).cluster_centers_
        if power == 2
        else kmedian.cluster(IRIS, np.ones(150), 3, 10, np.random.default_rng(0)).centers
    )
    best = row_costs(IRIS, pooled, power)[0].sum()
    for seed in range(5):
        result = run_star(CoresetKMeans(3, 60, objective), PARTIES, seed=seed).result
        assert result["centers"].shape == (3, 4)
        assert result["weights"].sum() == pytest.approx(150)
        assert row_costs(IRIS, result["centers"], power)[0].sum() < 1.1 * best


@both
def test_the_coreset_of_a_run_is_unbiased(objective: str) -> None:
    power = 2 if objective == "kmeans" else 1
    rows = [IRIS[:50, :2], IRIS[50:, :2]]
    weights = [np.linspace(0.1, 3.0, 50), np.linspace(2.0, 0.5, 100)]
    parties = Parties.of(rows, weights=weights)
    anywhere = np.array([[5.0, 2.0], [7.0, 4.0]])
    costs = []
    for seed in range(40):
        result = run_star(CoresetKMeans(2, 25, objective, n_init=1), parties, seed=seed).result
        costs.append((result["weights"] * row_costs(result["rows"], anywhere, power)[0]).sum())
    true = (parties.weights * row_costs(parties.rows, anywhere, power)[0]).sum()
    error = np.std(costs) / np.sqrt(len(costs))
    assert error < 0.04 * true
    assert abs(np.mean(costs) - true) < 4 * error


@both
def test_rows_that_are_all_centers_are_the_coreset(objective: str) -> None:
    rows = np.array([[0.0, 1.0], [0.0, 1.0], [5.0, 5.0]])
    parties = Parties.of([rows, rows[:1], np.empty((0, 2))], names=list("abc"))
    result = run_star(CoresetKMeans(2, 10, objective), parties).result
    assert result["rows"].tolist() == [[0.0, 1.0], [5.0, 5.0], [0.0, 1.0]]
    assert result["weights"].tolist() == [2.0, 1.0, 1.0]
    assert result["centers"].tolist() == [[0.0, 1.0], [5.0, 5.0]]


@pytest.mark.bits
@both
def test_rows_without_weight_are_as_good_as_absent(objective: str) -> None:
    protocol = CoresetKMeans(3, 30, objective)
    far = np.full((4, 4), 1e3)
    plain = Parties.of([IRIS[:70], IRIS[70:]])
    weights = [np.repeat([1.0, 0.0], [70, 4]), np.ones(80)]
    padded = Parties.of([np.concatenate([IRIS[:70], far]), IRIS[70:]], weights=weights)
    assert np.array_equal(
        run_star(protocol, plain).result["centers"], run_star(protocol, padded).result["centers"]
    )


def test_nothing_at_all_and_far_too_much_are_refused() -> None:
    protocol = CoresetKMeans(2, 10)
    weightless = Parties.of([IRIS[:5], IRIS[5:9]], weights=[np.zeros(5), np.zeros(4)])
    refuses(lambda: run_star(protocol, weightless), "No party has a row of positive weight")
    coordinator = protocol.coordinator(np.random.default_rng(0))
    next(coordinator)
    costs = {"near": {"cost": np.ones(1)}, "far": {"cost": np.array([np.inf])}}
    refuses(lambda: coordinator.send(costs), "Party far has rows or weights so large")


@both
def test_it_sends_rows_and_says_so_and_under_deployment_these_are_cells(objective: str) -> None:
    protocol, parties = CoresetKMeans(3, 20, objective), Parties.of(np.split(IRIS, [40, 90]))
    assert all("rows" in release.discloses for release in protocol.releases)
    assert np.isin(run_star(protocol, parties).result["rows"], IRIS).any()
    said = assert_only_cells_leave(protocol, parties)
    no_row_among(said, parties)
    means = np.concatenate(in_cells(np.split(IRIS, [40, 90]))[0])
    drawn = [m.body["rows"] for m in said if isinstance(m, Reply) and "rows" in m.body]
    assert cdist(np.concatenate(drawn), means).min(axis=1).max() == 0.0
