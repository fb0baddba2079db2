"""A star along a spanning tree: the same result, and traffic counted edge by edge."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from tests.conformance.test_protocols import TABLE
from tests.conformance.toys import Mean
from tests.sentences import refuses
from unpooled.data.parties import Parties
from unpooled.errors import PolicyRefusal, QuorumLost
from unpooled.graphs.reading import topology
from unpooled.graphs.trees import SpanningTree
from unpooled.messages.codec import encode
from unpooled.messages.message import Ask, Message
from unpooled.privacy.policy import Policy, ReleaseRequest
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.simulate import Options, run_star
from unpooled.simulate.faults import LinkLost, UserDown
from unpooled.types import Body

ROWS = [np.random.default_rng(i).normal(size=(n, 2)) for i, n in enumerate((9, 5, 14, 6, 2, 7))]
PARTIES = Parties.of(ROWS)
STARS = {name: p for name, p in TABLE.items() if isinstance(p, StarProtocol)}
#     1
#   0   2
#       3
#     4   5
PARENTS = np.array([1, -1, 1, 2, 3, 3])
TREE = SpanningTree(PARENTS)


def graph_of(tree: SpanningTree) -> nx.Graph:
    return nx.Graph([(i, int(p)) for i, p in enumerate(tree.parents) if p >= 0])


def recount(protocol: StarProtocol, tree: SpanningTree) -> tuple[dict[str, Counter[int]], int]:
    """Every message over every edge of the tree, one by one."""
    said: list[tuple[str, Message]] = []
    run_star(protocol, PARTIES, options=Options(watch=lambda *heard: said.append(heard)))
    found = {"messages": Counter[int](), "bytes_up": Counter[int](), "bytes_down": Counter[int]()}
    questions = 0

    def over(sender: int, receiver: int, message: Message) -> None:
        found["messages"][sender] += 1
        found["bytes_up"][sender] += len(encode(message))
        found["bytes_down"][receiver] += len(encode(message))

    for who, message in said:
        if isinstance(message, Ask):
            questions += 1
            for child, parent in enumerate(tree.parents):
                if parent >= 0:
                    over(int(parent), child, message)
        else:
            path = nx.shortest_path(graph_of(tree), int(who), tree.root)
            for sender, receiver in pairwise(path):
                over(sender, receiver, message)
    return found, 2 * tree.height * questions


@pytest.mark.parametrize(
    ("protocol", "root"),
    [*((protocol, None) for protocol in STARS.values()), (Mean(), 0), (CoresetKMeans(2, 9), 4)],
    ids=[*STARS, "root at a leaf", "root at the bottom"],
)
def test_the_result_is_the_stars_and_every_edge_is_counted(
    protocol: StarProtocol, root: int | None
) -> None:
    tree = SpanningTree.of(topology(graph_of(TREE), PARTIES.names), root)
    star, along = run_star(protocol, PARTIES), run_star(protocol, PARTIES, tree=tree)
    assert star.result.keys() == along.result.keys()
    assert all(np.array_equal(star.result[name], along.result[name]) for name in star.result)
    counts, rounds = recount(protocol, tree)
    for column, expected in counts.items():
        assert along.traffic.table[column].tolist() == [expected[i] for i in range(6)]
    assert along.traffic.bytes_up == along.traffic.bytes_down
    assert along.traffic.floats_up == along.traffic.floats_down
    assert along.traffic.rounds == rounds


def test_by_hand() -> None:
    # Mean asks twice with 2 numbers, and every party answers with 4.
    traffic = run_star(Mean(), PARTIES, tree=TREE).traffic
    answers_up = np.array([1, 0, 4, 3, 1, 1])  # its own, and one for each party below; the root: 0
    answers_down = np.array([0, 5, 3, 2, 0, 0])
    asked, asking = np.array([1, 0, 1, 1, 1, 1]), np.array([0, 2, 1, 2, 0, 0])
    assert traffic.table["floats_up"].tolist() == (2 * (4 * answers_up + 2 * asking)).tolist()
    assert traffic.table["floats_down"].tolist() == (2 * (4 * answers_down + 2 * asked)).tolist()
    assert traffic.table["messages"].tolist() == (2 * (answers_up + asking)).tolist()
    assert traffic.rounds == 2 * (3 + 3)
    assert traffic.by_round["sums", 0]["messages"] == 5 + 10


def test_a_tree_that_is_a_star_sends_as_a_star_does() -> None:
    tree = SpanningTree.of(topology("star", PARTIES.names))
    star, along = run_star(Mean(), PARTIES).traffic, run_star(Mean(), PARTIES, tree=tree).traffic
    assert along.table["floats_up"][1:].tolist() == star.table["floats_up"][1:].tolist()
    assert along.table["floats_down"][1:].tolist() == star.table["floats_down"][1:].tolist()


def test_one_party_sends_nothing() -> None:
    alone = Parties.of(ROWS[:1])
    run = run_star(CoresetKMeans(2, 5), alone, tree=SpanningTree(np.array([-1])))
    star = run_star(CoresetKMeans(2, 5), alone)
    assert np.array_equal(run.result["centers"], star.result["centers"])
    assert (run.traffic.messages, run.traffic.rounds, run.traffic.bytes_down) == (0, 0, 0)


class Patient(Mean):
    """Makes do with three answers."""

    def coordinator(self, rng):  # type: ignore[no-untyped-def]
        replies = yield Ask("sums", {"shift": np.zeros(2)}, 0, quorum=3)
        return {"who": np.array([int(name) for name in replies])}


def test_a_party_that_is_down_cuts_off_those_below() -> None:
    down = Options(faults=(UserDown(3, 0),))
    run = run_star(Patient(), PARTIES, options=down, tree=TREE)
    assert run.result["who"].tolist() == [0, 1, 2]
    # Party 2 asks party 3 in vain; those below are neither asked nor answer.
    assert run.traffic.table["messages"].tolist() == [1, 2, 2, 0, 0, 0]
    assert run.traffic.table["floats_down"].tolist() == [2, 8, 2, 0, 0, 0]
    assert run.traffic.rounds == 2 + 1  # parties 0 and 2 answer in the same hop
    with pytest.raises(QuorumLost, match="3 of 6 parties answered"):
        run_star(Mean(), PARTIES, options=down, tree=TREE)
    with pytest.raises(QuorumLost, match="0 of 6 parties answered"):
        run_star(Patient(), PARTIES, options=Options(faults=(UserDown(1, 0),)), tree=TREE)


def test_a_lost_link_of_the_tree_cuts_off_too() -> None:
    for lost, who in ((LinkLost(3, 2, 0), [0, 1, 2]), (LinkLost(0, 5, 0), list(range(6)))):
        run = run_star(Patient(), PARTIES, options=Options(faults=(lost,)), tree=TREE)
        assert run.result["who"].tolist() == who


class Shy:
    """Keeps everything to itself."""

    def review(self, request: ReleaseRequest) -> Body | None:
        return None


class Refusing:
    """Lets nothing out, and says so."""

    def review(self, request: ReleaseRequest) -> Body | None:
        raise PolicyRefusal(f"Party {request.party} sends nothing.")


class Miser:
    """Lets out the party's own four numbers and not one more."""

    def review(self, request: ReleaseRequest) -> Body | None:
        assert request.total_floats <= 4
        return request.body


