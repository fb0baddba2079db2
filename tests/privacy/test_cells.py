"""Cells: every rule that keeps one of them from being about a single row, by plain loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.errors import InputError
from unpooled.privacy.cells import Cells, make_cells

RNG = np.random.default_rng(0)


def effective(weights: dict[Any, float]) -> float:
    """(Σ w)² / Σ w² of the weights of persons."""
    return sum(weights.values()) ** 2 / sum(w * w for w in weights.values()) if weights else 0.0


def by_person(members: Any, weights: Any, persons: Any) -> dict[Any, float]:
    out: dict[Any, float] = {}
    for i in members:
        out[persons[i]] = out.get(persons[i], 0.0) + weights[i]
    return out


def check(
    cells: Cells, rows: Any, weights: Any, min_count: int, persons: Any = None, fresh: Any = None
) -> None:
    """Fails if a cell breaks a rule or its numbers are not those of its rows."""
    n, d = rows.shape
    persons = np.arange(n) if persons is None else persons
    fresh = np.ones(n, dtype=bool) if fresh is None else fresh
    fresh = ~np.isin(persons, persons[~fresh])  # a person with one row that is not fresh is not
    n_cells, parts = len(cells.counts), np.zeros((n, d))
    assert set(cells.labels[cells.labels >= 0]) == set(range(n_cells))
    assert not (cells.held_back & (cells.labels >= 0)).any()
    for c in range(n_cells):
        members = np.flatnonzero(cells.labels == c)
        assert (weights[members] > 0).all()
        assert cells.counts[c] == len(members)
        assert cells.weights[c] == pytest.approx(weights[members].sum())
        people = by_person(members, weights, persons)
        counted = by_person(members[fresh[members]], weights, persons)
        assert effective(counted) >= min_count * (1 - 1e-6)
        assert max(people.values()) * min_count <= 2 * sum(people.values()) * (1 + 1e-6)
        for j in range(d):
            seen = members[~np.isnan(rows[members, j])]
            if effective(by_person(seen[fresh[seen]], weights, persons)) < min_count * (1 - 1e-9):
                assert cells.observed[c, j] == 0
            if not cells.observed[c, j]:
                assert np.isnan(cells.means[c, j])
                continue
            assert cells.observed[c, j] == len(seen)
            mean = np.average(rows[seen, j], weights=weights[seen])
            assert cells.means[c, j] == pytest.approx(mean, rel=1e-9, abs=1e-9)
            parts[seen, j] = weights[seen] * (rows[seen, j] - cells.means[c, j]) ** 2
    inside = cells.labels >= 0
    pairs = set(zip(persons[inside].tolist(), cells.labels[inside].tolist(), strict=True))
    assert len(pairs) == len({person for person, _ in pairs}), "a person is in two cells"
    for total, sums in zip(cells.scatter, parts.sum(axis=0), strict=True):
        assert total == 0 or total == pytest.approx(sums, rel=1e-6, abs=1e-9)
    check_dominance(cells, rows, weights, persons, parts)


def check_dominance(cells: Cells, rows: Any, weights: Any, persons: Any, parts: Any) -> None:
    """No person has more than half of their cell's scatter, or of a total that is kept."""
    kept = (weights > 0) & ~cells.held_back
    scaled = np.zeros(len(rows))
    for j in range(rows.shape[1]):
        seen = kept & ~np.isnan(rows[:, j])
        if not seen.any():
            continue
        x, w = rows[seen, j], weights[seen]
        variance = np.average((x - np.average(x, weights=w)) ** 2, weights=w)
        if parts[:, j].sum() > 1e-20 * np.abs(x).max() ** 2 * w.sum():
            largest = np.bincount(persons, parts[:, j]).max()
            dominated = largest > 0.5 * parts[:, j].sum() * (1 + 1e-6)
            assert not (dominated and cells.scatter[j])
            if largest < 0.5 * parts[:, j].sum() * (1 - 1e-6):
                assert cells.scatter[j] > 0
            scaled += parts[:, j] / variance
    for c in range(len(cells.counts)):
        own = cells.labels == c
        of_persons = np.bincount(persons[own], scaled[own])
        if of_persons.sum() > 1e-9:
            assert of_persons.max() <= 0.5 * of_persons.sum() * (1 + 1e-6)


