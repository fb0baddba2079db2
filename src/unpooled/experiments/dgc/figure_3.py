"""Figure 3: the cost per round, over the inner steps B."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.dgc.costs import (
    ALIKE,
    CURVE_RUNS,
    LOG_ROUNDS,
    Curve,
    cost_key,
    cost_tasks,
    drawn_costs,
    settled,
)
from unpooled.experiments.dgc.setting import DGC_LOSSES, IRIS_COST_SETTING
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task

STEPS = (1, 10, 100)
CURVES: dict[str, Curve] = {f"B = {steps}": (10.0, steps) for steps in STEPS}
SHOWN = 300
"""Rounds drawn; all have settled long before."""


def tasks(scale: Scale) -> list[Task]:
    """Every loss and B."""
    return cost_tasks(CURVES.values(), scale.runs)


def page(scale: Scale, results: Results) -> Page:
    """Rounds, and exchanges, until the cost has settled."""
    rounds = {
        loss: [settled(results, loss, curve, scale.runs) for curve in CURVES.values()]
        for loss in DGC_LOSSES
    }
    rows = [["method", "B", "rounds", "exchanges with neighbours", "last cost"]]
    for loss, needed in rounds.items():
        for steps, value, curve in zip(STEPS, needed, CURVES.values(), strict=True):
            cost = results.runs(cost_key(loss, *curve), "last", scale.runs).mean()
            texts = [f"{value:.1f}", f"{steps * value:.0f}", f"{cost:.4f}"]
            rows.append([f"DGC-{loss}", str(steps), *texts])
    words = "; ".join(
        f"{loss}: {', '.join(f'{value:.1f}' for value in needed)}"
        for loss, needed in rounds.items()
    )
    holds = all((np.diff(needed) < 0).all() for needed in rounds.values())
    claim = Claim(
        "larger B leads to faster convergence",
        f"rounds until the cost is within 0.1 % of its last value, for B = 1, 10, 100: {words}",
        holds,
        "Not for every loss does each larger B need fewer rounds.",
    )
    first, last = (np.mean([needed[place] for needed in rounds.values()]) for place in (0, -1))
    conclusion = (
        f"Larger B needs {'fewer' if holds else 'not always fewer'} rounds: {first:.0f} with "
        f"B = 1, {last:.0f} with B = 100, on average over the losses. Each round has B exchanges "
        f"with neighbours, so what is sent grows: {first:.0f} exchanges against {100 * last:.0f}."
    )
    caption = (
        f"Cost per round, rho = 10, mean over {scale.runs} runs and one standard deviation around "
        f"it, drawn up to round {LOG_ROUNDS[LOG_ROUNDS <= SHOWN][-1]}. Rounds are on a logarithmic "
        f"axis. {ALIKE}"
    )
    settling = Plain("Until the cost has settled", rows)
    return Page([Claims("The claim", [claim]), settling], conclusion, caption)


def draw(scale: Scale, results: Results) -> Any:
    """Three panels, as in the paper."""
    return drawn_costs(results, CURVES, scale.runs, until=SHOWN, yscale="linear")


EXPERIMENT = Experiment(
    title="DGC, Figure 3: the cost per round, over B",
    setting=f"{IRIS_COST_SETTING} rho = 10. A cost is taken at the end of a round.",
    runs=CURVE_RUNS,
    quick_runs=2,
    tasks=tasks,
    page=page,
    draw=draw,
)
