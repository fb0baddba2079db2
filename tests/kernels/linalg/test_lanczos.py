"""Eigenpairs from products, compared with those of the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from unpooled.kernels.linalg.lanczos import (
    Lanczos,
    Ritz,
    found,
    nystrom,
    orthonormal,
    ritz_residual,
    settled,
)


def gram(n: int, rank: int, seed: int) -> np.ndarray:
    """A random positive semidefinite matrix."""
    factor = np.random.default_rng(seed).normal(size=(n, rank))
    return factor @ factor.T


def with_eigenvalues(values: list[float], n: int, seed: int) -> np.ndarray:
    """A matrix with these eigenvalues, and zero for what is missing."""
    vectors = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, len(values))))[0]
    return (vectors * values) @ vectors.T


def descending(matrix: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(matrix)[::-1]


def after(matrix: np.ndarray, steps: int, seed: int = 0) -> Lanczos:
    """The iteration after so many products, or as many as there are."""
    lanczos = Lanczos(np.random.default_rng(seed).normal(size=len(matrix)))
    for _ in range(steps):
        if not lanczos.exhausted:
            lanczos.take(matrix @ lanczos.vector)
    return lanczos


def loss(columns: np.ndarray) -> float:
    """How far columns are from orthonormal."""
    return float(np.abs(columns.T @ columns - np.eye(columns.shape[1])).max(initial=0))


SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.tuples(st.integers(1, 30), st.integers(1, 30)).map(lambda s: (max(s), min(s)))


@given(sizes=SIZES, seed=SEEDS)
def test_all_the_way_it_finds_the_eigenpairs(sizes: tuple[int, int], seed: int) -> None:
    matrix = gram(*sizes, seed)
    lanczos = after(matrix, len(matrix), seed + 1)
    assert lanczos.exhausted
    ritz, wanted = lanczos.ritz(), descending(matrix)
    small = 1e-10 * wanted[0]
    assert len(ritz.values) >= sizes[1]
    assert np.abs(ritz.values - wanted[: len(ritz.values)]).max() < small
    vectors = lanczos.basis @ ritz.coordinates
    assert np.abs(matrix @ vectors - vectors * ritz.values).max() < small
    assert loss(vectors) < 1e-12
    assert not ritz.residuals.any()


def test_the_largest_are_there_long_before_the_end() -> None:
    matrix = with_eigenvalues([50.0, 40.0, 30.0, *np.linspace(0, 1, 197)], 200, 0)
    ritz = after(matrix, 15).ritz()
    assert ritz.values[:3] == pytest.approx([50, 40, 30], rel=1e-10)
    assert found(ritz, 3, 1e-6)
    assert not found(ritz, 4, 1e-6)


def test_orthogonality_outlives_convergence() -> None:
    """The three-term recurrence alone loses it, on the same matrix from the same start."""
    matrix = with_eigenvalues([1000.0, 900.0, 500.0, *np.linspace(0, 1, 197)], 200, 0)
    lanczos = after(matrix, 120)
    assert lanczos.basis.shape == (200, 120)
    assert loss(lanczos.basis) < 1e-12
    last, before, beside = lanczos.basis[:, 0], np.zeros(200), 0.0
    plain = []
    for _ in range(120):
        plain.append(last)
        rest = matrix @ last - beside * before
        rest -= (rest @ last) * last
        beside = float(np.linalg.norm(rest))
        before, last = last, rest / beside
    assert loss(np.stack(plain, axis=1)) > 0.5


@given(sizes=SIZES, steps=st.integers(1, 30), seed=SEEDS)
def test_ritz_values_are_those_of_the_matrix_in_the_basis(
    sizes: tuple[int, int], steps: int, seed: int
) -> None:
    """T = C' R C, tridiagonal, and C P Σ P' C' has the residuals that are given."""
    matrix = gram(*sizes, seed)
    lanczos = after(matrix, steps, seed + 1)
    basis, ritz = lanczos.basis, lanczos.ritz()
    assert loss(basis) < 1e-12
    small = 1e-11 * descending(matrix)[0]
    inner = (ritz.coordinates * ritz.values) @ ritz.coordinates.T
    assert np.abs(inner - basis.T @ matrix @ basis).max() < small
    assert np.abs(np.triu(inner, 2)).max() < small
    assert (np.diff(ritz.values) <= 0).all()
    vectors = basis @ ritz.coordinates
    residuals = np.linalg.norm(matrix @ vectors - vectors * ritz.values, axis=0)
    assert np.abs(residuals - ritz.residuals).max() < small
    nearest = np.abs(ritz.values[:, None] - descending(matrix)).min(axis=1)
    assert (nearest <= ritz.residuals + small).all()


