"""The plan of a run: one file, the same at everybody's, that says who does what with whom.

It is TOML. What counts is its content once parsed: two plans that differ in comments and spaces
only have the same hash, and the hash is what parties compare before anything else is said::

    method = "OneShotKMeans"
    columns = ["age", "pressure"]     # of everybody's table, by name ("pixel[0:64]": 64 of them)
    standardise = true                # star only
    releases = ["moments", "centroids"]
    seed = 0
    quorum = 2                        # star only: how many answers are enough (default: all)
    min_parties = 3                   # must be in the result (default: all; with a quorum, as many)
    round_timeout = 30                # seconds
    patience = 120

    [parameters]                      # of the method
    n_clusters = 3

    [coordinator]
    endpoint = "hub.example.org:7447"
    fingerprint = "sha256:..."

    [parties.North]
    fingerprint = "sha256:..."

A plan without a coordinator has ``[peers.NAME]`` with an ``endpoint`` each, and ``edges``.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from unpooled import estimators
from unpooled.checks import number, seed, whole
from unpooled.deploy.names import check_endpoint, check_name
from unpooled.errors import InputError, UnpooledError
from unpooled.estimators.mesh import MeshEstimator
from unpooled.estimators.star import StarEstimator
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.messages.codec import LIMITS
from unpooled.messages.conform import most_bytes
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.timing import Timing
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.prepare.standardise import Standardise
from unpooled.protocols.prepare.then import Then
from unpooled.protocols.star.base import StarProtocol
from unpooled.types import Parties, PartyId

_ESTIMATORS = {
    name: kind
    for name, kind in vars(estimators).items()
    if isinstance(kind, type) and issubclass(kind, StarEstimator | MeshEstimator)
}
_COMMON = {
    "method": "one of unpooled's estimators",
    "columns": 'names of columns, e.g. ["age", "pressure"]',
    "releases": "the kinds of messages that will be asked for",
    "seed": "a whole number",
    "round_timeout": "seconds",
    "patience": "seconds",
    "min_parties": "a number of parties",
    "parameters": "a table of the method's parameters",
}
_STAR = {
    **_COMMON,
    "standardise": "true or false",
    "quorum": "a number of parties",
    "coordinator": "a table with endpoint and fingerprint",
    "parties": "tables [parties.NAME] with a fingerprint each",
}
_MESH = {
    **_COMMON,
    "edges": 'pairs of names, e.g. [["N1", "N2"]]',
    "peers": "tables [peers.NAME] with endpoint and fingerprint",
}
_NOT_IN_A_PLAN = ("policy", "random_state", "graph", "quorum", "checkpoint", "verbose")
_DEEP = "DeepFeCA"
_SPAN = re.compile(r"(.*)\[(\d{1,6}):(\d{1,6})\]")
_MOST_IN_SHORT = 64
"""Parties up to which a plan in short has a line for each."""
_DEEPEST = 16
"""Tables and lists in each other; centres for every peer take six."""


@dataclass(frozen=True)
class Member:
    """A party as the plan knows it; one that only dials has no endpoint."""

    name: PartyId
    endpoint: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Plan:
    """What the file says, checked."""

    source: str
    content: Mapping[str, Any] = field(repr=False)
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
        """SHA-256 of the parsed content; the order of parties counts, that of other keys not."""
        text = json.dumps([self.content, self.names], sort_keys=True, ensure_ascii=True)
        return sha256(text.encode()).digest()

    @cached_property
    def parts(self) -> dict[str, str]:
        """The plan in short, by its keys: by this, two that differ are told what they differ in."""
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
        return _estimator(self.content["method"])(**self.content.get("parameters", {}))

    @cached_property
    def protocol(self) -> StarProtocol | MeshProtocol:
        """What will be run."""
        nobody = Parties.of([np.empty((0, len(self.columns)))] * len(self.names), names=self.names)
        protocol: StarProtocol | MeshProtocol = self.estimator.planned(nobody)
        if self.standardise:
            assert isinstance(protocol, StarProtocol)
            protocol = Then(Standardise(), protocol)
        return protocol

    @cached_property
    def run_seed(self) -> int:
        """What estimators make of ``random_state=seed``."""
        return seed(self.seed)

    @cached_property
    def topology(self) -> Topology:
        """Who talks to whom in a mesh."""
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
        """One of the plan's; a sentence if it is none."""
        if name not in self.members:
            raise InputError(
                f"{self.source} has no {name!r}; it has {', '.join(self.names)}: give one of them "
                "as --name."
            )
        return self.members[name]


