from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sentences import refuses
from unpooled import partition
from unpooled.errors import InputError

labels = st.lists(st.integers(0, 5), min_size=1, max_size=60).map(np.array)
seeds = st.integers(0, 2**32)


def counts(y, groups, n_parties):
    """Rows of each party and class, (n_parties, n_classes)."""
    classes, codes = np.unique(y, return_inverse=True)
    table = np.zeros((n_parties, len(classes)), dtype=int)
    np.add.at(table, (groups, codes), 1)
    return table


def is_partition(groups, n, n_parties):
    return (
        groups.shape == (n,)
        and groups.dtype == np.int64
        and np.array_equal(np.unique(groups), np.arange(n_parties))
    )


def spread(values):
    return np.max(values, axis=0) - np.min(values, axis=0)


@given(st.integers(1, 80), st.data(), seeds)
def test_iid_deals_equal_sizes(n, data, seed):
    m = data.draw(st.integers(1, n))
    groups = partition.iid(n, n_parties=m, random_state=seed)
    assert is_partition(groups, n, m)
    assert spread(np.bincount(groups)) <= 1


def test_iid_is_random():
    first = partition.iid(100, n_parties=4, random_state=0)
    assert not np.array_equal(first, partition.iid(100, n_parties=4, random_state=1))
    assert np.any(np.diff(first) < 0)


@given(labels, st.data(), seeds)
def test_balanced_shares_every_class(y, data, seed):
    m = data.draw(st.integers(1, len(y)))
    groups = partition.balanced(y, n_parties=m, random_state=seed)
    assert is_partition(groups, len(y), m)
    table = counts(y, groups, m)
    assert spread(table).max() <= 1
    assert spread(table.sum(axis=1)) <= 1


@settings(deadline=None)
@given(labels, st.data(), seeds, st.floats(0.01, 100))
def test_dirichlet_fills_every_party_or_says_so(y, data, seed, alpha):
    m = data.draw(st.integers(1, len(y)))
    try:
        groups = partition.dirichlet(y, n_parties=m, alpha=alpha, random_state=seed)
    except InputError as error:
        assert "raise alpha" in str(error)  # noqa: PT017
    else:
        assert is_partition(groups, len(y), m)


def test_dirichlet_alpha_sets_the_skew():
    y = np.repeat(np.arange(10), 500)

    def largest_share(alpha):
        groups = partition.dirichlet(y, n_parties=5, alpha=alpha, random_state=3)
        return (counts(y, groups, 5) / 500).max(axis=0).mean()

    assert largest_share(0.1) > 0.7 > 0.3 > largest_share(10.0) > largest_share(1e6) > 0.199
    assert largest_share(1e100) == pytest.approx(0.2)


def test_dirichlet_shares_follow_the_distribution():
    """Per class over parties: each share has mean 1/m and variance (m-1) / (m^2 (m alpha + 1))."""
    m, alpha = 4, 0.5
    y = np.repeat(np.arange(400), 1000)
    groups = partition.dirichlet(y, n_parties=m, alpha=alpha, random_state=0)
    shares = counts(y, groups, m) / 1000
    assert shares.mean(axis=1) == pytest.approx(np.full(m, 1 / m), abs=0.05)
    assert shares.var() == pytest.approx((m - 1) / (m**2 * (m * alpha + 1)), rel=0.1)


def test_dirichlet_gives_up_in_one_sentence():
    with pytest.raises(InputError, match=r"alpha=0\.001 .* n_parties=10 .* 1000 draws: raise"):
        partition.dirichlet(np.zeros(20), n_parties=10, alpha=0.001, random_state=0)


@given(labels, st.data(), seeds)
def test_by_class_holds_what_it_promises(y, data, seed):
    _, sizes = np.unique(y, return_counts=True)
    k = len(sizes)
    m = data.draw(st.integers(1, len(y)))
    wanted = data.draw(st.integers(1, k))
    if m * wanted < k:
        with pytest.raises(InputError, match="every class is held"):
            partition.by_class(y, n_parties=m, classes_per_party=wanted, random_state=seed)
        return
    groups = partition.by_class(y, n_parties=m, classes_per_party=wanted, random_state=seed)
    assert is_partition(groups, len(y), m)
    table = counts(y, groups, m)
    held = (table > 0).sum(axis=1)
    assert held.max() <= wanted
    assert (held == wanted).all() or np.array_equal(
        (table > 0).sum(axis=0), np.minimum(sizes, m)
    ), "fewer classes only where no class can have another holder"
    for column in table.T:
        assert spread(column[column > 0]) <= 1


