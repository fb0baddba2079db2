"""Federated fuzzy c-means: memberships and merges by hand, rounds against pooled rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tests.cells import cells_of
from unpooled import FuzzyCMeans, parallel
from unpooled.data.parties import Parties
from unpooled.errors import ProtocolError
from unpooled.kernels.lloyd.fuzzy import fuzzy_c_means, memberships
from unpooled.messages.message import Ask, Message, Reply
from unpooled.privacy.policy import STUDY, Deployment, Policy
from unpooled.protocols.star import fuzzy
from unpooled.simulate import Options, Run, run_star


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


# --- Fuzzy c-means once more, as plain loops ------------------------------------------------------


def plain_memberships(rows: np.ndarray, centers: np.ndarray, m: float) -> np.ndarray:
    u = np.zeros((len(rows), len(centers)))
    for r, x in enumerate(rows):
        squared = [float((x - c) @ (x - c)) for c in centers]
        on = [k for k, value in enumerate(squared) if value == 0]
        for k in range(len(centers)):
            if on:
                u[r, k] = 1 / len(on) if k in on else 0.0
            else:
                u[r, k] = 1 / sum((squared[k] / other) ** (1 / (m - 1)) for other in squared)
    return u


def plain_step(
    rows: np.ndarray, weights: np.ndarray, centers: np.ndarray, m: float
) -> tuple[np.ndarray, np.ndarray]:
    """The next centres, and their supports."""
    degrees = weights[:, None] * plain_memberships(rows, centers, m) ** m
    support = degrees.sum(axis=0)
    return np.stack([d @ rows / d.sum() for d in degrees.T]), support


# --- The kernel -----------------------------------------------------------------------------------


def test_memberships_by_hand() -> None:
    # Squared distances 1 and 4. m = 2: 1 / (1 + 1/4) = 0.8. m = 3: 1 / (1 + (1/4)^(1/2)) = 2/3.
    assert memberships(column(1), column(0, 3), 2.0)[0] == pytest.approx([0.8, 0.2])
    assert memberships(column(1), column(0, 3), 3.0)[0] == pytest.approx([2 / 3, 1 / 3])
    # m = 1.5: 1 / (1 + (1/4)^2) = 16/17.
    assert memberships(column(1), column(0, 3), 1.5)[0] == pytest.approx([16 / 17, 1 / 17])


def test_a_row_on_a_centre_belongs_to_it_alone() -> None:
    found = memberships(column(3, 0, 7), column(3, 5, 3, 0), 2.0)
    assert found[:2].tolist() == [[0.5, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]]
    assert found[2].sum() == pytest.approx(1)
    # Also if the exponent is extreme.
    for m in (1.0 + 1e-12, 50.0):
        assert memberships(column(3), column(3, 5), m).tolist() == [[1.0, 0.0]]


def test_means_by_hand() -> None:
    # Row 1: u = 0.8, 0.2, 0 (all but); row 4 lies on the second centre: u = 0, 1, 0. With m = 2:
    # centre 0: 0.64 x 1 / 0.64; centre 1: (0.04 x 1 + 1 x 4) / 1.04; centre 2, far off: nothing.
    centers = column(0, 3, 1e9)
    means, support = fuzzy_c_means(column(1, 3), np.ones(2), centers, 2.0, 1, 0.0)
    assert means[:2, 0].tolist() == pytest.approx([1.0, 3.04 / 1.04])
    assert support.tolist() == pytest.approx([0.64, 1.04, 0.0], abs=1e-12)
    # Rows on the other centres give a third no support at all, and it stays.
    means, support = fuzzy_c_means(column(0, 3), np.ones(2), column(0, 3, 9), 2.0, 1, 0.0)
    assert means[:, 0].tolist() == [0.0, 3.0, 9.0]
    assert support.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("m", [1.2, 2.0, 4.0])
def test_the_kernel_equals_plain_loops(m: float) -> None:
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(25, 3)), rng.uniform(0.1, 2, size=25)
    centers = np.concatenate([rng.normal(size=(3, 3)), rows[:1]])
    np.testing.assert_allclose(
        memberships(rows, centers, m), plain_memberships(rows, centers, m), atol=1e-12
    )
    expected = centers
    for steps in range(1, 5):
        expected, support = plain_step(rows, weights, expected, m)
        found, supports = fuzzy_c_means(rows, weights, centers, m, steps, 0.0)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_allclose(supports, support, atol=1e-9)


def test_huge_and_tiny_distances() -> None:
    for scale in (1e-140, 1e140):
        found = memberships(scale * column(1), scale * column(0, 3), 1.001)
        assert found[0] == pytest.approx([1.0, 0.0])
        found = memberships(scale * column(1), scale * column(0, 3), 2.0)
        assert found[0] == pytest.approx([0.8, 0.2])


# --- The coordinator's merges ---------------------------------------------------------------------


def merged(merge: str, *rounds: dict[str, Any], seed: int = 0) -> tuple[list[Any], Any]:
    """The centres that the coordinator sends out, and its result, for these answers."""
    protocol = fuzzy.FuzzyCMeans(2, merge=merge, max_rounds=len(rounds), tol=0.0)
    coordinator = protocol.coordinator(np.random.default_rng(seed))
    asked = []
    said = next(coordinator)
    replies = list(rounds)
    while True:
        if isinstance(said, Ask):
            asked.append(said.body.get("centers"))
        answer = replies.pop(0) if isinstance(said, Ask) else None
        try:
            said = coordinator.send(answer)
        except StopIteration as end:
            return asked[1:], end.value


def answer(centers: np.ndarray, *support: float) -> dict[str, np.ndarray]:
    return {"centers": centers, "support": np.array(support)}


def test_both_merges_by_hand_in_a_later_round() -> None:
    start = {"a": answer(column(0, 20), 1, 1)}
    later = {"a": answer(column(0, 10), 3, 1), "b": answer(column(2, 20), 1, 1)}
    # By index, weighted by support: (0 x 3 + 2) / 4 and (10 + 20) / 2.
    asked, result = merged("average", start, later)
    assert asked[0].tolist() == [[0.0], [20.0]]
    assert result["centers"].tolist() == [[0.5], [15.0]]
    assert int(result["rounds"]) == 2
    # k-means of 0, 2, 10, 20, each once: {0, 2}, {10, 20} cost 2 + 50, {0, 2, 10}, {20} cost 56.
    _, result = merged("kmeans", start, later)
    assert result["centers"].tolist() == [[1.0], [15.0]]
    # The new centres stand in the order of the old, whichever that is.
    first = {"a": answer(column(20, 0), 1, 1), "b": answer(column(1, 21), 1, 1)}
    orders = set()
    for seed in range(12):
        asked, result = merged("kmeans", first, later, seed=seed)
        order = [15.0, 1.0] if asked[0][0, 0] > asked[0][1, 0] else [1.0, 15.0]
        assert result["centers"][:, 0].tolist() == order
        orders.add(tuple(order))
    assert len(orders) == 2


def test_both_merges_by_hand_at_the_start() -> None:
    # Parties number their clusters as they like: b's second goes with a's first.
    start = {"a": answer(column(0, 10), 3, 1), "b": answer(column(20, 2), 1, 1)}
    _, result = merged("average", start)
    assert result["centers"].tolist() == [[0.5], [15.0]]
    assert not result["converged"]
    _, result = merged("kmeans", start)
    assert sorted(result["centers"].tolist()) == [[1.0], [15.0]]
    # A party with fewer centres, and one with none.
    start = {
        "a": answer(column(8), 1),
        "b": answer(np.empty((0, 1))),
        "c": answer(column(0, 6), 1, 3),
    }
    _, result = merged("average", start)
    assert result["centers"].tolist() == [[0.0], [6.5]]  # (8 + 3 x 6) / 4


def test_a_centre_without_support_is_not_heard() -> None:
    start = {"a": answer(column(0, 20), 1, 1)}
    later = {"a": answer(column(1, 1000), 2, 0), "b": answer(column(5, 22), 2, 4)}
    _, result = merged("average", start, later)
    assert result["centers"].tolist() == [[3.0], [22.0]]
    _, result = merged("kmeans", start, later)
    assert result["centers"].tolist() == [[3.0], [22.0]]
    # Nobody speaks of the second: it stays.
    later = {"a": answer(column(1, 1000), 2, 0), "b": answer(column(5, 22), 2, 0)}
    _, result = merged("average", start, later)
    assert result["centers"].tolist() == [[3.0], [20.0]]


def test_it_goes_on_when_more_centres_are_heard_of_later_than_at_first() -> None:
    """At first, parties spoke of two of three clusters; then of two each, which all differ."""
    protocol = fuzzy.FuzzyCMeans(3, max_rounds=2)
    coordinator = protocol.coordinator(np.random.default_rng(0))
    next(coordinator)
    coordinator.send({"a": answer(column(0), 1), "b": answer(column(20), 1)})
    ask = coordinator.send(None)
    assert sorted(ask.body["centers"][:, 0]) == [0.0, 20.0]
    coordinator.send({"a": answer(column(0, 10), 1, 1), "b": answer(column(1, 20), 1, 1)})
    with pytest.raises(StopIteration) as end:
        coordinator.send(None)
    assert len(end.value.value["centers"]) in (2, 3)


# --- Rounds ---------------------------------------------------------------------------------------


def unequal(offset: float = 0.0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(3)
    corners = rng.uniform(0, 8, size=(3, 2)) + offset
    rows = [corners[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) for n in (2, 9, 30, 14)]
    weights = [rng.uniform(0.2, 3.0, size=len(own)) for own in rows]
    weights[2][:3] = 0.0
    return rows, weights


def watched(protocol: fuzzy.FuzzyCMeans, parties: Parties, **options: Any) -> tuple[Run, list[Any]]:
    messages: list[tuple[str, Message]] = []
    how = Options(watch=lambda *said: messages.append(said), **options)
    return run_star(protocol, parties, seed=1, options=how), messages


@pytest.mark.parametrize("m", [1.3, 2.0, 3.5])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_single_steps_averaged_are_fuzzy_c_means_of_pooled_rows(
    m: float, offset: float, weighted: bool
) -> None:
    rows, weights = unequal(offset)
    parties = Parties.of(rows, weights=weights if weighted else None)
    protocol = fuzzy.FuzzyCMeans(3, m, "average", max_rounds=12, tol=0.0, local_steps=1)
    run, messages = watched(protocol, parties)
    asks = [said for _, said in messages if isinstance(said, Ask) and said.kind == "centers"]
    asked = [said.body["centers"] for said in asks]
    assert len(asked) == 11
    expected = asked[0]
    for found in [*asked[1:], run.result["centers"]]:
        expected, _ = plain_step(parties.rows, parties.weights, expected, m)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert np.abs(expected - asked[0]).max() > 0.01


def test_a_party_answers_with_its_centres_and_support() -> None:
    # Centres 0 and 3, rows 1 (weight 2) and 3, m = 2. Row 1: u = 0.8, 0.2; row 3: u = 0, 1.
    # Supports 2 x 0.64 = 1.28 and 2 x 0.04 + 1 = 1.08; centres 1 and (0.08 + 3) / 1.08.
    protocol = fuzzy.FuzzyCMeans(2, local_steps=1)
    parties = Parties.of([column(1, 3)], weights=[np.array([2.0, 1.0])])
    said, _ = protocol.go_on(parties[0], {}, {"centers": column(0, 3)}, np.random.default_rng(0))
    assert said["support"].tolist() == pytest.approx([1.28, 1.08])
    assert said["centers"][:, 0].tolist() == pytest.approx([1.0, 3.08 / 1.08])


@pytest.mark.parametrize("policy", [STUDY, Deployment(least_parties=2)], ids=["rows", "cells"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_party_may_take_its_rows_in_chunks(
    offset: float, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    corners = offset + np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    tables = [np.repeat(corners, n, axis=0) + rng.normal(size=(3 * n, 2)) for n in (20, 35)]
    weights = [np.where(rng.random(len(own)) < 0.2, 0.0, 1.0) for own in tables]
    options = {"merge": "average", "local_steps": 2, "tol": 0.0, "max_rounds": 4}
    found = []
    for numbers in (1 << 20, 50):
        monkeypatch.setattr(parallel, "_NUMBERS", numbers)
        model = FuzzyCMeans(3, policy=policy, random_state=0, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.append(model.fit(tables, sample_weight=weights).cluster_centers_)
    np.testing.assert_allclose(*found, rtol=0, atol=1e-11 + 1e-14 * offset)


def test_by_default_a_party_goes_on_until_its_centres_stay() -> None:
    rows, weights = unequal()
    parties = Parties.of(rows, weights=weights)
    start = rows[2][5:8]
    protocol = fuzzy.FuzzyCMeans(3)
    said, _ = protocol.go_on(parties[2], {}, {"centers": start}, np.random.default_rng(0))
    expected = start
    for _ in range(300):
        expected, support = plain_step(rows[2], weights[2], expected, 2.0)
    np.testing.assert_allclose(said["centers"], expected, atol=1e-4)
    np.testing.assert_allclose(said["support"], support, atol=1e-3)
    three = fuzzy.FuzzyCMeans(3, local_steps=3)
    said, _ = three.go_on(parties[2], {}, {"centers": start}, np.random.default_rng(0))
    expected = start
    for _ in range(3):
        expected, _ = plain_step(rows[2], weights[2], expected, 2.0)
    np.testing.assert_allclose(said["centers"], expected, atol=1e-9)


def test_an_average_and_kmeans_of_one_party_are_its_own_fuzzy_c_means() -> None:
    rows = unequal()[0][2]
    found = []
    for merge in fuzzy.MERGES:
        model = FuzzyCMeans(3, merge=merge, max_rounds=1, random_state=0).fit(rows)
        found.append(sorted(model.cluster_centers_.tolist()))
        step, _ = plain_step(rows, np.ones(len(rows)), model.cluster_centers_, 2.0)
        np.testing.assert_allclose(step, model.cluster_centers_, atol=1e-4)
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.parametrize("merge", fuzzy.MERGES)
@pytest.mark.parametrize("max_rounds", [1, 2, 5])
def test_max_rounds_counts_every_exchange(merge: str, max_rounds: int) -> None:
    model = FuzzyCMeans(
        3, merge=merge, max_rounds=max_rounds, tol=0, local_steps=1, random_state=0
    ).fit(unequal()[0])
    assert model.n_rounds_ == model.traffic_.rounds == max_rounds
    assert not model.converged_
    assert len(model.history_.get("movement", [])) == max_rounds - 1


def test_it_stops_when_centres_hardly_move() -> None:
    rows = unequal()[0]
    given = {"merge": "average", "local_steps": 1, "max_rounds": 500, "random_state": 0}
    counts = []
    for tol in (10.0, 1e-2, 1e-6):
        model = FuzzyCMeans(3, tol=tol, **given).fit(rows)
        counts.append(model.n_rounds_)
        assert model.converged_
        centers = model.cluster_centers_
        extent = max(float(np.linalg.norm(a - b)) for a in centers for b in centers)
        movement = model.history_["movement"]
        assert movement[-1] <= tol * extent
        if tol < 1:
            assert (movement[:-1] > 0.9 * tol * extent).all()
    assert counts[0] == 2
    assert counts[0] < counts[1] < counts[2] < 500
    # At the end the centres are those of the pooled rows.
    pooled = np.concatenate(rows)
    step, _ = plain_step(pooled, np.ones(len(pooled)), centers, 2.0)
    np.testing.assert_allclose(step, centers, atol=1e-4)


def test_a_fuzzifier_near_one_is_all_but_k_means() -> None:
    rows = [column(0, 1, 10, 13), column(2, 30, 33, 12), column(36, 11)]
    pooled = np.concatenate(rows)
    # Lloyd's centres: {0, 1, 2}, {10, 11, 12, 13}, {30, 33, 36}.
    lloyd = [1.0, 11.5, 33.0]
    gaps = []
    for m in (2.0, 1.3, 1.02):
        model = FuzzyCMeans(
            3, fuzzifier=m, merge="average", local_steps=1, max_rounds=200, tol=1e-9, random_state=0
        ).fit(rows)
        gaps.append(np.abs(np.sort(model.cluster_centers_[:, 0]) - lloyd).max())
    assert gaps[2] < 1e-9 < gaps[1] < gaps[0]
    assert gaps[0] > 0.01
    np.testing.assert_allclose(np.sort(memberships(pooled, column(*lloyd), 1.02).max(axis=1)), 1.0)


def test_the_most_extreme_fuzzifiers_make_no_nonsense() -> None:
    rows = unequal()[0]
    for m in (np.nextafter(1.0, 2.0), 20.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = FuzzyCMeans(3, fuzzifier=m, random_state=0).fit(rows)
        assert np.isfinite(model.cluster_centers_).all()


def test_a_party_with_fewer_rows_than_clusters() -> None:
    parties = Parties.of([column(0), column(0, 1, 10, 11, 20, 21)])
    run, messages = watched(fuzzy.FuzzyCMeans(3, merge="average", local_steps=1), parties)
    replies = [(who, said) for who, said in messages if isinstance(said, Reply)]
    first = {who: said.body for who, said in replies if said.kind == "start"}
    assert first["0"]["centers"].tolist() == [[0.0]]
    assert first["0"]["support"].tolist() == [1.0]
    later = {who: said.body for who, said in replies if said.kind == "centers"}
    assert later["0"]["centers"].shape == (3, 1)
    assert run.result["centers"].shape == (3, 1)


def test_no_start_is_a_row_unless_it_is_alone() -> None:
    rows, _ = unequal()
    parties = Parties.of(rows[2:])
    _, messages = watched(fuzzy.FuzzyCMeans(3, max_rounds=3), parties)
    for _, said in messages:
        for table in said.body.values():
            if table.ndim == 2 and len(table):
                gaps = np.abs(parties.rows[:, None] - table).max(axis=2)
                assert gaps.min() > 1e-6


def test_with_a_minimum_count_a_party_works_with_its_cells() -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(60, 1)), 1000 + rng.normal(size=(3, 1))])
    policy = Deployment(min_count=5, least_parties=1)
    protocol = fuzzy.FuzzyCMeans(2, max_rounds=4)
    _, messages = watched(protocol, Parties.of([rows]), policy=policy)
    replies = [said.body for _, said in messages if isinstance(said, Reply)]
    assert all(np.abs(body["centers"] - row).min() > 1e-6 for body in replies for row in rows[-3:])
    # Everything follows from the cells: the rows themselves could be any others with the same.
    cells = cells_of(rows, 5)
    assert cells.counts.min() >= 5
    alike = Parties.of([cells.means], weights=[cells.weights])
    _, others = watched(protocol, alike)
    for body, other in zip(
        replies, [m.body for _, m in others if isinstance(m, Reply)], strict=True
    ):
        assert all(np.array_equal(body[name], other[name]) for name in body)
    with pytest.raises(ProtocolError, match="No party sent anything"):
        watched(protocol, Parties.of([rows[-3:]]), policy=policy)


@pytest.mark.parametrize("merge", fuzzy.MERGES)
def test_parties_of_few_cells_are_no_reason_to_break_down(merge: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        tables = [rng.normal(size=(26, 2)) for _ in range(3)]
        model = FuzzyCMeans(3, merge=merge, policy="deployment", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(tables)
        assert 1 <= len(model.cluster_centers_) <= 3
