"""Kernel k-means without pooling: its scale, its embedding, what clusters it, and who may see what.

The solvers have tests of their own: test_krylov.py and test_dspgd.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_circles

from tests.cells import assert_only_cells_leave
from tests.protocols.prepare.test_dspgd import unlike
from tests.sentences import refuses
from unpooled import KernelKMeans, KernelPCAKMeans, RandomFeatureKMeans
from unpooled.data.parties import Parties
from unpooled.errors import InputError, PolicyRefusal, ProtocolError
from unpooled.kernels.linalg.features import Features
from unpooled.messages.message import Message, Reply
from unpooled.privacy.policy import DEPLOYMENT, Deployment
from unpooled.protocols.prepare import bandwidth
from unpooled.protocols.prepare.kernel import MAP
from unpooled.protocols.star import coreset, one_shot
from unpooled.simulate import Options, run_star

D = 40
SMALL = {"n_features": D, "n_init": 2, "random_state": 0}
SOLVERS: dict[str, dict[str, Any]] = {
    "block-krylov": {"max_rounds": 9},
    "dspgd": {"solver": "dspgd", "max_rounds": 3, "tol": 1e-10, "coreset_size": 50},
}
SOLVERS["dspgd, not compressed"] = {**SOLVERS["dspgd"], "compress": False}
each_solver = pytest.mark.parametrize("options", SOLVERS.values(), ids=SOLVERS)


@pytest.fixture(autouse=True)
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred starts of the coordinator's k-means, as usual, would be most of what is done."""
    monkeypatch.setattr(one_shot, "_STARTS", (5, 5))


