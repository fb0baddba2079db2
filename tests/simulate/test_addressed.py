"""Posts that go to some neighbours only, and messages that are lost and sent again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.hub import Hub
from tests.network.threads import Network, nobody
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.messages.message import Message, Post
from unpooled.messages.release import Release
from unpooled.network.mesh import MeshPeer
from unpooled.network.node import Node
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import JOURNAL, Records
from unpooled.network.storage.ledger_file import LEDGER, read_ledger
from unpooled.network.timing import Timing
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.runtime.run import Run
from unpooled.simulate import Options, run_mesh
from unpooled.simulate.faults import Deaf, Fault, LinkLost, MessagesLost, UserDown
from unpooled.simulate.replay import mesh_faults
from unpooled.types import Body

Make: TypeAlias = Callable[..., Network]
NAMES = ("P1", "P2", "P3", "P4", "P5")
RING = topology("ring", NAMES)
M, ROUNDS = len(NAMES), 6


def _parties() -> Parties:
    rng = np.random.default_rng(0)
    return Parties.of([rng.uniform(size=(n, 2)) for n in (3, 5, 2, 7, 4)], names=NAMES)


PARTIES = _parties()


@dataclass(frozen=True)
class Whispers(MeshProtocol):
    """Users add up numbers that go along some links only, and write down whom they heard when.

    ``masks[r, i, j]``: does i speak to j in round r? ``lasts[i]`` is the last round of user i, in
    which it speaks to everybody; from round ``late`` on the messages are of another kind.
    """

    masks: np.ndarray
    lasts: tuple[int, ...] = (ROUNDS - 1,) * M
    late: int = ROUNDS
    name = "whispers"

    @property
    def releases(self) -> tuple[Release, ...]:
        return tuple(
            Release(kind, ("value",), ("sums",), "a sum", shapes={"value": (2,)})
            for kind in ("word", "late")
        )

    def peer(self, block: Block) -> Peer[Body]:
        near, n = block.neighbourhood, len(block)
        own, other = near.ends
        everyone = np.concatenate([near.users, near.outer])
        lasts = np.array(self.lasts)[near.users]
        x = np.array([[size, 1.0 / size] for size in block.parties.sizes])
        said, seen = x, np.zeros((n, ROUNDS, M, 3), dtype=bool)
        for r in range(int(lasts.max()) + 1):
            running = r <= lasts
            said = np.where(running[:, None], x, said)  # who has stopped says nothing new
            to = self.masks[r, own, other] | (r == np.array(self.lasts)[own])
            kind = "word" if r < self.late else "late"
            heard = yield Post(kind, r, {"value": said}, senders=running, to=to)
            at = np.repeat(np.arange(n), np.diff(heard.links.indptr))
            seen[at, r, everyone[heard.links.indices], 0] = True
            place = np.searchsorted(near.users, own)
            seen[place, r, other, 1] = heard.present
            seen[place, r, other, 2] = heard.ended
            seen[~running, r] = False
            moves = (running & heard.awake)[:, None]
            x = np.where(moves, x / 2 + heard.neighbour_sum("value"), x)
        return {"value": x, "seen": seen}


def drawn(seed: int, share: float = 0.5) -> np.ndarray:
    return np.random.default_rng(seed).random((ROUNDS, M, M)) < share


def in_process(protocol: MeshProtocol, blocks: int = M, faults: Iterable[Fault] = ()) -> Run:
    options = Options(faults=tuple(faults))
    return run_mesh(protocol, PARTIES, RING, seed=5, blocks=blocks, options=options)


def same(one: Run, other: Run) -> None:
    for key, value in one.result.items():
        np.testing.assert_array_equal(value, other.result[key], err_msg=key)
    np.testing.assert_array_equal(one.traffic.table, other.traffic.table)
    assert one.traffic.rounds == other.traffic.rounds


# In one process


def test_words_are_heard_by_those_they_are_addressed_to() -> None:
    masks = drawn(0)
    run = in_process(Whispers(masks), 1)
    linked = RING.adjacency.toarray().astype(bool)
    masks[ROUNDS - 1] = True
    expected = (masks & linked).transpose(2, 0, 1)  # by receiver, round, sender
    np.testing.assert_array_equal(run.result["seen"][..., 0], expected)
    np.testing.assert_array_equal(
        run.result["seen"][..., 1], np.broadcast_to(linked[:, None], expected.shape)
    )
    assert not run.result["seen"][..., 2].any()
    said, arrived = (masks & linked).sum(axis=(0, 2)), expected.sum(axis=(1, 2))
    table = run.traffic.table
    assert table["messages"].tolist() == said.tolist()
    assert table["floats_up"].tolist() == (2 * said).tolist()
    assert table["floats_down"].tolist() == (2 * arrived).tolist()


def test_sums_are_those_of_a_plain_loop() -> None:
    masks = drawn(1)
    x = np.array([[size, 1.0 / size] for size in PARTIES.sizes])
    masks_and_end = np.concatenate([masks[:-1], np.ones((1, M, M), dtype=bool)])
    for mask in masks_and_end:
        new = x / 2
        for i in range(M):
            heard = [j for j in sorted({(i - 1) % M, (i + 1) % M}) if mask[j, i]]
            new[i] = x[i] / 2 + sum((x[j] for j in heard), np.zeros(2))
        x = new
    np.testing.assert_allclose(in_process(Whispers(masks)).result["value"], x, rtol=1e-14)


@given(
    st.integers(0, 2**31),
    st.floats(0, 1),
    st.lists(st.integers(0, ROUNDS - 1), min_size=M, max_size=M),
    st.integers(0, M - 1),
    st.integers(0, ROUNDS - 1),
)
@settings(deadline=None, max_examples=60)
def test_hosting_changes_nothing(
    seed: int, share: float, lasts: list[int], user: int, when: int
) -> None:
    protocol = Whispers(drawn(seed, share), tuple(lasts))
    faults = (
        UserDown(user, when, when + 2),
        LinkLost(0, 1, when),
        Deaf(2, 3, 0, when + 1),
    )
    for failing in ((), faults):
        whole, *split = (in_process(protocol, blocks, failing) for blocks in (1, 2, M))
        for other in split:
            same(whole, other)


def test_a_user_learns_who_is_down_and_who_has_ended() -> None:
    protocol = Whispers(np.zeros((ROUNDS, M, M), dtype=bool), (5, 2, 5, 5, 5))
    run = in_process(protocol, 2, (UserDown(4, 1, 3), Deaf(2, 3, 4)))
    words, present, ended = np.moveaxis(run.result["seen"], -1, 0)
    assert present[0, :, 1].tolist() == [1, 1, 1, 0, 0, 0]
    assert ended[0, :, 1].tolist() == [0, 0, 0, 1, 1, 1]
    assert words[0, :, 1].tolist() == [0, 0, 1, 1, 1, 1]  # its last words stand for it
    assert present[0, :, 4].tolist() == [1, 0, 0, 1, 1, 1]
    assert not present[4, 1:3].any()
    assert not ended[4, 1:3].any()
    assert present[2, :, 3].tolist() == [1, 1, 1, 1, 0, 0]
    assert present[3, :, 2].all()


# On a network


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def make(tmp_path: Path, hub: Hub) -> Iterator[Make]:
    """Makes networks in memory, of which there is one at a time."""
    made: list[Network] = []

    def network(protocol: MeshProtocol, **more: Any) -> Network:
        more = {"timing": Timing(20.0, 60.0), **more}
        own = Network(tmp_path, protocol, PARTIES, hub.wire, nobody(*NAMES), RING, **more)
        made.append(own)
        return own

    yield network
    for one in made:
        one.close()


def same_network(network: Network, expected: Run) -> None:
    """Results, counts and everybody's own ledger are what they are in one process."""
    for i, name in enumerate(NAMES):
        for key, value in expected.result.items():
            np.testing.assert_array_equal(network.results[name][key][0], value[i], err_msg=key)
        assert network.refused(name) == {}
    np.testing.assert_array_equal(network.traffic.table, expected.traffic.table)


