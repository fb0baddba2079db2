"""One neighbour in a mesh, which only reads what it is sent: single rows in the first posts."""

from __future__ import annotations

from collections.abc import Sequence

from unpooled.graphs.reading import topology
from unpooled.privacy.policy import Policy
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.testing.attacks.differencing import recovered_of
from unpooled.testing.attacks.outcome import EXACT, Outcome, does_not_apply, matched, spread_of
from unpooled.testing.attacks.statements import points
from unpooled.testing.attacks.target import Said, Target
from unpooled.types import FloatArray

_NAME = "one neighbour"


def one_neighbour(target: Target, tables: Sequence[FloatArray], policy: Policy) -> Outcome:
    """The best that a single user learns of its neighbours, from their posts to it."""
    transcript = target.overheard(tables, policy)
    if not isinstance(target.protocol(transcript.parties), MeshProtocol):
        return does_not_apply(_NAME, "there is a coordinator, and parties do not hear each other")
    network = topology(target.graph, transcript.parties.names)
    best, of, at_once = 0, 0, 0
    for own in range(len(tables)):
        found = first = total = 0
        for other in network.adjacency[[own]].indices:
            rows = tables[other]
            heard = [said for said in transcript.of(other) if said.to is None or own in said.to]
            found += int(recovered_of(heard, rows).sum())
            first += _in_first_post(heard, rows)
            total += len(rows)
        if found > best or not of:
            best, of, at_once = found, total, first
    return Outcome(
        _NAME,
        best,
        of,
        f"{at_once} in the first posts",
        messages=transcript.messages,
        refusal=transcript.refusal,
    )


def _in_first_post(heard: Sequence[Said], rows: FloatArray) -> int:
    """Rows that are in the first message that has anything about rows, as they are."""
    for said in heard:
        sent = points([said], rows.shape[1])
        if len(sent):
            return int(matched(rows, sent, EXACT * spread_of(rows)).sum())
    return 0
