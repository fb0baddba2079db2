"""Reads a plan: one TOML file, the same at every party, with who takes part and in what.

An example::

    method = "OneShotKMeans"
    columns = ["age", "pressure"]     # of everybody's table, by name ("pixel[0:64]": 64 of them)
    standardise = true                # star only
    releases = ["moments", "centroids"]
    seed = 0
    quorum = 2                        # star only: how many replies are enough (default: all)
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
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unpooled.checks import number, whole
from unpooled.deploy.members import EDGES_FORM, Member, read_edges, read_member, read_members
from unpooled.deploy.method import refuse_method, refuse_other_releases, refuse_too_large
from unpooled.deploy.plan import Plan
from unpooled.deploy.toml_file import read_toml
from unpooled.errors import InputError, UnpooledError
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.timing import Timing
from unpooled.types import PartyId

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
    "edges": EDGES_FORM,
    "peers": "tables [peers.NAME] with endpoint and fingerprint",
}
_SPAN = re.compile(r"(.*)\[(\d{1,6}):(\d{1,6})\]")


def read_plan(path: Path) -> Plan:
    """The plan in a file, or one sentence about the first thing that is wrong with it."""
    content = read_toml(path, "plan")
    source = f"The plan {path}"
    star = "coordinator" in content or "parties" in content
    _check_keys(content, source, star=star)
    refuse_method(content, source, star=star)
    key = "parties" if star else "peers"
    members = read_members(content, key, source, endpoints=not star)
    coordinator = _read_coordinator(content, members, source) if star else None
    quorum = _number_of_parties(content, "quorum", len(members), source) if star else None
    plan = Plan(
        source,
        content,
        _read_columns(content, source),
        members,
        coordinator,
        _read_whole(content, "seed", 0, 0, source),
        Timing(
            _read_seconds(content, "round_timeout", 30.0, source),
            _read_seconds(content, "patience", 120.0, source),
        ),
        quorum,
        _number_of_parties(content, "min_parties", len(members), source) or quorum or len(members),
        _read_flag(content, "standardise", source),
        () if star else read_edges(content, members, source),
    )
    _check_protocol(plan)
    return plan


def _check_keys(content: Mapping[str, Any], source: str, *, star: bool) -> None:
    known = _STAR if star else _MESH
    for key in content:
        if key not in known:
            raise InputError(f"{source} has {key!r}, which {_meant(key, known, star)}.")
    needed = ("coordinator", "parties") if star else ("peers", "edges")
    for key in ("method", "columns", "releases", *needed):
        if key not in content:
            raise InputError(f"{source} does not say {key}; add it: {known[key]}.")


def _read_coordinator(
    content: Mapping[str, Any], members: Mapping[PartyId, Member], source: str
) -> Member:
    table = content["coordinator"]
    coordinator = read_member(COORDINATOR, table, source, "coordinator", endpoint=True)
    if COORDINATOR in members:
        raise InputError(f"{source} calls a party {COORDINATOR!r}; that name is taken.")
    return coordinator


def _check_protocol(plan: Plan) -> None:
    try:
        protocol = plan.protocol
    except UnpooledError as error:
        raise InputError(f"{plan.source} cannot be run: {error}") from None
    refuse_too_large(protocol, plan.content, len(plan.columns), plan.source)
    refuse_other_releases(protocol, plan.content, plan.source)


def _read_columns(content: Mapping[str, Any], source: str) -> tuple[str, ...]:
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


def _number_of_parties(content: Mapping[str, Any], key: str, most: int, source: str) -> int | None:
    if key not in content:
        return None
    parties = _read_whole(content, key, most, 1, source)
    if parties > most:
        raise InputError(f"{source} has {key} = {parties}, but there are {most} parties.")
    return parties


def _read_whole(content: Mapping[str, Any], key: str, default: int, least: int, source: str) -> int:
    try:
        return whole(key, content.get(key, default), least, 2**32 - 1)
    except UnpooledError as error:
        raise InputError(f"{source}: {error}") from None


def _read_seconds(content: Mapping[str, Any], key: str, default: float, source: str) -> float:
    try:
        return number(key, content.get(key, default), above=0.0, most=1e6)
    except UnpooledError as error:
        raise InputError(f"{source}: {error}") from None


def _read_flag(content: Mapping[str, Any], key: str, source: str) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        raise InputError(f"{source} has {key} = {value!r}; write true or false.")
    return value


def _meant(key: str, known: Mapping[str, str], star: bool) -> str:
    if key in _STAR or key in _MESH:
        return f"goes with a plan {'without' if star else 'with'} a coordinator"
    near = difflib.get_close_matches(key, known, 1)
    return f"is not known; did you mean {near[0]}" if near else "is not known; leave it out"
