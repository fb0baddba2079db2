"""Distributed kernel PCA against plain NumPy, and where its rows are drawn."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris, make_circles
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from tests.cells import assert_only_cells_leave, in_cells
from tests.sentences import refuses
from unpooled import KernelPCAKMeans as Estimator
from unpooled import parallel
from unpooled.data.parties import Parties
from unpooled.errors import InputError, PolicyRefusal, ProtocolError
from unpooled.kernels.linalg.features import KERNELS, exact
from unpooled.kernels.linalg.landmarks import CountSketch, Span
from unpooled.messages.message import Ask, Message, Reply
from unpooled.privacy.policy import Deployment
from unpooled.protocols.prepare.kernel import GAMMA, MAP, SEED, Kernel
from unpooled.protocols.prepare.kernel_pca import POINTS, KernelPCA
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.coreset import CoresetKMeans, party_digest
from unpooled.simulate import Options, Run, run_star
from unpooled.testing import Check, conformance
from unpooled.types import Body, FloatArray

IRIS = load_iris(return_X_y=True)[0]
SCALES = dict(zip(KERNELS, (0.3, 0.2, 0.3, 0.05, 0.05), strict=True))
each = pytest.mark.parametrize("kernel", KERNELS)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tables are small here: on a busy machine threads would only wait for one another."""
    with threadpool_limits(1):
        yield


def protocol(
    kernel: str = "gaussian", gamma: float | None = 0.3, k: int = 3, **options: Any
) -> Then:
    options = {"n_components": k, "n_points": 30, "sketch": 8, "width": 40, **options}
    drawn = Kernel(kernel, 40, "independent", "phase")
    return Then(KernelPCA(drawn, gamma, **options), CoresetKMeans(k, 30, n_init=2))


def listened(asked: Then, parties: Parties, seed: int = 0) -> tuple[Run, list[Message]]:
    """A run and all that was said in it."""
    said: list[Message] = []
    watch = Options(watch=lambda who, message: said.append(message))
    return run_star(asked, parties, seed=seed, options=watch), said


def told(said: list[Message], kind: str) -> Body:
    """What parties were asked of this kind."""
    return next(m.body for m in said if isinstance(m, Ask) and m.kind == kind)


def error(kernel: str, gamma: float, points: FloatArray, rows: FloatArray) -> float:
    """What rows have beyond the span of the points, worked out in one piece."""
    cross, gram = exact(kernel, gamma, rows, points), exact(kernel, gamma, points, points)
    explained = np.einsum("ij,ji->i", cross, np.linalg.pinv(gram, 1e-12, hermitian=True) @ cross.T)
    return float((np.diag(exact(kernel, gamma, rows, rows)) - explained).sum())


@pytest.mark.parametrize(
    "check",
    [
        check
        for kernel, gamma in (("gaussian", None), ("polynomial", 0.1))
        for check in conformance(protocol(kernel, gamma, n_points=12, sketch=6, width=8))
    ],
    ids=str,
)
def test_it_conforms(check: Check) -> None:
    check()


@each
def test_with_all_rows_for_points_and_a_wide_sketch_it_is_kernel_pca(kernel: str) -> None:
    rows = IRIS[::4]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(rows))
    parties = Parties.of(np.split(rows, [3, 20]), weights=np.split(weights, [3, 20]))
    # So wide that no two rows of a party share a column: then the sketches lose nothing.
    asked = protocol(kernel, SCALES[kernel], n_points=400, width=20_000)
    result = run_star(asked, parties).result
    root = np.sqrt(weights)
    matrix = root[:, None] * exact(kernel, SCALES[kernel], rows, rows) * root
    values, vectors = np.linalg.eigh(matrix)
    expected = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :3] / root[:, None]
    found = asked.embedded(rows, result)
    np.testing.assert_allclose(result["eigenvalues"], values[::-1][:3], rtol=1e-6)
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=1e-5 * np.abs(expected).max())


