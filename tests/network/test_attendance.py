"""Who took part: nobody is overlooked, and nobody is waited for who has said that it will not come.

Between threads over a network in memory, then between programs over TLS.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest

from tests.network.hub import Hub
from tests.network.site import Authority, Site, hash_of, identity_of, mesh, star, tables, until
from tests.network.threads import Network
from unpooled.data.parties import Parties
from unpooled.deploy.plan_file import read_plan
from unpooled.errors import InputError, PartyLeft, QuorumLost, StateError
from unpooled.graphs.reading import topology
from unpooled.network.mesh import MeshPeer
from unpooled.network.refusal import difference
from unpooled.network.star_coordinator import StarCoordinator
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.star_party import StarParty
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.ledger_file import LEDGER, LedgerFile
from unpooled.network.timing import Timing
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans

NAMES = ("P1", "P2", "P3", "P4", "P5", "P6")
CORNERS = np.array([[1.0, 1.0], [4.0, 4.0], [8.0, 2.0]])
STAR = FederatedKMeans(OneShotKMeans(3, 3, n_init=1), max_rounds=3, tol=0.0)
MESH = DGC(InitialCenters(3, CORNERS), max_rounds=8, tol=0.0)
QUICK = Timing(1.0, 4.0)
PATIENT = Timing(60.0, 120.0)
AT_ONCE = 30.0
"""Seconds within which whoever need not wait has ended, also on a busy machine."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority.new(tmp_path_factory.mktemp("keys"))
    for name in (COORDINATOR, *NAMES):
        authority.admit(name)
    return authority


@pytest.fixture
def make(authority: Authority, tmp_path: Path) -> Iterator[Callable[..., Network]]:
    made = []

    def network(protocol: StarProtocol | MeshProtocol, **more: Any) -> Network:
        rng = np.random.default_rng(2)
        own = [CORNERS[np.arange(30) % 3] + rng.uniform(size=(30, 2)) for _ in NAMES]
        ring = topology("ring", NAMES) if isinstance(protocol, MeshProtocol) else None
        identities = {n: identity_of(authority.folder, n) for n in (COORDINATOR, *NAMES)}
        made.append(
            Network(
                tmp_path / "run",
                protocol,
                Parties.of(own, names=NAMES),
                Hub().wire,
                identities,
                ring,
                **{"plan": hash_of("plan"), "timing": PATIENT, **more},
            )
        )
        return made[-1]

    yield network
    for one in made:
        one.close()


def others(name: str) -> list[str]:
    return [other for other in NAMES if other != name]


def peer(network: Network, name: str) -> MeshPeer:
    role = network.roles[name]
    assert isinstance(role, MeshPeer)
    return role


def leaves(network: Network, name: str, why: str) -> None:
    """A party that cannot take part, as its program would."""
    state = network.state(name)
    node = network.node(name, state)
    node.leave(why)
    node.close()
    state.close()


# Peers


def test_one_who_never_came_is_known_to_all_in_the_end(make: Callable[..., Network]) -> None:
    network = make(MESH, timing=QUICK)
    network.start(*others("P3"))
    network.join(timeout=AT_ONCE)
    assert network.errors == {}
    for name in others("P3"):
        assert peer(network, name).members == tuple(others("P3")), name
        assert peer(network, name).membership.missing_since(2) == 0


def test_all_who_took_part_know_it(make: Callable[..., Network]) -> None:
    network = make(MESH)
    network.finish()
    for name in NAMES:
        assert peer(network, name).members == NAMES


def test_one_who_leaves_ends_the_run_where_all_are_needed(make: Callable[..., Network]) -> None:
    network = make(MESH, min_parties=6)
    network.start(*others("P3"))
    leaves(network, "P3", "its data cannot be used")
    network.join(timeout=AT_ONCE)
    for name in others("P3"):
        error = network.errors[name]
        assert isinstance(error, PartyLeft)
        assert str(error).startswith("P3 takes no part (its data cannot be used), so"), name


def test_one_who_leaves_is_not_waited_for_where_the_others_are_enough(
    make: Callable[..., Network],
) -> None:
    network = make(MESH, min_parties=5)
    network.start(*others("P3"))
    leaves(network, "P3", "its policy does not allow it")
    network.join(timeout=AT_ONCE)
    assert network.errors == {}
    for name in others("P3"):
        assert peer(network, name).members == tuple(others("P3"))
    assert peer(network, "P2").neighbours["P3"].left == "its policy does not allow it"