def lines_of(network: Network, name: str) -> list[dict[str, Any]]:
    return [line for line in read_ledger(network.folder / name / LEDGER) if "digest" in line]


@pytest.mark.parametrize("seed", range(6))
def test_a_network_gives_the_same(seed: int, make: Make) -> None:
    masks = drawn(seed, (0.5, 0.2, 0.0, 0.9, 1.0, 0.5)[seed])
    protocol = Whispers(masks)
    network = make(protocol)
    network.finish()
    same_network(network, in_process(protocol))
    for i, name in enumerate(NAMES):
        expected = {
            r: [NAMES[j] for j in RING.neighbourhood(np.array([i])).outer if masks[r, i, j]]
            for r in range(ROUNDS - 1)
        }
        lines = [line for line in lines_of(network, name) if not line.get("again")]
        found = {line["exchange"]: line["to"] for line in lines}
        assert len(found.pop(ROUNDS - 1)) == 2
        assert found == {r: to for r, to in expected.items() if to}  # silence is no release
        assert network.roles[name].participation["not_heard"] == {}  # type: ignore[union-attr]


@pytest.mark.parametrize("lasts", [(5, 2, 5, 5, 5), (1, 1, 4, 5, 0), (0, 5, 5, 3, 5)])
def test_peers_that_end_early_are_known_to_have_ended(lasts: tuple[int, ...], make: Make) -> None:
    protocol = Whispers(drawn(3), lasts, late=4)  # some end in the phase before
    network = make(protocol)
    network.finish()
    expected = in_process(protocol)
    assert expected.result["seen"][..., 2].any()
    for i, name in enumerate(NAMES):
        for key, value in expected.result.items():
            np.testing.assert_array_equal(network.results[name][key][0], value[i], err_msg=key)
        assert network.roles[name].participation["not_heard"] == {}  # type: ignore[union-attr]


