"""A coordinator that does not keep to the protocol and asks what gives single rows away.

Where a party adds up the rows nearest to each of the centres it is asked about, two centres that
differ in one column cut its rows at a value of that column. By halving, the coordinator finds the
cut at which the upper side grows by the next row; the difference of both answers is that row, with
all its columns.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unpooled.data.parties import Parties
from unpooled.messages.message import Ask
from unpooled.messages.release import Release
from unpooled.privacy.policy import Policy
from unpooled.protocols.prepare.standardise import MEAN, SCALE
from unpooled.protocols.star.base import Coordinator, StarProtocol
from unpooled.testing.attacks.differencing import recovered_of
from unpooled.testing.attacks.outcome import Outcome, does_not_apply
from unpooled.testing.attacks.statements import groups_of
from unpooled.testing.attacks.target import Target, Transcript, overheard
from unpooled.testing.wrapping import StarAround
from unpooled.types import Body, FloatArray

_NAME = "crafted questions"
_KIND = "sums"
_FIRST = 10
"""The rank, from the highest, of the first row that is looked for."""
_HALVINGS = 50
_QUESTIONS = 300


def crafted(target: Target, tables: Sequence[FloatArray], policy: Policy) -> Outcome:
    """Some 300 questions to one party, by which its rows are read off one after the other."""
    parties = Parties.of(tables)
    protocol = target.protocol(parties)
    if not isinstance(protocol, StarProtocol):
        return does_not_apply(_NAME, "nobody asks questions in a mesh")
    ask = next((ask for ask in protocol.asks if ask.kind == _KIND), None)
    if ask is None or "centers" not in ask.fields:
        return does_not_apply(_NAME, "no question has centres at which rows are added up")
    if set(ask.fields) - {"centers", MEAN, SCALE}:
        return does_not_apply(_NAME, "rows are added up in the space of an embedding")
    nosy = Halving(protocol, ask, Transcript.empty(parties), tables)
    overheard(nosy, parties, policy, into=nosy.transcript)
    rows, column = tables[0], nosy.column
    found = int(recovered_of(nosy.transcript.of(0), rows).sum())
    detail = f"{len(nosy.transcript.of(0))} questions"
    if nosy.cuts:
        off = float(np.abs(rows[:, column] - nosy.cuts[0]).min())
        detail += f"; the nearest row to the first cut is {off:.2g} away"
    return Outcome(
        _NAME,
        found,
        len(rows),
        detail,
        messages=len(nosy.transcript.of(0)),
        refusal=nosy.transcript.refusal,
    )


@dataclass(frozen=True, eq=False)
class Halving(StarAround):
    """The protocol with a coordinator that looks for one row after the other, at the first party.

    It knows the columns' plausible ranges, for which the other parties' rows stand.
    """

    ask: Release
    transcript: Transcript
    tables: Sequence[FloatArray]
    cuts: list[float] = field(default_factory=list)
    """The values that were found."""

    @property
    def column(self) -> int:
        """The column that rows are cut at: the one of most spread."""
        return int(np.concatenate(self.tables[1:]).var(axis=0).argmax())

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        elsewhere = np.concatenate(self.tables[1:])
        values = elsewhere[:, self.column]
        reach = 20 * float(values.std()) + 1.0
        bottom, top = float(values.mean()) - reach, float(values.mean()) + reach
        total = yield from self._above(bottom, elsewhere)
        rank = float(_FIRST)
        while self._asked < _QUESTIONS and rank <= total:
            low, high, at_low, at_high = bottom, top, total, 0.0
            for _ in range(_HALVINGS):
                if at_low - at_high <= 1 or self._asked >= _QUESTIONS:
                    break
                middle = (low + high) / 2
                above = yield from self._above(middle, elsewhere)
                if above >= rank:
                    low, at_low = middle, above
                else:
                    high, at_high = middle, above
            self.cuts.append((low + high) / 2)
            top, rank = high, at_low + 1
        return {}

    @property
    def _asked(self) -> int:
        return len(self.transcript.of(0))

    def _above(self, cut: float, elsewhere: FloatArray) -> Generator[Ask, Any, float]:
        """How much weight the first party has above the cut; NaN if it does not say."""
        d = elsewhere.shape[1]
        centers = np.tile(elsewhere.mean(axis=0), (2, 1))
        centers[:, self.column] = cut + np.array([1.0, -1.0])
        count = self.ask.shapes["centers"][0]
        if isinstance(count, int) and count > 2:  # all the others where no row is near
            far = np.tile(centers[:1] + 1e6 * (1 + np.abs(elsewhere).max()), (count - 2, 1))
            centers = np.vstack([centers, far])
        body: Body = {"centers": centers}
        if MEAN in self.ask.fields:
            body = {**body, MEAN: np.zeros(d), SCALE: np.ones(d)}
        before = self._asked
        yield Ask(_KIND, body, before, quorum=0)
        if self._asked == before:
            return float("nan")
        group = groups_of(self.transcript.of(0)[-1], d)
        return float("nan") if group is None else float(group.counts[0])
