"""A peer that was not heard for long gets back into step with those who went on without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from tests.network.hub import Hub, Wire
from tests.network.threads import Network, nobody
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.network.mesh import MeshPeer
from unpooled.network.node import Arrived, Presence
from unpooled.network.timing import Timing
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import Options, run_mesh
from unpooled.simulate.replay import mesh_faults

NAMES = ("P1", "P2", "P3", "P4")
RING = topology("ring", NAMES)
ROUND_TIMEOUT, PATIENCE = 0.8, 2.4
"""Seconds: so many that an exchange never takes them by itself on a busy machine."""


class SlowHub(Hub):
    """Takes so many ``seconds`` from a sender to a receiver; what is ``mute`` carries nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[tuple[str, str], float] = {}
        self.mute: set[tuple[str, str]] = set()

    def wire(self, name: str) -> Wire:
        return SlowWire(self, name)

    def put(self, key: str, data: bytes) -> None:
        _, _, sender, receiver = key.split("/")
        if (sender, receiver) not in self.mute:
            super().put(key, data)


class SlowWire(Wire):
    """Hands on what has been on the way for long enough."""

    def __init__(self, hub: SlowHub, name: str) -> None:
        super().__init__(hub, name)
        self._seconds = hub.seconds
        self._on_the_way: list[tuple[float, int, Arrived | Presence]] = []
        self._count = 0

    def next(self, timeout: float, expected: str | None = None) -> Arrived | Presence | None:
        end = monotonic() + timeout
        while True:
            due = min(self._on_the_way)[0] if self._on_the_way else end
            if due <= monotonic() and self._on_the_way:
                first = min(self._on_the_way)
                self._on_the_way.remove(first)
                return first[2]
            arrived = super().next(min(due, end) - monotonic())
            if isinstance(arrived, Arrived):
                _, _, sender, receiver = arrived.key.split("/")
                due = monotonic() + self._seconds.get((sender, receiver), 0.0)
                self._count += 1
                self._on_the_way.append((due, self._count, arrived))
            if monotonic() >= end and (not self._on_the_way or min(self._on_the_way)[0] > end):
                return None


@pytest.fixture
def hub() -> SlowHub:
    return SlowHub()


@pytest.fixture
def make(tmp_path: Path, hub: SlowHub) -> Iterator[Callable[[int], Network]]:
    made: list[Network] = []

    def network(rounds: int) -> Network:
        rng = np.random.default_rng(3)
        rows = [rng.normal(size=(20, 2)) + rng.normal(size=2) for _ in NAMES]
        protocol = DGC(InitialCenters(3, rng.normal(size=(3, 2))), max_rounds=rounds, tol=0.0)
        made.append(
            Network(
                tmp_path / f"run{len(made)}",
                protocol,
                Parties.of(rows, names=NAMES),
                hub.wire,
                nobody(*NAMES),
                RING,
                timing=Timing(ROUND_TIMEOUT, PATIENCE),
            )
        )
        return made[-1]

    yield network
    for one in made:
        one.close()


def peer(network: Network, name: str) -> MeshPeer:
    role = network.roles[name]
    assert isinstance(role, MeshPeer)
    return role


def reaches(network: Network, name: str, exchange: int) -> None:
    end = monotonic() + 60
    while peer(network, name).exchange < exchange:
        assert monotonic() < end, f"{name} does not come to exchange {exchange}"
        time.sleep(0.002)


def replayed(network: Network) -> None:
    """The run is what the in-process run is with the same faults."""
    network.join()
    assert network.errors == {}
    participation = {name: peer(network, name).participation for name in NAMES}
    options = Options(faults=mesh_faults(NAMES, participation))
    expected = run_mesh(
        network.protocol,  # type: ignore[arg-type]
        network.parties,
        RING,
        seed=network.seed,
        blocks=len(NAMES),
        options=options,
    )
    for i, name in enumerate(NAMES):
        np.testing.assert_array_equal(
            network.results[name]["centers"][0], expected.result["centers"][i], err_msg=name
        )


def missed(network: Network, name: str, other: str, since: int) -> int:
    """In how many exchanges from ``since`` on one did not hear the other."""
    spans = peer(network, name).participation["not_heard"].get(other, [])
    return sum(max(0, last + 1 - max(first, since)) for first, last in spans)


def back_in_step(network: Network) -> int:
    """An exchange from which on those who did not hear each other have done so for a while.

    How soon they do depends on what else the machine does.
    """
    end = monotonic() + 30
    while monotonic() < end:
        time.sleep(2 * ROUND_TIMEOUT)
        since = max(peer(network, name).exchange for name in NAMES)
        time.sleep(2 * ROUND_TIMEOUT)
        if not any(missed(network, receiver, sender, since) for sender, receiver in BOTH_WAYS):
            return since
    raise AssertionError("P2 and P3 do not hear each other again")


ONE_WAY, BOTH_WAYS = [("P2", "P3")], [("P2", "P3"), ("P3", "P2")]
ALONE = [*BOTH_WAYS, ("P4", "P3"), ("P3", "P4")]
SLOW = {("P2", "P1"): 0.03, ("P2", "P3"): 0.05}
"""Seconds for messages of the one that returns: many exchanges of others, if they did not wait."""


@pytest.mark.parametrize(
    ("ways", "seconds", "lags", "rounds"),
    [
        pytest.param(BOTH_WAYS, 4.0, {}, 1800, id="both ways"),
        pytest.param(ONE_WAY, 4.0, {}, 1800, id="one way", marks=pytest.mark.long),
        pytest.param(
            BOTH_WAYS, 1.2, SLOW, 400, id="both ways, slow, within patience", marks=pytest.mark.long
        ),
        pytest.param(BOTH_WAYS, 4.0, SLOW, 500, id="both ways, slow", marks=pytest.mark.long),
        pytest.param(ONE_WAY, 4.0, SLOW, 500, id="one way, slow", marks=pytest.mark.long),
        pytest.param(ALONE, 4.0, {}, 3000, id="one that waits for nobody", marks=pytest.mark.long),
    ],
)
def test_a_peer_is_waited_for_again_once_it_is_heard(
    ways: list[tuple[str, str]],
    seconds: float,
    lags: dict[tuple[str, str], float],
    rounds: int,
    make: Callable[[int], Network],
    hub: SlowHub,
) -> None:
    """Also where its messages take longer than the exchanges of those who do not wait for it."""
    network = make(rounds)
    hub.seconds.update(lags)
    network.start()
    reaches(network, "P3", 40)
    hub.mute.update(ways)
    time.sleep(seconds)
    hub.mute.clear()
    since = back_in_step(network)
    replayed(network)
    assert since < rounds - 50
    for sender, receiver in BOTH_WAYS:
        assert missed(network, receiver, sender, 0) > 0 or (sender, receiver) not in ways
        assert missed(network, receiver, sender, since) == 0
    for name in NAMES:
        assert all(last < since for _, last in peer(network, name).participation["asleep"])
