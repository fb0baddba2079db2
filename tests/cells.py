"""What a party with a minimum count is: its cells, as tests make them from its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.data.parties import Parties, PartyData
from unpooled.messages.message import Ask, Message
from unpooled.privacy.cells import Cells, make_cells
from unpooled.privacy.policy import Deployment, Policy, ReleaseRequest
from unpooled.protocols.star.base import StarProtocol
from unpooled.simulate import Options, run_mesh, run_star
from unpooled.types import Body


def cells_of(rows: np.ndarray, min_count: int = 10, weights: np.ndarray | None = None) -> Cells:
    """The cells of one table."""
    return make_cells(rows, np.ones(len(rows)) if weights is None else weights, min_count)


def in_cells(
    tables: Sequence[np.ndarray], min_count: int = 10, weights: Sequence[np.ndarray] | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The means of every table's cells, and what is in each."""
    own = [None] * len(tables) if weights is None else weights
    found = [cells_of(rows, min_count, w) for rows, w in zip(tables, own, strict=True)]
    return [cells.means for cells in found], [cells.weights for cells in found]


def as_cells(parties: Parties, min_count: int = 10) -> Parties:
    """The same parties, each with the means of its cells for rows."""
    own = [parties[i] for i in range(len(parties))]
    rows, weights = in_cells(
        [np.asarray(data.rows) for data in own], min_count, [data.weights for data in own]
    )
    return Parties.of(rows, weights=weights, names=parties.names)


@dataclass(frozen=True)
class OfCells(Policy):
    """Hands protocols the cells as tests make them, and lets everything pass."""

    min_persons: int = 10

    def admitted(self, data: PartyData, **_: Any) -> PartyData:
        """The means of cells, their weights, and the scatter within."""
        rows = np.asarray(data.rows)
        cells = make_cells(rows, data.weights, self.min_persons)
        numbers = {"rows": cells.means, "weights": cells.weights, "scatter": cells.scatter}
        return replace(data, **numbers, admitted=True)

    def admitted_parties(self, parties: Parties) -> tuple[Parties, dict[str, list[str]]]:
        """The same for the users of a mesh."""
        return as_cells(parties, self.min_persons), {}

    def review(self, request: ReleaseRequest) -> Body:
        """Everything may leave."""
        return request.body


def assert_only_cells_leave(protocol: Any, parties: Parties, **options: Any) -> list[Message]:
    """Whatever is sent in a run under deployment follows from the parties' cells; returns it."""
    found = []
    for policy in (Deployment(least_parties=1), OfCells()):
        said: list[Message] = []
        how = Options(policy=policy, watch=lambda who, message, said=said: said.append(message))
        if isinstance(protocol, StarProtocol):
            run_star(protocol, parties, seed=1, options=how, **options)
        else:
            run_mesh(protocol, parties, seed=1, options=how, **options)
        found.append(said)
    strict, expected = found
    assert len(strict) == len(expected) > 0
    for one, other in zip(strict, expected, strict=True):
        assert (one.kind, one.round, one.body.keys()) == (
            other.kind,
            other.round,
            other.body.keys(),
        )
        for name, value in one.body.items():
            assert np.array_equal(value, other.body[name])
    return strict


def no_row_among(said: Iterable[Message], parties: Parties) -> None:
    """No line of any array that was sent is a row of a party."""
    d = parties.n_features
    lines = [
        value.reshape(-1, d)
        for message in said
        if not isinstance(message, Ask)
        for value in message.body.values()
        if value.shape[-1:] == (d,)
    ]
    if lines:  # else nothing is as wide as a row
        assert cdist(np.concatenate(lines), parties.rows).min() > 1e-9