def test_a_journal_tells_who_had_nothing_to_say(make: Make, tmp_path: Path) -> None:
    network = make(Whispers(drawn(4), (5, 2, 5, 5, 5), late=4))
    network.finish()
    network.close()
    records = [header for header, _ in Records(tmp_path / "P1" / JOURNAL)]
    assert any("bare" in header for header in records)
    for name in NAMES:
        again = network.role(name)
        assert isinstance(again, MeshPeer)
        found = again.run()  # all of it is on disk
        for key, value in network.results[name].items():
            np.testing.assert_array_equal(found[key], value, err_msg=key)
        np.testing.assert_array_equal(
            [entry.copies for entry in again.ledger.entries],
            [entry.copies for entry in network.roles[name].ledger.entries],  # type: ignore[union-attr]
        )
        again.close()
        again.node.close()


class Lossy(Node):
    """Loses every post once."""

    lost: set[tuple[str, int]]

    def send(self, name: str, message: Message | bytes, exchange: int) -> bool:
        if isinstance(message, bytes) and (name, exchange) not in self.lost:
            self.lost.add((name, exchange))
            return True
        return super().send(name, message, exchange)


def test_who_got_nothing_gets_nothing_again(make: Make) -> None:
    masks = drawn(5)
    network = make(Whispers(masks))
    plain = network.node

    def node(name: str, state: StateDirectory) -> Node:
        own = plain(name, state)
        if name in ("P2", "P4"):
            own.__class__ = Lossy
            own.lost = set()  # type: ignore[attr-defined]
        return own

    network.node = node  # type: ignore[method-assign]
    network.finish()
    same_network(network, in_process(Whispers(masks)))
    again = [line for line in lines_of(network, "P2") if line.get("again")]
    assert {line["exchange"] for line in again} >= {
        r for r in range(ROUNDS - 1) if masks[r, 1, [0, 2]].any()
    }
    for line in again:
        (to,) = line["to"]
        assert line["exchange"] == ROUNDS - 1 or masks[line["exchange"], 1, NAMES.index(to)]


