"""Lists what a plan would send, message by message, without sending anything.

A dry run refuses what the run would (:mod:`unpooled.deploy.check`) and opens no connection.
"""

from __future__ import annotations

from collections.abc import Iterator

from unpooled.data.sources import OwnRows
from unpooled.deploy.plan import Plan
from unpooled.messages.conform import largest_size, most_numbers
from unpooled.messages.release import AtMost, Columns, Release, Size
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
            "In a mesh no minimum count can be promised: whoever receives the messages of a user "
            "and of all of its neighbours can solve them for its cluster sums and counts."
        )
    yield ""
    yield (
        "What stays on disk, readable by its owner alone: ledger.jsonl (a line for every message "
        "that left), journal (what arrived), memory (what the party's steps remember, with a "
        "number for every row), known, incarnation, owner, run, lock, and the results."
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


def allowed(name: PartyId, policy: Policy, rows: OwnRows) -> Iterator[str]:
    """What the party's policy and rows allow, once nothing in them is against the run."""
    n_rows = len(rows.parties.rows)
    yield f"{name} has {n_rows} rows for this."
    if n_rows < policy.min_count and policy.min_count > 1:
        yield (
            f"They are fewer than its minimum count of {policy.min_count}: all about them will be "
            "suppressed."
        )
    yield policy.described(name)
