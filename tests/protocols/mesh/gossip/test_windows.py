"""All users decide to stop in the same exchange, however short a cycle is."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from tests.graphs.test_topology import connected
from tests.protocols.mesh.gossip.problems import (
    K,
    at_rest,
    run,
)
from tests.protocols.mesh.parts import blobs, network, run_part
from unpooled.data.parties import Parties
from unpooled.messages.message import Post
from unpooled.messages.release import Release
from unpooled.privacy.policy import STUDY
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.protocols.mesh.gossip.averaging import PolynomialGossip
from unpooled.protocols.mesh.gossip.windows import ResidualWindows
from unpooled.protocols.mesh.shared.stopping import RESIDUAL
from unpooled.types import Body


@given(
    connected(),
    st.integers(1, 4),
    st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0]), min_size=1, max_size=40),
    st.integers(0, 1000),
)
@settings(max_examples=30)
def test_all_users_decide_alike_however_short_a_cycle_is(
    graph: nx.Graph, length: int, spikes: list[float], seed: int
) -> None:
    """Residuals of single users in single cycles, and windows of several cycles."""
    m, reach = graph.number_of_nodes(), nx.diameter(graph)
    per_window = max(1, -(-reach // length))
    n_cycles = 60 + 3 * per_window
    rng = np.random.default_rng(seed)
    residual = np.zeros((n_cycles, m))
    for cycle, spike in enumerate(spikes):
        residual[cycle, rng.integers(m)] = spike

    def does(block: Block) -> Peer[Body]:
        own, n = residual[:, block.neighbourhood.users], len(block)
        windows, running = ResidualWindows(n), np.ones(n, dtype=bool)
        stopped = np.full(n, -1)
        for t in range(n_cycles * length):
            cycle, step = divmod(t, length)
            if step == 0:
                windows.begin_cycle(running, own[cycle], opens=cycle % per_window == 0)
            heard = yield Post("residual", t, {RESIDUAL: windows.largest}, senders=running)
            windows.receive(heard, np.zeros(n, dtype=bool))
            if step == length - 1 and (cycle + 1) % per_window == 0:
                stops = running & (windows.largest <= 0.5)
                stopped[stops] = t
                running = running & ~stops
            if not running.any():
                break
        return {"stopped": stopped}

    release = Release("residual", (RESIDUAL,), ("model",), "residual", bounds={RESIDUAL: np.inf})
    expected = -1
    for first in range(0, n_cycles, per_window):
        since = first - per_window + 1 if first else 0
        if residual[max(0, since) : first + 1].max() <= 0.5 and first + per_window <= n_cycles:
            expected = (first + per_window) * length - 1
            break
    for blocks in (1, m):
        found = run_part(does, [release], graph, blocks=blocks).result["stopped"]
        assert found.tolist() == [expected] * m


@pytest.mark.parametrize(
    "graph",
    [nx.path_graph(12), nx.cycle_graph(11), nx.barbell_graph(3, 5), nx.star_graph(8)],
    ids=["path", "ring", "barbell", "star"],
)
@pytest.mark.parametrize("options", [{}, {"topology": "private"}, {"averaging": "tree"}], ids=str)
def test_all_users_stop_in_the_same_round(graph: nx.Graph, options: dict[str, Any]) -> None:
    m = graph.number_of_nodes()
    tables = blobs((6,) * m, 3, apart=4.0)
    for init in (None, np.concatenate(tables)[::20][:K]):
        found = run(GossipKMeans(K, init, n_init=1, tol=1e-7, **options), tables, graph, blocks=2)
        assert len(set(found.result["rounds"].tolist())) == 1
        at_rest(found, tables, atol=1e-6)


def test_cycles_may_be_shorter_than_the_way_across() -> None:
    """The test above has such a case: after a fault, or where nothing is known of the graph."""
    parties = Parties.of([np.zeros((1, 1))] * 11)
    block = Block.of(parties, network("ring", 11), np.arange(11), 0, STUDY)
    gossip = PolynomialGossip.after_faults(block, "sums")
    assert gossip.length < gossip.window