def blobs(*sizes: int) -> list[np.ndarray]:
    """Two clusters far apart, half of each party's rows in each."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, 3)) + 6 * (np.arange(n)[:, None] % 2) for n in sizes]


def double_sum(rows: np.ndarray, weights: np.ndarray) -> float:
    """N² / (2 Σ_ij |x_i - x_j|²), pair by pair."""
    total = 0.0
    for x, v in zip(rows, weights, strict=True):
        for y, w in zip(rows, weights, strict=True):
            total += v * w * float((x - y) @ (x - y))
    return float(weights.sum() ** 2 / (2 * total))


@pytest.mark.parametrize("apart", [0.0, 30.0, 1e5])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_scale_is_the_double_sum(weighted: bool, apart: float) -> None:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(n, 4)) + apart * i for i, n in enumerate((1, 17, 30))]
    weights = [rng.uniform(0.2, 3.0, len(own)) for own in tables]
    model = KernelKMeans(2, **SMALL).fit(tables, sample_weight=weights if weighted else None)
    flat = np.concatenate(weights) if weighted else np.ones(48)
    assert model.gamma_ == pytest.approx(double_sum(np.concatenate(tables), flat), rel=1e-9)
    spread = model.traffic_.by_kind["spread"]
    assert (spread["floats_up"], spread["floats_down"]) == (3 * (4 + 2), 0)
    other = RandomFeatureKMeans(2, n_init=1, coreset_size=10).fit(
        tables, sample_weight=weights if weighted else None
    )
    assert other.gamma_ == model.gamma_


def test_the_scale_loses_no_digits_far_from_zero() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    near, far = (KernelKMeans(2, **SMALL).fit([t[:20], t[20:]]) for t in (rows, rows + 1e7))
    assert far.gamma_ == pytest.approx(near.gamma_, rel=1e-7)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "cauchy", "polynomial", "exponential"])
def test_other_kernels_get_a_scale_in_their_units(kernel: str) -> None:
    tables = unlike(0)
    gaussian = KernelKMeans(2, **SMALL).fit(tables).gamma_
    found = KernelKMeans(2, kernel=kernel, **SMALL).fit(tables).gamma_
    expected = np.sqrt(gaussian / 3) if kernel == "laplacian" else gaussian
    assert found == pytest.approx(expected, rel=1e-12)
    assert bandwidth.in_units("laplacian", 4.0, 16) == 0.5
    # A given scale is taken as it is, and nothing is asked.
    given = KernelKMeans(2, kernel=kernel, gamma=0.03, **SMALL).fit(tables)
    assert given.gamma_ == 0.03
    assert "spread" not in given.traffic_.by_kind


def test_a_scale_by_hand() -> None:
    # Rows 0, 2 and 4: squared distances 4, 4, 16 and back. γ = 9 / (2 · 48).
    model = KernelKMeans(1, **SMALL).fit([np.array([[0.0], [2.0]]), np.array([[4.0]])])
    assert model.gamma_ == pytest.approx(9 / 96)


@pytest.mark.parametrize("weights", [None, [1.0, 3.0]])
def test_rows_that_are_all_equal_have_no_scale(weights: list[float] | None) -> None:
    tables = [np.full((4, 2), 0.1), np.full((2, 2), 0.1)]
    own = weights and [np.full(4, weights[0]), np.full(2, weights[1])]
    model = KernelKMeans(1, **SMALL)
    words = "All rows are equal, or there is one sample only, so gamma cannot be found from them"
    refuses(lambda: model.fit(tables, sample_weight=own), words, InputError)
    assert model.set_params(gamma=1.0).fit(tables).inertia_ == pytest.approx(0)


@each_solver
def test_a_row_of_weight_two_is_two_rows(options: dict[str, Any]) -> None:
    tables = unlike(0)
    counts = [np.random.default_rng(0).integers(0, 3, len(own)) for own in tables]
    repeated = [np.repeat(own, n, axis=0) for own, n in zip(tables, counts, strict=True)]
    model = KernelKMeans(2, **SMALL, **options)
    twice = model.fit(repeated)
    gamma, eigenvalues, seed = twice.gamma_, twice.eigenvalues_, twice.embedding_by_["kernel.seed"]
    placed = twice.embed(np.concatenate(tables))
    weighted = model.fit(tables, sample_weight=[n.astype(float) for n in counts])
    assert weighted.embedding_by_["kernel.seed"] == seed
    assert weighted.gamma_ == pytest.approx(gamma, rel=1e-12)
    np.testing.assert_allclose(weighted.eigenvalues_, eigenvalues, rtol=1e-7)
    np.testing.assert_allclose(np.concatenate(weighted.embedding_), placed, atol=1e-6)


@pytest.mark.bits
@each_solver
def test_rows_without_weight_count_for_nothing(options: dict[str, Any]) -> None:
    tables = unlike(1)
    beside = [np.concatenate([own, np.full((5, 3), 80.0 + i)]) for i, own in enumerate(tables)]
    weights = [np.repeat([1.0, 0.0], [len(own), 5]) for own in tables]
    plain = KernelKMeans(2, **SMALL, **options).fit(tables)
    model = KernelKMeans(2, **SMALL, **options).fit(beside, sample_weight=weights)
    assert model.gamma_ == plain.gamma_
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-7)
    if "solver" not in options:  # a coreset draws other rows
        np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-9)
        assert model.inertia_ == pytest.approx(plain.inertia_)


@pytest.mark.parametrize(
    ("scale", "policy"), [(1e-90, "study"), (1e90, Deployment(least_parties=2))], ids=str
)
def test_the_scale_of_weights_does_not_matter(scale: float, policy: Any) -> None:
    tables = blobs(60, 50)
    weights = [np.full(len(own), scale) for own in tables]
    for options in ({}, {"solver": "dspgd", "max_rounds": 3}):
        model = KernelKMeans(2, policy=policy, final="lloyd", **SMALL, **options)
        plain, labels = model.fit(tables).eigenvalues_, np.concatenate(model.labels_)
        model.fit(tables, sample_weight=weights)
        np.testing.assert_allclose(model.eigenvalues_, scale * plain, rtol=1e-9)
        found = np.concatenate(model.labels_)
        assert (found == labels).all() or (found != labels).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("power", [0.5, 0.25, 0.0])
def test_directions_are_weighed_by_a_power_of_their_eigenvalues(
    power: float, weighted: bool
) -> None:
    tables = unlike(2)
    weights = [np.random.default_rng(0).uniform(0.5, 2.0, len(own)) for own in tables]
    model = KernelKMeans(2, n_components=4, power=power, max_rounds=20, **SMALL)
    model.fit(tables, sample_weight=weights if weighted else None)
    rows, root = np.concatenate(tables), np.sqrt(np.concatenate(weights)) if weighted else 1.0
    seed = int(model.embedding_by_["kernel.seed"][0])
    features = Features("gaussian", model.gamma_, D, seed, 1, "sobol").transform(rows)
    scaled = np.multiply(features.T, root).T
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    values, vectors = values[::-1][:4], vectors[:, ::-1][:, :4]
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)
    found = np.multiply(np.concatenate(model.embedding_).T, root).T
    signs = np.sign((found * vectors).sum(axis=0))
    np.testing.assert_allclose(found, vectors * signs * values**power, atol=1e-7)


@each_solver
@pytest.mark.parametrize("power", [0.5, 0.0])
def test_normalised_rows_have_length_one(power: float, options: dict[str, Any]) -> None:
    model = KernelKMeans(2, n_components=3, power=power, **SMALL, **options)
    plain = np.concatenate(model.fit(unlike(3)).embedding_)
    model.set_params(normalise=True).fit(unlike(3))
    found = np.concatenate(model.embedding_)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert np.ptp(lengths) > 0.01
    np.testing.assert_allclose(found, plain / lengths, atol=1e-12)
    assert np.array_equal(np.concatenate(model.predict(unlike(3))), np.concatenate(model.labels_))


FITS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{name: (KernelKMeans, {**SMALL, **own}) for name, own in SOLVERS.items()},
    "random features": (RandomFeatureKMeans, {**SMALL, "coreset_size": 50}),
    "kernel PCA": (KernelPCAKMeans, {**SMALL, "n_points": 20, "width": 30, "sketch": 10}),
}


def containers(tables: list[np.ndarray]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The same rows in every form, and what goes with it to ``fit``."""
    yield dict(zip("abc", tables, strict=True)), {}
    yield tables, {}
    groups = np.repeat(list("abc"), [len(own) for own in tables])
    order = np.random.default_rng(0).permutation(len(groups))
    yield np.concatenate(tables)[order], {"groups": groups[order]}


