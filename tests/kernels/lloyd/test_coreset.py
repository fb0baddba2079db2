"""Coresets: their weights by hand, and that costs on them are right on average."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled.kernels.lloyd.coreset import (
    CoresetPart,
    draw_coreset,
    row_costs,
    shares,
    without_negatives,
)

RNG = np.random.default_rng(0)
ROWS = [RNG.normal(size=(n, 2)) * scale for n, scale in ((40, 1.0), (25, 3.0), (2, 2.0))]
# Heavy rows are on one side, so that weights matter to any cost seen from there.
WEIGHTS = [np.exp(rows[:, 0] / np.abs(rows).max()) ** 2 for rows in ROWS]
# The first party's first row is a centre, the last party's rows all are: they cost nothing.
CENTERS = [ROWS[0][:3], RNG.normal(size=(3, 2)), ROWS[2]]


@pytest.mark.long
@pytest.mark.parametrize("power", [1, 2])
def test_the_cost_of_any_centers_is_right_on_average(power: int) -> None:
    anywhere = np.array([[2.0, 1.0], [3.0, -1.0]])
    rng = np.random.default_rng(power)
    size, found = 7, []
    costs = np.array(
        [
            (w * row_costs(x, b, power)[0]).sum()
            for x, w, b in zip(ROWS, WEIGHTS, CENTERS, strict=True)
        ]
    )
    for _ in range(2000):
        cost = 0.0
        allotted = shares(costs, size, rng)
        for x, w, b, share in zip(ROWS, WEIGHTS, CENTERS, allotted, strict=True):
            rate = costs.sum() / size
            part = draw_coreset(x, w, b, power, share=int(share), rate=rate, rng=rng)
            for rows, weights in (
                (part.rows, part.weights),
                (part.centers, part.center_weights),
            ):
                cost += float((weights * row_costs(rows, anywhere, power)[0]).sum())
        found.append(cost)
    true = sum(
        (w * row_costs(x, anywhere, power)[0]).sum() for x, w in zip(ROWS, WEIGHTS, strict=True)
    )
    error = np.std(found) / np.sqrt(len(found))
    assert error < 0.015 * true
    assert abs(np.mean(found) - true) < 4 * error


def test_weights_by_hand() -> None:
    rows = np.array([[0.0], [1.0], [3.0], [10.0], [12.0]])
    weights = np.array([1.0, 2.0, 4.0, 1.0, 1.0])
    centers = np.array([[1.0], [11.0]])
    # c = 1, 0, 4 | 1, 1; M = 1 + 0 + 16 + 1 + 1 = 19 = M_i; t = 38, so a draw counts 1 / (2 c).
    part = draw_coreset(rows, weights, centers, 2, share=38, rate=0.5, rng=np.random.default_rng(0))
    assert set(part.rows[:, 0]) <= {0.0, 3.0, 10.0, 12.0}
    expected = {0.0: 0.5, 3.0: 0.125, 10.0: 0.5, 12.0: 0.5}
    assert part.weights.tolist() == [expected[row] for row in part.rows[:, 0]]
    left = part.weights[part.rows[:, 0] < 5].sum()
    assert part.center_weights.tolist() == [7.0 - left, 2.0 - (part.weights.sum() - left)]
    # k-median: c = 1, 0, 2 | 1, 1; M = 1 + 8 + 2 = 11; t = 11, so a draw counts 1 / c.
    part = draw_coreset(rows, weights, centers, 1, share=11, rate=1.0, rng=np.random.default_rng(0))
    expected = {0.0: 1.0, 3.0: 0.5, 10.0: 1.0, 12.0: 1.0}
    assert part.weights.tolist() == [expected[row] for row in part.rows[:, 0]]
    assert part.weights.sum() + part.center_weights.sum() == weights.sum()


def test_shares_are_whole_exact_and_right_on_average() -> None:
    costs = np.array([0.0, 1.0, 3.3, 0.0, 0.01, 5.0])
    rng = np.random.default_rng(0)
    drawn = np.array([shares(costs, 10, rng) for _ in range(4000)])
    assert (drawn.sum(axis=1) == 10).all()
    share = 10 * costs / costs.sum()
    assert ((drawn == np.floor(share)) | (drawn == np.ceil(share))).all()
    assert np.abs(drawn.mean(axis=0) - share).max() < 4 * 0.5 / np.sqrt(4000)
    assert shares(np.array([2.0, 8.0]), 5, rng).tolist() == [1, 4]
    assert shares(np.zeros(3), 5, rng).tolist() == [0, 0, 0]


def test_without_negatives_keeps_the_total_of_every_cluster() -> None:
    part = CoresetPart(
        rows=np.array([[0.0], [1.0], [9.0]]),
        weights=np.array([2.0, 6.0, 1.0]),
        centers=np.array([[0.5], [10.0], [50.0]]),
        center_weights=np.array([-3.0, 2.0, 4.0]),
    )
    usable = without_negatives(part)
    assert usable.center_weights.tolist() == [0.0, 2.0, 4.0]
    assert usable.weights.tolist() == [1.25, 3.75, 1.0]
    assert without_negatives(usable) is usable


def test_a_party_that_draws_nothing_sends_its_centers() -> None:
    rng = np.random.default_rng(0)
    part = draw_coreset(ROWS[2], WEIGHTS[2], CENTERS[2], 2, share=0, rate=1.0, rng=rng)
    assert part.rows.shape == (0, 2)
    assert np.array_equal(part.center_weights, WEIGHTS[2])
    nobody = np.empty((0, 2))
    empty = draw_coreset(nobody, np.empty(0), nobody, 2, share=0, rate=1.0, rng=rng)
    assert (empty.rows.shape, empty.centers.shape) == ((0, 2), (0, 2))
