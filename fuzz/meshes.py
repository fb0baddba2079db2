"""A peer of a mesh, told anything that decodes by neighbours with right keys."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np

from fuzz.scratch import Scratch
from fuzz.stage import Clock, Over, StubNode, clock, received, unexpected
from fuzz.stars import quiet
from fuzz.tape import Tape, changed
from unpooled import losses
from unpooled.data.parties import Parties
from unpooled.errors import InputError, PolicyRefusal
from unpooled.graphs.reading import topology
from unpooled.messages.codec import encode
from unpooled.messages.message import Message, Post
from unpooled.network.mesh import MeshPeer
from unpooled.network.node import Event
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.timing import Timing
from unpooled.privacy.policy import STUDY, Deployment, Policy
from unpooled.protocols.mesh.admm import ADMMKMeans
from unpooled.protocols.mesh.base import Block, MeshProtocol
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.protocols.mesh.kar_swenson import KarSwenson
from unpooled.protocols.mesh.second_order import SecondOrder
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.runtime.peer import PeerRuntime

NAMES = ("A", "B", "C", "D")
NEIGHBOURS = ("B", "D")
ROWS = np.random.default_rng(3).uniform(1.0, 2.0, size=(9, 2))
PARTIES = Parties.of([ROWS], names=["A"])
CENTERS = np.array([[1.0, 1.2], [1.8, 1.4]])
PROTOCOLS: tuple[MeshProtocol, ...] = (
    DGC(InitialCenters(2, CENTERS), max_rounds=4),
    DGC(InitialCenters(2, rounds=1), max_rounds=3, loss=losses.Bregman.itakura_saito()),
    DGC(InitialCenters(2, CENTERS), max_rounds=3, loss=losses.Huber(0.5), inner_steps=2),
    KarSwenson(InitialCenters(2, CENTERS), max_rounds=4),
    ADMMKMeans(InitialCenters(2, CENTERS), max_rounds=4),
    GossipKMeans(2, n_init=1, max_rounds=3),
    GossipKMeans(2, n_init=1, max_rounds=2, topology="private", loss=losses.Huber(0.5)),
    GossipKMeans(2, CENTERS, max_rounds=3, averaging="tree"),
    SecondOrder(InitialCenters(2, CENTERS), max_rounds=4),
)
POLICIES: tuple[Policy, ...] = (STUDY, Deployment(min_count=3, max_rounds=2))
TIMING = Timing(round_timeout=0.5, patience=1.0)
CONTROL = ("_status", "_bye", "_seen", "_ready", "_result")
_RING = topology(nx.cycle_graph(NAMES), NAMES)


def peer(data: bytes) -> None:
    """Only what says why a run cannot go on comes out of a peer, whatever neighbours say."""
    tape = Tape(data)
    which = tape.below(len(PROTOCOLS))
    policy = tape.one_of(POLICIES)
    with Scratch() as folder, clock() as own, quiet():
        for _ in range(3):  # processes: a later one goes on where the last was stopped
            play = _Talking(tape, which)
            one = mesh_peer(folder, which, policy, own, play)
            play.peer = one
            try:
                one.run()
                one.terminate()
                break
            except Over:
                if tape.over:
                    break
            except (InputError, PolicyRefusal):
                break
            finally:
                one.close()
                play.state.close()
                _refuse_growth(one)


def _refuse_growth(one: MeshPeer) -> None:
    """What a peer keeps in memory is bounded, whatever it is told."""
    assert all(len(other.posts) <= 3 for other in one.neighbours.values())
    assert len(one._posts) <= 2 + len(one.neighbours)


def mesh_peer(folder: Path, which: int, policy: Policy, own: Clock, play) -> MeshPeer:
    """The peer A of a ring of four, in a folder where it may have been before."""
    play.state = StateDirectory(folder, "plan", "A")
    block = Block.of(PARTIES, _RING, np.array([0]), 0, policy)
    node = StubNode(own, play)
    peer = PeerRuntime(PROTOCOLS[which], block, policy)
    return MeshPeer(peer, NAMES, node, play.state, TIMING)


class _Talking:
    """What two neighbours say: where all goes well, what the peer itself said."""

    peer: MeshPeer
    state: StateDirectory

    def __init__(self, tape: Tape, which: int) -> None:
        self._tape = tape
        releases = PROTOCOLS[which].releases
        fields = (field for release in releases for field in release.fields)
        self._names = (*dict.fromkeys(fields), "place", "words")
        self._kinds = (*CONTROL, *(release.kind for release in releases))

    def __call__(self) -> Event | None:
        tape, n = self._tape, self.peer.exchange
        if tape.over:
            raise Over
        what = tape.below(9)
        waiting = [o.name for o in self.peer.neighbours.values() if n not in o.posts]
        name = (waiting or NEIGHBOURS)[0] if what == 0 else tape.one_of(NEIGHBOURS)
        if what < 2:
            due = self._due()
            return received(name, n, changed(tape, due, self._names) if what else due)
        if what == 2:  # from another exchange
            return received(name, n + tape.byte() - 4, changed(tape, self._due(), self._names))
        if what == 7:
            return received(name, n, changed(tape, self._control(n), self._names))
        return unexpected(tape, what - 3, name, self._kinds, self._names)

    def _due(self) -> Message:
        return self.peer.peer.post or Post("_seen", 0, {})

    def _control(self, n: int) -> Post:
        tape = self._tape
        if tape.below(2):
            said = changed(tape, self._due(), self._names)
            last = np.array([n - 4 + tape.below(8), n - 6 + tape.below(8)])
            return Post("_bye", 0, {"place": last, "words": np.frombuffer(encode(said), np.uint8)})
        place = [n - 4 + tape.below(8), n - 4 + tape.below(8), tape.below(2), tape.below(2)]
        return Post("_status", 0, {"place": np.array(place)})
