"""Figure 5: how far the cost is above its last value, per round, over rho."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.dgc.costs import (
    ALIKE,
    CURVE_RUNS,
    LOG_ROUNDS,
    LOWEST,
    cost_curves,
    cost_tasks,
    drawn_costs,
    settled,
)
from unpooled.experiments.dgc.figure_2 import CURVES
from unpooled.experiments.dgc.setting import DGC_LOSSES, IRIS_COST_SETTING
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task

_HALFWAY = int(LOG_ROUNDS[np.searchsorted(LOG_ROUNDS, 500)])


def tasks(scale: Scale) -> list[Task]:
    """Every loss and rho: the runs of Figure 2."""
    return cost_tasks(CURVES.values(), scale.runs)


def page(scale: Scale, results: Results) -> Page:
    """Rounds until the cost has settled."""
    rounds = {
        loss: [settled(results, loss, curve, scale.runs) for curve in CURVES.values()]
        for loss in DGC_LOSSES
    }
    rows = [["method", *CURVES]]
    rows += [[f"DGC-{loss}", *(f"{v:.0f}" for v in needed)] for loss, needed in rounds.items()]
    holds = all((np.diff(needed) > 0).all() for needed in rounds.values())
    words = "; ".join(
        f"{loss}: {', '.join(f'{value:.0f}' for value in needed)}"
        for loss, needed in rounds.items()
    )
    claim = Claim(
        "the normalised cost converges slower for larger rho",
        f"rounds until it is within 0.1 % of J^T, for rho = 1, 10, 100, 1000: {words}",
        holds,
        "Not for every loss does each larger rho need more rounds.",
    )
    first, last = (np.mean([needed[place] for needed in rounds.values()]) for place in (0, -1))
    left = [_still(results, loss, scale.runs) for loss in DGC_LOSSES]
    conclusion = (
        f"The cost settles {'later' if holds else 'not always later'} for larger rho: after "
        f"{first:.0f} rounds with rho = 1 and {last:.0f} with rho = 1000, on average over the "
        f"losses. With rho = 1000 it is still falling at round {_HALFWAY}, the first kept one "
        f"after 500: it is {min(left):.2%} to {max(left):.2%} above that of round 1,000."
    )
    caption = (
        f"The normalised cost (J^t - J^T) / J^T, T = 1,000, of round t, mean over {scale.runs} "
        f"runs and one standard deviation around it; the band's lower edge is cut at {LOWEST} of "
        f"the mean. Both axes are logarithmic; lines end where nothing is left. {ALIKE}"
    )
    settling = Plain("Rounds until the cost is within 0.1 % of that at round 1,000", rows)
    return Page([Claims("The claim", [claim]), settling], conclusion, caption)


def _still(results: Results, loss: str, runs: int) -> float:
    """How far the cost at _HALFWAY is above the last one, at rho = 1000."""
    place = int(np.searchsorted(LOG_ROUNDS, _HALFWAY))
    curve = CURVES["rho = 1000"]
    return float(cost_curves(results, loss, curve, runs, above=True)[:, place].mean())


def draw(scale: Scale, results: Results) -> Any:
    """Three panels, as in the paper."""
    return drawn_costs(results, CURVES, scale.runs, above=True)


EXPERIMENT = Experiment(
    title="DGC, Figure 5: how fast the cost settles, over rho",
    setting=f"{IRIS_COST_SETTING} J^T is the cost at round T = 1,000.",
    runs=CURVE_RUNS,
    quick_runs=2,
    tasks=tasks,
    page=page,
    draw=draw,
)
