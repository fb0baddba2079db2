"""The tables that tests go through, all of them made from the catalog: a new method joins each."""

from __future__ import annotations

from typing import Any

import numpy as np

import unpooled
from unpooled import catalog
from unpooled.data.parties import Parties
from unpooled.protocols.prepare.then import Prepared


def nobody(n_parties: int = 5, n_columns: int = 2) -> Parties:
    """Parties of whom only names and columns are known."""
    return Parties.of([np.empty((0, n_columns))] * n_parties)


def protocols(role: str | None = None) -> dict[str, Any]:
    """The protocol of every sample in the catalog, of one role or of both."""
    return dict(catalog.samples(nobody(), role))


def attackable(n_columns: int) -> dict[str, Any]:
    """Star protocols of samples that send sums of rows themselves, for tables of so many columns.

    Samples with given centres are left out: these are for two columns. So are kernel methods,
    whose sums are of rows that are mapped elsewhere: they have attacks of their own.
    """
    found = {}
    for method in catalog.METHODS:
        for name, options in method.samples.items():
            if method.role == "star" and not isinstance(options.get("init"), tuple):
                model = method.estimator(**{"n_clusters": 3, **options})
                protocol = model.planned(nobody(10, n_columns))
                if not isinstance(protocol, Prepared) and not _sends_rows(protocol):
                    found[f"sample: {name}"] = protocol
    return found


def estimators() -> list[Any]:
    """Every estimator that ``unpooled`` exports."""
    return [getattr(unpooled, name) for name in catalog.names()]


def _sends_rows(protocol: Any) -> bool:
    return any("rows" in release.discloses for release in protocol.releases)
