"""Rows that a method sends as they are, or as features from which they follow.

A method that sends a sample of rows, or starts at some of them, needs no attack: they are read. If
it maps rows before it sends them, the map is known to everybody, and is inverted by least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from unpooled.data.parties import Parties
from unpooled.privacy.policy import Policy
from unpooled.protocols.prepare.then import Prepared
from unpooled.testing.attacks.inversion import solutions
from unpooled.testing.attacks.outcome import (
    EXACT,
    Outcome,
    count_in,
    does_not_apply,
    matched,
    spread_of,
)
from unpooled.testing.attacks.statements import points
from unpooled.testing.attacks.target import Said, Target
from unpooled.types import Body, FloatArray

_NAME = "rows sent as rows"
_NEAR = 1e-4
"""How near an inverted row must be, in units of the rows' spread."""
_STARTS = 8
"""For each of the rows to invert."""
_MOST = 40
"""Rows of a party that are inverted."""


def sent_rows(target: Target, tables: Sequence[FloatArray], policy: Policy) -> Outcome:
    """Reads the messages that are declared to disclose rows."""
    protocol = target.protocol(Parties.of(tables))
    kinds = {release.kind for release in protocol.releases if "rows" in release.discloses}
    if not kinds:
        return does_not_apply(_NAME, "it declares to send no rows")
    transcript = target.overheard(tables, policy)
    total = 0
    for i, rows in enumerate(tables):
        said = [one for one in transcript.of(i) if one.kind in kinds]
        spread = spread_of(rows)
        found = matched(rows, points(said, rows.shape[1]), EXACT * spread)
        if isinstance(protocol, Prepared):
            starts = tables[(i + 1) % len(tables)]  # where rows plausibly lie
            guesses = _inverted(said, protocol, starts, spread)
            found |= matched(rows, guesses, _NEAR * spread)
        total += int(found.sum())
    return Outcome(
        _NAME,
        total,
        count_in(tables),
        messages=transcript.messages,
        refusal=transcript.refusal,
    )


def _inverted(
    said: Iterable[Said], protocol: Prepared, starts: FloatArray, spread: float
) -> FloatArray:
    """Points that are mapped to what was sent."""
    found = [np.empty((0, starts.shape[1]))]
    for one in said:
        sent = one.body.get("rows")
        embed = _embedding(protocol, one.question)
        if sent is None or sent.ndim != 2 or embed is None or not len(sent):
            continue
        wanted = np.repeat(sent[:_MOST], _STARTS, axis=0)
        if embed(starts[:1]).shape[1] != wanted.shape[1]:
            continue
        rng = np.random.default_rng(0)
        at = starts[rng.integers(len(starts), size=len(wanted))]
        size = float(np.square(wanted).sum(axis=1).mean()) or 1.0
        found.append(
            solutions(lambda x, e=embed, w=wanted: e(x) - w, at, spread, 1e-16 * size)  # type: ignore[misc]
        )
    return np.concatenate(found)


def _embedding(protocol: Prepared, question: Body) -> Callable[[FloatArray], FloatArray] | None:
    """How rows were mapped that answer this question; None if it does not say."""
    chain, inner = [protocol], protocol.inner
    while isinstance(inner, Prepared):
        chain.append(inner)
        inner = inner.inner
    if not all(name in question for one in chain for name in one.parameters.fields):
        return None

    def embed(rows: FloatArray) -> FloatArray:
        for one in chain:
            rows = one.embed(rows, question)
        return rows

    return embed
