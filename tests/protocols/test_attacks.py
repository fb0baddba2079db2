"""The differencing attack on every protocol with a coordinator.

The attacker is the coordinator. It knows what every party sent, takes each mean and sum for a row,
and subtracts from each other the sums of any two rounds, cluster by cluster, over pairs of
clusters, and over all of them; where the counts differ by one, the difference is a row.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial import cKDTree
from sklearn.datasets import load_digits

from tests import tables
from tests.conformance.toys import Mean
from unpooled import partition
from unpooled.data.parties import Parties
from unpooled.errors import InputError, PolicyRefusal, ProtocolError
from unpooled.messages.message import Ask, Reply, Summary
from unpooled.privacy.ledger import Ledger
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Deployment, Policy
from unpooled.protocols.prepare.moments import Moments
from unpooled.protocols.star.base import Coordinator, StarProtocol, Step
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.fuzzy import FuzzyCMeans
from unpooled.protocols.star.kfed import KFED
from unpooled.protocols.star.matched import MatchedAveraging
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.protocols.star.shared.drawn_starts import DrawnStarts
from unpooled.runtime.party import PartyRuntime
from unpooled.simulate import Options, run_star
from unpooled.testing.wrapping import StarAround
from unpooled.types import Body

DIGITS, CLASSES = load_digits(return_X_y=True)
START = DIGITS[:10] + 0.01  # what a coordinator would send that wants rows

PROTOCOLS = {
    "feca": FeCA(10, 10),
    "feca, literal, many local clusters": FeCA(10, 25, merge=False, n_init=1),
    "k-fed": KFED(10, 10),
    "matched averaging": MatchedAveraging(10),
    "fuzzy, average": FuzzyCMeans(10, merge="average", local_steps=1, fuzzifier=1.1),
    "fuzzy, k-means": FuzzyCMeans(10, fuzzifier=1.05, max_rounds=5),
    "one-shot": OneShotKMeans(10, 25),
    "one-shot, refined": OneShotKMeans(10, 10, refine=True),
    "federated": FederatedKMeans(OneShotKMeans(10, 10), tol=0.0, max_rounds=24),
    "federated, given start": FederatedKMeans(START, tol=0.0, max_rounds=24),
    "federated, drawn starts": FederatedKMeans(DrawnStarts(3, "random", 2), max_rounds=4),
    "moments": Moments(),
    "coreset": CoresetKMeans(10, 100),
    **tables.attackable(DIGITS.shape[1]),
}


def digits(alpha: float | None) -> Parties:
    groups = (
        partition.iid(len(DIGITS), n_parties=10, random_state=0)
        if alpha is None
        else partition.dirichlet(CLASSES, n_parties=10, alpha=alpha, random_state=0)
    )
    return Parties.of([DIGITS[groups == i] for i in range(10)])


def recovered(protocol: StarProtocol, parties: Parties, policy: Policy) -> int:
    """How many rows the attacker finds exactly."""
    heard: dict[str, list[Body]] = {name: [] for name in parties.names}

    def listen(who: str, message: object) -> None:
        if isinstance(message, Reply):
            heard[who].append(message.body)

    with suppress(PolicyRefusal):  # what left before counts all the same
        run_star(protocol, parties, seed=1, options=Options(policy=policy, watch=listen))
    found = 0
    for i, name in enumerate(parties.names):
        guesses = np.concatenate([np.empty((0, parties.n_features)), *attack(heard[name])])
        if len(guesses):
            distance, _ = cKDTree(guesses).query(parties[i].rows)
            found += int((distance < 1e-6).sum())
    return found


def attack(bodies: list[Body]) -> list[np.ndarray]:
    """Everything that might be a row."""
    guesses, rounds = [], []
    for body in bodies:
        for name in ("centroids", "centers", "mean", "rows", "points"):
            if name in body:
                guesses.append(np.atleast_2d(body[name]))
        counted = sums_and_counts(body)
        if counted is not None:
            rounds.append(with_unions(*counted))
            guesses.append(quotients(*rounds[-1]))
    for (a, n), (b, m) in combinations(rounds, 2):
        if len(a) == len(b):
            guesses.append(quotients(a - b, n - m))
        else:
            for k in range(len(a)):
                guesses.append(quotients(a[k] - b, n[k] - m))
    return guesses


def sums_and_counts(body: Body) -> tuple[np.ndarray, np.ndarray] | None:
    if "sums" in body:
        counts = body["counts"] if "counts" in body else body["weight"]
        return np.atleast_2d(body["sums"]), counts
    for means, counts in (("centroids", "counts"), ("centers", "support"), ("mean", "weight")):
        if means in body and counts in body:
            return np.atleast_2d(body[means]) * body[counts][:, None], body[counts]
    return None


def with_unions(sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums, those of pairs, of all but one, and of all."""
    pairs = list(combinations(range(len(sums)), 2))
    left, right = (np.array([pair[side] for pair in pairs], dtype=int) for side in (0, 1))
    total, count = sums.sum(axis=0), counts.sum()
    return (
        np.vstack([sums, sums[left] + sums[right], total - sums, total[None]]),
        np.concatenate([counts, counts[left] + counts[right], count - counts, [count]]),
    )