@pytest.mark.parametrize("policy", [Shy(), Refusing()])
def test_a_party_that_does_not_answer_passes_on_others_answers(policy: Policy) -> None:
    policies = {name: policy if name == "3" else Miser() for name in PARTIES.names}
    run = run_star(Patient(), PARTIES, options=Options(policy=policies), tree=TREE)
    assert run.result["who"].tolist() == [0, 1, 2, 4, 5]
    assert run.traffic.table["messages"].tolist() == [1, 2, 1 + 3, 2 + 2, 1, 1]


def test_the_root_is_asked_for_its_consent_too() -> None:
    policies = {name: Refusing() if name == "1" else Miser() for name in PARTIES.names}
    with pytest.raises(PolicyRefusal, match="Party 1 sends nothing"):
        run_star(Mean(), PARTIES, options=Options(policy=policies), tree=TREE)


@pytest.mark.bits
def test_threads_order_and_codec_change_nothing() -> None:
    plain = run_star(CoresetKMeans(3, 20), PARTIES, tree=TREE)
    backwards = Options(order=lambda n: range(n)[::-1])
    for how in (Options(threads=3), backwards, Options(through_codec=True)):
        other = run_star(CoresetKMeans(3, 20), PARTIES, tree=TREE, options=how)
        assert np.array_equal(plain.result["centers"], other.result["centers"])
        assert np.array_equal(plain.traffic.table, other.traffic.table)
        assert plain.traffic.rounds == other.traffic.rounds


def test_the_tree_must_span_the_parties() -> None:
    tree = SpanningTree(np.array([-1, 0]))
    refuses(
        lambda: run_star(Mean(), PARTIES, tree=tree), "The tree spans 2 parties but there are 6"
    )
