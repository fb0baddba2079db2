"""Accounts of who was heard, passed from neighbour to neighbour."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.network.membership import HEARD, Membership, PeerReport


def ring(*gone: int, n: int = 6, since: int = 0) -> dict[int, PeerReport]:
    """Accounts on a ring where some were not heard from an exchange on."""
    return {
        i: PeerReport(9, {j: since if j in gone else HEARD for j in ((i - 1) % n, (i + 1) % n)})
        for i in range(n)
        if i not in gone
    }


def known(accounts: dict[int, PeerReport], n: int = 6) -> Membership:
    attendance = Membership(n)
    for peer, account in accounts.items():
        attendance.add(peer, account)
    return attendance


def test_one_who_was_never_there_is_known_to_all() -> None:
    attendance = known(ring(2))
    assert attendance.complete
    assert attendance.members(5) == {0, 1, 3, 4, 5}
    assert attendance.missing_since(2) == 0
    assert attendance.missing_since(5) is None


def test_one_who_left_halfway_is_not_a_member() -> None:
    attendance = known(ring(2, since=4))
    assert attendance.members(0) == {0, 1, 3, 4, 5}
    assert attendance.missing_since(2) == 4


def test_one_heard_by_nobody_but_back_at_the_end_is_alone() -> None:
    """Who comes back when the others have ended takes their centres: its rows are not in them."""
    attendance = known({**ring(2), 2: PeerReport(9, {1: HEARD, 3: HEARD})})
    assert attendance.members(0) == {0, 1, 3, 4, 5}
    assert attendance.members(2) == {2}


def test_a_cut_link_parts_nobody_who_is_joined_otherwise() -> None:
    accounts = ring()
    accounts[0] = PeerReport(9, {1: 3, 5: HEARD})
    accounts[1] = PeerReport(9, {0: 3, 2: HEARD})
    assert known(accounts).members(3) == set(range(6))


def test_it_is_complete_once_all_who_were_heard_have_spoken() -> None:
    accounts = ring()
    del accounts[4]
    attendance = known(accounts)
    assert not attendance.complete
    assert attendance.add_lines(np.array([[4, 9, 3, HEARD], [4, 9, 5, HEARD]]))
    assert attendance.complete
    assert not attendance.add_lines(np.array([[4, 9, 3, 7], [4, 9, 5, 7]])), "the first one stands"
    assert attendance.members(4) == set(range(6))


def test_a_peer_without_neighbours_gives_an_account_too() -> None:
    alone = known({0: PeerReport(3, {})}, n=1)
    other = Membership(1)
    assert other.add_lines(alone.lines)
    assert other.members(0) == {0}


@given(st.integers(2, 9), st.data())
def test_whoever_tells_whom_all_come_to_the_same(n: int, data: st.DataObject) -> None:
    """On any connected graph, accounts passed along its links until nothing is new."""
    tree = nx.random_labeled_tree(n, seed=data.draw(st.integers(0, 99)))
    gone = data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1))
    own = {
        i: PeerReport(5, {j: 0 if j in gone else HEARD for j in tree[i]})
        for i in tree
        if i not in gone
    }
    told = {i: known({i: account}, n) for i, account in own.items()}
    fresh = True
    while fresh:
        links = [(i, j) for i in own for j in tree[i] if j in own]
        fresh = sum(told[j].add_lines(told[i].lines) for i, j in links) > 0
    for part in nx.connected_components(tree.subgraph(own)):
        for i in part:
            assert told[i].complete
            assert told[i].members(i) == part


@pytest.mark.parametrize(
    "lines",
    [
        np.zeros((1, 3), dtype=np.int64),
        np.zeros((1, 4)),
        np.array([[6, 0, 0, 0]]),
        np.array([[0, 0, 6, 0]]),
        np.array([[-1, 0, 0, 0]]),
        np.array([[0, -2, 0, 0]]),
        np.zeros((37, 4), dtype=np.int64),
    ],
    ids=str,
)
def test_accounts_of_no_sense_are_refused(lines: np.ndarray) -> None:
    attendance = Membership(6)
    with pytest.raises(ValueError, match="accounts"):
        attendance.add_lines(lines)
    assert not attendance.peers
