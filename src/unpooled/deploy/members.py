"""Who takes part in a plan: its parties or peers, its coordinator, and the edges between peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unpooled.deploy.names import check_endpoint, check_name
from unpooled.errors import InputError
from unpooled.types import PartyId

EDGES_FORM = 'pairs of names, e.g. [["N1", "N2"]]'


@dataclass(frozen=True)
class Member:
    """A party, peer or coordinator as the plan knows it; one that only dials has no endpoint."""

    name: PartyId
    endpoint: str = ""
    fingerprint: str = ""


def read_members(
    content: Mapping[str, Any], key: str, source: str, *, endpoints: bool
) -> dict[PartyId, Member]:
    """The tables ``[parties.NAME]`` or ``[peers.NAME]``, checked, in the plan's order."""
    tables = content[key]
    if not isinstance(tables, dict) or not tables:
        raise InputError(f"{source} has no {key}; write a table [{key}.NAME] for each.")
    return {
        name: read_member(name, tables[name], source, f"{key}.{name}", endpoint=endpoints)
        for name in tables
    }


def read_member(name: str, table: Any, source: str, where: str, *, endpoint: bool) -> Member:
    """One such table, called ``where`` in a refusal; ``endpoint`` if it must have one."""
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
    # It may be missing: plans are written before there are keys, and --plain does without them.
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


def read_edges(
    content: Mapping[str, Any], members: Mapping[PartyId, Member], source: str
) -> tuple[tuple[PartyId, PartyId], ...]:
    """The pairs of peers that are neighbours, checked."""
    pairs = content["edges"]
    if not isinstance(pairs, list):
        raise InputError(f"{source} has edges that are no list; give {EDGES_FORM}.")
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
