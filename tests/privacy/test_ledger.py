"""The ledger is the only exit: declared, policed, counted."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.spatial.distance import cdist

from tests.cells import cells_of
from unpooled.data.parties import PartyData
from unpooled.errors import PolicyRefusal, ProtocolError, UndeclaredRelease
from unpooled.messages.codec import encode
from unpooled.messages.message import Post, Reply
from unpooled.messages.release import Release
from unpooled.privacy.ledger import Ledger
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Deployment, ReleaseRequest
from unpooled.privacy.traffic import Traffic
from unpooled.types import Body

SUMS = Release("sums", ("total", "count"), ("sums",), "sums of rows")
ROWS = Release("seeds", ("rows",), ("rows",), "rows as seeds")
NETWORK = Release("train", ("weights",), ("network-weights",), "a network trained on all rows")
ONCE = np.ones(1, dtype=np.int64)


def test_undeclared_kinds_and_fields_are_refused_and_not_counted() -> None:
    ledger = Ledger(("A",), [SUMS], STUDY)
    with pytest.raises(UndeclaredRelease, match="Party A wants to send 'labels'"):
        ledger.send(Reply("labels", {"total": np.zeros(2)}), ONCE, 0)
    with pytest.raises(UndeclaredRelease, match="field 'rows' in 'sums'"):
        ledger.send(Reply("sums", {"total": np.zeros(2), "rows": np.zeros((9, 2))}), ONCE, 0)
    assert ledger.entries == []


def test_the_policy_sees_every_release_before_it_leaves() -> None:
    seen: list[ReleaseRequest] = []

    class Curious:
        def review(self, request: ReleaseRequest) -> Body | None:
            seen.append(request)
            if request.round == 2:
                raise PolicyRefusal("Party A has had enough.")
            return request.body

    ledger = Ledger(("A",), [SUMS], Curious())
    for number in range(2):
        ledger.send(Reply("sums", {"total": np.zeros(3)}, number), ONCE, number)
    with pytest.raises(PolicyRefusal):
        ledger.send(Reply("sums", {"total": np.zeros(3)}, 2), ONCE, 2)
    assert [(e.party, e.total_floats, e.total_rounds) for e in seen] == [
        ("A", 3, 1),
        ("A", 6, 2),
        ("A", 9, 3),
    ]
    assert len(ledger.entries) == 2


def test_deployment_refuses_networks_and_kinds_not_allowed_and_keeps_its_caps() -> None:
    network = Reply("train", {"weights": np.eye(2)})
    with pytest.raises(PolicyRefusal, match=r"Party A does not send 'train' .*allow = .'network-w"):
        Ledger(("A",), [NETWORK], DEPLOYMENT).send(network, ONCE, 0)
    allowed = Ledger(("A",), [NETWORK], Deployment(allow=("network-weights",)))
    assert allowed.send(network, ONCE, 0) is not None
    with pytest.raises(
        PolicyRefusal, match=r"'sums' .*not among the kinds it allows .seeds.; have"
    ):
        Ledger(("A",), [SUMS], Deployment(kinds=("seeds",))).send(Reply("sums", {}), ONCE, 0)
    capped = Ledger(("A",), [SUMS], Deployment(max_rounds=1))
    capped.send(Reply("sums", {"count": np.zeros(1)}), ONCE, 0)
    with pytest.raises(PolicyRefusal, match="has sent in 1 rounds, which is its cap"):
        capped.send(Reply("sums", {"count": np.zeros(1)}), ONCE, 1)
    with pytest.raises(PolicyRefusal, match="would have sent 5 numbers, over its cap of 4"):
        Ledger(("A",), [SUMS], Deployment(max_floats=4)).send(
            Reply("sums", {"total": np.zeros(5)}), ONCE, 0
        )


def test_the_exit_lets_rows_pass_since_the_entrance_made_them_cells() -> None:
    rows = np.random.default_rng(0).normal(size=(57, 2))
    data = DEPLOYMENT.admitted(PartyData("A", rows, np.ones(57)))
    cells = cells_of(rows)
    assert np.array_equal(data.rows, cells.means)
    assert np.array_equal(data.weights, cells.weights)
    assert cdist(np.asarray(data.rows), rows).min() > 1e-9
    sent = Ledger(("A",), [ROWS], DEPLOYMENT).send(
        Reply("seeds", {"rows": np.asarray(data.rows)}), ONCE, 0
    )
    assert sent is not None
    assert DEPLOYMENT.admitted(data) is data  # what was admitted stays as it is


def test_under_study_rows_are_admitted_as_they_are() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 2))
    for policy in (STUDY, Deployment(min_count=1)):
        assert policy.admitted(PartyData("A", rows, np.ones(5))).rows is rows


def test_a_party_of_too_few_rows_is_admitted_without_any() -> None:
    data = DEPLOYMENT.admitted(PartyData("A", np.eye(9), np.ones(9)))
    assert data.rows.shape == (0, 9)
    assert data.remark.startswith("takes no part: its 9 rows do not make a cell of 10 persons")


def test_caps_are_per_user_and_count_every_receiver() -> None:
    ledger = Ledger(("A", "B"), [SUMS], Deployment(max_floats=40))
    post = Post("sums", 0, {"total": np.zeros((2, 4))})
    ledger.send(post, np.array([9, 1]), 0)
    ledger.send(post, np.array([1, 9]), 1)
    with pytest.raises(PolicyRefusal, match="would have sent 44 numbers"):
        ledger.send(post, np.array([1, 0]), 2)


def test_a_policy_may_change_or_withhold_what_leaves() -> None:
    class Rounding:
        def review(self, request: ReleaseRequest) -> Body | None:
            if request.round == 1:
                return None
            return {name: np.round(value) for name, value in request.body.items()}

    ledger = Ledger(("A",), [SUMS], Rounding())
    sent = ledger.send(Reply("sums", {"total": np.array([1.4])}, 0), ONCE, 0)
    assert sent is not None
    assert sent.body["total"].tolist() == [1.0]
    assert ledger.send(Reply("sums", {"total": np.array([1.4])}, 1), ONCE, 1) is None
    assert len(ledger.entries) == 1


def test_a_policy_cannot_add_what_was_not_declared() -> None:
    class Chatty:
        def review(self, request: ReleaseRequest) -> Body | None:
            return {**request.body, "secret": np.zeros(1)}

    with pytest.raises(ProtocolError, match="'secret' of 'sums' another form"):
        Ledger(("A",), [SUMS], Chatty()).send(Reply("sums", {}), ONCE, 0)


def test_a_release_discloses_some_of_five_things() -> None:
    for nothing in ((), ("everything",)):
        with pytest.raises(ValueError, match="must disclose some of"):
            Release("k", ("x",), nothing, "?")  # type: ignore[arg-type]


sizes = st.lists(st.integers(0, 6), min_size=1, max_size=5)


@given(sizes, st.integers(1, 4), st.integers(1, 3), st.data())
def test_counts_are_those_of_every_single_encoded_message(
    copies: list[int], width: int, n_rounds: int, data: st.DataObject
) -> None:
    n = len(copies)
    names = tuple(f"user{i}" for i in range(n))
    ledger = Ledger(names, [SUMS], STUDY)
    bytes_up = np.zeros(n, dtype=int)
    floats_up = np.zeros(n, dtype=int)
    for number in range(n_rounds):
        kind_width = data.draw(st.integers(1, 3))
        body = {"total": np.zeros((n, width, kind_width)), "count": np.zeros((n, 1), np.int32)}
        post = Post("sums", number, body)
        ledger.send(post, np.asarray(copies), number)
        single = Post("sums", number, {name: value[:1] for name, value in body.items()})
        bytes_up += len(encode(single)) * np.asarray(copies)
        floats_up += (width * kind_width + 1) * np.asarray(copies)
    traffic = Traffic.of(names, ((np.arange(n), entry) for entry in ledger.entries))
    assert traffic.table["bytes_up"].tolist() == bytes_up.tolist()
    assert traffic.table["floats_up"].tolist() == floats_up.tolist()
    assert traffic.bytes_up == bytes_up.sum() == traffic["bytes_up"]
    assert traffic.messages == n_rounds * sum(copies)
    assert traffic.rounds == (n_rounds if any(copies) else 0)
    by_kind = traffic.by_kind.get("sums", {"bytes_up": 0})
    assert by_kind["bytes_up"] == traffic.bytes_up
    assert sum(line["bytes_up"] for line in traffic.by_round.values()) == traffic.bytes_up


def test_traffic_reads_as_a_table_and_a_sentence() -> None:
    ledger = Ledger(("A", "B"), [SUMS], STUDY)
    ledger.send(Post("sums", 0, {"count": np.zeros((2, 1))}), np.array([1, 2]), 0)
    traffic = Traffic.of(("A", "B"), ((np.arange(2), entry) for entry in ledger.entries))
    assert traffic.table["party"].tolist() == ["A", "B"]
    assert "by_party" not in vars(traffic)  # made when asked for: there may be a million parties
    assert list(traffic.by_party) == ["A", "B"]
    assert traffic.by_party["B"] == traffic["by_party"]["B"]
    assert traffic.by_party["B"]["messages"] == 2
    sides = (traffic.by_kind["sums"], traffic.by_round["sums", 0])
    assert all(set(own) == set(traffic.by_party["A"]) for own in sides)
    assert "1 round, 3 messages, 3 numbers" in str(traffic)
    with pytest.raises(KeyError):
        traffic["nonsense"]