def read_plan(path: Path) -> Plan:
    """The plan in a file, or one sentence about the first thing that is wrong with it."""
    content = read_toml(path, "plan")
    source = f"The plan {path}"
    star = "coordinator" in content or "parties" in content
    known = _STAR if star else _MESH
    for key in content:
        if key not in known:
            raise InputError(f"{source} has {key!r}, which {_meant(key, known, star)}.")
    for key in ("method", "columns", "releases", *(("coordinator", "parties") if star else ())):
        _need(content, key, known, source)
    if not star:
        for key in ("peers", "edges"):
            _need(content, key, known, source)
    _check_method(content, star, source)
    members = _members(content, "parties" if star else "peers", source, endpoints=not star)
    coordinator = None
    if star:
        coordinator = _member(COORDINATOR, content["coordinator"], source, "coordinator", True)
        if COORDINATOR in members:
            raise InputError(f"{source} calls a party {COORDINATOR!r}; that name is taken.")
    quorum = _parties(content, "quorum", len(members), source) if star else None
    plan = Plan(
        source,
        content,
        _columns(content, source),
        members,
        coordinator,
        _whole(content, "seed", 0, 0, source),
        Timing(
            _seconds(content, "round_timeout", 30.0, source),
            _seconds(content, "patience", 120.0, source),
        ),
        quorum,
        _parties(content, "min_parties", len(members), source) or quorum or len(members),
        _flag(content, "standardise", source),
        () if star else _edges(content, members, source),
    )
    _check_protocol(plan)
    return plan


def _in_short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 40 else f"hash {sha256(text.encode()).hexdigest()[:12]}"


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A file of ours, parsed; one sentence if it cannot be."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"The {what} {path} cannot be read ({error.strerror}); give the path of a TOML file."
        ) from None
    try:
        content = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"The {what} {path} is not valid TOML: {reason}.") from None
    _refuse_odd(content, f"The {what} {path}")
    return content


def _refuse_odd(content: Mapping[str, Any], source: str) -> None:
    """Refuses what can be neither hashed nor quoted: dates, endless numbers, endless nesting."""
    values: list[Any] = [content]
    for _ in range(_DEEPEST):
        values = [
            inner
            for value in values
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        for value in values:
            if isinstance(value, date | time):
                raise InputError(f"{source} has the date or time {value}; put it in quotes.")
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise InputError(f"{source} has a whole number of more than 64 bits; lower it.")
    if values:
        raise InputError(f"{source} has more than {_DEEPEST} tables and lists in each other.")


def _check_method(content: Mapping[str, Any], star: bool, source: str) -> None:
    method, kind = content["method"], StarEstimator if star else MeshEstimator
    fitting = sorted(name for name, own in _ESTIMATORS.items() if issubclass(own, kind))
    fitting += [_DEEP] if star else []
    if method not in fitting:
        where = "with a coordinator" if star else "without a coordinator"
        raise InputError(
            f"{source} has method = {method!r}; {where} give one of {', '.join(fitting)}."
        )
    given = content.get("parameters", {})
    if not isinstance(given, dict):
        raise InputError(f"{source} has parameters that are no table; write [parameters].")
    allowed = [p for p in _estimator(method)._get_param_names() if p not in _NOT_IN_A_PLAN]
    for name in given:
        if name not in allowed:
            hint = {
                "policy": "is each party's own: it goes into a party's own file",
                "random_state": "is called seed and stands at the top",
                "graph": "is said by edges",
                "quorum": "stands at the top",
                "verbose": "is for fits in one process: programs say on the screen what they do",
                "checkpoint": "is not needed: every program keeps what it needs to go on",
            }.get(name, f"is no parameter of {method}; it has {', '.join(allowed)}")
            raise InputError(f"{source} has {name!r} in [parameters], which {hint}.")


def _estimator(method: str) -> Any:
    """The class of this name; one of them needs PyTorch, which is imported for nothing else."""
    if method != _DEEP:
        return _ESTIMATORS[method]
    try:
        from unpooled.deep import DeepFeCA
    except ImportError as error:
        raise InputError(str(error)) from None
    return DeepFeCA


def _check_protocol(plan: Plan) -> None:
    try:
        protocol = plan.protocol
    except UnpooledError as error:
        raise InputError(f"{plan.source} cannot be run: {error}") from None
    _refuse_too_large(plan, protocol)
    kinds = [release.kind for release in protocol.releases]
    listed = plan.content["releases"]
    if not isinstance(listed, list) or sorted(map(str, listed)) != sorted(kinds):
        raise InputError(
            f"{plan.source} has releases = {listed!r}, but {plan.content['method']} with these "
            f"parameters asks for others; if that is what everybody agrees to, write releases = "
            f"{json.dumps(kinds)}."
        )


def _refuse_too_large(plan: Plan, protocol: StarProtocol | MeshProtocol) -> None:
    """Refuses a plan that may need messages which no codec takes: it could only end half-way."""
    asks = protocol.asks if isinstance(protocol, StarProtocol) else ()
    for release in (*protocol.releases, *asks):
        size = most_bytes(release, len(plan.columns), None if plan.coordinator else 1)
        if size is not None and size > LIMITS.max_bytes:
            given = plan.content.get("parameters", {})
            counts = {name: value for name, value in given.items() if type(value) is int}
            largest = max(counts, key=lambda name: counts[name], default="the number of columns")
            raise InputError(
                f"{plan.source} may need {release.kind!r} messages of {size} bytes, but one holds "
                f"{LIMITS.max_bytes} at most; lower {largest}."
            )


def _members(
    content: Mapping[str, Any], key: str, source: str, *, endpoints: bool
) -> dict[PartyId, Member]:
    tables = content[key]
    if not isinstance(tables, dict) or not tables:
        raise InputError(f"{source} has no {key}; write a table [{key}.NAME] for each.")
    return {
        name: _member(name, tables[name], source, f"{key}.{name}", endpoints) for name in tables
    }


def _member(name: str, table: Any, source: str, where: str, endpoint: bool) -> Member:
    try:
        check_name(name)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    allowed = ("endpoint", "fingerprint") if endpoint else ("fingerprint",)
    if not isinstance(table, dict):
        raise InputError(f"{source} has no table [{where}] with {' and '.join(allowed)}.")
    for key, value in table.items():
        if key not in allowed or not isinstance(value, str):
            raise InputError(
                f"{source} has {key} = {value!r} in [{where}]; it takes {' and '.join(allowed)}, "
                "in quotes."
            )
    print_ = table.get("fingerprint", "")
    digits = print_.removeprefix("sha256:")
    if print_ and (len(digits) != 64 or not set(digits) <= set("0123456789abcdef")):
        raise InputError(
            f"{source} has the fingerprint {print_[:24]!r} in [{where}]; it must be sha256: and 64 "
            f"hexadecimal digits, as 'unpooled keys show {name}.pem' prints it."
        )
    if endpoint and "endpoint" not in table:
        raise InputError(f'{source} has no endpoint in [{where}]; write endpoint = "host:port".')
    if endpoint:
        check_endpoint(table["endpoint"], f"{source} in [{where}]")
    return Member(name, table.get("endpoint", ""), print_)


def _edges(
    content: Mapping[str, Any], members: Mapping[PartyId, Member], source: str
) -> tuple[tuple[PartyId, PartyId], ...]:
    pairs = content["edges"]
    if not isinstance(pairs, list):
        raise InputError(f"{source} has edges that are no list; give {_MESH['edges']}.")
    edges = []
    for pair in pairs:
        if not (
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(end, str) and end in members for end in pair)
        ):
            raise InputError(f"{source} has the edge {pair!r}, which is no pair of its peers.")
        if pair[0] == pair[1]:
            raise InputError(f"{source} has an edge from {pair[0]} to itself; leave it out.")
        edges.append((pair[0], pair[1]))
    return tuple(edges)


