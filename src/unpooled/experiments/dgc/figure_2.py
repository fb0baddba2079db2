"""Figure 2: the cost per round, over rho. It is drawn in the paper; no numbers are printed."""

from __future__ import annotations

from typing import Any

from unpooled.experiments.dgc.costs import (
    ALIKE,
    CURVE_RUNS,
    LOG_ROUNDS,
    LOWEST,
    Curve,
    cost_curves,
    cost_tasks,
    drawn_costs,
    largest_rise,
)
from unpooled.experiments.dgc.setting import DGC_LOSSES, IRIS_COST_SETTING, RHOS, ROUNDS
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task

CURVES: dict[str, Curve] = {f"rho = {rho:g}": (rho, 1) for rho in RHOS}
ROUNDING = 1e-12
"""A rise by less, relative to the cost, is rounding."""


def tasks(scale: Scale) -> list[Task]:
    """Every loss and rho."""
    return cost_tasks(CURVES.values(), scale.runs)


def page(scale: Scale, results: Results) -> Page:
    """The claim, and costs at some rounds."""
    rise = largest_rise(results, list(CURVES.values()), scale.runs)
    claim = Claim(
        "the cost falls in every iteration",
        f"the largest rise in one round, relative to the last cost, in {scale.runs} runs of every "
        f"loss and rho: {rise:.1e}",
        rise <= ROUNDING,
        f"It rises by {rise:.1e} of the last cost; rounding alone gives up to {ROUNDING:g}.",
    )
    never = "never rises" if claim.holds else f"rises by up to {rise:.1e} of its last value"
    conclusion = (
        f"In {scale.runs} runs of every loss and rho, over 1,000 rounds, the cost {never}, beyond "
        "rounding: Lemma 2 of the paper is seen."
        if claim.holds
        else f"The cost {never}: Lemma 2 of the paper is not seen."
    )
    last = LOG_ROUNDS[LOG_ROUNDS <= ROUNDS][-1]
    caption = (
        f"Cost per round, B = 1, mean over {scale.runs} runs and one standard deviation around it "
        f"(its lower edge is cut at {LOWEST} of the mean), drawn up to round {last}. Both axes are "
        f"logarithmic. {ALIKE}"
    )
    return Page([Claims("The claim", [claim]), _costs(scale, results)], conclusion, caption)


def _costs(scale: Scale, results: Results) -> Plain:
    places = [0, *(i for i, t in enumerate(LOG_ROUNDS) if t in (10, 100)), -1]
    rows = [["method", "rho", *(f"round {LOG_ROUNDS[i]}" for i in places)]]
    for loss in DGC_LOSSES:
        for rho in RHOS:
            mean = cost_curves(results, loss, (rho, 1), scale.runs).mean(axis=0)
            rows.append([f"DGC-{loss}", f"{rho:g}", *(f"{mean[i]:.5g}" for i in places)])
    return Plain("Mean cost at some rounds", rows)


def draw(scale: Scale, results: Results) -> Any:
    """Three panels, as in the paper."""
    return drawn_costs(results, CURVES, scale.runs, until=ROUNDS)


EXPERIMENT = Experiment(
    title="DGC, Figure 2: the cost per round, over rho",
    setting=IRIS_COST_SETTING,
    runs=CURVE_RUNS,
    quick_runs=2,
    tasks=tasks,
    page=page,
    draw=draw,
)
