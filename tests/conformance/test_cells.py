"""Whatever leaves in a run of any protocol under deployment follows from the parties' cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cells import assert_only_cells_leave, no_row_among
from tests.conformance.test_protocols import TABLE
from tests.conformance.test_shapes import parties
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.protocols.mesh.base import MeshProtocol


def large_enough() -> Parties:
    """The parties that have cells, without rows that coincide."""
    every = parties().select(np.array([0, 2, 3, 5]))
    noise = np.random.default_rng(0).normal(scale=0.01, size=every.rows.shape)
    offsets, names = every.offsets, every.names
    tables = np.split(every.rows + np.abs(noise), offsets[1:-1])
    return Parties.of(tables, weights=np.split(every.weights, offsets[1:-1]), names=names)


@pytest.mark.parametrize("name", TABLE)
def test_only_cells_leave(name: str) -> None:
    """Message for message and bit for bit, asks included; and no line of them is a row."""
    own, protocol = large_enough(), TABLE[name]
    options: dict[str, Any] = {}
    if isinstance(protocol, MeshProtocol):
        options = {"topology": topology("ring", own.names), "blocks": len(own)}
    said = assert_only_cells_leave(protocol, own, **options)
    no_row_among(said, own)
