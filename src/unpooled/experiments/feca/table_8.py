"""Table 8: FeCA over the number of parties, each of which holds 5 % of the rows of S1."""

from __future__ import annotations

from unpooled.experiments.feca.parties import (
    PARTY_METHODS,
    PARTY_SETTING,
    falling_claim,
    party_page,
    party_tasks,
)
from unpooled.experiments.feca.setting import FECA_READINGS, ROWS_AND_DISTANCE
from unpooled.experiments.reproduction.page import Claims, Page
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task

TABLE_8 = {
    "distance": "10.7±14.3 3.1±0.6 2.6±0.4 2.1±0.3 2.0±0.3 1.7±0.3 1.8±0.2 1.6±0.4 1.4±0.2 1.4±0.3 "
    "1.3±0.2 1.4±0.3 1.3±0.2 1.4±0.2 1.2±0.2 1.2±0.1 1.1±0.1 1.1±0.1 1.0±0.1 1.0±0.1",
    "purity": " ".join(["0.98", *["0.99"] * 19]),
    "nmi": " ".join(["0.98", *["0.99"] * 19]),
}
"""As printed, for 1 to 20 parties."""


def tasks(scale: Scale) -> list[Task]:
    """Every number of parties."""
    return party_tasks("5%", scale)


def page(scale: Scale, results: Results) -> Page:
    """The tables, and that more parties help."""
    claims = [falling_claim("5%", method, scale, results) for method in PARTY_METHODS]
    return party_page("5%", TABLE_8, Claims("More parties help", claims), scale, results)


EXPERIMENT = Experiment(
    title="FeCA, Table 8: over the number of parties, 5 % of the rows each",
    setting=ROWS_AND_DISTANCE
    + FECA_READINGS
    + PARTY_SETTING
    + " Every party holds 5 % of the rows; shares are disjoint, which the paper does not say, but "
    "with 20 parties it prints what it prints for all rows.",
    runs=10,
    quick_runs=1,
    tasks=tasks,
    page=page,
)