def test_the_next_vector_is_not_in_the_basis_yet() -> None:
    lanczos = after(gram(6, 6, 0), 2)
    assert lanczos.basis.shape == (6, 2)
    assert np.linalg.norm(lanczos.vector) == pytest.approx(1, abs=1e-14)
    assert np.abs(lanczos.basis.T @ lanczos.vector).max() < 1e-14
    assert not Lanczos(np.ones(3)).exhausted
    assert Lanczos(np.full(4, 7.0)).vector.tolist() == [0.5] * 4


@pytest.mark.parametrize(
    ("diagonal", "products"),
    [
        ([0, 0, 0, 0], 1),
        ([2, 2, 2, 2], 1),
        ([5, 0, 0, 0], 2),
        ([5, 5, 1, 1, 0, 0], 3),
        ([5, 4, 3, 2, 1], 5),
        ([7], 1),
    ],
)
def test_it_is_exhausted_after_a_product_for_every_distinct_eigenvalue(
    diagonal: list[float], products: int
) -> None:
    matrix = np.diag(np.array(diagonal, dtype=float))
    assert not after(matrix, products - 1).exhausted
    lanczos = after(matrix, products)
    assert lanczos.exhausted
    ritz = lanczos.ritz()
    assert ritz.values == pytest.approx(sorted(set(diagonal), reverse=True), abs=1e-13)
    assert not ritz.residuals.any()


def test_a_low_rank_is_noticed_wherever_it_starts() -> None:
    """Rounding may look like one vector more, hardly two: also where the first product is small."""
    for seed in range(200):
        matrix = with_eigenvalues([1.0, 0.1, 0.01], 30, seed)
        assert after(matrix, 6, seed + 1).exhausted


def known(values: list[float], residuals: list[float]) -> Ritz:
    return Ritz(np.array(values), np.eye(len(values)), np.array(residuals))


@pytest.mark.parametrize(
    ("values", "residuals", "settles"),
    [
        ([9.0, 5.0, 1.0], [0.0, 0.0, 0.0], True),
        ([9.0, 5.0, 1.0], [0.9, 0.5, 0.0], True),  # within a tenth of themselves
        ([9.0, 5.0, 1.0], [0.0, 0.51, 0.0], False),  # 5 is not known well enough
        ([9.0, 5.0, 1.0], [0.91, 0.0, 0.0], False),
        ([9.0, 5.0, 1.0], [0.0, 0.0, 3.375], True),  # 1 + 3.375 is 1.0937 times the threshold
        ([9.0, 5.0, 1.0], [0.0, 0.0, 3.5], False),  # the third may lie above
        ([9.0, 5.0, 4.0], [0.0, 0.0, 0.5], False),  # equal is not above, but may be
        ([9.0, 5.0, 4.0], [0.0, 0.0, 0.25], True),
        ([9.0, 5.0], [0.0, 0.0], False),  # nothing says that there is no third
        ([3.0, 1.0], [0.0, 0.0], False),  # none above, to which the published rule says yes
        ([3.0, 1.0], [2.0, 2.0], False),
        ([3.0], [0.0], False),
    ],
)
def test_when_it_is_settled_what_lies_above_four(
    values: list[float], residuals: list[float], settles: bool
) -> None:
    assert settled(known(values, residuals), 4.0, 0.1) is settles


def test_it_is_not_settled_before_anything_lies_above() -> None:
    matrix = with_eigenvalues([10.0, *np.linspace(0, 1, 99)], 100, 0)
    first = after(matrix, 1).ritz()
    assert first.values[0] < 9
    above = first.values > 9
    assert (first.residuals[above] <= 1e-3).all(), "the published rule is content"
    settling = [settled(after(matrix, steps).ritz(), 9.0, 1e-3) for steps in range(1, 12)]
    assert not settling[0]
    assert settling[-1]
    assert settling == sorted(settling), "once and for all"