def test_by_class_spreads_the_holders_and_mixes_the_pairs():
    y = np.repeat(np.arange(10), 100)
    groups = partition.by_class(y, n_parties=50, classes_per_party=2, random_state=0)
    table = counts(y, groups, 50)
    assert np.array_equal((table > 0).sum(axis=0), np.full(10, 10))
    assert np.array_equal(table.sum(axis=1), np.full(50, 20))
    assert len(np.unique(table > 0, axis=0)) > 20


def every_partition(y, random_state):
    return (
        partition.iid(len(y), n_parties=4, random_state=random_state),
        partition.balanced(y, n_parties=4, random_state=random_state),
        partition.dirichlet(y, n_parties=4, alpha=1.0, random_state=random_state),
        partition.by_class(y, n_parties=4, classes_per_party=2, random_state=random_state),
    )


@pytest.mark.parametrize("kind", [int, np.int64, np.random.default_rng, np.random.RandomState])
def test_same_seed_same_result(kind):
    y = np.array(["a", "b", "c", "d"] * 20)
    for one, other in zip(every_partition(y, kind(7)), every_partition(y, kind(7)), strict=True):
        assert np.array_equal(one, other)


def test_a_generator_moves_on_and_none_is_fresh():
    rng = np.random.default_rng(0)
    one, other = (partition.iid(200, n_parties=4, random_state=rng) for _ in range(2))
    assert not np.array_equal(one, other)
    one, other = (partition.iid(200, n_parties=4) for _ in range(2))
    assert not np.array_equal(one, other)


Y = np.array([0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: partition.iid(0, n_parties=1), "n_samples=0"),
        (lambda: partition.iid(5.0, n_parties=1), r"n_samples=5\.0 must be a whole number"),
        (lambda: partition.iid(5, n_parties=0), "n_parties=0"),
        (lambda: partition.iid(5, n_parties=6), "n_parties=6 exceeds the number of rows, 5"),
        (lambda: partition.iid(5, n_parties=2, random_state="x"), "random_state='x'"),
        (lambda: partition.iid(5, n_parties=2, random_state=-1), "random_state=-1"),
        (lambda: partition.balanced(Y, n_parties=7), "n_parties=7 exceeds"),
        (lambda: partition.balanced([], n_parties=1), r"shape \(0,\)"),
        (lambda: partition.balanced([[0, 1]], n_parties=1), r"shape \(1, 2\)"),
        (lambda: partition.balanced([0.0, np.nan], n_parties=1), "NaN"),
        (lambda: partition.balanced(np.array([0, "a"], object), n_parties=1), "comparable"),
        (lambda: partition.balanced([[0], [1, 2]], n_parties=1), "not a plain array"),
        (lambda: partition.dirichlet(Y, n_parties=2, alpha=0), "alpha=0 "),
        (lambda: partition.dirichlet(Y, n_parties=2, alpha=-1.0), r"alpha=-1\.0"),
        (lambda: partition.dirichlet(Y, n_parties=2, alpha=np.nan), "alpha=nan"),
        (lambda: partition.dirichlet(Y, n_parties=2, alpha=np.inf), "alpha=inf"),
        (lambda: partition.dirichlet(Y, n_parties=2, alpha="1"), "alpha='1'"),
        (lambda: partition.dirichlet(Y, n_parties=2, alpha=[1.0, 2.0]), r"alpha=\[1\.0"),
        (
            lambda: partition.by_class(Y, n_parties=2, classes_per_party=4),
            "classes_per_party=4 exceeds the number of classes in y, 3",
        ),
        (lambda: partition.by_class(Y, n_parties=2, classes_per_party=0), "classes_per_party=0"),
        (lambda: partition.by_class(Y, n_parties=2, classes_per_party=1), "room for 2 of the 3"),
    ],
)
def test_bad_options_get_one_clear_sentence(call, words):
    refuses(call, words)
