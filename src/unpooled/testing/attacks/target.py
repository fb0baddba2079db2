"""What an attack is aimed at: a method, run between parties while somebody listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unpooled.data.parties import Parties
from unpooled.errors import UnpooledError
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.messages.message import Ask, Message, Post
from unpooled.privacy.policy import Policy
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.prepare.standardise import Standardise
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.base import StarProtocol
from unpooled.simulate import Options, run_mesh, run_star
from unpooled.types import Body, FloatArray, PartyId

COORDINATOR = "coordinator"


@dataclass(frozen=True)
class Said:
    """One message that left a party; what a peer says is without the axis of users."""

    kind: str
    round: int
    body: Body
    question: Body = field(default_factory=dict)
    """In a star, what it answers."""
    to: frozenset[int] | None = None
    """In a mesh, the numbers of those who hear it; None means all neighbours."""


@dataclass
class Transcript:
    """Everything that left the parties in one run."""

    parties: Parties
    by_party: dict[PartyId, list[Said]]
    refusal: str = ""
    """Why the run ended early, if it did. What left before counts all the same."""

    @classmethod
    def empty(cls, parties: Parties) -> Transcript:
        """Before anything was said."""
        return cls(parties, {name: [] for name in parties.names})

    @property
    def messages(self) -> int:
        """How many messages left."""
        return sum(map(len, self.by_party.values()))

    def of(self, party: int) -> list[Said]:
        """What the party of this number sent."""
        return self.by_party[self.parties.names[party]]


@dataclass(frozen=True)
class Target:
    """A method: ``make`` returns its estimator, with whatever parameters it is called with.

    ``standardise`` is a plan's; ``graph`` is what mesh methods talk over, in any form that
    estimators take.
    """

    make: Callable[..., Any]
    standardise: bool = False
    graph: Any = "ring"

    def protocol(self, parties: Parties, **parameters: Any) -> StarProtocol | MeshProtocol:
        """What would be run between these parties."""
        planned: StarProtocol | MeshProtocol = self.make(**parameters).planned(parties)
        if self.standardise and isinstance(planned, StarProtocol):
            return Then(Standardise(), planned)
        return planned

    def overheard(
        self,
        tables: Sequence[FloatArray],
        policy: Policy,
        *,
        seed: int = 0,
        weights: Sequence[FloatArray] | None = None,
        **parameters: Any,
    ) -> Transcript:
        """Runs the method on the tables, one of each party, and takes down what leaves."""
        parties = Parties.of(tables, weights=weights)
        return self.overheard_of(parties, policy, seed=seed, **parameters)

    def overheard_of(
        self, parties: Parties, policy: Policy, *, seed: int = 0, **parameters: Any
    ) -> Transcript:
        """The same for parties that are put together already."""
        protocol = self.protocol(parties, **parameters)
        return overheard(protocol, parties, policy, seed=seed, graph=self.graph)


def overheard(
    protocol: StarProtocol | MeshProtocol,
    parties: Parties,
    policy: Policy | Mapping[PartyId, Policy],
    *,
    seed: int = 0,
    graph: Any = "ring",
    into: Transcript | None = None,
) -> Transcript:
    """Runs the protocol and takes down what leaves every party, up to where it is refused.

    It is taken down ``into`` a transcript that a coordinator may look at meanwhile.
    """
    network = None if isinstance(protocol, StarProtocol) else topology(graph, parties.names)
    transcript = Transcript.empty(parties) if into is None else into
    asked: dict[str, Body] = {}

    def listen(who: str, message: Message) -> None:
        if isinstance(message, Ask):
            asked[message.kind] = message.body
            return
        transcript.by_party[who].append(_said(message, asked, network, parties.names.index(who)))

    options = Options(policy=policy, watch=listen)
    try:
        if isinstance(protocol, StarProtocol):
            run_star(protocol, parties, seed=seed, options=options)
        else:
            assert network is not None
            run_mesh(protocol, parties, network, seed=seed, blocks=len(parties), options=options)
    except UnpooledError as refusal:
        transcript.refusal = str(refusal)
    return transcript


def _said(message: Any, asked: Mapping[str, Body], network: Topology | None, sender: int) -> Said:
    if not isinstance(message, Post):
        return Said(message.kind, message.round, message.body, asked.get(message.kind, {}))
    body = {name: value[0] for name, value in message.body.items()}
    to = None
    if message.to is not None and network is not None:
        other = network.neighbourhood(np.array([sender])).ends[1]
        to = frozenset(other[message.to].tolist())
    return Said(message.kind, message.round, body, to=to)
