"""Polynomials that average, against dense matrices and against the formula."""

from __future__ import annotations

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from numpy.polynomial.chebyshev import Chebyshev

from tests.graphs.test_topology import connected
from tests.protocols.mesh.parts import graph_of, network
from unpooled.kernels.linalg.polynomials import (
    chebyshev,
    conjugate_residuals,
    passes_needed,
    residual,
    shortest,
    widest,
)

intervals = st.tuples(st.floats(1e-3, 1.9), st.floats(0.01, 1.0)).map(
    lambda ends: (ends[0], min(2.0, ends[0] + ends[1]))
)
passes = st.integers(1, 30)


def by_formula(low: float, high: float, n: int, at: np.ndarray) -> np.ndarray:
    """T_n((high + low - 2 l) / (high - low)) / T_n((high + low) / (high - low))"""
    T = Chebyshev.basis(n)
    return T((high + low - 2 * at) / (high - low)) / T((high + low) / (high - low))


@given(connected(), st.data())
def test_the_recurrence_is_the_polynomial_of_the_matrix(
    graph: nx.Graph, data: st.DataObject
) -> None:
    mixing = network(graph).mixing.toarray()
    values, vectors = np.linalg.eigh(mixing)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    coefficients = rng.uniform(0, 1, size=(data.draw(st.integers(1, 6)), 2))
    start = rng.normal(size=len(mixing))
    z, p = start, np.zeros_like(start)
    for a, b in coefficients:
        p = z + b * p
        z = z - a * mixing @ p
    expected = vectors @ (residual(coefficients, values) * (vectors.T @ start))
    np.testing.assert_allclose(z, expected, rtol=1e-9, atol=1e-9)
    assert z.sum() == pytest.approx(start.sum(), abs=1e-9)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=9))
def test_what_is_common_stays(coefficients: list[tuple[float, float]]) -> None:
    assert residual(np.array(coefficients), np.zeros(3)).tolist() == [1.0] * 3


@given(intervals, passes)
def test_chebyshev_is_the_formula(ends: tuple[float, float], n: int) -> None:
    low, high = ends
    coefficients = chebyshev(low, high, n)
    assert coefficients.shape == (n, 2)
    at = np.linspace(0.0, high, 301)
    expected = by_formula(low, high, n, at)
    np.testing.assert_allclose(residual(coefficients, at), expected, rtol=1e-6, atol=1e-9)


@given(intervals, passes)
def test_chebyshev_reaches_its_bound_and_never_amplifies(ends: tuple[float, float], n: int) -> None:
    low, high = ends
    coefficients = chebyshev(low, high, n)
    bound = 1 / np.cosh(n * np.arccosh((high + low) / (high - low)))
    inside = np.abs(residual(coefficients, np.linspace(low, high, 2001)))
    assert inside.max() <= bound * (1 + 1e-6) + 1e-12
    assert inside[0] == pytest.approx(bound, rel=1e-6, abs=1e-12)
    below = np.abs(residual(coefficients, np.linspace(1e-6 * low, low, 501)))
    assert below.max() < 1
    assert (np.diff(below) <= 1e-12).all()  # the nearer to 0, the less is taken away


@given(intervals, st.floats(1e-6, 0.9))
def test_as_many_passes_as_are_needed(ends: tuple[float, float], theta: float) -> None:
    low, high = ends
    n = passes_needed(low, high, theta)
    rate = np.arccosh((high + low) / (high - low))
    assert 1 / np.cosh(n * rate) <= theta * (1 + 1e-9)
    assert n == 1 or 1 / np.cosh((n - 1) * rate) > theta * (1 - 1e-9)


def test_one_eigenvalue_takes_one_pass() -> None:
    assert passes_needed(1.5, 1.5, 1e-9) == 1
    assert np.abs(residual(chebyshev(1.5, 1.5, 3), np.array([1.5]))).max() < 1e-15
    complete = network("complete", 7).mixing_spectrum
    assert complete is not None
    found = shortest(complete, 1e-9)
    assert len(found) == 1
    assert np.abs(residual(found, complete[1:])).max() < 1e-12


@pytest.mark.parametrize("m", range(3, 25))
def test_a_ring_is_averaged_exactly_in_half_its_length(m: int) -> None:
    spectrum = network("ring", m).mixing_spectrum
    assert spectrum is not None
    found = shortest(spectrum, 1e-9)
    assert len(found) == m // 2
    assert np.abs(residual(found, spectrum[1:])).max() < 1e-9
    # In fewer exchanges some have not heard of others.
    fewer = conjugate_residuals(spectrum[1:], 0.0, m // 2 - 1)
    assert m < 4 or np.abs(residual(fewer, spectrum[1:])).max() > 1e-3


@given(connected(), st.floats(1e-4, 0.5))
def test_the_shortest_leaves_no_more_than_theta(graph: nx.Graph, theta: float) -> None:
    spectrum = network(graph).mixing_spectrum
    assert spectrum is not None
    found = shortest(spectrum, theta)
    assert np.abs(residual(found, spectrum[1:])).max() <= theta * (1 + 1e-6)
    assert len(found) <= passes_needed(spectrum[1], spectrum[-1], theta)


def test_it_is_shorter_than_chebyshevs_where_eigenvalues_are_few() -> None:
    spectrum = network("star", 40).mixing_spectrum
    assert spectrum is not None
    assert len(shortest(spectrum, 1e-3)) == 2  # a star has two eigenvalues but the 0
    assert passes_needed(spectrum[1], spectrum[-1], 1e-3) > 10
    long = network(graph_of(60, 3, extra=30)).mixing_spectrum
    assert long is not None
    assert len(shortest(long, 0.03)) <= passes_needed(long[1], long[-1], 0.03)


def test_nobody_to_average_with() -> None:
    assert shortest(np.zeros(4), 0.1).tolist() == [[0.0, 0.0]]
    assert shortest(np.empty(0), 0.1).tolist() == [[0.0, 0.0]]


@given(passes, st.floats(0.01, 0.5), st.floats(0.5, 2.0))
def test_the_widest_interval_of_so_many_passes(n: int, theta: float, high: float) -> None:
    found = widest(n, theta, high)
    x = np.cosh(np.arccosh(1 / theta) / n)
    low = high * (x - 1) / (x + 1)
    values = np.abs(residual(found, np.linspace(low, high, 1001)))
    assert values.max() <= theta * (1 + 1e-6)
    assert values[0] == pytest.approx(theta, rel=1e-6)
    outside = np.abs(residual(found, np.linspace(1e-9, 0.9 * low, 101)))
    assert (outside > theta).all()  # it could not be wider
    assert (outside < 1).all()
