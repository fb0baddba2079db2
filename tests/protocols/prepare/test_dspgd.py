"""DSPGD, with its compression and without, against the proximal gradient method on N x N."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.sentences import refuses
from unpooled import KernelKMeans
from unpooled.data.parties import Parties
from unpooled.errors import InputError, ProtocolError
from unpooled.kernels.linalg.features import Features
from unpooled.messages.message import Ask
from unpooled.privacy.policy import STUDY
from unpooled.protocols.prepare import dspgd
from unpooled.protocols.prepare.dspgd import CompressedDSPGD
from unpooled.protocols.prepare.kernel import GAMMA, SEED, Kernel
from unpooled.protocols.star import coreset
from unpooled.runtime.party import PartyRuntime

D = 20
SIZES = (15, 21, 12)
QUICK = {"final": "coreset", "coreset_size": 30, "n_init": 1}
WAYS = {"with compression": True, "without": False}


def unlike(seed: int, sizes: tuple[int, ...] = SIZES) -> list[np.ndarray]:
    """Two clusters in three columns, in unlike parts at each party."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.1, 0.9, len(sizes))
    return [
        rng.normal(size=(n, 3)) + 3 * (rng.uniform(size=(n, 1)) < part)
        for n, part in zip(sizes, share, strict=True)
    ]


def fitted(tables: Any, compress: bool = True, weights: Any = None, **options: Any) -> Any:
    given = {"n_features": D, "max_rounds": 4, "tol": 1e-10, **QUICK, **options}
    model = KernelKMeans(2, solver="dspgd", compress=compress, random_state=3, **given)
    return model.fit(tables, sample_weight=weights)


def draw(model: Any, number: int, rows: np.ndarray) -> np.ndarray:
    """z(x) in an iteration of the fit."""
    seed = int(model.embedding_by_["kernel.seed"][0])
    drawn = model.frequencies or "independent"
    features = Features(
        model.kernel, model.gamma_, model.n_features, seed, number, drawn, model.form or "phase"
    )
    return features.transform(rows)


@dataclass
class Plain:
    """What came of the plain loop: eigenvalues and rank by iteration, and H H' at the end.

    Eigenvalues that are not above the threshold are 0.
    """

    eigenvalues: list[np.ndarray]
    ranks: list[int]
    gram: np.ndarray


def proximal(model: Any, rows: np.ndarray, weights: np.ndarray, s: int) -> Plain:
    """The method as published, on the N x N matrix itself; k is 2."""
    root = np.sqrt(weights)
    held, threshold = np.zeros((len(rows), len(rows))), model.threshold
    eigenvalues, ranks = [], []
    for t in range(1, model.max_rounds + 1):
        features = root[:, None] * draw(model, t, rows)
        values, vectors = np.linalg.eigh((1 - 1 / t) * held + features @ features.T / t)
        values, vectors = values[::-1], vectors[:, ::-1]
        if threshold is None:
            threshold = values[2 + 1]
        above = values > threshold / t + 1e-9
        lowered = values[above] - threshold / t
        held = (vectors[:, above] * lowered) @ vectors[:, above].T
        eigenvalues.append(np.where(above, values + (1 - 1 / t) * threshold, 0)[:s])
        ranks.append(int(above.sum()))
    embedded = vectors[:, :s] * np.sqrt(eigenvalues[-1]) / root[:, None]
    return Plain(eigenvalues, ranks, embedded @ embedded.T)


