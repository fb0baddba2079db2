"""Links that break, users that stop, users that return."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tests.conformance.toys import Mean
from tests.protocols.mesh.test_dgc import blobs
from unpooled.data.parties import Parties
from unpooled.errors import InputError, QuorumLost
from unpooled.graphs.reading import topology
from unpooled.messages.message import Ask
from unpooled.protocols.mesh.admm import ADMMKMeans
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.kar_swenson import KarSwenson
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import LinkLost, Options, UserDown, run_mesh, run_star

ROWS, CORNERS = blobs()
PARTIES = Parties.of(ROWS)
RING = topology("ring", PARTIES.names)
START = InitialCenters(3, CORNERS)
PROTOCOLS = {
    "dgc": DGC(START, max_rounds=5000, tol=1e-9),
    "kar-swenson": KarSwenson(START, max_rounds=5000, tol=1e-9),
    "admm": ADMMKMeans(START, max_rounds=5000, tol=1e-9),
}


def centers(protocol: MeshProtocol, *faults: LinkLost | UserDown, blocks: int = 1) -> np.ndarray:
    options = Options(faults=faults)
    return run_mesh(protocol, PARTIES, RING, blocks=blocks, options=options).result["centers"]


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize(
    "faults",
    [
        (LinkLost(0, 1, 10, 60),),
        (LinkLost(0, 1, 10, 60), LinkLost(2, 3, 30, 50)),
        (UserDown(2, 7, 80),),
        (UserDown(0, 20, 21), UserDown(3, 22, 60), LinkLost(1, 0, 5, 30)),
    ],
    ids=["one link", "ring cut in two", "one user", "several"],
)
def test_what_heals_leaves_no_trace(name: str, faults: tuple[LinkLost | UserDown, ...]) -> None:
    undisturbed = centers(PROTOCOLS[name])
    disturbed = centers(PROTOCOLS[name], *faults)
    np.testing.assert_allclose(disturbed, undisturbed, atol=1e-6)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_faults_are_the_same_however_users_are_hosted(name: str) -> None:
    faults = (UserDown(1, 3, 40), LinkLost(3, 4, 10, 25), UserDown(4, 30))
    options = Options(faults=faults)
    protocol = replace(PROTOCOLS[name], max_rounds=300)
    whole, *split = (
        run_mesh(protocol, PARTIES, RING, blocks=blocks, options=options) for blocks in (1, 2, 5)
    )
    for other in split:
        assert np.array_equal(whole.result["centers"], other.result["centers"])
        assert np.array_equal(whole.traffic.table, other.traffic.table)


def test_the_others_go_on_without_a_user_that_is_gone() -> None:
    kept = [0, 1, 3, 4]
    alone = Parties.of([ROWS[i] for i in kept])
    path = topology(np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0]]), alone.names)
    protocol = PROTOCOLS["dgc"]
    expected = run_mesh(protocol, alone, path).result
    run = run_mesh(protocol, PARTIES, RING, options=Options(faults=(UserDown(2, 30),)))
    np.testing.assert_allclose(run.result["centers"][kept], expected["centers"], atol=1e-6)
    assert len(set(run.result["rounds"][kept].tolist())) == 1
    assert run.result["rounds"][0] < 5000
    assert run.result["rounds"][2] == 30 - 2  # two exchanges went before the first round


def test_a_user_that_is_down_sends_hears_and_does_nothing() -> None:
    protocol = DGC(START, max_rounds=50, tol=0.0, step_size=0.05)
    run = run_mesh(protocol, PARTIES, RING, options=Options(faults=(UserDown(2, 10),)))
    stopped = run_mesh(DGC(START, max_rounds=10, tol=0.0, step_size=0.05), PARTIES, RING)
    assert np.array_equal(run.result["centers"][2], stopped.result["centers"][2])
    table = run.traffic.table
    each = table["bytes_up"][0] // 100  # 50 rounds, two neighbours
    assert table["bytes_up"].tolist() == [100 * each, 100 * each, 20 * each, 100 * each, 100 * each]
    assert table["bytes_down"].tolist() == [100 * each, 60 * each, 20 * each, 60 * each, 100 * each]


def test_messages_on_a_lost_link_were_sent_but_not_received() -> None:
    protocol = DGC(START, max_rounds=10, tol=0.0, step_size=0.05)
    table = run_mesh(
        protocol, PARTIES, RING, options=Options(faults=(LinkLost(0, 1, 0, 4),))
    ).traffic.table
    each = table["bytes_up"][0] // 20
    assert table["bytes_up"].tolist() == [20 * each] * 5
    assert table["bytes_down"].tolist() == [16 * each, 16 * each, *[20 * each] * 3]


def test_a_cut_network_goes_on_in_parts() -> None:
    protocol = DGC(START, max_rounds=5000, tol=1e-9)
    cut = (LinkLost(0, 1, 8), LinkLost(2, 3, 8))
    run = run_mesh(protocol, PARTIES, RING, options=Options(faults=cut))
    part = Parties.of([ROWS[1], ROWS[2]])
    expected = run_mesh(protocol, part, topology("path", part.names)).result["centers"]
    np.testing.assert_allclose(run.result["centers"][1:3], expected, atol=1e-6)


def test_a_star_goes_on_while_the_quorum_holds() -> None:
    class Patient(Mean):
        def coordinator(self, rng):  # type: ignore[no-untyped-def]
            replies = yield Ask("sums", {"shift": np.zeros(2)}, 0, quorum=3)
            total = sum(reply["total"] for reply in replies.values())
            return {"mean": total / sum(reply["count"] for reply in replies.values())}

    lost = Options(faults=(UserDown(0, 0), UserDown(3, 0)))
    run = run_star(Patient(), PARTIES, options=lost)
    there = np.concatenate([ROWS[i] for i in (1, 2, 4)])
    np.testing.assert_allclose(run.result["mean"], there.mean(axis=0))
    assert run.traffic.table["messages"].tolist() == [0, 1, 1, 0, 1]
    with pytest.raises(QuorumLost, match="3 of 5 parties answered 'sums' in round 0"):
        run_star(Mean(), PARTIES, options=lost)


def test_pooled_is_what_admm_without_faults_ends_in() -> None:
    """The reference the faults above are measured against is the right one."""
    lloyd = KMeans(3, init=CORNERS, n_init=1, tol=0).fit(np.concatenate(ROWS)).cluster_centers_
    np.testing.assert_allclose(centers(PROTOCOLS["admm"])[0], lloyd, atol=1e-6)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (UserDown(99, 0), "not among 0..4"),
        (UserDown(-1, 0), "not among 0..4"),
        (LinkLost(0, 5, 0), "not among 0..4"),
        (UserDown(1, 5, 5), "never in force"),
    ],
)
def test_faults_that_cannot_be_are_refused(fault: LinkLost | UserDown, words: str) -> None:
    with pytest.raises(InputError, match=words):
        centers(PROTOCOLS["dgc"], fault)


def test_a_star_has_no_links_to_lose() -> None:
    with pytest.raises(InputError, match="use UserDown"):
        run_star(Mean(), PARTIES, options=Options(faults=(LinkLost(0, 1, 0),)))


def test_a_user_in_isolation_goes_on_where_it_was() -> None:
    alone = topology(None, PARTIES.names)
    options = Options(faults=(UserDown(1, 2, 40),))
    expected = run_mesh(PROTOCOLS["dgc"], PARTIES, alone).result["centers"]
    found = run_mesh(PROTOCOLS["dgc"], PARTIES, alone, options=options).result["centers"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