def test_a_peer_with_another_plan_ends_at_once_and_so_do_the_others(
    make: Callable[..., Network],
) -> None:
    network = make(MESH, min_parties=6)
    network.start(*others("P3"))
    network.plan = hash_of("another plan")
    network.start("P3")
    network.join(timeout=AT_ONCE)
    assert "has another plan than P3" in str(network.errors["P3"])
    for name in others("P3"):
        assert "P3 has another plan than P" in str(network.errors[name])


def test_accounts_outlive_a_process(make: Callable[..., Network]) -> None:
    """One that was killed while it parted knows who took part, though the others are gone."""
    network = make(MESH)
    network.finish()
    network.close()
    network.start("P1")
    network.join("P1", timeout=AT_ONCE)
    assert peer(network, "P1").members == NAMES


# A coordinator and its parties


@pytest.mark.parametrize("quorum", [None, 5])
def test_a_party_that_leaves_is_not_waited_for(
    make: Callable[..., Network], quorum: int | None
) -> None:
    network = make(STAR, quorum=quorum)
    network.start(COORDINATOR, *others("P3"))
    leaves(network, "P3", "its data cannot be used")
    network.join(timeout=AT_ONCE)
    if quorum is None:
        assert "P3 takes no part (its data cannot be used)" in str(network.errors[COORDINATOR])
        for name in others("P3"):
            assert isinstance(network.errors[name], QuorumLost)
            assert "P3 takes no part" in str(network.errors[name])
        return
    assert network.errors == {}
    coordinator = network.roles[COORDINATOR]
    assert isinstance(coordinator, StarCoordinator)
    assert coordinator.members == tuple(others("P3"))
    for name in others("P3"):
        role = network.roles[name]
        assert isinstance(role, StarParty)
        assert role.members == (0, 1, 3, 4, 5)


def test_a_party_that_comes_back_after_leaving_takes_part(make: Callable[..., Network]) -> None:
    network = make(STAR, quorum=5)
    network.start(COORDINATOR)
    coordinator = network.roles[COORDINATOR]
    assert isinstance(coordinator, StarCoordinator)
    leaves(network, "P3", "its data cannot be used")
    assert coordinator.left == {"P3": "its data cannot be used"}
    network.start("P3")
    assert until(lambda: not coordinator.left)
    network.start(*others("P3"))
    network.join(timeout=AT_ONCE)
    assert network.errors == {}
    assert coordinator.members == NAMES


def test_a_party_with_another_plan_and_the_coordinator_end_at_once(
    make: Callable[..., Network],
) -> None:
    network = make(STAR)
    network.start(COORDINATOR, *others("P3"))
    network.plan = hash_of("another plan")
    network.start("P3")
    network.join(timeout=AT_ONCE)
    assert isinstance(network.errors["P3"], InputError)
    assert "coordinator has another plan than P3" in str(network.errors["P3"])
    assert "P3 has another plan than coordinator" in str(network.errors[COORDINATOR])


def test_a_second_program_under_a_name_is_told_so(make: Callable[..., Network]) -> None:
    network = make(STAR)
    network.start(COORDINATOR, "P1")
    first = network.roles["P1"]
    assert until(lambda: first.node.up(COORDINATOR))
    copy = replace(network, folder=network.folder.with_name("copy"), _threads={}, errors={})
    copy.start("P1")
    copy.join(timeout=AT_ONCE)
    assert isinstance(copy.errors["P1"], StateError)
    assert "another process of P1" in str(copy.errors["P1"])
    network.start(*others("P1"))
    network.join(timeout=AT_ONCE)
    assert network.errors == {}
    copy.close()


def test_no_answer_leaves_whose_memory_is_not_on_disk(make: Callable[..., Network]) -> None:
    network = make(STAR)
    party = network.role("P1")
    network.roles["P1"] = party
    (network.folder / "P1" / "memory").mkdir()  # nothing can be written there
    assert isinstance(party, StarParty)
    sent: list[str] = []
    send = party.node.send

    def watched(name: str, message: Any, exchange: int) -> bool:
        sent.append(message.kind if not isinstance(message, bytes) else "an answer")
        return send(name, message, exchange)

    party.node.send = watched  # type: ignore[method-assign]
    network.start(COORDINATOR)
    with pytest.raises(IsADirectoryError):
        party.run()
    assert "an answer" not in sent
    assert "_ready" in sent
    party.close()
    party.node.leave("it cannot go on")
    party.node.close()
    network.join(timeout=AT_ONCE)


def test_what_plans_differ_in_is_named() -> None:
    ours = {"parameters.n_clusters": "3", "seed": "0", "method": '"DGC"'}
    theirs = {"parameters.n_clusters": "4", "method": '"DGC"', "\x1b[2Jseed": "1"}
    said = difference(ours, theirs)
    assert "parameters.n_clusters (3 here, 4 there)" in said
    assert "seed (0 here, nothing there)" in said
    assert "method" not in said
    assert "\x1b" not in said
    assert "and 3 more" in difference({}, {f"key{i}": "1" for i in range(8)})


