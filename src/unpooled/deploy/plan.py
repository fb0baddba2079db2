"""The plan of a run: who does what with whom, agreed on by all before anything is sent.

Plans are compared by their hash, SHA-256 of the parsed content, of the parties' names in order, and
of the protocol's name and version (:mod:`unpooled.runtime.identity`). So two files that differ in
comments and spaces only are the same plan. Plans are read by :mod:`unpooled.deploy.plan_file`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import networkx as nx

from unpooled.checks import seed
from unpooled.deploy.members import Member
from unpooled.deploy.method import AnyProtocol, estimator_class, make_protocol
from unpooled.errors import InputError
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.timing import Timing
from unpooled.runtime.identity import run_identity
from unpooled.types import PartyId

_MOST_IN_SHORT = 64
"""Parties up to which a plan in short has a line for each."""
_LONGEST = 40
"""Letters up to which a value in a plan in short is itself; of longer ones there is a hash."""


@dataclass(frozen=True)
class Plan:
    """What the file has, checked."""

    source: str
    """How to call the file in a sentence."""
    content: Mapping[str, Any] = field(repr=False)
    """The file as parsed: this is what is hashed."""
    columns: tuple[str, ...]
    members: Mapping[PartyId, Member]
    """Parties or peers, in the plan's order."""
    coordinator: Member | None
    seed: int
    timing: Timing
    quorum: int | None
    min_parties: int
    """How many must be in the result for it to be what was agreed on."""
    standardise: bool
    edges: tuple[tuple[PartyId, PartyId], ...] = ()

    @property
    def names(self) -> tuple[PartyId, ...]:
        """Parties or peers, in the plan's order, which is that of their numbers."""
        return tuple(self.members)

    @cached_property
    def hash(self) -> bytes:
        """What tells this run from others; the order of parties counts, that of other keys not."""
        return run_identity([self.content, self.names], self.protocol)

    @cached_property
    def parts(self) -> dict[str, str]:
        """The plan in short, by its keys: two that differ are compared by it, to name the keys."""
        tables = {"parameters": self.content.get("parameters", {})}
        if len(self.names) <= _MOST_IN_SHORT:
            key = "peers" if self.coordinator is None else "parties"
            tables[key] = {name: self.content[key][name] for name in self.names}
            tables[f"order of {key}"] = {"": list(self.names)}
        parts = {key: value for key, value in self.content.items() if key not in tables}
        for key, table in tables.items():
            parts |= {f"{key}.{name}".rstrip("."): value for name, value in table.items()}
        return {key: _in_short(value) for key, value in parts.items()}

    @cached_property
    def estimator(self) -> Any:
        """The method with the plan's parameters, not fitted."""
        return estimator_class(self.content["method"])(**self.content.get("parameters", {}))

    @cached_property
    def protocol(self) -> AnyProtocol:
        """What will be run."""
        return make_protocol(
            self.estimator, self.names, len(self.columns), standardise=self.standardise
        )

    @cached_property
    def run_seed(self) -> int:
        """What estimators make of ``random_state=seed``."""
        return seed(self.seed)

    @cached_property
    def topology(self) -> Topology:
        """The graph of a mesh."""
        graph = nx.Graph()
        graph.add_nodes_from(self.names)
        graph.add_edges_from(self.edges)
        return topology(graph, self.names)

    def neighbours(self, name: PartyId) -> dict[PartyId, Member]:
        """Whom this party, peer or coordinator has links to."""
        if self.coordinator is not None:
            return dict(self.members) if name == COORDINATOR else {COORDINATOR: self.coordinator}
        others = {b if a == name else a for a, b in self.edges if name in (a, b)}
        return {other: self.members[other] for other in self.names if other in others}

    def member(self, name: PartyId) -> Member:
        """The party or peer of this name; a name that is not in the plan is refused."""
        if name not in self.members:
            raise InputError(
                f"{self.source} has no {name!r}; it has {', '.join(self.names)}: give one of them "
                "as --name."
            )
        return self.members[name]


def _in_short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST else f"hash {sha256(text.encode()).hexdigest()[:12]}"