@pytest.mark.parametrize("name", FITS)
def test_results_are_about_embedded_rows_and_come_in_the_container_of_x(name: str) -> None:
    estimator, options = FITS[name]
    for X, fit in containers(unlike(4)):
        model = estimator(2, **options).fit(X, **fit)
        assert type(model.embedding_) is type(model.labels_) is type(X)
        parts = [(X, model.embedding_, model.labels_)]
        if not isinstance(X, np.ndarray):
            keys = X if isinstance(X, dict) else range(len(X))
            parts = [(X[key], model.embedding_[key], model.labels_[key]) for key in keys]
        assert type(model.embed(X)) is type(X)
        inertia = 0.0
        for rows, embedded, labels in parts:
            assert embedded.shape == (len(rows), model.cluster_centers_.shape[1])
            gaps = np.linalg.norm(embedded[:, None] - model.cluster_centers_, axis=2)
            np.testing.assert_allclose(model.embed(rows), embedded, atol=1e-9)
            np.testing.assert_allclose(model.transform(rows), gaps, atol=1e-7)
            assert np.array_equal(labels, gaps.argmin(axis=1))
            assert np.array_equal(model.predict(rows), labels)
            inertia += float(np.square(gaps.min(axis=1)).sum())
        assert model.inertia_ == pytest.approx(inertia)


@each_solver
def test_directions_do_not_depend_on_the_order_of_rows(options: dict[str, Any]) -> None:
    """Rounding does, and by it a solver may find a direction's opposite."""
    tables, rng = unlike(6), np.random.default_rng(0)
    orders = [rng.permutation(len(own)) for own in tables]
    shuffled = [own[order] for own, order in zip(tables, orders, strict=True)]
    plain = KernelKMeans(2, n_components=5, **SMALL, **options).fit(tables)
    other = KernelKMeans(2, n_components=5, **SMALL, **options).fit(shuffled)
    assert not np.array_equal(plain.embedding_by_[MAP], other.embedding_by_[MAP])
    for own, order, found in zip(plain.embedding_, orders, other.embedding_, strict=True):
        np.testing.assert_allclose(found, own[order], atol=1e-6)
    onto = plain.embedding_by_[MAP]
    assert np.array_equal(onto.max(axis=0), np.abs(onto).max(axis=0))


@each_solver
def test_new_rows_are_embedded_like_the_fitted_ones(options: dict[str, Any]) -> None:
    X, ring = make_circles(500, factor=0.3, noise=0.05, random_state=0)
    options = {"n_components": 8, "n_features": 200, **options}
    model = KernelKMeans(2, gamma=4.0, random_state=0, **options)
    model.fit(X[:300], groups=np.arange(300) % 3)
    for labels, truth in ((model.labels_, ring[:300]), (model.predict(X[300:]), ring[300:])):
        assert (labels == truth).mean() in (0.0, 1.0)
    one_by_one = np.concatenate([model.transform(row[None]) for row in X[:5]])
    np.testing.assert_allclose(one_by_one, model.transform(X[:5]), atol=1e-9)