def _columns(content: Mapping[str, Any], source: str) -> tuple[str, ...]:
    columns = content["columns"]
    if not isinstance(columns, list) or not columns or not all(isinstance(c, str) for c in columns):
        raise InputError(f"{source} has columns = {columns!r}; give {_COMMON['columns']}.")
    columns = [name for column in columns for name in _spelt_out(column, source)]
    if len(set(columns)) != len(columns):
        raise InputError(f"{source} names a column twice among {', '.join(columns)}.")
    return tuple(columns)


def _spelt_out(column: str, source: str) -> list[str]:
    """``"pixel[0:784]"`` stands for pixel0, pixel1, ..., pixel783; other names for themselves."""
    span = _SPAN.fullmatch(column)
    if span is None:
        return [column]
    stem, first, end = span[1], int(span[2]), int(span[3])
    if end <= first:
        raise InputError(f"{source} has the columns {column!r}, which are none; let them rise.")
    return [f"{stem}{i}" for i in range(first, end)]


def _parties(content: Mapping[str, Any], key: str, most: int, source: str) -> int | None:
    if key not in content:
        return None
    parties = _whole(content, key, most, 1, source)
    if parties > most:
        raise InputError(f"{source} has {key} = {parties}, but there are {most} parties.")
    return parties


def _whole(content: Mapping[str, Any], key: str, default: int, least: int, source: str) -> int:
    try:
        return whole(key, content.get(key, default), least, 2**32 - 1)
    except UnpooledError as error:
        raise InputError(f"{source}: {error}") from None


def _seconds(content: Mapping[str, Any], key: str, default: float, source: str) -> float:
    try:
        return number(key, content.get(key, default), above=0.0, most=1e6)
    except UnpooledError as error:
        raise InputError(f"{source}: {error}") from None


def _flag(content: Mapping[str, Any], key: str, source: str) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        raise InputError(f"{source} has {key} = {value!r}; write true or false.")
    return value


def _need(content: Mapping[str, Any], key: str, known: Mapping[str, str], source: str) -> None:
    if key not in content:
        raise InputError(f"{source} does not say {key}; add it: {known[key]}.")


def _meant(key: str, known: Mapping[str, str], star: bool) -> str:
    if key in _STAR or key in _MESH:
        return f"goes with a plan {'without' if star else 'with'} a coordinator"
    near = difflib.get_close_matches(key, known, 1)
    return f"is not known; did you mean {near[0]}" if near else "is not known; leave it out"
