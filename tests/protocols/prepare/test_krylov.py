"""Block Krylov iteration against the eigenpairs of the pooled Gram matrix of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cells import cells_of
from tests.protocols.prepare.test_dspgd import unlike
from tests.sentences import refuses
from unpooled.data.parties import Parties, PartyData
from unpooled.errors import ProtocolError
from unpooled.kernels.linalg.features import Features
from unpooled.messages.message import Ask, Note
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Policy
from unpooled.protocols.prepare import krylov
from unpooled.protocols.prepare.kernel import GAMMA, MAP, SEED, Kernel
from unpooled.protocols.prepare.kernel_map import KernelMap
from unpooled.protocols.prepare.krylov import BlockKrylov
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.runtime.party import PartyRuntime
from unpooled.simulate import Options, Run, run_star

D = 40


def asked(
    block: int,
    passes: int,
    *,
    s: int = 3,
    gamma: float | None = None,
    kernel: Kernel | None = None,
) -> Then:
    kernel = kernel or Kernel("gaussian", D)
    inner = CoresetKMeans(2, 10, n_init=1)
    return Then(KernelMap(kernel, gamma, BlockKrylov(kernel, s, block, passes), s), inner)


def weighted(seed: int = 0, sizes: tuple[int, ...] = (30, 41, 24)) -> Parties:
    tables, rng = unlike(seed, sizes), np.random.default_rng(seed)
    return Parties.of(tables, weights=[rng.uniform(0.5, 2.0, len(own)) for own in tables])


def pooled(protocol: Then, run: Run, parties: Parties) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, the largest first, of the Gram matrix of all features, and that matrix."""
    features = protocol.preparation.kernel.features(run.result).transform(parties.rows)
    gram = (parties.weights[:, None] * features).T @ features
    return np.linalg.eigvalsh(gram)[::-1], gram


def products_of(run: Run) -> list[dict[str, int]]:
    """What was counted of each pass."""
    return [line for (kind, _), line in run.traffic.by_round.items() if kind == "products"]


