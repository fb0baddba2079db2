"""The tables that tests go through, all of them made from the catalog: a new method joins each."""

from __future__ import annotations

from typing import Any

import numpy as np

import unpooled
from unpooled import catalog
from unpooled.data.parties import Parties


def nobody(n_parties: int = 5, n_columns: int = 2) -> Parties:
    """Parties of whom only names and columns are known."""
    return Parties.of([np.empty((0, n_columns))] * n_parties)


def protocols(role: str | None = None) -> dict[str, Any]:
    """The protocol of every sample in the catalog, of one role or of both."""
    return dict(catalog.samples(nobody(), role))


def attackable(n_columns: int) -> dict[str, Any]:
    """Star protocols of samples that send no rows, for tables of so many columns.

    Samples with given centres are left out: these are for two columns.
    """
    return {
        name: model.planned(nobody(10, n_columns))
        for method in catalog.METHODS
        if method.role == "star"
        for name, options in method.samples.items()
        if not isinstance(options.get("init"), tuple)
        if not _sends_rows(model := method.estimator(**{"n_clusters": 3, **options}))
    }


def estimators() -> list[Any]:
    """Every estimator that ``unpooled`` exports."""
    return [getattr(unpooled, name) for name in catalog.names()]


def _sends_rows(model: Any) -> bool:
    releases = model.planned(nobody()).releases
    return any("rows" in release.discloses for release in releases)