@pytest.mark.parametrize("solver", ["block-krylov", "dspgd"])
@pytest.mark.parametrize("final", ["one-shot", "lloyd", "coreset"])
def test_what_clusters_the_embedded_rows(final: str, solver: str) -> None:
    tables = blobs(40, 55, 30)
    model = KernelKMeans(2, solver=solver, max_rounds=2, final=final, coreset_size=50, **SMALL)
    model.fit(tables)
    rows, labels = np.concatenate(model.embedding_), np.concatenate(model.labels_)
    own = np.concatenate([np.arange(len(table)) % 2 for table in tables])
    assert (labels == own).all() or (labels != own).all()
    means = np.array([rows[labels == k].mean(axis=0) for k in range(2)])
    sent = {kind: line["floats_up"] for kind, line in model.traffic_.by_kind.items()}
    if final == "one-shot":  # every party has both clusters, so means of means are the means
        np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-9)
        assert sent["centroids"] == model.history_["received"][0] * (2 + 1)
    elif final == "lloyd":
        np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-9)
        assert model.history_["movement"][-1] < 1e-9
        assert sent["sums"] == len(model.history_["movement"]) * 3 * 2 * (2 + 2)
    else:
        np.testing.assert_allclose(model.cluster_centers_, means, atol=0.1)
        assert sent["coreset"] == (50 + 3 * 2) * (2 + 1)
    assert model.n_rounds_ == model.traffic_.rounds


