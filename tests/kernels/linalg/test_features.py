"""Random features, compared with the kernels they stand for and with plain NumPy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from math import cos, exp, prod, sin, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from threadpoolctl import threadpool_limits

from unpooled import parallel
from unpooled.kernels.linalg import features
from unpooled.kernels.linalg.features import (
    DOT_PRODUCT,
    FORMS,
    FREQUENCIES,
    KERNELS,
    SHIFT_INVARIANT,
    Features,
    Fourier,
    Maclaurin,
    exact,
)

PLAIN: dict[str, Callable[[float, np.ndarray, np.ndarray], float]] = {
    "gaussian": lambda g, x, y: exp(-g * sum((a - b) ** 2 for a, b in zip(x, y, strict=True))),
    "laplacian": lambda g, x, y: exp(-g * sum(abs(a - b) for a, b in zip(x, y, strict=True))),
    "cauchy": lambda g, x, y: prod(1 / (1 + g * (a - b) ** 2) for a, b in zip(x, y, strict=True)),
    "polynomial": lambda g, x, y: (g * sum(a * b for a, b in zip(x, y, strict=True)) + 1) ** 3,
    "exponential": lambda g, x, y: exp(g * sum(a * b for a, b in zip(x, y, strict=True))),
}
WAYS = [
    *product(SHIFT_INVARIANT, FREQUENCIES, FORMS),
    *((k, FREQUENCIES[0], FORMS[0]) for k in DOT_PRODUCT),
]
ROWS = np.random.default_rng(0).normal(size=(20_000, 3))


def joined(made: Features, n_columns: int) -> np.ndarray:
    """The frequencies of all blocks."""
    return np.hstack([block.frequencies for _, block in made.blocks(n_columns)])


def products(made: Callable[[int], Features], rows: np.ndarray, draws: int) -> np.ndarray:
    """z(x) · z(y) for all pairs of rows, in each of many draws."""
    return np.stack([z @ z.T for z in (made(draw).transform(rows) for draw in range(draws))])


@pytest.mark.parametrize(
    ("kernel", "n_features", "form", "there"),
    [
        ("gaussian", 8, "cos-sin", True),
        ("gaussian", 7, "cos-sin", False),
        ("cauchy", 1, "cos-sin", False),
        ("gaussian", 7, "phase", True),
        ("polynomial", 7, "cos-sin", True),
        ("linear", 8, "cos-sin", False),
        ("linear", 8, "phase", False),
    ],
)
def test_what_there_are_no_features_of(
    kernel: str, n_features: int, form: str, there: bool
) -> None:
    """A cosine goes with a sine."""
    if there:
        z = Features(kernel, 1.0, n_features, 0, form=form).transform(ROWS[:2])
        assert z.shape == (2, n_features)
        return
    with pytest.raises(ValueError, match=f"no {n_features} features of a {kernel} kernel"):
        Features(kernel, 1.0, n_features, 0, form=form)


def test_every_kernel_has_a_plain_form() -> None:
    assert set(PLAIN) == set(KERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
@given(
    n=st.integers(0, 6), m=st.integers(1, 5), d=st.integers(1, 4), seed=st.integers(0, 2**32 - 1)
)
@settings(max_examples=25)
def test_exact_is_the_double_loop(kernel: str, n: int, m: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, others, gamma = rng.normal(size=(n, d)), rng.normal(size=(m, d)), rng.uniform(0.1, 2)
    loops = np.array([[PLAIN[kernel](gamma, x, y) for y in others] for x in rows]).reshape(n, m)
    np.testing.assert_allclose(exact(kernel, gamma, rows, others), loops, rtol=1e-10, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("n_features", [4, 16])
@pytest.mark.parametrize(("kernel", "frequencies", "form"), WAYS)
def test_products_of_features_are_the_kernel_on_average(
    kernel: str, frequencies: str, form: str, n_features: int
) -> None:
    """With fewer frequencies than columns, and with several sets of which the last is cut."""
    rows = np.random.default_rng(1).normal(size=(4, 5)) / 2
    found = products(
        lambda draw: Features(kernel, 0.4, n_features, 0, draw, frequencies, form), rows, 500
    )
    wanted = exact(kernel, 0.4, rows, rows)
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - wanted) <= 4 * error + 1e-12).all()
    assert np.ptp(wanted) > 10 * error.max(), "errors so large that any kernel would do"


@given(
    kernel=st.sampled_from(SHIFT_INVARIANT),
    frequencies=st.sampled_from(FREQUENCIES),
    pairs=st.integers(1, 20),
    d=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_cosines_and_sines_have_length_one(
    kernel: str, frequencies: str, pairs: int, d: int, seed: int
) -> None:
    rows = 3 * np.random.default_rng(seed).normal(size=(7, d))
    z = Features(kernel, 1.3, 2 * pairs, seed, frequencies=frequencies).transform(rows)
    assert np.square(z).sum(axis=1) == pytest.approx(1, abs=1e-13)


@given(d=st.integers(1, 8), width=st.integers(1, 30), seed=st.integers(0, 2**32 - 1))
def test_each_set_of_as_many_frequencies_as_columns_is_orthogonal(
    d: int, width: int, seed: int
) -> None:
    frequencies = joined(Features("gaussian", 0.7, 2 * width, seed), d)
    assert frequencies.shape == (d, width)
    for start in range(0, width, d):
        own = frequencies[:, start : start + d]
        gram = own.T @ own
        lengths = np.sqrt(np.diag(gram))
        assert np.abs(gram / np.outer(lengths, lengths) - np.eye(len(gram))).max() < 1e-12
    every = np.linalg.norm(frequencies, axis=0)
    assert len(np.unique(every)) == width, "lengths are drawn one by one"


each_law = pytest.mark.parametrize(
    ("kernel", "law"),
    [
        ("gaussian", stats.norm(scale=np.sqrt(2 * 0.3))),
        ("laplacian", stats.cauchy(scale=0.3)),
        ("cauchy", stats.laplace(scale=np.sqrt(0.3))),
    ],
)
each_way = pytest.mark.parametrize("frequencies", FREQUENCIES)


@each_law
@each_way
def test_every_coordinate_of_a_frequency_has_the_kernels_law(
    kernel: str, law: stats.rv_continuous, frequencies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One frequency of each orthogonal set at a time: those of one set depend on each other.

    Sobol's all together: they are even as a whole, not every third of them.
    """
    monkeypatch.setattr(features, "BLOCK", 6000)
    found = joined(Features(kernel, 0.3, 12000, 0, frequencies=frequencies), 3)
    step = 1 if frequencies == "sobol" else 3
    for coordinate, place in product(range(3), range(step)):
        assert stats.kstest(found[coordinate, place::step], law.cdf).pvalue > 1e-3


