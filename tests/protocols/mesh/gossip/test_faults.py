"""Users and links that fail, late users, lost messages, and messages that make no sense."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from tests.protocols.mesh.gossip.problems import (
    FIXED,
    ROBUST,
    K,
    M,
    at_rest,
    problem,
    run,
)
from tests.protocols.mesh.parts import graph_of
from unpooled.messages.message import Note, Post
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.runtime.run import Run
from unpooled.simulate.faults import Fault, LinkLost, MessagesLost, UserDown
from unpooled.types import Body


def test_lost_messages_cost_time_only() -> None:
    tables, _, _ = problem(0)
    graph = graph_of(M, 3)
    for protocol in (GossipKMeans(K, n_init=1), GossipKMeans(K, n_init=1, averaging="tree")):
        plain = run(protocol, tables, graph)
        elapsed = [plain.elapsed]
        for rate in (0.05, 0.3):
            lossy = run(protocol, tables, graph, faults=[MessagesLost(rate, seed=1)], blocks=2)
            for name, value in plain.result.items():
                assert np.array_equal(value, lossy.result[name])
            elapsed.append(lossy.elapsed)
            # The last of a user's messages is there after a few more slots than one.
            longest = np.log(4 * len(graph.edges)) / -np.log(rate) + 2
            assert lossy.elapsed <= longest * plain.elapsed
        assert plain.elapsed < elapsed[1] < elapsed[2]


def sturdy() -> nx.Graph:
    """A ring with chords, which stays connected without any two users."""
    graph = nx.cycle_graph(M)
    graph.add_edges_from([(i, (i + 3) % M) for i in range(M)])
    return graph


SHORT = {"n_init": 1, "max_rounds": 60, "tol": 1e-8}
GIVEN = [{}, {"averaging": "tree"}, {"topology": "private"}]
FOUND = GIVEN[:2]
START = 3 * nx.diameter(sturdy()) + 1
some_seeds = pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, *range(2, 10)))]
)


class Case:
    """A run with faults at a share of how long it would have been without any."""

    def __init__(self, seed: int, *, given: bool = True, graph: nx.Graph | str | None = None):
        self.tables, _, start = problem(seed)
        ways = GIVEN if given else FOUND
        self.graph = sturdy() if graph is None else graph
        init = start if given else None
        self.protocol = GossipKMeans(K, init, **SHORT, **ways[seed % len(ways)])
        self.seed, self.start = seed, 0 if given else START
        self.length = self.run().traffic.rounds

    def run(self, *faults: Fault) -> Run:
        return run(self.protocol, self.tables, self.graph, faults=faults, seed=self.seed)

    def at(self, share: float) -> int:
        """Before all have decided: shares up to 1/2."""
        return self.start + int(share * (self.length - self.start))


@some_seeds
@pytest.mark.parametrize("given", [True, False])
def test_the_rows_of_a_user_that_is_gone_leave_the_mean(seed: int, given: bool) -> None:
    case, who = Case(seed, given=given), seed % M
    found = case.run(UserDown(who, case.at(0.05 * seed)))
    at_rest(found, case.tables, set(range(M)) - {who}, atol=1e-7)
    assert found.result["running"][who]


@some_seeds
@pytest.mark.parametrize("given", [True, False])
def test_when_it_returns_they_count_again(seed: int, given: bool) -> None:
    case, who = Case(seed, given=given), (3 * seed + 1) % M
    since = case.at(0.05 * seed)
    found = case.run(UserDown(who, since, since + 1 + seed // 2))
    at_rest(found, case.tables, atol=1e-7)


@some_seeds
@pytest.mark.parametrize("given", [True, False])
def test_a_late_joiner_counts_as_well(seed: int, given: bool) -> None:
    case, who = Case(seed, given=given), seed % M
    found = case.run(UserDown(who, 0, 1 + case.at(0.05 * seed)))
    at_rest(found, case.tables, atol=1e-7)


@some_seeds
def test_the_root_may_go_down_during_the_start(seed: int) -> None:
    case = Case(seed, given=False)
    found = case.run(UserDown(0, seed % START))
    at_rest(found, case.tables, range(1, M), atol=1e-7)


@some_seeds
def test_a_link_may_be_lost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = sorted(sturdy().edges)[int(rng.integers(2 * M))]
    for case in (Case(seed), Case(seed, given=False)):
        since = int(rng.integers(1 + case.at(0.5)))
        for until in (None, since + 3):
            at_rest(case.run(LinkLost(a, b, since, until)), case.tables, atol=1e-7)


@some_seeds
def test_two_may_crash(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = rng.choice(M, 2, replace=False).tolist()
    for case in (Case(seed), Case(seed, given=False)):
        first, second = rng.integers(1 + case.at(0.5), size=2).tolist()
        found = case.run(UserDown(one, first), UserDown(two, second))
        at_rest(found, case.tables, set(range(M)) - {one, two}, atol=1e-7)


@some_seeds
def test_a_user_that_returns_after_the_others_have_terminated_takes_their_centres(
    seed: int,
) -> None:
    case, who = Case(seed), (seed + 2) % M
    others = [i for i in range(M) if i != who]
    since = case.at(0.05 * seed)
    gone = case.run(UserDown(who, since))
    found = case.run(UserDown(who, since, gone.traffic.rounds + 5))
    expected = at_rest(found, case.tables, others, atol=1e-7)
    np.testing.assert_array_equal(found.result["centers"][others], gone.result["centers"][others])
    np.testing.assert_allclose(found.result["centers"][who], expected, atol=1e-7)
    assert not found.result["running"].any()


@some_seeds
def test_a_ring_that_has_become_a_path(seed: int) -> None:
    """There the way between two users is longer than the plan's graph says."""
    case, who = Case(seed, given=seed % 2 == 1, graph="ring"), (5 * seed) % M
    for since in (0, case.at(0.1 * (seed % 5))):
        found = case.run(UserDown(who, since))
        at_rest(found, case.tables, set(range(M)) - {who}, atol=1e-7)