def test_a_sketch_of_a_few_columns_is_near_it() -> None:
    asked = protocol(n_points=60, width=100, sketch=20)
    values = np.linalg.eigvalsh(exact("gaussian", 0.3, IRIS, IRIS))[::-1][:3]
    parties = Parties.of(np.split(IRIS[np.random.default_rng(0).permutation(150)], [40, 90]))
    for seed in range(5):
        found = run_star(asked, parties, seed=seed).result["eigenvalues"]
        np.testing.assert_allclose(found, values, rtol=0.25)


def test_leverage_scores_are_those_of_the_embedded_rows() -> None:
    asked = protocol(width=20_000)
    parties = Parties.of(np.split(IRIS, [60]))
    run, said = listened(asked, parties)
    body = told(said, "leverage")
    seed = np.random.default_rng([int(body[SEED][0]), 0])
    matrix = seed.normal(size=(40, 8)) / np.sqrt(8)
    embedded = asked.preparation.kernel.features(body).transform(IRIS) @ matrix
    true = np.einsum(
        "ij,jk,ik->i", embedded, np.linalg.pinv(embedded.T @ embedded, hermitian=True), embedded
    )
    for i, part in enumerate(np.split(true, [60])):
        _, state = asked.preparation.leverage(parties[i], {}, body, np.random.default_rng(0))
        np.testing.assert_allclose(state["chances"], part, rtol=1e-6)
    sums = [m.body["leverage"][0] for m in said if isinstance(m, Reply) and m.kind == "leverage"]
    assert sum(sums) == pytest.approx(8)
    assert run.result[POINTS].shape == (30, 4)


def test_a_sketch_is_right_on_average_and_off_by_no_more_than_is_said() -> None:
    rng = np.random.default_rng(0)
    values, weights, width = rng.normal(size=(12, 3)), rng.uniform(0.1, 3.0, 12), 5
    drawn = (CountSketch.drawn(weights, width, rng) for _ in range(1500))
    sketches = np.stack([sketch.of(values, slice(None)) for sketch in drawn])
    found = sketches.mT @ sketches
    weighted = np.sqrt(weights)[:, None] * values
    wanted = weighted.T @ weighted
    noise = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - wanted) <= 4 * noise).all()
    assert noise.max() < 0.1 * np.abs(wanted).max()
    # Two rows i and j that share a column are off by b_i b_j' + b_j b_i', up to a sign.
    gram = weighted @ weighted.T
    pairs = np.outer(np.diag(gram), np.diag(gram)) + np.square(gram)
    np.fill_diagonal(pairs, 0.0)
    off = np.square(found - wanted).sum(axis=(1, 2)).mean()
    assert off == pytest.approx(pairs.sum() / width, rel=0.15)
    assert off <= 2 * np.trace(gram) ** 2 / width


def test_memory_does_not_grow_with_the_rows_times_the_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parallel, "_NUMBERS", 1 << 13)
    monkeypatch.setattr(parallel, "cpu_count", lambda: 2)
    rows = np.random.default_rng(0).normal(size=(8_000, 2))
    span = Span("gaussian", 0.5, rows[:64])
    sketch = CountSketch.drawn(np.ones(len(rows)), 32, np.random.default_rng(0))
    assert span.root.shape == (64, 64)
    for call in (
        lambda: span.onto(rows, np.ones((64, 2))),
        lambda: span.residuals(rows),
        lambda: span.sketched(rows, sketch),
    ):
        tracemalloc.start()
        call()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < len(rows) * 64 * 8 / 3


def far_away() -> tuple[FloatArray, Parties]:
    """995 rows that are much alike, 5 that are not, and all of them dealt out to 4 parties."""
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 0.15, (1000, 2))
    rows[-5:] += 9.0
    rows = rows[rng.permutation(1000)]
    return rows, Parties.of([rows[i::4] for i in range(4)])