@pytest.mark.parametrize("compress", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (0, {"max_rounds": 1}),
        (1, {"max_rounds": 8}),
        (2, {"n_components": 3}),
        (3, {"n_components": 4, "threshold": 0.3, "max_rounds": 6}),
        (3, {"n_components": 4, "threshold": 1.5}),
        (4, {"threshold": 7.0, "gamma": 0.1}),
        (5, {"threshold": 0.0, "max_rounds": 2, "gamma": 2.0}),
        (6, {"kernel": "laplacian", "form": "cos-sin", "frequencies": "orthogonal"}),
        (7, {"kernel": "polynomial", "gamma": 0.02}),
    ],
    ids=str,
)
def test_it_is_the_proximal_gradient_method(
    seed: int, options: dict[str, Any], compress: bool
) -> None:
    tables, rng = unlike(seed), np.random.default_rng(seed)
    odd = seed % 2 == 1
    weights = [rng.uniform(0.5, 2.0, len(own)) if odd else np.ones(len(own)) for own in tables]
    s = options.get("n_components", 2)
    model = fitted(tables, compress, weights if odd else None, **options)
    plain = proximal(model, np.concatenate(tables), np.concatenate(weights), s)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues[-1], rtol=1e-6)
    found = np.concatenate(model.embedding_)
    np.testing.assert_allclose(found @ found.T, plain.gram, atol=1e-6)
    assert model.history_["rank"].tolist() == plain.ranks
    steps = zip([np.zeros(s), *plain.eigenvalues], plain.eigenvalues, strict=False)
    change = [np.linalg.norm(new - old) / np.linalg.norm(new) for old, new in steps]
    np.testing.assert_allclose(model.history_["error"], change, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_compression_changes_nothing_but_the_numbers_sent(seed: int) -> None:
    with_it, without = (fitted(unlike(seed), own, n_components=3) for own in WAYS.values())
    np.testing.assert_allclose(with_it.eigenvalues_, without.eigenvalues_, rtol=1e-6)
    for own, other in zip(with_it.embedding_, without.embedding_, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-6)
    assert with_it.traffic_.floats_up < without.traffic_.floats_up


@pytest.mark.parametrize("final", ["one-shot", "coreset"])
@pytest.mark.parametrize("options", [{}, {"gamma": 0.1, "max_rounds": 7, "tol": 1e-3}], ids=str)
def test_parties_send_what_theorem_2_says(options: dict[str, Any], final: str) -> None:
    tables = unlike(0)
    parties, n, s = len(tables), sum(SIZES), 2
    scale = 0 if "gamma" in options else parties * (3 + 2)
    for compress in WAYS.values():
        model = fitted(tables, compress, final=final, **options)
        products = model.history_["products"]
        # The rank before each iteration: nothing before the first.
        widths = D + np.concatenate([[0], model.history_["rank"][:-1]])
        sent = {kind: line["floats_up"] for kind, line in model.traffic_.by_kind.items()}
        assert sent.pop("spread", 0) == scale
        if final == "one-shot":
            assert sent.pop("centroids") == model.history_["received"][0] * (s + 1)
        else:
            assert sent.pop("cost") == parties
            assert sent.pop("coreset") == model.history_["received"][0] * (s + 1)
        asked = int(products.sum())
        if compress:
            assert sent == {
                "turn": parties * widths.sum(),
                "product": parties * ((products - 1) * widths).sum(),
            }
            assert sum(sent.values()) == parties * (products * widths).sum()
        else:
            # Besides, once, how many rows each has.
            assert sent == {"sizes": parties, "left": asked * parties * D, "right": asked * n}
        around = (scale > 0) + (1 if final == "one-shot" else 2)
        assert model.n_rounds_ == around + (asked if compress else 1 + 2 * asked)


def test_every_party_sends_the_same_with_compression_however_many_rows_it_has() -> None:
    # Both clusters are at every party, so that each says as much of its own in the end.
    up = fitted(unlike(0), final="one-shot").traffic_.table["floats_up"]
    assert up.tolist() == [up[0]] * 3
    up = fitted(unlike(0), compress=False, final="one-shot").traffic_.table["floats_up"]
    assert np.argsort(up).tolist() == np.argsort(SIZES).tolist()


@pytest.mark.parametrize("compress", WAYS.values(), ids=WAYS)
def test_lanczos_goes_on_while_no_value_exceeds_the_threshold_yet(compress: bool) -> None:
    """The published rule stops at once, with nothing: all of no values are exact."""
    tables = unlike(0)
    rows = np.concatenate(tables)
    known = fitted(tables, max_rounds=1)
    values = np.linalg.eigvalsh(draw(known, 1, rows).T @ draw(known, 1, rows))[::-1]
    model = fitted(tables, compress, max_rounds=1, threshold=0.98 * values[0])
    assert values[1] < 0.9 * values[0]
    assert model.history_["products"][0] > 2
    assert model.history_["rank"].tolist() == [1]
    assert model.eigenvalues_ == pytest.approx([values[0], 0])


@pytest.mark.parametrize("compress", WAYS.values(), ids=WAYS)
def test_a_threshold_that_leaves_nothing_is_refused(compress: bool) -> None:
    words = r"threshold=1000 is not below the largest eigenvalue of iteration 1, \d+\.\d+; give"
    refuses(lambda: fitted(unlike(0), compress, threshold=1000), words, InputError)


@pytest.mark.parametrize("compress", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("k", [1, 4])
def test_the_threshold_is_the_second_eigenvalue_after_k(k: int, compress: bool) -> None:
    tables = unlike(1)
    rows = np.concatenate(tables)
    options = {"solver": "dspgd", "n_features": D, "max_rounds": 3, "tol": 1e-10, **QUICK}
    options |= {"compress": compress, "random_state": 0}
    model = KernelKMeans(k, **options).fit(tables)
    values = np.linalg.eigvalsh(draw(model, 1, rows).T @ draw(model, 1, rows))[::-1]
    right, wrong = (
        KernelKMeans(k, threshold=float(value), **options).fit(tables)
        for value in values[[k + 1, k + 2]]
    )
    assert model.history_["rank"][0] == k + 1
    np.testing.assert_allclose(model.eigenvalues_, right.eigenvalues_, rtol=1e-8)
    assert np.abs(model.eigenvalues_ / wrong.eigenvalues_ - 1).max() > 1e-6


@pytest.mark.parametrize("compress", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("power", [0.5, 0.0])
def test_where_rows_are_few_nothing_is_made_of_rounding(power: float, compress: bool) -> None:
    places = np.array([[0.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    tables = [np.repeat(places, n, axis=0) for n in (20, 4, 9)]
    model = fitted(tables, compress, n_components=5, power=power)
    assert model.history_["rank"].tolist() == [2] * 4
    assert (model.history_["products"] <= 5).all()
    assert (model.eigenvalues_[:2] > 0).all()
    assert model.eigenvalues_[2:].tolist() == [0.0] * 3
    lengths = np.linalg.norm(np.concatenate(model.embedding_), axis=0)
    np.testing.assert_allclose(lengths, model.eigenvalues_**power * [1, 1, 0, 0, 0], rtol=1e-6)


def test_a_looser_tolerance_takes_fewer_products_and_is_near() -> None:
    tables = unlike(2)
    exact, loose = (fitted(tables, n_features=60, tol=tol) for tol in (1e-10, 1e-2))
    assert loose.history_["products"].sum() < exact.history_["products"].sum()
    np.testing.assert_allclose(loose.eigenvalues_, exact.eigenvalues_, rtol=0.02)


def test_it_does_not_matter_whether_parties_keep_their_gram_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = unlike(3)
    weights = [np.random.default_rng(0).uniform(0.5, 2.0, len(own)) for own in tables]
    kept = fitted(tables, weights=weights)
    monkeypatch.setattr(dspgd, "MOST_FOR_GRAM", D - 1)
    monkeypatch.setattr(Features, "gram", None)  # not called any more
    without = fitted(tables, weights=weights)
    np.testing.assert_allclose(without.eigenvalues_, kept.eigenvalues_, rtol=1e-9)
    gram = [np.concatenate(m.embedding_) @ np.concatenate(m.embedding_).T for m in (kept, without)]
    np.testing.assert_allclose(*gram, atol=1e-8)


def test_a_party_that_missed_an_iteration_says_so() -> None:
    """What it knows is of an earlier one, and may well have the shape that is asked for."""
    solver = CompressedDSPGD(Kernel("gaussian", D, "independent", "phase"), 2, 2, 4)
    party = Parties.of(unlike(0)[:1])[0]

    def asked(kind: str, number: int, rank: int, **more: np.ndarray) -> Ask:
        told = {GAMMA: np.array([0.1]), SEED: np.array([5]), "kernel.draw": np.array([number])}
        vector = np.ones(D + rank)
        return Ask(kind, {"vector": vector, **told, **more}, number)

    class Stub:
        releases, steps, needs_rows = solver.releases, solver.steps, False

    begin = asked("turn", 1, 0, step=np.empty((0, 0)))
    second = asked("turn", 2, 3, step=np.ones((D, 3)))
    third = asked("turn", 3, 3, step=np.ones((D + 3, 3)))
    words = "Party 0 has missed an iteration, without which it cannot go on"
    for heard, missing in (
        ([], second),
        ([], asked("product", 1, 0)),
        ([begin], asked("product", 2, 0)),
        ([begin], third),
        ([begin, second], asked("turn", 4, 3, step=np.ones((D + 3, 3)))),
    ):
        site = PartyRuntime(Stub, party, (0, 0), STUDY)
        for exchange, question in enumerate(heard):
            assert site.answer(question, exchange) is not None
        refuses(lambda s=site, q=missing: s.answer(q, 9), words, ProtocolError)
    site = PartyRuntime(Stub, party, (0, 0), STUDY)
    answers = [site.answer(question, i) for i, question in enumerate((begin, second, third))]
    assert [reply.body["product"].shape for reply in answers] == [(D,), (D + 3,), (D + 3,)]


def test_numbers_that_are_for_other_rows_are_refused() -> None:
    tables = unlike(0)
    model = KernelKMeans(2, solver="dspgd", compress=False, n_features=D, gamma=0.1)
    parties = Parties.of(tables)
    protocol = model.planned(parties)
    told = {GAMMA: np.array([0.1]), SEED: np.array([5]), "kernel.draw": np.array([1])}
    digests = np.array([coreset.party_digest(name) for name in parties.names], dtype=np.uint64)
    whole = {"vector": np.ones(sum(SIZES)), "party": digests, "size": np.array(SIZES), **told}
    for change, words in (
        ({"party": digests[1:], "size": np.array(SIZES[1:])}, "was not sent which numbers"),
        ({"party": digests[[0, 0, 1]]}, "was not sent which numbers"),
        ({"size": np.array([16, 20, 12])}, "was not sent which numbers"),
        ({"vector": np.ones(SIZES[0] - 1)}, "was sent too few numbers"),
    ):
        site = PartyRuntime(protocol, parties[0], (0, 0), STUDY)
        question = Ask("left", {**whole, **change}, 0)
        refuses(lambda s=site, q=question: s.answer(q, 0), f"Party 0 {words}", ProtocolError)
    sums = PartyRuntime(protocol, parties[0], (0, 0), STUDY).answer(Ask("left", whole, 0), 0)
    features = Features("gaussian", 0.1, D, 5, 1, "independent", "phase").transform(tables[0])
    np.testing.assert_allclose(sums.body["sums"], features.sum(axis=0))