def quotients(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    some = np.abs(counts) > 1e-9
    return sums[some] / np.broadcast_to(counts, len(sums))[some, None]


@pytest.mark.parametrize(
    "alpha", [pytest.param(None, marks=pytest.mark.long), 0.3], ids=["iid", "Dirichlet"]
)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_row_is_recovered_under_deployment(name: str, alpha: float | None) -> None:
    assert recovered(PROTOCOLS[name], digits(alpha), DEPLOYMENT) == 0


def test_the_attack_works_where_nothing_stops_it() -> None:
    """Otherwise the test above could not fail; it is why `study` stays inside one process."""
    parties = digits(None)
    assert recovered(PROTOCOLS["federated, given start"], parties, STUDY) > 100
    assert recovered(PROTOCOLS["federated"], parties, STUDY) > 10
    assert recovered(PROTOCOLS["one-shot"], parties, STUDY) > 0
    assert recovered(PROTOCOLS["one-shot, refined"], parties, STUDY) > 0
    assert recovered(PROTOCOLS["feca, literal, many local clusters"], parties, STUDY) > 0
    assert recovered(PROTOCOLS["coreset"], parties, STUDY) > 50


@dataclass(frozen=True)
class Nosy(StarAround):
    """A coordinator that asks whatever it likes, again and again, about centres of its own."""

    rows: np.ndarray
    said: dict[str, Summary] = field(default_factory=dict)

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        for number in range(12):
            for ask in self.inner.asks:
                centers = rng.choice(self.rows, 4) + rng.normal(size=(4, self.rows.shape[1]))
                if number % 3 == 2:
                    centers[1:] += 1e3  # one centre gets everything
                body = {"centers": centers} if "centers" in ask.fields else {}
                yield Ask(ask.kind, body, number, quorum=0)
        return {}

    @property
    def steps(self) -> dict[str, Step]:
        return {kind: partial(self._overheard, step) for kind, step in self.inner.steps.items()}

    def _overheard(self, step: Step, data, state, body, rng):  # type: ignore[no-untyped-def]
        said, state = step(data, state, body, rng)
        self.said[data.name] = said
        return said, state


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "coreset"])
def test_a_coordinator_that_asks_what_it_likes_learns_no_more(name: str) -> None:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(n, 3)) * 3 for n in (61, 25, 12, 9)]
    tables[0][:1] += 50.0  # one row by itself
    parties = Parties.of(tables)
    nosy = Nosy(PROTOCOLS[name], parties.rows)
    left: dict[str, list[tuple[Body, np.ndarray]]] = {party: [] for party in parties.names}

    def listen(who: str, message: object) -> None:
        if isinstance(message, Reply):
            left[who].append((message.body, nosy.said[who].row_groups))

    run_star(nosy, parties, options=Options(policy=DEPLOYMENT, watch=listen))
    assert left["0"]
    for i, party in enumerate(parties.names):
        rows, indicators = parties[i].rows, [np.zeros(len(parties[i].rows))]
        for body, row_groups in left[party]:
            groups = [row_groups == k for k in range(int(row_groups.max()) + 1)]
            indicators += groups
            counted = sums_and_counts(body)
            if counted is not None and "support" not in body:  # it says which rows it is about
                expected = np.array([rows[group].sum(axis=0) for group in groups]).reshape(-1, 3)
                np.testing.assert_allclose(counted[0][: len(groups)], expected, atol=1e-9)
                assert counted[1][: len(groups)] == pytest.approx([g.sum() for g in groups])
        # No sum or difference of any of it, nor of it and the total, is about fewer than ten rows.
        known = np.array(indicators, dtype=int)
        if known.any():
            _, atoms = np.unique(known, axis=1, return_inverse=True)
            assert np.bincount(atoms.ravel()).min() >= 10