def test_adaptive_draws_find_what_the_first_have_missed() -> None:
    rows, parties = far_away()
    asked = protocol(gamma=0.5, n_points=15)
    missed, errors, uniform = 0, [], []
    for seed in range(20):
        _, said = listened(asked, parties, seed)
        first, points = told(said, "residual")[POINTS], told(said, "project")[POINTS]
        assert (len(first), len(points)) == (3, 15)
        missed += not (first[:, 0] > 5).any()
        assert (points[:, 0] > 5).any()
        errors.append(error("gaussian", 0.5, points, rows))
        anyhow = np.random.default_rng(seed).choice(rows, 15, replace=False)
        uniform.append(error("gaussian", 0.5, anyhow, rows))
    assert missed >= 3  # so there was something to find
    assert np.mean(errors) < 0.2 * np.mean(uniform)
    assert max(errors) < 0.5 * min(uniform)


@each
def test_chances_are_what_rows_have_beyond_the_first(kernel: str) -> None:
    gamma, points = SCALES[kernel], IRIS[:4]
    rows = np.concatenate([IRIS[2:6], IRIS[60:66]])  # of which two are points
    weights = np.array([1.0, 1.0, 2.0, 0.0, 1.0, 0.5, 3.0, 1.0, 1.0, 1.0])
    party = Parties.of([rows], weights=[weights])[0]
    body = {GAMMA: np.array([gamma]), POINTS: points}
    answer, state = protocol(kernel, gamma).preparation.residual(
        party, {}, body, np.random.default_rng(0)
    )
    plain = np.array([error(kernel, gamma, points, row[None]) for row in rows])
    assert state["chances"][:2].tolist() == [0.0, 0.0]  # they are in the span
    wanted = (weights * plain)[weights > 0]
    np.testing.assert_allclose(state["chances"][2:], wanted[2:], rtol=1e-5, atol=1e-12)
    assert answer["residual"].tolist() == [state["chances"].sum()]


def test_rows_are_drawn_by_their_chances() -> None:
    """Chances are those of the rows that have weight, in their order."""
    rows = IRIS[[0, 1, 60, 61, 62, 120]]
    weights = np.array([1.0, 1.0, 0.0, 2.0, 1.0, 1.0])
    party = Parties.of([rows], weights=[weights])[0]
    chances = np.array([0.0, 0.5, 2.0, 0.25, 1.25])
    share = {"party": np.array([party_digest("0")], dtype=np.uint64), "share": np.array([1])}
    asked, rng, drawn = protocol(), np.random.default_rng(0), np.zeros(6)
    for _ in range(2000):
        said, _ = asked.preparation.drawn_rows(party, {"chances": chances}, share, rng)
        assert isinstance(said, Mapping)
        drawn[(rows == said["rows"]).all(axis=1)] += 1
    assert drawn.sum() == 2000
    assert drawn[[0, 2]].tolist() == [0.0, 0.0]
    wanted = np.insert(chances, 2, 0.0) / chances.sum()
    np.testing.assert_allclose(drawn / 2000, wanted, atol=4 * np.sqrt(0.25 / 2000))
    every, _ = asked.preparation.drawn_rows(
        party, {"chances": chances}, {**share, "share": np.array([9])}, rng
    )
    assert isinstance(every, Mapping)
    assert np.array_equal(every["rows"], np.unique(rows[[1, 3, 4, 5]], axis=0))


def test_nothing_is_drawn_where_the_first_explain_all() -> None:
    rows = np.linspace(-1, 2, 40)[:, None]  # a cubic has four coefficients
    parties = Parties.of([rows[::2], rows[1::2]])
    _, said = listened(protocol("polynomial", 0.5, k=2, n_points=35), parties)
    first, points = told(said, "residual")[POINTS], told(said, "project")[POINTS]
    assert len(first) == 7
    assert np.array_equal(points, first)


@each
@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0])
def test_the_points_have_nothing_beyond_themselves(kernel: str, gamma: float) -> None:
    left = Span(kernel, gamma, IRIS[::2]).residuals(IRIS)
    assert np.array_equal(left[::2], np.zeros(75))
    repeated = (IRIS[1::2, None] == IRIS[None, ::2]).all(axis=2).any(axis=1)
    assert not left[1::2][repeated].any()
    assert (left >= 0).all()
    if gamma == 1.0 and kernel != "polynomial":  # of which 35 points say all there is
        assert left[1::2][~repeated].all()


