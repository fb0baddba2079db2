"""What a site knows of its rows and a fit in one process does not: their names and persons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from unpooled.data.parties import Parties
from unpooled.privacy.policy import Policy
from unpooled.privacy.site_rows import SiteRows


def admitted(
    parties: Parties,
    policy: Policy,
    *,
    ids: Mapping[int, Sequence[str]] | None = None,
    persons: Mapping[int, Sequence[str]] | None = None,
) -> Parties:
    """What protocols are given of the parties' rows, where sites name rows or persons.

    Both are by the numbers of those parties that do. Without a minimum count the rows stay rows.
    """
    if policy.min_count <= 1:
        return parties
    columns = tuple(f"column {j}" for j in range(1, parties.n_features + 1))
    seen = []
    for i in range(len(parties)):
        data = parties[i]
        site = SiteRows(
            columns,
            np.asarray(data.rows),
            data.weights,
            ids=(ids or {}).get(i),
            persons=(persons or {}).get(i),
        )
        seen.append(policy.admitted(data, site=site))
    cells = [np.asarray(data.rows) for data in seen]
    weights = [data.weights for data in seen]
    return replace(Parties.of(cells, weights=weights, names=parties.names), admitted=True)
