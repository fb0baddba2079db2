"""Ten visits of one patient: as many rows as a minimum count asks for, and one person.

The visits lie close together, so that methods put them into a cluster of their own, whose centroid
is that patient. A site that says whose each row is counts persons instead of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.data.parties import Parties
from unpooled.privacy.policy import Policy
from unpooled.testing.attacks.differencing import differences
from unpooled.testing.attacks.outcome import EXACT, Outcome, matched, spread_of
from unpooled.testing.attacks.site import admitted
from unpooled.testing.attacks.statements import all_groups, joined, points
from unpooled.testing.attacks.target import Target
from unpooled.types import FloatArray

VISITS = 10
_FAR, _CLOSE = 8.0, 0.01
"""Deviations of the patient from all others, and of visits from each other."""


def ten_visits(
    target: Target, tables: Sequence[FloatArray], policy: Policy, *, named: bool = True
) -> Outcome:
    """Looks for the patient's mean, and for single visits, in what the first party sends.

    Unless ``named``, the site does not say whose its rows are.
    """
    rows, d = tables[0], tables[0].shape[1]
    rng = np.random.default_rng(0)
    patient = rows.mean(axis=0) + _FAR * rows.std(axis=0) * rng.choice([-1.0, 1.0], size=d)
    visits = patient + _CLOSE * spread_of(rows) * rng.normal(size=(VISITS, d))
    parties = Parties.of([np.vstack([rows, visits]), *tables[1:]])
    if named and policy.min_count > 1:
        whose = [*map(str, range(len(rows))), *["the patient"] * VISITS]
        parties = admitted(parties, policy, persons={0: whose})
    transcript = target.overheard_of(parties, policy)
    said = transcript.of(0)
    wanted = np.vstack([visits.mean(axis=0), visits])
    tolerance = EXACT * spread_of(rows)
    found = matched(wanted, points(said, d), tolerance)
    found |= differences(wanted, joined(all_groups(said, d), d), tolerance)
    detail = "the patient's mean" if found[0] else f"{int(found[1:].sum())} single visits"
    return Outcome(
        "ten visits of one patient",
        int(found.any()),
        1,
        detail,
        messages=len(said),
        refusal=transcript.refusal,
    )
