"""Nothing that can be computed from a party's releases is about fewer rows than its minimum."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unpooled.privacy.row_groups import (
    Audit,
    coarsened,
    effective_sizes,
    enough_rows,
    sendable,
    split_atoms,
)

SIZES = st.integers(1, 60)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[np.ndarray], np.ndarray, int]:
    """Labels that a party wants to release, round by round; rows' weights; the minimum."""
    n = draw(SIZES)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    k, rounds = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    labels = [rng.integers(k, size=n)]
    for _ in range(rounds - 1):
        moved = rng.random(n) < draw(st.sampled_from([0.05, 0.3, 1.0]))
        labels.append(np.where(moved, rng.integers(k, size=n), labels[-1]))
    even = draw(st.booleans())
    weights = np.ones(n) if even else rng.exponential(size=n) * (rng.random(n) < 0.9)
    return labels, weights, draw(st.integers(1, 12))


def released(labels: list[np.ndarray], weights: np.ndarray, least: int) -> list[np.ndarray]:
    """What a party that keeps to its minimum says instead; whole atoms go to cluster 0."""
    atoms, sent = np.zeros(len(weights), dtype=int), []
    told = np.full(len(weights), enough_rows(weights, least))
    for wanted in labels:
        together = np.where(told, 0, -1)
        allowed = coarsened(atoms, wanted, together, weights, least)
        atoms, told = split_atoms(atoms, allowed), allowed >= 0
        sent.append(allowed)
    return sent


@given(histories())
def test_what_a_step_coarsens_passes_the_audit(
    history: tuple[list[np.ndarray], np.ndarray, int],
) -> None:
    labels, weights, least = history
    audit = Audit(weights)
    for allowed in released(labels, weights, least):
        assert audit.smallest_group(allowed) >= least * (1 - 1e-9)
        audit.record(allowed)


@given(histories())
def test_no_row_is_in_the_span_of_what_left(
    history: tuple[list[np.ndarray], np.ndarray, int],
) -> None:
    """The strongest linear attack: memberships known, any combination of any releases."""
    labels, weights, least = history
    if least < 2:
        return
    sent = released(labels, weights, least)
    columns = [(allowed == k) for allowed in sent for k in range(6)]
    columns.append(np.any([allowed >= 0 for allowed in sent], axis=0))  # and the total
    space = np.array(columns, dtype=float).T * np.sqrt(weights)[:, None]
    basis = np.linalg.svd(space, full_matrices=False)
    basis_vectors = basis[0][:, basis[1] > 1e-9 * max(basis[1].max(initial=0), 1e-300)]
    # A row is known if its unit vector lies in the span: its projection then has length 1.
    weighty = weights > 1e-9 * weights.max()
    assert (np.linalg.norm(basis_vectors, axis=1)[weighty] < 1 - 1e-6).all()


@given(histories())
def test_differences_of_any_two_unions_have_rows_enough(
    history: tuple[list[np.ndarray], np.ndarray, int],
) -> None:
    labels, _, least = history
    sent = released(labels, np.ones(len(labels[0])), least)
    sets = [frozenset(np.flatnonzero(allowed == k)) for allowed in sent[:3] for k in range(3)]
    sets += [a | b for a, b in combinations(sets, 2)]
    for a, b in combinations(set(sets), 2):
        assert len(a ^ b) == 0 or len(a ^ b) >= least


@given(histories())
def test_cells_that_are_all_large_enough_get_what_they_want(
    history: tuple[list[np.ndarray], np.ndarray, int],
) -> None:
    labels, weights, least = history
    sizes = effective_sizes(labels[0], weights, 6)
    wanted = labels[0]
    if (sizes[np.unique(wanted)] >= least).all() and len(np.unique(wanted)) > 1:
        assert np.array_equal(released([wanted], weights, least)[0], wanted)


def test_small_moves_wait_and_large_ones_go() -> None:
    ones, nothing = np.ones(60), np.zeros(60, dtype=int)
    first = np.repeat([0, 1], [30, 30])
    assert np.array_equal(coarsened(nothing, first, nothing, ones, 10), first)
    wanted = first.copy()
    wanted[:4] = 1  # 4 of the first 30 want to move: their atom stays as it is
    assert np.array_equal(coarsened(first, wanted, first, ones, 10), first)
    wanted[:12] = 1
    assert np.array_equal(coarsened(first, wanted, first, ones, 10), wanted)
    wanted[12:20] = 2  # of 30: 12 and 10 are enough, the 8 between go with the larger
    allowed = coarsened(first, wanted, first, ones, 10)
    assert allowed[:30].tolist() == [1] * 20 + [0] * 10
    wanted[20:24] = 3  # 12 are enough, and so are the 8, 4 and 6 others together: left out
    allowed = coarsened(first, wanted, first, ones, 10)
    assert allowed[:30].tolist() == [1] * 12 + [-1] * 18
    # What was left out stays out.
    atoms = split_atoms(first, allowed)
    allowed = coarsened(atoms, wanted, np.where(allowed < 0, -1, allowed), ones, 10)
    assert (allowed[12:30] == -1).all()


