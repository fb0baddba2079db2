"""Table 9: FeCA over the number of parties that share all rows of S1."""

from __future__ import annotations

from unpooled.experiments.feca.parties import (
    PARTY_METHODS,
    PARTY_SETTING,
    party_page,
    party_tasks,
    settled_claim,
)
from unpooled.experiments.feca.setting import FECA_READINGS, ROWS_AND_DISTANCE
from unpooled.experiments.reproduction.page import Claims, Page
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task

TABLE_9 = {
    "distance": "14.3±18.7 1.1±0.3 1.2±0.3 1.1±0.2 1.1±0.2 1.2±0.2 1.1±0.1 1.1±0.1 1.0±0.1 1.0±0.1 "
    "1.1±0.1 1.1±0.1 1.1±0.2 1.1±0.1 1.1±0.1 1.0±0.2 1.1±0.2 1.1±0.1 1.1±0.1 1.1±0.1",
    "purity": " ".join(["0.97", *["0.99"] * 19]),
    "nmi": " ".join(["0.98", *["0.99"] * 19]),
}
"""As printed, for 1 to 20 parties."""


def tasks(scale: Scale) -> list[Task]:
    """Every number of parties."""
    return party_tasks("all", scale)


def page(scale: Scale, results: Results) -> Page:
    """The tables, and that the number hardly matters."""
    claims = [settled_claim("all", method, scale, results) for method in PARTY_METHODS]
    return party_page("all", TABLE_9, Claims("The number hardly matters", claims), scale, results)


EXPERIMENT = Experiment(
    title="FeCA, Table 9: over the number of parties that share all rows",
    setting=ROWS_AND_DISTANCE + FECA_READINGS + PARTY_SETTING + " Parties share all rows.",
    runs=10,
    quick_runs=1,
    tasks=tasks,
    page=page,
)
