"""A run over a network whose parties are threads of one process, each with a state of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, TypeAlias

import numpy as np

from tests.network.site import TIMEOUT, hash_of
from unpooled.data.parties import Parties
from unpooled.graphs.topology import Topology
from unpooled.messages.codec import LIMITS, Limits
from unpooled.network.identity import Identity, fingerprint
from unpooled.network.mesh import MeshPeer
from unpooled.network.node import Node, Transport, telling_others
from unpooled.network.star_coordinator import StarCoordinator
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.star_party import StarParty
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.timing import Timing
from unpooled.privacy.policy import STUDY, Policy
from unpooled.privacy.traffic import Traffic
from unpooled.protocols.mesh.base import Block, MeshProtocol
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.party import PartyRuntime
from unpooled.runtime.peer import PeerRuntime
from unpooled.runtime.serving import serving
from unpooled.types import Body

Role: TypeAlias = StarCoordinator | StarParty | MeshPeer
PATIENT = Timing(60.0, 200.0)


@dataclass
class Network:
    """Everything that the parties of one run agree on, and how bytes travel between them."""

    folder: Path
    protocol: StarProtocol | MeshProtocol
    parties: Parties
    transport: Callable[[str], Transport]
    identities: Mapping[str, Identity]
    topology: Topology | None = None
    seed: int = 5
    policy: Policy = STUDY
    timing: Timing = PATIENT
    limits: Limits = LIMITS
    plan: bytes = hash_of("plan")
    quorum: int | None = None
    min_parties: int = 1
    roles: dict[str, Role] = field(default_factory=dict)
    results: dict[str, Body] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    _threads: dict[str, Thread] = field(default_factory=dict)
    _states: list[StateDirectory] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody, the coordinator first if there is one."""
        own = self.parties.names
        return (COORDINATOR, *own) if isinstance(self.protocol, StarProtocol) else own

    def others(self, name: str) -> list[str]:
        """Whom this one has links to."""
        if isinstance(self.protocol, StarProtocol):
            return list(self.parties.names) if name == COORDINATOR else [COORDINATOR]
        assert self.topology is not None
        near = self.topology.neighbourhood(np.array([self.parties.names.index(name)]))
        return [self.parties.names[j] for j in near.outer]

    def state(self, name: str) -> StateDirectory:
        """A party's directory, free again after :meth:`close`."""
        self._states.append(StateDirectory(self.folder / name, self.plan.hex(), name))
        return self._states[-1]

    def node(self, name: str, state: StateDirectory) -> Node:
        """A party's place on the network."""
        prints = {n: fingerprint(self.identities[n].certificate) for n in self.others(name)}
        carrier = self.transport(name)
        return Node(self.identities[name], prints, self.plan, state, carrier, self.limits)

    def role(self, name: str) -> Role:
        """The party, ready to run."""
        state = self.state(name)
        node, timing, protocol = self.node(name, state), self.timing, self.protocol
        names, columns = self.parties.names, self.parties.n_features
        if isinstance(protocol, MeshProtocol):
            number = np.array([names.index(name)])
            assert self.topology is not None
            rows = self.parties.select(number)
            block = Block.of(rows, self.topology, number, self.seed, self.policy)
            peer = PeerRuntime(protocol, block, self.policy)
            return MeshPeer(peer, names, node, state, timing, min_parties=self.min_parties)
        if name == COORDINATOR:
            more: dict[str, Any] = {"quorum": self.quorum, "n_columns": columns}
            return StarCoordinator(protocol, names, node, state, self.seed, timing, **more)
        i = names.index(name)
        site = PartyRuntime(protocol, self.parties[i], (self.seed, i), self.policy)
        return StarParty(protocol, site, node, state, timing)

    def start(self, *names: str) -> None:
        """Starts these, or all."""
        for name in names or self.names:
            self.roles[name] = self.role(name)
            self._threads[name] = Thread(target=self._run, args=(name,), daemon=True)
        for name in names or self.names:
            self._threads[name].start()

    def _run(self, name: str) -> None:
        role = self.roles[name]
        try:
            with telling_others(role.node), serving() as serve:
                (result,) = serve(lambda _: role.run(), [None])
            role.terminate()
            self.results[name] = result
        except BaseException as error:
            self.errors[name] = error
        finally:
            role.close()
            role.node.close()

    def join(self, *names: str, timeout: float = TIMEOUT) -> None:
        """Waits for these, or for all that were started."""
        end = monotonic() + timeout
        for name in names or self._threads:
            self._threads[name].join(max(0.1, end - monotonic()))
            assert not self._threads[name].is_alive(), f"{name} hangs"

    def finish(self) -> None:
        """Starts all of them and waits until all have ended well."""
        self.start()
        self.join()
        for name, error in self.errors.items():
            raise AssertionError(f"{name} failed") from error

    def close(self) -> None:
        """Gives all state directories free."""
        for state in self._states:
            state.close()

    def refused(self, name: str) -> dict[tuple[str, str], int]:
        """What a party has refused, by sender and reason."""
        return dict(self.roles[name].node.refused)

    @property
    def traffic(self) -> Traffic:
        """From everybody's own ledger."""
        entries = []
        for i, name in enumerate(self.parties.names):
            role = self.roles[name]
            ledger = role.runtime.ledger if isinstance(role, StarParty) else role.ledger
            entries += [(np.array([i]), entry) for entry in ledger.entries]
        return Traffic.of(self.parties.names, entries)


def nobody(*names: str) -> dict[str, Identity]:
    """Parties that prove nothing, as on one machine without keys."""
    return {name: Identity(name) for name in names}