def test_lloyd_gets_to_the_bottom_where_one_shot_does_not() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(40, 2)) + place for place in ([0, 0], [2, 0], [0, 2])]
    models = [
        KernelKMeans(4, final=final, random_state=1).fit(tables) for final in ("one-shot", "lloyd")
    ]
    assert np.array_equal(models[0].embedding_by_[MAP], models[1].embedding_by_[MAP])
    assert models[1].inertia_ < models[0].inertia_
    rows, labels = np.concatenate(models[1].embedding_), np.concatenate(models[1].labels_)
    means = np.array([rows[labels == k].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(models[1].cluster_centers_, means, atol=0.02)


@pytest.mark.parametrize("kernel", ["gaussian", "polynomial"])
def test_random_features_are_what_is_clustered(kernel: str) -> None:
    tables = unlike(5)
    options = {"n_features": 16, "coreset_size": 25, "n_init": 2, "random_state": 4}
    model = RandomFeatureKMeans(3, kernel=kernel, **options).fit(tables)
    seed = int(model.embedding_by_["kernel.seed"][0])
    features = Features(kernel, model.gamma_, 16, seed, 1, "independent", "phase")
    parts = [features.transform(own) for own in tables]
    for own, expected in zip(model.embedding_, parts, strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-12)

    class AfterTheSeed(coreset.CoresetKMeans):
        """Finds its generator as it is once the seed of the features was drawn."""

        def coordinator(self, rng):  # type: ignore[no-untyped-def]
            assert rng.integers(2**62) == seed
            return super().coordinator(rng)

    same = AfterTheSeed(3, 25, n_init=2)
    run = run_star(same, Parties.of(parts), seed=int(np.random.RandomState(4).randint(2**31 - 1)))
    np.testing.assert_array_equal(model.cluster_centers_, run.result["centers"])


SENDING_SUMS = {
    "block-krylov": {},
    "block-krylov, lloyd": {"final": "lloyd"},
    "block-krylov, scale given": {"gamma": 0.1},
    "dspgd": {"solver": "dspgd", "max_rounds": 3, "final": "one-shot"},
    "dspgd, lloyd": {"solver": "dspgd", "max_rounds": 3, "final": "lloyd"},
}
WAYS = {
    **{name: (KernelKMeans, options) for name, options in SENDING_SUMS.items()},
    "coreset": (KernelKMeans, {"final": "coreset"}),
    "coreset, scale given": (KernelKMeans, {"final": "coreset", "gamma": 0.1}),
    "dspgd as published": (KernelKMeans, {"solver": "dspgd", "max_rounds": 3}),
    "not compressed": (KernelKMeans, {"solver": "dspgd", "compress": False, "max_rounds": 3}),
    "random features": (RandomFeatureKMeans, {}),
    "kernel PCA": (KernelPCAKMeans, {}),
}


@pytest.mark.parametrize("name", WAYS)
def test_under_deployment_the_embedding_is_that_of_cells(name: str) -> None:
    """And so is everything that leaves; the scale is that of the rows."""
    tables = blobs(30, 44, 36)
    estimator, options = WAYS[name]
    model = estimator(2, policy="deployment", **SMALL, **options).fit(tables)
    said = assert_only_cells_leave(model.planned(Parties.of(tables)), Parties.of(tables))
    assert said
    study = estimator(2, **SMALL, **options).fit(tables)
    assert model.gamma_ == pytest.approx(study.gamma_, rel=1e-12)
    own, other = np.concatenate(model.labels_), np.concatenate(study.labels_)
    assert (own == other).all() or (own != other).all()
    assert model.remarks_ == {}


@pytest.mark.parametrize("name", SENDING_SUMS)
def test_a_party_of_too_few_rows_is_as_good_as_one_without(name: str) -> None:
    tables = blobs(30, 44, 36)
    protocol = KernelKMeans(2, **SMALL, **SENDING_SUMS[name]).planned(Parties.of(tables))
    runs, replies = [], []
    for few in (np.empty((0, 3)), np.full((9, 3), 5.0), 100 * blobs(9)[0]):
        said: list[tuple[str, Message]] = []
        how = Options(policy=DEPLOYMENT, watch=lambda *own, said=said: said.append(own))
        runs.append(run_star(protocol, Parties.of([*tables, few]), seed=2, options=how))
        replies.append([m.body for who, m in said if who == "3" and isinstance(m, Reply)])
    assert not any(value.any() for body in (*replies[1], *replies[2]) for value in body.values())
    for key, value in runs[0].result.items():
        assert np.array_equal(runs[1].result[key], value), key
        assert np.array_equal(runs[2].result[key], value), key
    assert runs[0].remarks["3"][0].startswith("takes no part: its 0 rows")
    assert runs[1].remarks["3"][0].startswith("takes no part: its 9 rows do not make a cell of 10")
    # Ten are enough to count.
    other = run_star(
        protocol, Parties.of([*tables, blobs(10)[0]]), seed=2, options=Options(policy=DEPLOYMENT)
    )
    assert not np.array_equal(other.result["eigenvalues"], runs[0].result["eigenvalues"])


def test_caps_on_numbers_and_rounds_hold() -> None:
    tables = blobs(30, 44, 36)
    for policy, words in (
        (Deployment(max_floats=200), "over its cap of 200"),
        (Deployment(max_rounds=2), "has sent in 2 rounds, which is its cap"),
        (Deployment(kinds=("spread", "centroids")), "does not send 'products'"),
    ):
        model = KernelKMeans(2, policy=policy, **SMALL)
        refuses(lambda model=model: model.fit(tables), words, PolicyRefusal)


def test_what_overflows_is_refused() -> None:
    tables = [1e60 * own for own in unlike(0)]
    for estimator, options in (
        (KernelKMeans, {}),
        (KernelKMeans, {"solver": "dspgd"}),
        (KernelKMeans, {"solver": "dspgd", "compress": False}),
        (RandomFeatureKMeans, {}),
    ):
        model = estimator(2, kernel="exponential", gamma=1.0, random_state=0, **options)
        words = "The exponential kernel of gamma=1 overflows on some rows; give a smaller gamma"
        refuses(lambda model=model: model.fit(tables), words, ProtocolError)


@each_solver
def test_a_map_that_is_not_of_these_features_is_refused(options: dict[str, Any]) -> None:
    model = KernelKMeans(2, **SMALL, **options).fit(unlike(0))
    protocol = model.planned(Parties.of(unlike(0)))
    rows = unlike(0)[0]
    for change, words in (
        ({MAP: np.ones((D + 1, 2))}, f"A map of {D + 1} lines does not go with {D} features"),
        ({MAP: np.ones((0, 2))}, f"A map of 0 lines does not go with {D} features"),
        ({"kernel.gamma": np.zeros(1)}, "no features of gamma=0"),
        ({"kernel.gamma": np.array([np.nan])}, "no features of gamma=nan"),
        ({"kernel.seed": np.array([-1])}, "and seed -1"),
    ):
        told = {**model.embedding_by_, **change}
        refuses(lambda told=told: protocol.embed(rows, told), words, ProtocolError)
