"""Lists what a plan would send, message by message, without sending anything.

A dry run refuses what the run would (:mod:`unpooled.deploy.check`) and opens no connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unpooled.data.sources import OwnRows
from unpooled.deploy.plan import Plan
from unpooled.messages.conform import largest_size, most_numbers
from unpooled.messages.release import AtMost, Columns, Release, Size
from unpooled.privacy.cell_store import Stored
from unpooled.privacy.policy import Policy
from unpooled.protocols.star.base import StarProtocol
from unpooled.types import PartyId


def listed(plan: Plan, name: PartyId, *, coordinates: bool = False) -> Iterator[str]:
    """What would travel and stay, in lines for a person to read."""
    protocol, d = plan.protocol, len(plan.columns)
    yield f"{plan.source}: {plan.content['method']}, hash {plan.hash.hex()[:16]}, {name}"
    yield f"Columns: {', '.join(plan.columns)}. Talks to: {', '.join(plan.neighbours(name))}."
    yield ""
    who = "each party" if coordinates else name
    yield f"What leaves {who}:"
    for release in protocol.releases:
        yield from _release_lines(release, d)
    if isinstance(protocol, StarProtocol):
        yield "What the coordinator sends to each party:"
        for ask in protocol.asks:
            yield from _release_lines(ask, d)
        yield "  result: the final centres, once"
    else:
        yield (
            "Whoever receives the messages of a user and of all of its neighbours can solve them "
            "for its cluster sums and counts."
        )
    yield ""
    yield (
        "What stays on disk, readable by its owner alone: ledger.jsonl (a line for every message "
        "that left), journal (what arrived), memory (what the party's steps remember, with a "
        "number for every row or cell), cells (which state of the site's cells it began with; "
        "these are in the folder that the site's file calls memory), known, incarnation, owner, "
        "run, lock, and the results."
    )


def _release_lines(release: Release, n_columns: int) -> Iterator[str]:
    size, numbers = largest_size(release, n_columns), most_numbers(release, n_columns)
    amount = (
        "as many numbers as it chooses" if numbers is None else f"up to {numbers} numbers"
    ) + ("" if size is None else f", {size} bytes")
    yield f"  {release.kind}: {release.why}"
    yield f"    discloses {', '.join(release.discloses)}; {amount} each time"
    for name in release.fields:
        shape = " x ".join(_in_columns(size, n_columns) for size in release.shapes.get(name, ()))
        yield f"    {name}: {shape or 'one number'}"


def _in_columns(size: Size, n_columns: int) -> str:
    if isinstance(size, Columns):
        return str(size.times * n_columns + size.plus)
    if isinstance(size, AtMost):
        return "any number" if size.most == float("inf") else f"up to {size.most:g}"
    return str(size)


def allowed(
    plan: Plan, name: PartyId, policy: Policy, rows: OwnRows, cells: Stored | None
) -> Iterator[str]:
    """What the party's policy and rows allow, once nothing in them is against the run."""
    n_rows = len(rows.parties.rows)
    if cells is None:
        yield f"{name} has {n_rows} rows for this, and hands them to the method as they are."
    else:
        yield (
            f"{name} has {n_rows} rows for this: {cells.in_cells} in {len(cells.counts)} cells of "
            f"at least {cells.min_count} persons, {cells.waiting} waiting, {cells.held_back} held "
            f"back.{_lost(cells, plan.columns)}"
        )
        protocol = plan.protocol
        needs_rows = isinstance(protocol, StarProtocol) and protocol.needs_rows
        yield from _NETWORKS if needs_rows else _CELLS
        if isinstance(protocol, StarProtocol) and protocol.on_cells:
            yield f"Mind: {protocol.on_cells}"
    yield policy.described(name)


def _lost(cells: Stored, columns: Sequence[str]) -> str:
    """What the minimum costs: the share of the rows' variance that is within cells.

    Mean over the plan's columns, but for those of which no total within cells is kept.
    """
    at = [cells.columns.index(column) for column in columns]
    means, within = cells.means[:, at], cells.scatter[at]
    middle = np.average(means, axis=0, weights=cells.weights)
    between = (cells.weights[:, None] * np.square(means - middle)).sum(axis=0)
    known = within > 0
    if not known.any():
        return ""
    share = np.mean(within[known] / (within + between)[known])
    return (
        f" The cells lose {share:.0%} of the rows' variance (mean over {known.sum()} of {len(at)} "
        "columns): the less, the nearer their clusters are to those of rows. A lower min_count "
        "loses less."
    )


_NETWORKS = (
    "This method is given the rows of these cells as they are, and trains a network on them: no "
    "minimum count bounds what that tells of single rows.",
)
_CELLS = (
    "What others can learn of them, in this and every later run, are means and numbers of these "
    "cells: where it says rows above, read cells. What all persons of a cell have in common is "
    "seen in its mean.",
    "Who has full records, these rows among them, can tell which are the site's, the better the "
    "more columns there are; only noise would prevent that.",
)