@given(sizes=SIZES, seed=SEEDS, share=st.floats(0.05, 0.95), tol=st.sampled_from([1e-6, 1e-2]))
def test_what_is_settled_is_true_of_eigenvalues(
    sizes: tuple[int, int], seed: int, share: float, tol: float
) -> None:
    matrix = gram(*sizes, seed)
    wanted = descending(matrix)
    threshold, small = share * wanted[0], 1e-10 * wanted[0]
    for steps in range(1, len(matrix) + 1):
        ritz = after(matrix, steps, seed + 1).ritz()
        if settled(ritz, threshold, tol):
            break
    else:
        return
    above = ritz.values[ritz.values > threshold]
    off = np.abs(above[:, None] - wanted).min(axis=1)
    assert len(above)
    assert (off <= tol * above + small).all()
    below = wanted[wanted <= (1 + tol) * threshold + small]
    first = len(above)
    assert np.abs(below - ritz.values[first]).min() <= ritz.residuals[first] + small


@pytest.mark.parametrize(
    ("count", "tol", "yes"),
    [
        (1, 0.02, True),
        (2, 0.1, True),
        (2, 0.09, False),  # the second is known to a tenth of itself
        (3, 0.1, False),
        (3, 2.0, True),
        (4, 2.0, False),  # there is none
        (0, 0.0, True),
    ],
)
def test_when_the_largest_are_found(count: int, tol: float, yes: bool) -> None:
    assert found(known([8.0, 4.0, 1.0], [0.125, 0.4, 2.0]), count, tol) is yes


@st.composite
def blocks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """A block and orthonormal columns, with room for both; nearly dependent or not."""
    n = draw(st.integers(1, 25))
    held = draw(st.integers(0, n - 1))
    width = draw(st.integers(1, n - held))
    rng = np.random.default_rng(draw(SEEDS))
    against = np.linalg.qr(rng.normal(size=(n, held)))[0]
    new = draw(st.sampled_from([1.0, 1e-5, 1e-9])) * rng.normal(size=(n, width))
    return against @ rng.normal(size=(held, width)) + new, against


@given(blocks())
def test_what_a_block_adds_is_orthonormal_and_new(both: tuple[np.ndarray, np.ndarray]) -> None:
    block, against = both
    added = orthonormal(block, against)
    every = np.hstack([against, added])
    assert loss(every) < 1e-12
    size = np.linalg.norm(block)
    assert np.abs(block - every @ (every.T @ block)).max() <= 1e-11 * size, "it spans the block"
    new = np.linalg.svd(block - against @ (against.T @ block), compute_uv=False)
    assert (new > 1e-12 * size).sum() <= added.shape[1] <= block.shape[1]


@given(
    sizes=st.tuples(*[st.integers(0, 5)] * 3),
    scale=st.sampled_from([1e-100, 1.0, 1e100]),
    seed=SEEDS,
)
def test_what_adds_nothing_is_dropped(sizes: tuple[int, int, int], scale: float, seed: int) -> None:
    """Of old, new and repeated columns there are as many in the end as new ones."""
    held, new, repeated = sizes
    rng = np.random.default_rng(seed)
    columns = np.linalg.qr(rng.normal(size=(20, held + new)))[0]
    against, fresh = columns[:, :held], columns[:, held:]
    mixed = against @ rng.normal(size=(held, new)) + fresh
    block = scale * np.hstack([mixed, columns @ rng.normal(size=(held + new, repeated))])
    assert orthonormal(block, against).shape == (20, new)


def test_a_block_that_adds_nothing_gives_nothing() -> None:
    against = np.eye(4)[:, :2]
    for block in (np.ones((2, 1)), np.ones((2, 3)), np.zeros((2, 2))):
        assert orthonormal(against @ block, against).shape == (4, 0)


