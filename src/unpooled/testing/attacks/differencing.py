"""Sums subtracted from each other: within a run, and across runs that differ in k or in the seed.

Two sums over groups of rows that differ by one row give it away. The first attack takes every two
sums that a party ever sent, over single groups, two of them, all but one, and all. The second is
linear algebra: with it known which rows each sum is over, a row is recovered if it is a linear
combination of all that was sent (:mod:`unpooled.testing.attacks.span`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.errors import UnpooledError
from unpooled.privacy.policy import Policy
from unpooled.testing.attacks.outcome import (
    EXACT,
    Outcome,
    count_in,
    does_not_apply,
    matched,
    spread_of,
    unit,
)
from unpooled.testing.attacks.span import in_span
from unpooled.testing.attacks.statements import Groups, all_groups, joined, points
from unpooled.testing.attacks.target import Said, Target, Transcript
from unpooled.types import BoolArray, FloatArray

SWEEP = tuple({"n_clusters": k} for k in range(2, 21))
"""A search for the number of clusters."""
SEEDS = tuple({"seed": seed} for seed in range(20))
_MOST_SUMS = 40_000
"""Sums of one party that are compared with each other."""


def one_run(target: Target, tables: Sequence[FloatArray], policy: Policy) -> Outcome:
    """All that leaves in a single run."""
    return across(target, tables, policy, [{}], "one run, overheard")


def k_sweep(target: Target, tables: Sequence[FloatArray], policy: Policy) -> Outcome:
    """A run for each number of clusters from 2 to 20."""
    return across(target, tables, policy, SWEEP, "k from 2 to 20")


def seeds(target: Target, tables: Sequence[FloatArray], policy: Policy) -> Outcome:
    """Twenty runs of the same plan with other seeds."""
    return across(target, tables, policy, SEEDS, "20 seeds")


def across(
    target: Target,
    tables: Sequence[FloatArray],
    policy: Policy,
    runs: Iterable[Mapping[str, Any]],
    name: str,
) -> Outcome:
    """What several runs on the same tables give away together.

    Runs with parameters that the method does not take are left out: nobody could make them.
    """
    wanted, transcripts, why = list(runs), [], ""
    for changes in wanted:
        try:
            transcripts.append(target.overheard(tables, policy, **changes))
        except UnpooledError as error:
            why = str(error)
    if len(transcripts) < min(2, len(wanted)):
        return does_not_apply(name, why)
    return Outcome(
        name,
        recovered(transcripts, tables),
        count_in(tables),
        f"runs: {len(transcripts)} of {len(wanted)}",
        messages=sum(one.messages for one in transcripts),
        refusal=next((one.refusal for one in transcripts if one.refusal), ""),
    )


def recovered(transcripts: Sequence[Transcript], tables: Sequence[FloatArray]) -> int:
    """How many rows follow exactly from what all these runs let out."""
    total = 0
    for i, rows in enumerate(tables):
        said = [one for transcript in transcripts for one in transcript.of(i)]
        total += int(recovered_of(said, rows).sum())
    return total


def recovered_of(said: Sequence[Said], rows: FloatArray) -> BoolArray:
    """Which of a party's rows follow exactly from what it sent."""
    d, tolerance = rows.shape[1], EXACT * spread_of(rows)
    found = matched(rows, points(said, d), tolerance)
    sums = joined((group.with_unions() for group in all_groups(said, d)), d)
    found |= differences(rows, sums, tolerance)
    return found | in_span(said, rows, tolerance)


def differences(rows: FloatArray, groups: Groups, tolerance: float) -> BoolArray:
    """Which rows are the difference of two of the sums.

    For each row, the sums less the row are looked up among the sums, along one random direction.
    """
    direction = unit(rows.shape[1])
    along, first = np.unique(groups.sums @ direction, return_index=True)
    along, sums = along[:_MOST_SUMS], groups.sums[first[:_MOST_SUMS]]
    found = np.zeros(len(rows), dtype=bool)
    for i, at in enumerate(rows @ direction):
        low = np.searchsorted(along, along - at - tolerance)
        high = np.searchsorted(along, along - at + tolerance)
        for a in np.flatnonzero(high > low):
            left = sums[a] - sums[low[a] : high[a]] - rows[i]
            if np.linalg.norm(left, axis=1).min() <= tolerance:
                found[i] = True
                break
    return found
