"""All attacks, one after the other, on one method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from unpooled.privacy.policy import Policy
from unpooled.testing.attacks.differencing import k_sweep, one_run, seeds
from unpooled.testing.attacks.gram import reconstruct
from unpooled.testing.attacks.neighbour import one_neighbour
from unpooled.testing.attacks.outcome import Outcome
from unpooled.testing.attacks.prominent import heavy_row, outlier
from unpooled.testing.attacks.questions import crafted
from unpooled.testing.attacks.rerun import one_patient
from unpooled.testing.attacks.sent_rows import sent_rows
from unpooled.testing.attacks.target import Target
from unpooled.testing.attacks.visits import ten_visits
from unpooled.types import FloatArray

Attack: TypeAlias = Callable[[Target, Sequence[FloatArray], Policy], Outcome]

ATTACKS: Mapping[str, Attack] = {
    "one run": one_run,
    "k sweep": k_sweep,
    "seeds": seeds,
    "rerun": one_patient,
    "visits": ten_visits,
    "features": reconstruct,
    "outlier": outlier,
    "weight": heavy_row,
    "neighbour": one_neighbour,
    "questions": crafted,
    "rows": sent_rows,
}
"""Every attack, by a short name."""


def suite(
    target: Target, tables: Sequence[FloatArray], policy: Policy, memory: Path | None = None
) -> Iterator[Outcome]:
    """The outcomes, as they come.

    Every attack gets a new folder in ``memory`` for the cells, so that none sees another's rows;
    without one, a policy with a minimum count makes cells anew in every run.
    """
    for name, attack in ATTACKS.items():
        own = policy
        if memory is not None and policy.min_count > 1:
            own = policy.with_own(memory=memory / name)
        yield attack(target, tables, own)