def plain_nystrom(matrix: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """G V (V' G V)^-1 V' G, with a pseudoinverse where there is no inverse."""
    inner = np.linalg.pinv(basis.T @ matrix @ basis, rcond=1e-10, hermitian=True)
    return matrix @ basis @ inner @ basis.T @ matrix


@given(sizes=SIZES, width=st.integers(1, 30), count=st.integers(1, 30), seed=SEEDS)
def test_nystrom_lies_between_rayleigh_ritz_and_the_truth(
    sizes: tuple[int, int], width: int, count: int, seed: int
) -> None:
    matrix, rng = gram(*sizes, seed), np.random.default_rng(seed + 1)
    basis = np.linalg.qr(rng.normal(size=(len(matrix), min(width, len(matrix)))))[0]
    true, ritz = descending(matrix), descending(basis.T @ matrix @ basis)
    # Between zero and this, the plain formula has no digits to compare with.
    assume(not ((ritz > 1e-13 * ritz[0]) & (ritz < 1e-7 * ritz[0])).any())
    values, vectors = nystrom(basis, matrix @ basis, count)
    assert len(values) == vectors.shape[1] <= count
    assert len(values) >= min(count, basis.shape[1], sizes[1])
    assert loss(vectors) < 1e-12
    assert (np.diff(values) <= 0).all()
    small = 1e-6 * true[0]
    assert (values <= true[: len(values)] + small).all()
    assert (values >= ritz[: len(values)] - small).all()
    approximation = plain_nystrom(matrix, basis)
    assert np.abs(values - descending(approximation)[: len(values)]).max() < small
    assert np.abs(approximation @ vectors - vectors * values).max() < small


@given(sizes=SIZES, more=st.integers(0, 5), seed=SEEDS)
def test_nystrom_is_exact_if_the_basis_spans_the_range(
    sizes: tuple[int, int], more: int, seed: int
) -> None:
    """Whatever more there is in it: then V' G V is singular."""
    (n, rank), matrix = sizes, gram(*sizes, seed)
    vectors = np.linalg.eigh(matrix)[1][:, ::-1][:, : min(n, rank + more)]
    turned = np.linalg.qr(np.random.default_rng(seed + 1).normal(size=(vectors.shape[1],) * 2))[0]
    basis = vectors @ turned
    values, onto = nystrom(basis, matrix @ basis, n)
    size = descending(matrix)[0]
    assert np.abs(values[:rank] - descending(matrix)[:rank]).max() < 1e-9 * size
    assert np.abs(values[rank:]).max(initial=0) < 1e-9 * size
    assert np.abs((onto * values) @ onto.T - matrix).max() < 1e-9 * size
    assert loss(onto) < 1e-12


def test_nystrom_by_hand() -> None:
    # G V (V' G V)^-1 V' G = g g' / g_1 with g the first column of G, (2, 1, 0).
    matrix = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 9.0]])
    basis = np.eye(3)[:, :1]
    values, vectors = nystrom(basis, matrix @ basis, 2)
    assert values == pytest.approx([2.5])
    assert np.abs(vectors[:, 0]) == pytest.approx(np.array([2, 1, 0]) / np.sqrt(5))
    # Beside it a direction that G maps to nothing changes nothing.
    matrix[2, 2] = 0.0
    basis = np.eye(3)[:, [0, 2]]
    again, vectors = nystrom(basis, matrix @ basis, 2)
    assert again == pytest.approx([2.5])
    assert vectors.shape == (3, 1)


def test_nystrom_of_nothing_is_nothing() -> None:
    values, vectors = nystrom(np.eye(3)[:, :2], np.zeros((3, 2)), 2)
    assert values.shape == (0,)
    assert vectors.shape == (3, 0)


def test_the_residual_is_the_largest_of_the_wanted_vectors() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30))
    matrix = root @ root.T
    basis = np.linalg.qr(rng.normal(size=(30, 8)))[0]
    values, vectors = np.linalg.eigh(basis.T @ matrix @ basis)
    found = [
        np.linalg.norm(matrix @ (basis @ c) - value * (basis @ c))
        for value, c in zip(values[-3:], vectors.T[-3:], strict=True)
    ]
    expected = max(found) / values[-1]
    assert ritz_residual(basis, matrix @ basis, 3) == pytest.approx(expected)
    exact = np.linalg.eigh(matrix)[1][:, -8:]
    assert ritz_residual(exact, matrix @ exact, 3) < 1e-12