@st.composite
def tables(draw: Any) -> tuple[Any, ...]:
    """Rows with gaps and ties, weights, persons, fresh rows and a minimum."""
    n, d = draw(st.integers(1, 60)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    kind = draw(st.sampled_from(["normal", "whole", "binary", "heavy"]))
    rows = {
        "normal": lambda: rng.normal(size=(n, d)),
        "whole": lambda: rng.integers(0, 4, size=(n, d)).astype(float),
        "binary": lambda: (rng.random((n, d)) < 0.1).astype(float),
        "heavy": lambda: rng.standard_cauchy(size=(n, d)),
    }[kind]()
    rows[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.0, 0.3]))] = np.nan
    weights = draw(
        st.sampled_from([np.ones(n), rng.integers(0, 4, n) * 1.0, rng.exponential(size=n)])
    )
    persons = draw(st.sampled_from([None, rng.integers(0, max(1, n // 2), n)]))
    fresh = draw(st.sampled_from([None, rng.random(n) < 0.7]))
    return rows, weights, draw(st.integers(2, 7)), persons, fresh


@settings(max_examples=150, deadline=None)
@given(tables())
def test_every_cell_keeps_every_rule(table: tuple[Any, ...]) -> None:
    check(make_cells(*table), *table)


@settings(max_examples=30, deadline=None)
@given(tables(), st.integers(0, 1000))
def test_the_order_of_rows_does_not_matter(table: tuple[Any, ...], seed: int) -> None:
    rows, weights, min_count, persons, fresh = table
    order = np.random.default_rng(seed).permutation(len(rows))
    cells = make_cells(*table)
    other = make_cells(
        rows[order],
        weights[order],
        min_count,
        None if persons is None else persons[order],
        None if fresh is None else fresh[order],
    )
    for name in ("means", "observed", "counts", "weights", "scatter"):
        assert np.array_equal(getattr(cells, name), getattr(other, name), equal_nan=True), name


@pytest.mark.bits
def test_layout_in_memory_does_not_matter() -> None:
    rows = RNG.normal(size=(200, 5))
    cells = make_cells(rows, np.ones(200), 10)
    for same in (np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2], rows[::-1][::-1]):
        assert np.array_equal(make_cells(same, np.ones(200), 10).means, cells.means)


def test_all_rows_are_in_cells_where_nothing_offends() -> None:
    rows = RNG.normal(size=(300, 4))
    cells = make_cells(rows, np.ones(300), 10)
    assert (cells.labels >= 0).mean() > 0.98
    assert cells.counts.max() < 20


@pytest.mark.parametrize("min_count", [2, 3, 5])
def test_of_few_rows_hardly_any_are_held_back(min_count: int) -> None:
    """Of three numbers one always has half of the scatter: cells have more then."""
    rows = RNG.normal(size=(500, 1))
    cells = make_cells(rows, np.ones(500), min_count)
    check(cells, rows, np.ones(500), min_count)
    assert cells.held_back.mean() < 0.02


def test_too_few_rows_are_in_no_cell() -> None:
    cells = make_cells(RNG.normal(size=(9, 2)), np.ones(9), 10)
    assert cells.means.shape == (0, 2)
    assert (cells.labels == -1).all()
    assert not cells.held_back.any()
    assert make_cells(np.zeros((0, 3)), np.zeros(0), 10).means.shape == (0, 3)


def test_a_minimum_of_one_makes_every_row_a_cell() -> None:
    rows, weights = np.array([[3.0, np.nan], [1.0, 2.0], [1.0, 2.0], [7.0, 7.0]]), np.ones(4)
    weights[3] = 0.0
    cells = make_cells(rows, weights, 1)
    assert sorted(cells.labels) == [-1, 0, 1, 2]
    assert np.array_equal(cells.means[cells.labels[:3]], rows[:3], equal_nan=True)
    assert not cells.held_back.any()


def test_equal_rows_make_cells_without_scatter() -> None:
    cells = make_cells(np.full((40, 2), 0.1), np.ones(40), 10)
    assert len(cells.counts) >= 2
    assert (cells.means == 0.1).all()
    assert not cells.scatter.any()
    assert not cells.held_back.any()


@pytest.mark.parametrize(("n", "columns"), [(40, 1), (200, 2), (300, 64), (1500, 8)])
def test_an_outlier_is_held_back(n: int, columns: int) -> None:
    rows = np.random.default_rng(n).normal(size=(n, columns))
    rows[7] += 30.0
    cells = make_cells(rows, np.ones(n), 10)
    assert cells.held_back[7]
    assert cells.held_back.mean() < 0.06


def test_an_outlier_in_one_of_many_columns_is_held_back() -> None:
    rows = np.random.default_rng(1).normal(size=(300, 64))
    rows[7, 3] += 30.0
    assert make_cells(rows, np.ones(300), 10).held_back[7]


def test_columns_are_scaled_anew_without_outliers() -> None:
    """A value that is off by a factor of a million hides its column only as long as it is there."""
    rows = np.random.default_rng(0).normal(size=(300, 2))
    spoilt = rows.copy()
    spoilt[5, 0] = 1e9
    cells = make_cells(spoilt, np.ones(300), 10)
    assert cells.held_back[5]
    clean = make_cells(np.delete(rows, 5, axis=0), np.ones(299), 10)
    assert cells.scatter.sum() < 1.2 * clean.scatter.sum()


def test_the_only_row_with_another_value_is_held_back_and_two_are_not() -> None:
    rows = np.column_stack([RNG.normal(size=200), np.zeros(200)])
    rows[3, 1] = 1.0
    assert make_cells(rows, np.ones(200), 10).held_back[3]
    rows[100:104, 1] = 1.0
    assert make_cells(rows, np.ones(200), 10).held_back.sum() <= 2


def test_a_heavy_row_is_held_back_where_others_are_enough() -> None:
    weights = np.ones(200)
    weights[4] = 1e4
    rows = RNG.normal(size=(200, 2))
    cells = make_cells(rows, weights, 10)
    check(cells, rows, weights, 10)
    assert cells.held_back[4]
    assert (cells.labels >= 0).sum() > 190


def test_a_row_of_weight_two_counts_as_two_in_a_mean() -> None:
    rows, weights = RNG.normal(size=(60, 2)), RNG.integers(1, 3, 60).astype(float)
    cells = make_cells(rows, weights, 10)
    check(cells, rows, weights, 10)
    scaled = make_cells(rows, weights * 1e-200, 10)
    assert np.array_equal(scaled.labels, cells.labels)
    assert scaled.weights == pytest.approx(cells.weights * 1e-200, rel=1e-12)


def test_persons_are_counted_not_their_rows() -> None:
    persons = np.repeat(np.arange(30), 5)
    rows = RNG.normal(size=(30, 3))[persons] + 0.1 * RNG.normal(size=(150, 3))
    cells = make_cells(rows, np.ones(150), 10, persons)
    check(cells, rows, np.ones(150), 10, persons)
    assert len(cells.counts)
    few = make_cells(rows[:45], np.ones(45), 10, persons[:45])
    assert not len(few.counts)


def test_a_person_whose_visits_differ_most_is_held_back() -> None:
    """Their mean is ordinary; what they would have of a total is not."""
    rng = np.random.default_rng(0)
    persons = np.repeat(np.arange(200), 4)
    rows = rng.normal(100, 1, size=(800, 2))
    rows[persons == 5, 1] = 100 + np.array([-400.0, 400.0, -400.0, 400.0])
    cells = make_cells(rows, np.ones(800), 10, persons)
    assert cells.held_back[persons == 5].all()
    assert cells.held_back.sum() < 40
    check(cells, rows, np.ones(800), 10, persons)


@pytest.mark.parametrize("fill", [1e20, 9.96921e36])
def test_fill_values_do_not_hide_an_outlier(fill: float) -> None:
    """Deviations are compared with the value itself, not with the largest of the column."""
    rows = np.random.default_rng(0).normal(100, 10, size=(400, 1))
    rows[7] = 1e6
    for filled in (slice(13, 14), slice(20, 60)):
        spoilt = rows.copy()
        spoilt[filled] = fill
        assert make_cells(spoilt, np.ones(400), 10).held_back[7]


def test_weights_whose_squares_vanish_make_no_small_cells() -> None:
    rng = np.random.default_rng(3)
    rows, weights = rng.normal(size=(150, 2)), np.exp(rng.normal(size=150)) * 1e-165
    weights[0] = 1.0
    with np.errstate(under="ignore"):
        cells = make_cells(rows, weights, 10)
    up = {"weights": cells.weights * 1e165, "scatter": cells.scatter * 1e165}
    check(replace(cells, **up), rows, weights * 1e165, 10)


def test_a_cell_has_enough_fresh_rows() -> None:
    fresh = np.arange(100) < 25
    rows = RNG.normal(size=(100, 2))
    cells = make_cells(rows, np.ones(100), 10, None, fresh)
    check(cells, rows, np.ones(100), 10, None, fresh)
    assert 1 <= len(cells.counts) <= 2
    assert not len(make_cells(rows, np.ones(100), 10, None, np.arange(100) < 9).counts)


def test_a_column_with_too_few_values_is_missing_for_the_whole_cell() -> None:
    rows = RNG.normal(size=(15, 2))
    rows[9:, 1] = np.nan
    cells = make_cells(rows, np.ones(15), 10)
    check(cells, rows, np.ones(15), 10)
    assert cells.observed[0, 1] == 0
    assert np.isnan(cells.means[0, 1])
    assert cells.observed[0, 0] == cells.counts[0]
    assert np.isnan(make_cells(np.full((20, 1), np.nan), np.ones(20), 10).means).all()


def test_huge_values_are_refused_where_their_squares_overflow() -> None:
    rows = RNG.normal(size=(50, 2))
    rows[:, 1] *= 1e300
    with pytest.raises(InputError, match="Column 1 has values up to"):
        make_cells(rows, np.ones(50), 10)
    rows[:, 1] = 1e300
    cells = make_cells(rows, np.ones(50), 10)
    assert (cells.means[:, 1] == 1e300).all()
    rows[:, 1] = RNG.normal(size=50) * 1e-300
    assert np.isfinite(make_cells(rows, np.ones(50), 10).means).all()


def test_infinite_values_and_impossible_weights_are_refused() -> None:
    rows = RNG.normal(size=(20, 2))
    rows[4, 1] = np.inf
    with pytest.raises(InputError, match="Column 1 is infinite in row 4"):
        make_cells(rows, np.ones(20), 10)
    with pytest.raises(InputError, match="weight of row 2 is -1"):
        make_cells(np.zeros((20, 2)), np.where(np.arange(20) == 2, -1.0, 1.0), 10)
