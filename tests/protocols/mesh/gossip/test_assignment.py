"""Labels that users change or only compare, and rows that go to and fro."""

from __future__ import annotations

import numpy as np

from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.losses import SquaredEuclidean
from unpooled.privacy.policy import STUDY
from unpooled.protocols.mesh.base import Block
from unpooled.protocols.mesh.gossip.assignment import RowAssignment

BOTH = np.array([True, True])


def _assignment() -> RowAssignment:
    """Two users with rows at 0, 4 and 10 each."""
    rows = np.array([[0.0], [4.0], [10.0]])
    parties = Parties.of([rows, rows])
    graph = topology("path", parties.names)
    return RowAssignment(
        Block.of(parties, graph, np.arange(2), seed=0, policy=STUDY), SquaredEuclidean()
    )


def _centers(first: float) -> np.ndarray:
    """The second user's middle row always stays with the first centre."""
    return np.array([[[first], [10.0]], [[0.0], [10.0]]])


def test_a_row_that_goes_back_at_once_is_noticed() -> None:
    rows = _assignment()
    for first, returned in ((0, False), (-5, False), (0, True), (-5, True), (-5, False)):
        rows.update(BOTH, _centers(first), BOTH)
        assert rows.returned.tolist() == [returned, False], first
    # It stayed once, so it does not go back at once.
    rows.update(BOTH, _centers(0), BOTH)
    assert not rows.returned.any()
    assert rows.changed.tolist() == [1, 0]


def test_a_user_that_waits_moves_no_row() -> None:
    rows = _assignment()
    rows.update(BOTH, _centers(0), BOTH)
    before = rows.labels
    rows.update(BOTH, _centers(-5), ~BOTH)
    np.testing.assert_array_equal(rows.labels, before)
    assert rows.changed.tolist() == [1, 0]
    assert not rows.returned.any()