KERNELS = [
    Kernel("gaussian", D),
    Kernel("gaussian", D, "sobol"),
    Kernel("gaussian", D + 1, "independent", "phase"),
    Kernel("laplacian", D),
    Kernel("cauchy", D),
    Kernel("polynomial", D),
    Kernel("exponential", D),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("gamma", [None, 0.07])
def test_a_block_as_wide_as_the_features_says_all(kernel: Kernel, gamma: float | None) -> None:
    parties = weighted()
    protocol = asked(kernel.n_features, 1, kernel=kernel, gamma=gamma)
    run = run_star(protocol, parties)
    values, gram = pooled(protocol, run, parties)
    np.testing.assert_allclose(run.result["eigenvalues"], values[:3], rtol=1e-9)
    # The map's columns are the eigenvectors.
    onto = run.result[MAP]
    np.testing.assert_allclose(onto.T @ onto, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(gram @ onto, onto * values[:3], atol=1e-8 * values[0])


@pytest.mark.parametrize("seed", range(3))
def test_more_passes_come_nearer_and_enough_of_them_are_exact(seed: int) -> None:
    parties = weighted(seed)
    errors = []
    for passes in (1, 2, 3, 4, 10):
        protocol = asked(4, passes, s=4, gamma=0.5)
        run = run_star(protocol, parties, seed=seed)
        values, gram = pooled(protocol, run, parties)
        found, onto = run.result["eigenvalues"], run.result[MAP]
        assert (found <= values[:4] * (1 + 1e-9)).all()  # never more than there is
        errors.append(1 - np.trace(onto.T @ gram @ onto) / values[:4].sum())
    assert errors[0] > errors[1] > errors[2] > errors[3] > -1e-12
    assert errors[0] > 1e-3
    assert errors[1] < 0.2 * errors[0]
    assert errors[-1] == pytest.approx(0, abs=1e-9)  # 10 blocks of 4 are all directions


def test_the_parties_means_are_a_better_start_than_none() -> None:
    """Those of parties that are unlike point to where rows differ."""
    found, anyhow = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        parties = Parties.of([rng.normal(size=(40, 3)) + 2 * rng.normal(size=3) for _ in range(4)])
        protocol = asked(4, 1)
        run = run_star(protocol, parties, seed=seed)
        values, _ = pooled(protocol, run, parties)
        found.append(run.result["eigenvalues"].sum() / values[:3].sum())
        given = asked(4, 1, gamma=float(run.result[GAMMA][0]))
        other = run_star(given, parties, seed=seed)
        assert other.result[SEED] == run.result[SEED]
        anyhow.append(other.result["eigenvalues"].sum() / values[:3].sum())
    assert np.mean(found) > 0.97
    assert np.mean(anyhow) < 0.9


@pytest.mark.parametrize("block", [4, 7])
@pytest.mark.parametrize("passes", [1, 3])
def test_a_party_sends_d_times_block_numbers_a_pass(block: int, passes: int) -> None:
    parties = weighted()
    run = run_star(asked(block, passes), parties)
    # A block of numbers for all rows together, however many they are; and γ and the seed with it.
    line = {"messages": 3, "floats_up": 3 * D * block, "floats_down": 3 * (D * block + 2)}
    passed = products_of(run)
    assert len(passed) == passes
    for own in passed:
        assert {name: own[name] for name in line} == line
    assert run.traffic.rounds == 1 + passes + 2


@pytest.mark.parametrize("gamma", [None, 0.3])
def test_it_ends_early_where_features_span_little(gamma: float | None) -> None:
    places = np.array([[0.0, 1.0, 5.0], [4.0, 1.0, 2.0], [1.0, 3.0, 0.0]])
    parties = Parties.of([np.repeat(places, n, axis=0) for n in (1, 20, 4)])
    notes: list[Note] = []
    protocol = asked(4, 9, s=5, gamma=gamma)
    run = run_star(protocol, parties, observe=notes.append)
    values, _ = pooled(protocol, run, parties)
    assert run.result["eigenvalues"][:3] == pytest.approx(values[:3])
    assert run.result["eigenvalues"][3:].tolist() == [0.0, 0.0]
    assert not run.result[MAP][:, 3:].any()
    # The second pass asks for the three directions that there are, or fewer that are still missing;
    # after it there is nothing left to ask for.
    first, second = products_of(run)
    assert first["floats_up"] == 3 * D * 4
    assert second["floats_up"] <= 3 * D * 3
    assert [int(note.body["rank"]) for note in notes if "rank" in note.body] == [3, 3]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_it_does_not_matter_whether_parties_keep_their_gram_matrix(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    parties, protocol = weighted(), asked(4, 3, kernel=kernel)
    kept = run_star(protocol, parties)
    monkeypatch.setattr(krylov, "MOST_FOR_GRAM", D - 1)
    monkeypatch.setattr(Features, "gram", None)  # not called any more
    without = run_star(protocol, parties)
    np.testing.assert_allclose(without.result["eigenvalues"], kept.result["eigenvalues"], rtol=1e-9)
    heights = [protocol.embed(parties.rows, run.result) for run in (kept, without)]
    largest = float(kept.result["eigenvalues"][0])
    np.testing.assert_allclose(*(h @ h.T for h in heights), atol=1e-9 * largest)


def test_the_error_says_how_near_the_directions_are() -> None:
    """Within it of every eigenvalue that was found there is one of the pooled matrix."""
    parties, notes = weighted(), list[Note]()
    protocol = asked(4, 10, gamma=0.5)
    run = run_star(protocol, parties, observe=notes.append)
    values, _ = pooled(protocol, run, parties)
    noted = [note for note in notes if "error" in note.body]
    assert [note.round for note in noted] == list(range(10))
    errors = [float(note.body["error"]) for note in noted]
    assert errors[0] > 0.05 > 0.01 > errors[4]
    assert errors[-1] < 1e-9
    for passes in (1, 2, 3):
        found = run_star(asked(4, passes, gamma=0.5), parties).result["eigenvalues"]
        assert (values[:3] - found <= errors[passes - 1] * values[0]).all()


def test_what_overflows_is_refused() -> None:
    rows = [1e60 * own for own in unlike(0)]
    for kernel in ("polynomial", "exponential"):
        protocol = asked(4, 2, kernel=Kernel(kernel, D), gamma=1.0)
        words = f"The {kernel} kernel of gamma=1 overflows on some rows; give a smaller gamma or sc"
        refuses(lambda p=protocol: run_star(p, Parties.of(rows)), words, ProtocolError)


def test_nothing_comes_of_parties_that_are_all_too_small() -> None:
    parties = Parties.of(unlike(0, (9, 5, 3)))
    how = Options(policy=DEPLOYMENT)
    for gamma in (None, 0.1):
        call = lambda g=gamma: run_star(asked(4, 2, gamma=g), parties, options=how)  # noqa: E731
        refuses(call, "No party sent anything about its rows", ProtocolError)


def gram_of(
    party: PartyData, told: dict[str, np.ndarray], protocol: Then, policy: Policy
) -> np.ndarray:
    """What a coordinator learns of a party that it asks about every direction, 8 at a time."""
    site = PartyRuntime(protocol, party, (0, 0), policy)
    parts = []
    for number in range(D // 8):
        vectors = np.eye(D)[:, 8 * number : 8 * number + 8]
        reply = site.answer(Ask("products", {"vectors": vectors, **told}, number), number)
        assert reply is not None
        parts.append(reply.body["products"])
    return np.hstack(parts)


def left_over(gram: np.ndarray, features: np.ndarray) -> np.ndarray:
    """How much of each line lies beyond the range of the matrix; 1 is all of it."""
    values, vectors = np.linalg.eigh(gram)
    within = vectors[:, values > 1e-10 * values[-1]]
    return np.linalg.norm(features - features @ within @ within.T, axis=1)


@pytest.mark.parametrize(("n", "told_apart"), [(12, True), (30, True), (400, False)])
def test_whose_row_it_is_can_be_told_if_a_party_has_fewer_than_d(n: int, told_apart: bool) -> None:
    """What the docstrings admit, where rows are rows; where they are cells, it is about these."""
    rng = np.random.default_rng(0)
    rows, strangers = rng.normal(size=(n, 6)), rng.normal(size=(200, 6))
    protocol = asked(8, 2, gamma=0.5)
    told: dict[str, Any] = {GAMMA: np.array([0.5]), SEED: np.array([11])}
    gram = gram_of(PartyData("A", rows, np.ones(n)), told, protocol, STUDY)
    features = protocol.preparation.kernel.features(told)
    np.testing.assert_allclose(gram, features.transform(rows).T @ features.transform(rows))
    members = left_over(gram, features.transform(rows))
    others = left_over(gram, features.transform(strangers))
    assert members.max() < 1e-6
    if told_apart:
        assert others.min() > 1e-2
    else:
        assert others.max() < 1e-6


@pytest.mark.parametrize("n", [12, 30, 400])
def test_under_deployment_all_that_can_be_told_is_a_party_by_its_cells(n: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 6))
    protocol = asked(8, 2, gamma=0.5)
    told: dict[str, Any] = {GAMMA: np.array([0.5]), SEED: np.array([11])}
    gram = gram_of(PartyData("A", rows, np.ones(n)), told, protocol, DEPLOYMENT)
    features, cells = protocol.preparation.kernel.features(told), cells_of(rows)
    mapped = features.transform(cells.means)
    np.testing.assert_allclose(gram, mapped.T @ (cells.weights[:, None] * mapped), atol=1e-9)
    if n < 100:  # fewer cells than directions: rows lie beyond what is spanned, like strangers
        assert left_over(gram, mapped).max() < 1e-6
        assert left_over(gram, features.transform(rows)).min() > 1e-2