def test_a_cut_link_is_a_fault_and_silence_is_none(make: Make, hub: Hub) -> None:
    protocol = Whispers(drawn(6))
    network = make(protocol, timing=Timing(1.5, 3.0))
    hub.cut("P2", "P3")
    network.start()
    network.join()
    assert network.errors == {}
    participation = {name: network.roles[name].participation for name in NAMES}  # type: ignore[union-attr]
    assert {name: list(own["not_heard"]) for name, own in participation.items()} == {
        "P1": [],
        "P2": ["P3"],
        "P3": ["P2"],
        "P4": [],
        "P5": [],
    }
    same_network(network, in_process(protocol, faults=mesh_faults(NAMES, participation)))


# Messages that are lost and sent again

SENT_ON: dict[str, MeshProtocol] = {
    "to everybody": DGC(
        InitialCenters(2, np.array([[0.2, 0.2], [0.8, 0.8]])), max_rounds=12, tol=0.0
    ),
    "to some": Whispers(drawn(7)),
}


def simulated(
    graph: Topology, exchanges: int, *losses: MessagesLost
) -> tuple[int, list[np.ndarray]]:
    """When the last user is done, user by user and message by message; and how often each sent."""
    arrives = float(np.prod([1 - loss.rate for loss in losses]))
    pairs = [(i, j) for i in range(M) for j in range(M) if graph.adjacency[i, j]]
    times, sent = [0] * M, []
    for n in range(exchanges):
        rng = np.random.default_rng([n, *[loss.seed for loss in losses]])
        tries = dict(zip(pairs, rng.geometric(arrives, size=len(pairs)).tolist(), strict=True))
        times = [
            max([times[i] + 1, *[times[j] + tries[j, to] for j, to in pairs if to == i]])
            for i in range(M)
        ]
        sent.append(np.array([[tries.get((i, j), 0) for j in range(M)] for i in range(M)]))
    return max(times), sent


@pytest.mark.parametrize("protocol", SENT_ON.values(), ids=SENT_ON)
@pytest.mark.parametrize(
    "losses",
    [
        (MessagesLost(0.3),),
        (MessagesLost(0.7, seed=3),),
        (MessagesLost(0.2, 1), MessagesLost(0.5, 2)),
    ],
)
def test_losses_cost_time_and_messages_and_nothing_else(
    protocol: MeshProtocol, losses: tuple[MessagesLost, ...]
) -> None:
    smooth = in_process(protocol)
    exchanges = smooth.elapsed
    assert exchanges is not None
    assert exchanges >= smooth.traffic.rounds
    elapsed, sent = simulated(RING, exchanges, *losses)
    spoken = np.ones((exchanges, M, M), dtype=bool)
    if isinstance(protocol, Whispers):
        spoken[:-1] = protocol.masks[:-1]
    messages = [(times * mask).sum(axis=1) for times, mask in zip(sent, spoken, strict=True)]
    for blocks in (1, 2, M):
        run = in_process(protocol, blocks, losses)
        for key, value in smooth.result.items():
            np.testing.assert_array_equal(run.result[key], value, err_msg=key)
        assert run.elapsed == elapsed > exchanges
        assert run.traffic.table["messages"].tolist() == sum(messages).tolist()
        np.testing.assert_array_equal(
            run.traffic.table["bytes_down"], smooth.traffic.table["bytes_down"]
        )


def test_without_loss_every_exchange_takes_a_slot() -> None:
    one, other = in_process(Whispers(drawn(8))), in_process(Whispers(drawn(8)), 1, ())
    assert one.elapsed == other.elapsed == ROUNDS
    none_lost = in_process(Whispers(drawn(8)), faults=(MessagesLost(0.0),))
    assert none_lost.elapsed == ROUNDS
    same(one, none_lost)


def test_a_share_of_messages_is_lost() -> None:
    protocol = DGC(InitialCenters(2, np.array([[0.2, 0.2], [0.8, 0.8]])), max_rounds=2000, tol=0.0)
    smooth = in_process(protocol, 1).traffic.messages
    lossy = in_process(protocol, 1, (MessagesLost(0.25),)).traffic.messages
    assert lossy / smooth == pytest.approx(1 / 0.75, rel=0.02)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.0, float("nan")])
def test_a_share_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="a share of messages from 0 to below 1"):
        in_process(Whispers(drawn(9)), faults=(MessagesLost(rate),))
