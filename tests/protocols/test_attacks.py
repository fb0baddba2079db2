"""Attacks on every method: each recovers rows where nothing stops it, and none under deployment.

The attacker is an honest but curious coordinator or neighbour, who keeps all that it ever heard
(:mod:`unpooled.testing.attacks`); or a coordinator that asks what it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import unpooled
from tests import tables
from tests.cells import cells_of
from unpooled import catalog, partition
from unpooled.data.parties import Parties
from unpooled.errors import InputError, PolicyRefusal, ProtocolError
from unpooled.messages.message import Ask
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Deployment, Policy
from unpooled.protocols.prepare.moments import Moments
from unpooled.protocols.star.base import Coordinator
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.fuzzy import FuzzyCMeans
from unpooled.runtime.party import PartyRuntime
from unpooled.simulate import Options, run_star
from unpooled.testing.attacks import ATTACKS, Outcome, Target
from unpooled.testing.attacks.differencing import SEEDS, SWEEP, across, recovered, recovered_of
from unpooled.testing.attacks.gram import reconstruct
from unpooled.testing.attacks.outcome import EXACT, matched, spread_of
from unpooled.testing.attacks.rerun import one_patient
from unpooled.testing.attacks.statements import all_groups, joined, points
from unpooled.testing.attacks.target import overheard
from unpooled.testing.attacks.visits import ten_visits
from unpooled.testing.wrapping import StarAround
from unpooled.types import Body

DIGITS, CLASSES = load_digits(return_X_y=True)
SWEEPS = ("k sweep", "seeds")
"""Attacks of twenty runs, which only the long tests make on every method."""


def digits(alpha: float | None = None) -> list[np.ndarray]:
    """Ten parties of digits."""
    groups = (
        partition.iid(len(DIGITS), n_parties=10, random_state=0)
        if alpha is None
        else partition.dirichlet(CLASSES, n_parties=10, alpha=alpha, random_state=0)
    )
    return [DIGITS[groups == i] for i in range(10)]


def clusters(sizes: Sequence[int] = (45, 30, 50, 40), n_columns: int = 2) -> list[np.ndarray]:
    """Three clusters of positive values, which every loss takes."""
    rng = np.random.default_rng(0)
    corners = rng.uniform(2.0, 9.0, size=(3, n_columns))
    return [
        np.abs(corners[rng.integers(3, size=n)] + 0.5 * rng.normal(size=(n, n_columns)))
        for n in sizes
    ]


def sample(name: str) -> Target:
    """A sample of the catalog as a target."""
    for method in catalog.METHODS:
        if name in method.samples:
            options = {"n_clusters": 3, **method.samples[name]}
            return Target(partial(method.estimator, **options))
    raise KeyError(name)


def strict(folder: Path) -> Policy:
    """Deployment as a site has it: its cells are kept."""
    return Deployment(memory=folder)


FIRST = [next(iter(method.samples)) for method in catalog.METHODS if method.samples]
OTHERS = [name for method in catalog.METHODS for name in method.samples if name not in FIRST]
NOT_READ = {"dgc, logistic, given start"}
"""Samples that none of the attacks recovers anything of: what they send are steps, not sums."""


def attacked(name: str, attacks: Sequence[str], policy: Policy, folder: Path) -> list[Outcome]:
    """The outcomes of these attacks on a sample of the catalog."""
    found = []
    for attack in attacks:
        own = policy.with_own(memory=folder / attack) if policy.min_count > 1 else policy
        found.append(ATTACKS[attack](sample(name), clusters(), own))
    return found


def assert_in_vain(outcome: Outcome) -> None:
    """Nothing was recovered, although there were messages and nothing was refused.

    A run that is refused gives no row away either, but tells nothing about the attack.
    """
    assert outcome.rows_recovered == 0, outcome
    assert not outcome.applies or (outcome.messages and not outcome.refusal), outcome


@pytest.mark.parametrize("name", FIRST)
def test_every_method_gives_rows_away_under_study_and_none_under_deployment(
    name: str, tmp_path: Path
) -> None:
    attacks = [attack for attack in ATTACKS if attack not in (*SWEEPS, "features")]
    assert any(one.rows_recovered for one in attacked(name, attacks, STUDY, tmp_path))
    for outcome in attacked(name, attacks, DEPLOYMENT, tmp_path):
        assert_in_vain(outcome)


@pytest.mark.long
@pytest.mark.parametrize("name", [*FIRST, *OTHERS])
def test_every_attack_on_every_sample(name: str, tmp_path: Path) -> None:
    study = attacked(name, list(ATTACKS), STUDY, tmp_path)
    assert (name in NOT_READ) != any(one.rows_recovered for one in study)
    for outcome in attacked(name, list(ATTACKS), DEPLOYMENT, tmp_path):
        assert_in_vain(outcome)


@pytest.mark.parametrize(
    ("attack", "name", "at_least"),
    [
        ("one run", "federated k-means, drawn starts", 20),
        ("rerun", "one-shot", 3),
        ("rerun", "gossip", 3),
        ("rerun", "kernel k-means", 3),
        ("rerun", "k-fed", 1),
        ("visits", "federated k-means", 1),
        ("visits", "gossip, tree", 1),
        ("outlier", "random features", 1),
        ("outlier", "matched averaging", 1),
        ("weight", "kernel k-means", 1),
        ("weight", "feca", 1),
        ("neighbour", "gossip", 8),
        ("neighbour", "dgc, defaults", 8),
        ("questions", "federated k-means", 10),
        ("questions", "one-shot, refined", 10),
        ("rows", "coreset", 10),
        ("rows", "random features", 8),
        ("rows", "kernel k-means, dspgd", 5),
        ("rows", "dgc", 10),
    ],
)
def test_every_attack_works_where_nothing_stops_it(attack: str, name: str, at_least: int) -> None:
    """Otherwise no test here could fail; it is why `study` stays inside one process."""
    outcome = ATTACKS[attack](sample(name), clusters(), STUDY)
    assert outcome.rows_recovered >= at_least, outcome


def test_attacks_that_have_nothing_to_act_on_say_so() -> None:
    for attack, name, why in (
        ("neighbour", "one-shot", "there is a coordinator"),
        ("questions", "gossip", "nobody asks questions in a mesh"),
        ("questions", "k-fed", "no question has centres"),
        ("questions", "kernel k-means, lloyd", "in the space of an embedding"),
        ("features", "one-shot", "no sums of products"),
        ("rows", "federated k-means", "declares to send no rows"),
    ):
        outcome = ATTACKS[attack](sample(name), clusters(), STUDY)
        assert not outcome.applies
        assert why in outcome.detail


def test_runs_for_several_k_on_digits() -> None:
    target, runs = Target(unpooled.OneShotKMeans), SWEEP[6:18:5]
    rows = digits()
    assert across(target, rows, STUDY, runs, "").rows_recovered > 100
    assert_in_vain(across(target, rows, DEPLOYMENT, runs, ""))


@pytest.mark.long
@pytest.mark.parametrize("alpha", [None, 0.3], ids=["iid", "Dirichlet"])
@pytest.mark.parametrize(
    ("target", "runs"),
    [
        (Target(unpooled.OneShotKMeans), SWEEP),
        (Target(partial(unpooled.OneShotKMeans, local_clusters=10)), SEEDS),
        (Target(unpooled.FederatedKMeans), SWEEP),
        (Target(unpooled.GossipKMeans), SWEEP[::6]),
    ],
    ids=["one-shot, k sweep", "one-shot, seeds", "federated, k sweep", "gossip"],
)
def test_sweeps_on_digits(target: Target, runs: Any, alpha: float | None) -> None:
    rows = digits(alpha)
    assert across(target, rows, STUDY, runs, "").rows_recovered > 100
    assert_in_vain(across(target, rows, DEPLOYMENT, runs, ""))


def test_under_deployment_the_same_listener_finds_cells() -> None:
    """It hears something, and what it hears are cells: it is not for want of messages."""
    rows = digits()[0]
    parties = Parties.of(digits()[:3])
    said = overheard(Target(unpooled.OneShotKMeans).protocol(parties), parties, DEPLOYMENT).of(0)
    means = cells_of(rows).means
    found = matched(means, points(said, rows.shape[1]), EXACT * spread_of(rows))
    assert found.all()
    assert not recovered_of(said, rows).any()


@pytest.mark.long
def test_one_patient_in_sixty_trials(tmp_path: Path) -> None:
    target = sample("one-shot")
    assert one_patient(target, clusters(), STUDY, 60).rows_recovered == 60
    assert_in_vain(one_patient(target, clusters(), strict(tmp_path), 60))


def test_changed_rows_are_safe_only_with_a_memory(tmp_path: Path) -> None:
    """As the documents say: without a store, cells are made anew of the changed rows."""
    target = sample("one-shot")
    assert one_patient(target, clusters(), DEPLOYMENT, 6).rows_recovered > 3
    assert_in_vain(one_patient(target, clusters(), strict(tmp_path), 6))


def test_rows_without_names_that_are_gone_end_the_run(tmp_path: Path) -> None:
    """As the documents say: a correction could not be distinguished from a new person."""
    target, policy, rows = sample("one-shot"), strict(tmp_path), clusters()
    assert target.overheard(rows, policy).messages
    gone = target.overheard([rows[0][1:], *rows[1:]], policy)
    assert "are gone or have changed" in gone.refusal
    assert not gone.of(0)


def test_ten_visits_need_a_person() -> None:
    """As the documents say: where a site does not name persons, every row is one."""
    target = sample("one-shot")
    assert ten_visits(target, clusters(), DEPLOYMENT, named=False).rows_recovered == 1
    assert_in_vain(ten_visits(target, clusters(), DEPLOYMENT))


def test_rows_from_sums_of_features() -> None:
    """Of parties of 12 and 30 rows, from 30 products with 200 features."""
    target = Target(partial(unpooled.KernelKMeans, 3, n_features=200, n_components=12))
    rows = clusters((40, 40, 40), n_columns=4)
    assert reconstruct(target, rows, STUDY).rows_recovered >= 24
    assert_in_vain(reconstruct(target, rows, DEPLOYMENT))


@pytest.mark.long
def test_rows_from_fewer_sums_of_features_than_rows() -> None:
    """Of the same parties, from 8 products: all rows are looked for at once."""
    target = Target(partial(unpooled.KernelKMeans, 3, n_features=200))
    rows = clusters((40, 40, 40), n_columns=5)
    assert reconstruct(target, rows, STUDY, joint_starts=4).rows_recovered >= 30
    assert_in_vain(reconstruct(target, rows, DEPLOYMENT, joint_starts=4))


@dataclass(frozen=True)
class Nosy(StarAround):
    """A coordinator that asks whatever it likes, again and again, about centres of its own."""

    rows: np.ndarray

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        for number in range(12):
            for ask in self.inner.asks:
                centers = rng.choice(self.rows, 3) + rng.normal(size=(3, self.rows.shape[1]))
                if number % 3 == 2:
                    centers[1:] += 1e3  # one centre gets everything
                body = {"centers": centers} if "centers" in ask.fields else {}
                yield Ask(ask.kind, body, number, quorum=0)
        return {}


@pytest.mark.parametrize("name", tables.attackable(3))
def test_a_coordinator_that_asks_what_it_likes_learns_no_more(name: str) -> None:
    rows = clusters((61, 25, 12, 9), n_columns=3)
    rows[0][:1] += 50.0  # one row by itself
    parties = Parties.of(rows)
    transcript = overheard(
        Nosy(tables.attackable(3)[name], parties.rows), parties, DEPLOYMENT, seed=1
    )
    assert transcript.of(0)
    assert recovered([transcript], rows) == 0
    # What it hears of two parties are means of one cell, and nothing.
    means = joined(all_groups(transcript.of(2), 3), 3).means
    np.testing.assert_allclose(means, np.broadcast_to(rows[2].mean(axis=0), means.shape))
    assert not points(transcript.of(3), 3).any()


def test_a_minimum_of_three_already_stops_single_rows() -> None:
    policy = Deployment(min_count=3)
    runs = SWEEP[8:10]
    assert_in_vain(across(Target(unpooled.OneShotKMeans), digits(), policy, runs, ""))


def test_caps_end_a_run() -> None:
    parties, protocol = Parties.of(digits()), FederatedKMeans(DIGITS[:10] + 0.01, tol=0.0)
    rounds = Options(policy=Deployment(max_rounds=1))
    with pytest.raises(PolicyRefusal, match="has sent in 1 rounds, which is its cap"):
        run_star(protocol, parties, options=rounds)
    floats = Options(policy=Deployment(max_floats=1_000))
    with pytest.raises(PolicyRefusal, match="over its cap of 1000"):
        run_star(protocol, parties, options=floats)


@pytest.mark.parametrize("min_count", [0, -3, 2, 2.5, "10", None, True, float("nan")])
def test_a_minimum_that_is_none(min_count: object) -> None:
    with pytest.raises(InputError, match="min_count="):
        Deployment(min_count=min_count)  # type: ignore[arg-type]


def test_two_numbers_follow_from_mean_and_spread() -> None:
    """Why a minimum of two is refused."""
    rows = np.array([[3.0], [7.0]])
    run = run_star(Moments(), Parties.of([rows]))
    mean, spread = run.result["mean"][0], np.sqrt(run.result["variance"][0])
    assert sorted([mean - spread, mean + spread]) == pytest.approx([3.0, 7.0])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"centers": np.full((2, 64), np.nan)},
        {"centers": np.zeros((2, 3))},
        {"centers": np.zeros(64)},
        {"centers": np.array([["a"]])},
    ],
    ids=["nothing", "NaN", "width", "1-D", "text"],
)
@pytest.mark.parametrize("kind", ["sums", "centers"])
def test_questions_that_make_no_sense_are_refused_without_a_value(kind: str, body: Body) -> None:
    fuzzy = FuzzyCMeans(10, merge="average", local_steps=1, fuzzifier=1.1)
    protocol = FederatedKMeans(DIGITS[:10] + 0.01) if kind == "sums" else fuzzy
    site = PartyRuntime(protocol, Parties.of(digits())[0], (0, 0), DEPLOYMENT)
    words = (
        rf"^Party 0 cannot answer '{kind}' of round 0: the question does not fit its rows or what "
        r"was asked before \(\w+\)\.$"
    )
    with pytest.raises(ProtocolError, match=words):
        site.answer(Ask(kind, body), 0)