@each_law
@each_way
def test_so_has_each_single_one_from_draw_to_draw(
    kernel: str, law: stats.rv_continuous, frequencies: str
) -> None:
    """The first, one between and the last: a sequence may spread well and yet be a fixed one."""
    drawn = (Features(kernel, 0.3, 14, 0, draw, frequencies) for draw in range(500))
    found = np.stack([joined(own, 3) for own in drawn])
    for coordinate, place in product(range(3), (0, 3, 6)):
        assert stats.kstest(found[:, coordinate, place], law.cdf).pvalue > 1e-3


def test_phases_are_uniform_on_the_circle() -> None:
    ((_, block),) = Features("gaussian", 0.3, 1000, 0, form="phase").blocks(3)
    assert stats.kstest(block.phases, stats.uniform(scale=2 * np.pi).cdf).pvalue > 1e-3


def test_far_tails_lose_no_digits() -> None:
    normal = np.array([[-30.0, -9.0, 9.0, 30.0, 0.0]])
    beyond = stats.norm.sf(np.abs(normal))
    for kernel, law in (("laplacian", stats.cauchy), ("cauchy", stats.laplace)):
        mapped = features._mapped(kernel, 1.0, normal)
        assert np.array_equal(np.sign(mapped[:, :4]), np.sign(normal[:, :4]))
        np.testing.assert_allclose(law.sf(np.abs(mapped)), beyond, rtol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "gamma", "at_most"),
    [("gaussian", 0.4, 0.4), ("laplacian", 0.2, 0.97), ("cauchy", 0.4, 0.6)],
)
def test_orthogonal_frequencies_have_less_variance(
    kernel: str, gamma: float, at_most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D = 2 d, so that z(x) · z(y) is the mean of one set of d cosines; 4000 sets."""
    monkeypatch.setattr(features, "BLOCK", 8 * 4000)
    difference = np.random.default_rng(0).normal(size=8) / 2
    variance = {}
    for way in ("orthogonal", "independent"):
        many = joined(Features(kernel, gamma, 2 * 8 * 4000, 0, frequencies=way), 8)
        variance[way] = np.cos(difference @ many).reshape(-1, 8).mean(axis=1).var()
    assert variance["orthogonal"] < at_most * variance["independent"]


@pytest.mark.parametrize(
    ("kernel", "gamma", "at_most"),
    [("gaussian", 0.25, 0.2), ("laplacian", 0.25, 0.6), ("cauchy", 0.125, 0.3)],
)
def test_with_few_columns_sobol_leaves_a_fraction_of_the_error(
    kernel: str, gamma: float, at_most: float
) -> None:
    """Two columns and D = 512; an eighth for the Gaussian kernel, more where tails are heavy."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    wanted = exact(kernel, gamma, rows, rows)

    def error(way: str) -> float:
        found = products(lambda draw: Features(kernel, gamma, 512, 0, draw, way), rows, 20)
        return float(np.sqrt(np.square(found - wanted).mean()))

    assert error("sobol") < at_most * error("orthogonal")


@pytest.mark.parametrize("kernel", SHIFT_INVARIANT)
def test_cosines_and_sines_have_less_variance_than_phases(kernel: str) -> None:
    rows = np.random.default_rng(0).normal(size=(2, 4)) / 3

    def variance(form: str) -> float:
        found = products(
            lambda draw: Features(kernel, 0.4, 16, 0, draw, "independent", form), rows, 600
        )
        return float(found[:, 0, 1].var())

    assert variance("cos-sin") < 0.9 * variance("phase")


@st.composite
def made(draw: st.DrawFn) -> tuple[Features, np.ndarray]:
    """Features of any kind and rows, none of them up to many."""
    kernel, frequencies, form = draw(st.sampled_from(WAYS))
    count = draw(st.integers(1, 15))
    if kernel in SHIFT_INVARIANT and form == "cos-sin":
        count *= 2
    seed = draw(st.integers(0, 2**32 - 1))
    rows = np.random.default_rng(seed).normal(
        size=(draw(st.integers(0, 30)), draw(st.integers(1, 5)))
    )
    return Features(kernel, 0.6, count, seed, draw(st.integers(0, 3)), frequencies, form), rows


@contextmanager
def cut(block: int, numbers: int = 1 << 20) -> Iterator[None]:
    """Few features to a block and few numbers to a chunk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "BLOCK", block)
        patch.setattr(parallel, "_NUMBERS", numbers)
        yield


CLOSE = 1e-6
"""A Cauchy frequency may be so large that angles have few digits after the point."""
BLOCKS, NUMBERS = st.integers(1, 8), st.sampled_from([40, 160, 1 << 20])


def by_definition(block: Fourier | Maclaurin, x: np.ndarray, n_features: int) -> list[float]:
    """The features of one row, one at a time."""
    if isinstance(block, Maclaurin):
        factors = [x @ signs for signs in block.signs]
        return [
            float(scale) * prod(float(f[i]) for f in factors if i < len(f))
            for i, scale in enumerate(block.scales)
        ]
    angles = [sum(w * a for w, a in zip(f, x, strict=True)) for f in block.frequencies.T]
    if block.phases is None:
        out = [cos(a) for a in angles] + [sin(a) for a in angles]
    else:
        out = [cos(a + b) for a, b in zip(angles, block.phases, strict=True)]
    return [sqrt(2 / n_features) * z for z in out]


@given(made=made(), block=BLOCKS, numbers=NUMBERS)
def test_transform_is_the_definition(
    made: tuple[Features, np.ndarray], block: int, numbers: int
) -> None:
    own, rows = made
    with cut(block, numbers):
        blocks = list(own.blocks(rows.shape[1]))
        found = own.transform(rows)
    places = [place for span, _ in blocks for place in range(own.n_features)[span]]
    assert places == list(range(own.n_features)), "every feature once"
    wanted = [[z for _, b in blocks for z in by_definition(b, x, own.n_features)] for x in rows]
    wanted = np.reshape(wanted, (len(rows), own.n_features))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=CLOSE)


@given(made=made(), block=BLOCKS, numbers=NUMBERS, s=st.integers(0, 4))
def test_project_is_a_product_with_the_features(
    made: tuple[Features, np.ndarray], block: int, numbers: int, s: int
) -> None:
    own, rows = made
    onto = np.random.default_rng(own.seed).normal(size=(own.n_features, s))
    with cut(block):
        z = own.transform(rows)
    with cut(block, numbers):
        found = own.project(rows, onto)
    assert found.shape == (len(rows), s)
    np.testing.assert_allclose(found, z @ onto, rtol=1e-9, atol=CLOSE)


@given(
    made=made(),
    block=BLOCKS,
    numbers=NUMBERS,
    beside=st.none() | st.integers(0, 4),
    scale=st.sampled_from([1.0, 0.3]),
)
def test_gram_is_the_weighted_sum_of_outer_products(
    made: tuple[Features, np.ndarray], block: int, numbers: int, beside: int | None, scale: float
) -> None:
    own, rows = made
    rng = np.random.default_rng(own.seed)
    weights = rng.exponential(size=len(rows)) * rng.integers(2, size=len(rows))
    more = None if beside is None else rng.normal(size=(len(rows), beside))
    with cut(block):
        y = scale * own.transform(rows)
    with cut(block, numbers):
        found = own.gram(rows, weights, more, scale)
    y = y if more is None else np.hstack([y, more])
    wanted = np.einsum("n,ni,nj->ij", weights, y, y)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=CLOSE * (1 + np.abs(wanted).max()))


@given(made=made(), block=BLOCKS, numbers=NUMBERS, b=st.integers(0, 4))
def test_pulled_back_is_a_product_with_the_features_turned_round(
    made: tuple[Features, np.ndarray], block: int, numbers: int, b: int
) -> None:
    own, rows = made
    scores = np.random.default_rng(own.seed).normal(size=(len(rows), b))
    with cut(block):
        z = own.transform(rows)
    with cut(block, numbers):
        found = own.pulled_back(rows, scores)
    assert found.shape == (own.n_features, b)
    np.testing.assert_allclose(found, z.T @ scores, rtol=1e-9, atol=CLOSE)


@pytest.mark.parametrize(("kernel", "frequencies", "form"), WAYS)
def test_seed_and_draw_say_which_features(kernel: str, frequencies: str, form: str) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 4))

    def drawn(seed: int, draw: int) -> np.ndarray:
        return Features(kernel, 0.5, 20, seed, draw, frequencies, form).transform(rows)

    assert np.array_equal(drawn(7, 2), drawn(7, 2))
    for seed, draw in ((7, 3), (8, 2), (2, 7)):
        assert not np.allclose(drawn(seed, draw), drawn(7, 2))


@each_way
def test_no_block_is_like_another(frequencies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "BLOCK", 5)
    found = joined(Features("gaussian", 0.5, 100, 0, frequencies=frequencies), 3)
    assert found.shape == (3, 50)
    assert len(np.unique(found)) == found.size


@pytest.mark.parametrize("kernel", DOT_PRODUCT)
def test_features_of_dot_products_have_neither_frequencies_nor_a_form(kernel: str) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 4))
    first, *others = (
        Features(kernel, 0.5, 9, 0, 0, frequencies, form).transform(rows)
        for frequencies, form in product(FREQUENCIES, FORMS)
    )
    assert all(np.array_equal(first, other) for other in others)


def test_a_polynomial_has_no_features_beyond_its_degree() -> None:
    ((_, block),) = Features("polynomial", 0.5, 1000, 0).blocks(4)
    assert isinstance(block, Maclaurin)
    assert len(block.signs) == 3


@pytest.mark.long
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", ["project", "gram", "pulled_back"])
def test_memory_does_not_grow_with_the_features_of_all_rows(
    name: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four blocks and many parallel."""
    monkeypatch.setattr(parallel, "cpu_count", lambda: cores)
    own = Features("gaussian", 0.5, 256, 0, form="phase")
    beside = {
        "project": (np.ones((256, 2)),),
        "gram": (np.ones(len(ROWS)),),
        "pulled_back": (np.ones((len(ROWS), 128)),),
    }
    with cut(64, 1 << 13), threadpool_limits(1, "blas"):
        tracemalloc.start()
        getattr(own, name)(ROWS, *beside[name])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < len(ROWS) * 256 * 8 / 10
