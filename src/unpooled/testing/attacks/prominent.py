"""Single rows that stand out: one far from all others, and one with a third of the weight.

Neither needs a difference: sums and sums of squares over many rows are about that row mostly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unpooled.privacy.policy import Policy
from unpooled.testing.attacks.outcome import Outcome
from unpooled.testing.attacks.statements import groups_of, points
from unpooled.testing.attacks.target import Said, Target, Transcript
from unpooled.types import FloatArray

_NEAR = 0.01
"""How near a guess must be, relative to how far the row lies from the others' mean."""
_FAR, _AWAY = 3000.0, 40.0
"""Deviations from the mean at which the outlier, a mistyped value, and the heavy row lie."""


def outlier(target: Target, tables: Sequence[FloatArray], policy: Policy) -> Outcome:
    """A row far away, looked for in what is sent and in roots of sums of squares."""
    rows = tables[0]
    row = rows.mean(axis=0) + _FAR * rows.std(axis=0) * _signs(rows.shape[1])
    planted = [np.vstack([rows, row]), *tables[1:]]
    transcript = target.overheard(planted, policy)
    said = transcript.of(0)
    guesses = [points(said, rows.shape[1]), *_from_moments(said, tables)]
    guesses += _extrapolated(said, tables, share=1 / (len(rows) + 1))
    return _outcome("outlier", row, rows, guesses, transcript)


def heavy_row(target: Target, tables: Sequence[FloatArray], policy: Policy) -> Outcome:
    """A row with a third of its party's weight: the mean is a third that row."""
    rows = tables[0]
    row = rows.mean(axis=0) + _AWAY * rows.std(axis=0) * _signs(rows.shape[1])
    weights = [np.append(np.ones(len(rows)), len(rows) / 2)]
    weights += [np.ones(len(table)) for table in tables[1:]]
    planted = [np.vstack([rows, row]), *tables[1:]]
    transcript = target.overheard(planted, policy, weights=weights)
    said = transcript.of(0)
    guesses = [points(said, rows.shape[1]), *_extrapolated(said, tables, share=1 / 3)]
    return _outcome("row with a third of the weight", row, rows, guesses, transcript)


def _from_moments(said: Sequence[Said], tables: Sequence[FloatArray]) -> Iterator[FloatArray]:
    """The outlier from Σ x², less what the other rows add, as rows elsewhere do."""
    elsewhere = np.concatenate(tables[1:])
    for one in said:
        if "squares" not in one.body:
            continue
        origin, n = one.question.get("origin", 0.0), float(one.body["weight"][0])
        others = (n - 1) * np.square(elsewhere - origin).mean(axis=0)
        far = np.sqrt(np.maximum(one.body["squares"] - others, 0.0))
        yield (np.copysign(far, one.body["sums"]) + origin)[None]


def _extrapolated(
    said: Sequence[Said], tables: Sequence[FloatArray], share: float
) -> Iterator[FloatArray]:
    """The row that has this share of the weight, if all others are as rows elsewhere are."""
    typical = np.concatenate(tables[1:]).mean(axis=0)
    for one in said:
        group = groups_of(one, len(typical))
        if group is not None and group.counts.sum() > 0:
            yield typical + (group.total.means - typical) / share


def _outcome(
    name: str,
    row: FloatArray,
    rows: FloatArray,
    guesses: Sequence[FloatArray],
    transcript: Transcript,
) -> Outcome:
    """Found if some guess is near, as seen from where the other rows are."""
    away = np.linalg.norm(np.concatenate(guesses) - row, axis=1)
    relative = float(away.min(initial=np.inf)) / float(np.linalg.norm(row - rows.mean(axis=0)))
    return Outcome(
        name,
        int(relative <= _NEAR),
        1,
        f"found to {relative:.2g} of its distance",
        messages=len(transcript.of(0)),
        refusal=transcript.refusal,
    )


def _signs(n_columns: int) -> FloatArray:
    return np.where(np.arange(n_columns) % 2 == 0, 1.0, -1.0)