@pytest.mark.parametrize("name", ["huber", "generalised kl"])
def test_faults_with_other_losses(name: str) -> None:
    loss = (FIXED | ROBUST)[name]
    tables, _, init = problem(1)
    protocol = GossipKMeans(K, init, loss=loss, max_rounds=100, tol=1e-10)
    found = run(protocol, tables, sturdy(), faults=[UserDown(2, 5), UserDown(4, 9, 14)])
    at_rest(found, tables, set(range(M)) - {2}, loss=loss, atol=1e-7)


def test_rows_do_not_go_to_and_fro_forever() -> None:
    """While means are not exact a row may change cluster, rest, and change back, again and again;
    on a star, by a polynomial that knows nothing of it, users never came to rest."""
    for seed in (0, 1, 4, 12):
        tables, weights, init = problem(seed)
        protocol = GossipKMeans(K, init, topology="private", max_rounds=200)
        found = run(protocol, tables, "star", weights=weights)
        at_rest(found, tables, weights=weights, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_any_few_faults(seed: int) -> None:
    """Whoever is there at the end agrees, on a Lloyd point of its rows unless all was over."""
    rng = np.random.default_rng(1000 + seed)
    for case in (Case(seed), Case(seed, given=False)):
        faults: list[Fault] = []
        gone = set()
        for who in rng.choice(M, rng.integers(1, 3), replace=False).tolist():
            since = int(rng.integers(case.length))
            until = since + int(rng.integers(1, 30)) if rng.random() < 0.5 else None
            faults.append(UserDown(who, since, until))
            gone |= {who} if until is None else set()
        found = case.run(*faults)
        centers = found.result["centers"][sorted(set(range(M)) - gone)]
        np.testing.assert_allclose(centers, centers[:1].repeat(len(centers), 0), atol=1e-6)
        if max(fault.since for fault in faults) <= case.at(0.5):  # type: ignore[union-attr]
            at_rest(found, case.tables, set(range(M)) - gone, atol=1e-6)


class Lying(GossipKMeans):
    """One user claims a late epoch, and later to have terminated, with sums that are none."""

    def peer(self, block: Block) -> Peer[Body]:
        peer = super().peer(block)
        post = next(peer)
        while True:
            if isinstance(post, Post) and post.kind == "sums" and post.round in (3, 12):
                body = {name: value.copy() for name, value in post.body.items()}
                liar = block.neighbourhood.users == 2
                body["epoch"][liar] = 10**15 if post.round == 3 else -1
                body["sums"][liar, :, -1] = 0.0
                post = Post(post.kind, post.round, body, post.senders, post.to)
            try:
                post = next(peer) if isinstance(post, Note) else peer.send((yield post))
            except StopIteration as end:
                result: Body = end.value
                return result


def test_messages_that_make_no_sense_are_ignored() -> None:
    tables, _, _ = problem(1)
    found = run(Lying(K, n_init=1, max_rounds=60), tables, "ring")
    at_rest(found, tables)
    assert not found.result["running"].any()
