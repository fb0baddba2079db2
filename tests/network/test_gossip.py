"""Eight peers in eight processes cluster digits over mutual TLS, in seconds."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import unpooled
from tests.network.site import Authority, Site, mesh
from unpooled import partition

SEED = 7
PEERS = [f"P{i}" for i in range(1, 9)]
COLUMNS = [f"pixel{i}" for i in range(64)]


@pytest.mark.long
def test_a_ring_of_eight_gives_what_one_process_gives_and_is_quick(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    groups = partition.dirichlet(y, n_parties=8, alpha=0.3, random_state=SEED)
    data = {name: X[groups == i] for i, name in enumerate(PEERS)}
    authority = Authority.new(tmp_path / "keys")
    with mesh(
        tmp_path / "site",
        authority,
        data,
        method="GossipKMeans",
        parameters={"n_clusters": 10},
        columns=COLUMNS,
        seed=SEED,
        round_timeout=60,
        patience=200,
    ) as site:
        site.start_all()
        expected = unpooled.GossipKMeans(10, policy="deployment", random_state=SEED).fit(data)
        site.finish()
    for i, name in enumerate(PEERS):
        peer = site.programs[name]
        np.testing.assert_array_equal(peer.model().cluster_centers_, expected.peer_centers_[i])
        np.testing.assert_array_equal(peer.labels(), expected.labels_[name])
        assert peer.manifest()["participation"]["not_heard"] == {}
        assert peer.stderr.read_text() == ""
    # Ten seconds on two idle cores; other work may be going on here.
    assert max(seconds(site, name) for name in PEERS) < 30


def seconds(site: Site, name: str) -> float:
    """From the end of a peer's first exchange to that of its last."""
    events = site.programs[name].events
    times = [datetime.fromisoformat(event["time"]) for event in events if event["event"] == "round"]
    return (times[-1] - times[0]).total_seconds()