def test_a_minimum_of_three_already_stops_single_rows() -> None:
    policy = Deployment(min_count=3)
    assert recovered(PROTOCOLS["federated, given start"], digits(None), policy) == 0


def test_a_protocol_that_does_not_say_what_is_behind_its_sums_is_refused() -> None:
    with pytest.raises(
        PolicyRefusal, match="does not send 'sums' of round 0, which would tell fewer"
    ):
        run_star(Mean(), Parties.of([DIGITS[:, 2:4]]), options=Options(policy=DEPLOYMENT))


def test_caps_end_a_run() -> None:
    parties = digits(None)
    rounds = Options(policy=Deployment(max_rounds=1))
    with pytest.raises(PolicyRefusal, match="has sent in 1 rounds, which is its cap"):
        run_star(PROTOCOLS["federated, given start"], parties, options=rounds)
    floats = Options(policy=Deployment(max_floats=1_000))
    with pytest.raises(PolicyRefusal, match="over its cap of 1000"):
        run_star(PROTOCOLS["federated, given start"], parties, options=floats)


def test_what_was_held_back_is_in_the_ledger_and_costs_little() -> None:
    parties = digits(None)
    study = run_star(PROTOCOLS["federated"], parties, seed=1)
    strict = run_star(PROTOCOLS["federated"], parties, seed=1, options=Options(policy=DEPLOYMENT))
    assert not study.remarks
    words = " ".join(remark.text for remarks in strict.remarks.values() for remark in remarks)
    assert "clusters held back: too few rows" in words
    assert "too few to move alone" in words
    costs = [
        np.square(DIGITS[:, None] - run.result["centers"]).sum(axis=2).min(axis=1).sum()
        for run in (study, strict)
    ]
    assert costs[1] < 1.05 * costs[0]


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
@pytest.mark.parametrize("name", ["federated, given start", "fuzzy, average"])
def test_questions_that_make_no_sense_are_refused_without_a_value(name: str, body: Body) -> None:
    site = PartyRuntime(PROTOCOLS[name], digits(None)[0], (0, 0), DEPLOYMENT)
    kind = "sums" if name.startswith("federated") else "centers"
    words = (
        rf"^Party 0 cannot answer '{kind}' of round 0: the question does not fit its rows or what "
        r"was asked before \(\w+\)\.$"
    )
    with pytest.raises(ProtocolError, match=words):
        site.answer(Ask(kind, body), 0)


def test_numbers_about_no_row_do_not_leave() -> None:
    rows = DIGITS[:50]
    ledger = Ledger(("A",), Moments().releases, DEPLOYMENT, np.ones(50))
    nothing = np.full(50, -1)
    once = np.ones(1, dtype=np.int64)
    zeros = {"weight": np.zeros(1), "sums": np.zeros(64), "squares": np.zeros(64)}
    assert ledger.send(Reply("moments", zeros), once, 0, nothing) is not None
    lying = {**zeros, "sums": rows[0]}
    with pytest.raises(PolicyRefusal, match="which would tell fewer rows apart"):
        ledger.send(Reply("moments", lying, 1), once, 1, nothing)