@pytest.mark.bits
@pytest.mark.parametrize("kernel", ["cauchy", "exponential"])  # chunks are others for the former
def test_rows_a_few_at_a_time_are_the_same_rows(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parties = Parties.of(np.split(IRIS[:60], [10, 47]))
    asked = protocol(kernel, SCALES[kernel])
    whole = run_star(asked, parties).result
    monkeypatch.setattr(parallel, "_NUMBERS", 7 * 30)
    parts = run_star(asked, parties).result
    assert np.array_equal(whole[POINTS], parts[POINTS])
    np.testing.assert_allclose(whole["eigenvalues"], parts["eigenvalues"], rtol=1e-9)


def test_equal_rows_are_sent_once_and_few_rows_are_enough() -> None:
    rows = np.repeat(IRIS[[0, 60, 120]], [20, 5, 9], axis=0)
    parties = Parties.of([rows[:30], rows[30:], rows[:0]], names=list("abc"))
    asked = protocol(n_components=5, n_points=500)
    run, said = listened(asked, parties)
    assert np.array_equal(run.result[POINTS], np.unique(rows, axis=0))
    sent = [m.body["rows"] for m in said if isinstance(m, Reply) and m.kind == "draw"]
    assert [len(np.unique(part, axis=0)) for part in sent] == [len(part) for part in sent]
    assert run.result["eigenvalues"][3:].tolist() == [0.0, 0.0]  # the rank is 3
    assert not run.result[MAP][:, 3:].any()


@pytest.mark.bits
def test_rows_without_weight_are_as_good_as_absent() -> None:
    plain = Parties.of([IRIS[:70], IRIS[70:]])
    weights = [np.repeat([1.0, 0.0], [70, 4]), np.ones(80)]
    far = np.concatenate([IRIS[:70], np.full((4, 4), 30.0)])
    padded = Parties.of([far, IRIS[70:]], weights=weights)
    without, beside = (run_star(protocol(), parties).result for parties in (plain, padded))
    assert all(np.array_equal(without[name], beside[name]) for name in without)


def test_what_makes_no_sense_is_refused() -> None:
    asked, nothing = protocol(), np.random.default_rng(0)
    weightless = Parties.of([IRIS[:5], IRIS[5:9]], weights=[np.zeros(5), np.zeros(4)])
    refuses(lambda: run_star(asked, weightless), "No party has a row of positive weight")
    refuses(
        lambda: run_star(protocol("exponential", 1.0), Parties.of([100 * IRIS])),
        "The exponential kernel of gamma=1 overflows",
    )
    alone = Parties.of([IRIS])[0]
    share = {"party": np.array([party_digest("0")], dtype=np.uint64), "share": np.array([31])}
    for body, words in ((share, "was asked for 31 rows"), ({**share, "share": [3]}, "missed")):
        body = {name: np.asarray(value) for name, value in body.items()}
        refuses(
            lambda body=body: asked.preparation.drawn_rows(alone, {}, body, nothing),
            words,
            ProtocolError,
        )
    by = {GAMMA: np.ones(1), POINTS: IRIS[:3], MAP: np.ones((2, 3))}
    refuses(lambda: asked.embed(IRIS, by), "A map of 2 lines is not one of 3", ProtocolError)
    by = {GAMMA: np.zeros(1), POINTS: IRIS[:3], MAP: np.ones((3, 3))}
    refuses(lambda: asked.embed(IRIS, by), "no kernel of gamma=0", ProtocolError)


def test_it_sends_rows_and_says_so_and_under_deployment_these_are_cells() -> None:
    tables = np.split(IRIS, [40, 90])
    assert all("rows" in release.discloses for release in protocol().releases)
    for gamma in (None, 0.3):
        said = assert_only_cells_leave(protocol(gamma=gamma), Parties.of(tables))
        drawn = [m.body for m in said if isinstance(m, Reply) and m.kind == "draw"]
        points = np.concatenate([value for body in drawn for value in body.values()])
        assert len(points)
        assert cdist(points, np.concatenate(in_cells(tables)[0])).min(axis=1).max() == 0.0
        assert cdist(points, IRIS).min() > 1e-9


def test_parties_send_what_the_docstring_says() -> None:
    model = Estimator(3, n_points=40, sketch=10, width=20, coreset_size=50, random_state=0)
    model.fit(IRIS, groups=np.arange(150) % 5)
    d, parties, points, components = 4, 5, len(model.embedding_by_[POINTS]), 3
    assert points == 40
    sent = {kind: counts["floats_up"] for kind, counts in model.traffic_.by_kind.items()}
    assert sent == {
        "spread": parties * (d + 2),
        "sketch": parties * 10 * 20,
        "leverage": parties,
        "draw": points * d,
        "residual": parties,
        "project": parties * points * 20,
        "cost": parties,
        "coreset": (50 + parties * 3) * (components + 1),
    }
    assert model.traffic_.floats_up == sum(sent.values())
    assert model.n_rounds_ == 9


def test_the_estimator_labels_rows_new_and_old() -> None:
    X, ring = make_circles(600, factor=0.3, noise=0.05, random_state=0)
    tables = {name: X[i:400:4] for i, name in enumerate("abcd")}
    model = Estimator(2, gamma=4.0, n_components=3, random_state=0).fit(tables)
    found = model.predict(X[400:])
    assert (found == ring[400:]).all() or (found != ring[400:]).all()
    assert model.embedding_["b"].shape == (100, 3)
    again = model.predict(tables)
    assert all(np.array_equal(again[name], model.labels_[name]) for name in tables)
    assert model.cluster_centers_.shape == (2, 3)
    assert model.gamma_ == 4.0
    assert (np.diff(model.eigenvalues_) <= 0).all()
    assert set(model.embedding_by_) == {GAMMA, POINTS, MAP}
    assert model.history_["points"].tolist()[-1] == len(model.embedding_by_[POINTS])
    assert 0 < model.history_["residual"][0] < 400


def test_fewer_directions_than_clusters_may_be_enough() -> None:
    """One, on which each of three blobs has a place of its own."""
    blob = np.repeat([0, 1, 2], 30)
    X = np.array([[0.0, 0.0], [5.0, 0.0], [10.0, 0.0]])[blob]
    X += 0.1 * np.random.default_rng(0).normal(size=X.shape)
    model = Estimator(3, kernel="polynomial", gamma=0.02, n_components=1, random_state=0)
    model.fit(X, groups=np.arange(90) % 4)
    assert model.embedding_.shape == (90, 1)
    assert model.cluster_centers_.shape == (3, 1)
    assert adjusted_rand_score(blob, model.labels_) == 1


@pytest.mark.parametrize(
    ("options", "words", "kind"),
    [
        ({"kernel": "linear"}, "kernel='linear' is not known", InputError),
        ({"gamma": 0}, "gamma=0 must be a finite number greater than 0", InputError),
        ({"gamma": "auto"}, "gamma='auto' is not known", InputError),
        ({"n_features": 0}, "n_features=0 must be a whole number", InputError),
        ({"n_components": 0}, "n_components=0 must be a whole number", InputError),
        ({"n_points": 2}, "n_points=2 is fewer than the 3 components", InputError),
        ({"sketch": 0}, "sketch=0 must be a whole number", InputError),
        ({"width": 2.5}, "width=2.5 must be a whole number", InputError),
        ({"coreset_size": 0}, "coreset_size=0 must be a whole number", InputError),
        (
            {"policy": Deployment(kinds=("spread",), least_parties=1)},
            "does not send 'sketch' .* the kinds it allows",
            PolicyRefusal,
        ),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str, kind: type[Exception]) -> None:
    refuses(lambda: Estimator(3, random_state=0, **options).fit(IRIS), words, kind)