def test_only_the_other_side_can_send_a_process_home(
    make: Callable[..., Network], authority: Authority
) -> None:
    """A refusal counts if it is about this very greeting, and signed with the plan's key."""
    network = make(MESH)
    one, two = (network.node(name, network.state(name)) for name in ("P1", "P2"))
    link, other = one._links["P2"], two._links["P1"]
    other.plan = hash_of("another plan")
    link.tick(1.0)
    ((_, hello),) = link.outbox
    with pytest.raises(Exception, match="a plan whose hash"):
        other.receive(hello, 1.0)
    ((_, refusal),) = other.outbox
    found = link.receive(refusal, 1.0)
    assert found is not None
    assert "P2 has another plan than P1" in found.sentence  # type: ignore[union-attr]
    for end in range(len(refusal) - 200, len(refusal), 8):  # in the certificate and the signature
        changed = bytearray(refusal)
        changed[end] ^= 1
        with pytest.raises(Exception, match="P2 sent bytes of no use"):
            link.receive(bytes(changed), 1.0)
    later = network.node("P1", network.state("P5"))  # whatever process, its greeting is new
    assert later._links["P2"].receive(refusal, 1.0) is None
    for node in (one, two, later):
        node.close()


# Programs


def wait(site: Site, *names: str) -> dict[str, int]:
    """How these programs ended."""
    end = monotonic() + 120
    codes = {}
    for name in names:
        try:
            codes[name] = site.programs[name].process.wait(max(0.1, end - monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} has not ended.\n{site.said}") from None
    return codes


def test_programs_of_a_ring_say_who_was_not_there(authority: Authority, tmp_path: Path) -> None:
    data = tables(NAMES[:4])
    content = {"method": "GossipKMeans", "parameters": {"n_clusters": 3}}
    with mesh(
        tmp_path / "ring", authority, data, round_timeout=1.0, patience=8.0, **content
    ) as site:
        for name in ("P1", "P2", "P4"):
            site.start(name)
        assert set(wait(site, "P1", "P2", "P4").values()) == {3}, site.said
        for name in ("P1", "P2", "P4"):
            program = site.programs[name]
            manifest = program.manifest()
            assert manifest["took_part"] == ["P1", "P2", "P4"]
            assert manifest["missing"] == ["P3"]
            assert not manifest["complete"]
            assert "P3 was never heard" in program.warnings
            assert len(program.labels()) == len(data[name])
            sentence = program.stderr.read_text()
            assert sentence.startswith("unpooled: The result is written, but only 3 of 4")


def test_a_party_with_bad_rows_tells_the_others_without_its_values(
    authority: Authority, tmp_path: Path
) -> None:
    data = tables(NAMES[:3])
    data["P3"][7] = np.nan, 17.25
    content = {"method": "OneShotKMeans", "parameters": {"n_clusters": 3}}
    with star(tmp_path / "star", authority, data, patience=300, **content) as site:
        site.start_all()
        began = monotonic()
        codes = wait(site, COORDINATOR, *data)
        assert monotonic() - began < 100, site.said
        assert set(codes.values()) == {2}, site.said
        assert "P3" in site.programs["P3"].stderr.read_text()
        for name in (COORDINATOR, "P1", "P2"):
            said = site.programs[name].said
            assert "P3 takes no part (its data or options cannot be used)" in said
            assert "17.25" not in said
            assert "nan" not in said


def test_programs_whose_files_were_changed_say_so_and_end(
    authority: Authority, tmp_path: Path
) -> None:
    content = {"method": "OneShotKMeans", "parameters": {"n_clusters": 3}}
    with star(tmp_path / "star", authority, tables(NAMES[:3]), **content) as site:
        plan = read_plan(site.plan)
        for name in ("P1", COORDINATOR):
            state = StateDirectory(site.folder / f"{name}.run", plan.hash.hex(), name)
            lines = LedgerFile(state.path / LEDGER)
            lines.append({"exchange": 0, "kind": "centroids", "digest": "0" * 64})
            lines.close()
            state.close()
        ledger = state.path / LEDGER
        ledger.write_text(ledger.read_text().replace("centroids", "centres"))
        site.start("P1")  # its ledger has more than its memory, which is gone
        site.start(COORDINATOR)
        assert wait(site, COORDINATOR, "P1") == {COORDINATOR: 2, "P1": 2}
        assert "memory is damaged" in site.programs["P1"].stderr.read_text()
        assert "Line 1 of" in site.programs[COORDINATOR].stderr.read_text()
