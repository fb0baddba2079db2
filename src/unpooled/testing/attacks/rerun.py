"""The same plan once more, after one patient was added, removed or corrected.

Everything else is the same in both runs, so that differences of sums are about that patient alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unpooled.data.parties import Parties
from unpooled.errors import UnpooledError
from unpooled.privacy.policy import Policy
from unpooled.protocols.prepare.kernel import Kernel
from unpooled.testing.attacks.differencing import differences
from unpooled.testing.attacks.gram import NEAR, in_range, kernel_of
from unpooled.testing.attacks.outcome import EXACT, Outcome, matched, spread_of
from unpooled.testing.attacks.site import admitted
from unpooled.testing.attacks.statements import all_groups, joined, points
from unpooled.testing.attacks.target import Said, Target, Transcript
from unpooled.types import FloatArray

CHANGES = ("added", "removed", "corrected")
_STARTS = 60
"""Descents by which a row is looked for from its features."""


def one_patient(
    target: Target, tables: Sequence[FloatArray], policy: Policy, trials: int = 3
) -> Outcome:
    """Each kind of change in turn, at one party after the other.

    Sites name their rows, without which a store refuses rows that are gone or changed. A policy
    that keeps a memory gets a new one for each trial.
    """
    rng = np.random.default_rng(0)
    kernel = kernel_of(target.protocol(Parties.of(tables)))
    names = [[f"row {i}" for i in range(len(table))] for table in tables]
    found, messages, refusal = dict.fromkeys(CHANGES, 0), 0, ""
    for trial in range(trials):
        change, party = CHANGES[trial % 3], trial % len(tables)
        after, ids, wanted = _changed(change, tables[party], names[party], rng)
        own = _with_memory(policy, f"trial {trial}")
        then, then_names = list(tables), list(names)
        then[party], then_names[party] = after, ids
        first = _run(target, tables, names, own)
        second = _run(target, then, then_names, own)
        refusal = refusal or first.refusal or second.refusal
        said = [*first.of(party), *second.of(party)]
        messages += len(said)
        found[change] += gives_away(said, wanted, tables[party]) or _by_features(
            said, kernel, wanted, tables[party]
        )
    counts = ", ".join(f"{change} {count}" for change, count in found.items())
    recovered = sum(found.values())
    name = "rerun, one patient changed"
    return Outcome(name, recovered, trials, counts, messages=messages, refusal=refusal)


def _run(
    target: Target, tables: Sequence[FloatArray], names: Sequence[Sequence[str]], policy: Policy
) -> Transcript:
    parties = Parties.of(tables)
    try:
        parties = admitted(parties, policy, ids=dict(enumerate(names)))
    except UnpooledError as refusal:
        return replace(Transcript.empty(parties), refusal=str(refusal))
    return target.overheard_of(parties, policy)


def _changed(
    change: str, rows: FloatArray, names: Sequence[str], rng: np.random.Generator
) -> tuple[FloatArray, list[str], FloatArray]:
    """The table after the change, its rows' names, and what would give the patient away."""
    i = int(rng.integers(len(rows)))
    if change == "removed":
        return np.delete(rows, i, axis=0), [*names[:i], *names[i + 1 :]], rows[i]
    fresh = rows.mean(axis=0) + rows.std(axis=0) * rng.normal(size=rows.shape[1])
    if change == "added":
        return np.vstack([rows, fresh]), [*names, "the new one"], fresh
    after = rows.copy()
    after[i] = fresh
    return after, list(names), fresh - rows[i]


def gives_away(said: Sequence[Said], wanted: FloatArray, rows: FloatArray) -> bool:
    """Whether what was said, in two runs, has this among its points, sums and differences."""
    d, tolerance = rows.shape[1], EXACT * spread_of(rows)
    sums = joined((group.with_unions() for group in all_groups(said, d)), d)
    found = matched(wanted[None], points(said, d), tolerance)
    return bool((found | differences(wanted[None], sums, tolerance)).any())


def _by_features(
    said: Sequence[Said], kernel: Kernel | None, wanted: FloatArray, rows: FloatArray
) -> bool:
    """Whether the features of one row are what products of both runs differ by."""
    asked = [one for one in said if one.kind == "products" and one.round == 0]
    if kernel is None or len(asked) != 2:
        return False
    (first, then), names = asked, asked[0].question
    if not all(np.array_equal(names[name], then.question[name]) for name in names):
        return False
    change = then.body["products"] - first.body["products"]
    if not change.any():
        return False
    rng = np.random.default_rng(0)
    starts = rows[rng.integers(len(rows), size=_STARTS)] + spread_of(rows) * rng.normal(
        size=(_STARTS, rows.shape[1])
    )
    found = in_range(kernel.features(names), change, starts, spread_of(rows))
    return bool(matched(wanted[None], found, NEAR * spread_of(rows)).any())


def _with_memory(policy: Policy, name: str) -> Policy:
    folder = getattr(policy, "memory", None)
    return policy if folder is None else policy.with_own(memory=Path(folder) / name)