def test_an_atom_that_cannot_be_split_says_nothing_of_where_its_rows_want_to_go() -> None:
    atoms, ones = np.zeros(19, dtype=int), np.ones(19)
    for n in range(20):
        wanted = np.repeat([0, 1], [n, 19 - n])
        for together in (0, 1):
            allowed = coarsened(atoms, wanted, np.full(19, together), ones, 10)
            assert (allowed == together).all()


def test_a_party_of_few_rows_says_nothing() -> None:
    assert not enough_rows(np.ones(9), 10)
    assert enough_rows(np.ones(10), 10)
    assert (released([np.zeros(9, dtype=int)] * 2, np.ones(9), 10)[1] == -1).all()
    assert Audit(np.ones(9)).smallest_group(np.full(9, -1)) == np.inf


def test_one_heavy_row_is_not_hidden_by_light_ones() -> None:
    weights = np.array([1000.0, *np.ones(19)])
    assert effective_sizes(np.zeros(20, dtype=int), weights, 1)[0] < 1.1
    assert not enough_rows(weights, 10)
    assert Audit(weights).smallest_group(np.zeros(20, dtype=int)) < 1.1


def test_very_light_rows_are_counted_by_their_own_weights() -> None:
    weights = np.array([1.0] * 20 + [2.7e-162] * 7)
    labels = np.repeat([0, 1], [20, 7])
    assert effective_sizes(labels, weights, 2).tolist() == [20.0, 7.0]
    assert Audit(weights).smallest_group(labels) == 7


def test_a_suppressed_remainder_takes_a_second_cluster_with_it() -> None:
    labels = np.repeat([0, 1, 2, 3], [40, 5, 20, 30])
    # Cluster 1 is too small, and would be the total less the others: 2, the smallest other, goes.
    assert sendable(labels, np.ones(95), 4, 10).tolist() == [0, 3]
    # Two that are too small hide each other.
    labels = np.repeat([0, 1, 2, 3], [40, 5, 6, 30])
    assert sendable(labels, np.ones(81), 4, 10).tolist() == [0, 3]
    assert sendable(labels, np.ones(81), 4, 1).tolist() == [0, 1, 2, 3]
    # Rows that were dropped before (FeCA's refinement) are part of the remainder.
    labels = np.repeat([-1, 0, 1], [3, 15, 20])
    assert sendable(labels, np.ones(38), 2, 10).tolist() == [1]
    assert sendable(np.zeros(9, dtype=int), np.ones(9), 1, 10).tolist() == []


@given(histories())
def test_what_is_sendable_passes_the_audit(
    history: tuple[list[np.ndarray], np.ndarray, int],
) -> None:
    labels, weights, least = history
    kept = sendable(labels[0], weights, 6, least)
    row_groups = np.where(np.isin(labels[0], kept), labels[0], -1)
    assert Audit(weights).smallest_group(row_groups) >= least * (1 - 1e-9)


def test_the_audit_sees_a_row_that_moves_alone() -> None:
    audit = Audit(np.ones(60))
    first = np.repeat([0, 1], 30)
    assert audit.smallest_group(first) == 30
    audit.record(first)
    assert audit.smallest_group(first) == 30
    moved = first.copy()
    moved[7] = 1
    assert audit.smallest_group(moved) == 1


def test_the_audit_sees_a_row_in_a_sum_of_two_differences() -> None:
    """One row moves from 0 to 1 under cover of eleven that move from 1 to 2."""
    first = np.repeat([0, 1, 2], 30)
    second = first.copy()
    second[30:41] = 2
    second[0] = 1
    audit = Audit(np.ones(90))
    audit.record(first)
    by_pairs = [np.sum((first == k) != (second == k)) for k in (1, 2)]
    assert by_pairs == [
        12,
        11,
    ]  # each alone looks safe; (1 and 2 after) - (1 and 2 before) is row 0
    assert audit.smallest_group(second) == 1


def test_what_is_behind_must_be_a_label_for_each_row() -> None:
    for nonsense in (np.zeros(3, dtype=int), np.zeros(40), np.zeros((40, 2), dtype=int)):
        audit = Audit(np.ones(40))
        assert audit.smallest_group(nonsense) == 1
        audit.record(nonsense)  # whatever that was, it may have told every row apart
        assert audit.smallest_group(np.zeros(40, dtype=int)) == 1


def test_atoms_are_told_apart_by_everything_that_was_said() -> None:
    atoms = split_atoms(np.array([0, 0, 0, 0]), np.array([-1, -1, 2, 2]))
    atoms = split_atoms(atoms, np.array([0, 1, 0, 0]))
    assert len(set(atoms)) == 3
    assert atoms[2] == atoms[3]
