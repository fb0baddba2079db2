"""How the cost J_rho falls per round on Iris: what Figures 2, 3 and 5 draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unpooled.experiments.dgc.setting import DGC_LOSSES, iris_fit
from unpooled.experiments.reproduction.drawing import line_style, panels
from unpooled.experiments.reproduction.tasks import Results, Task
from unpooled.types import FloatArray

LAST_ROUND = 1000
LOG_ROUNDS = np.unique(np.rint(np.geomspace(1, LAST_ROUND, 28)).astype(int))
"""The rounds, from 1 on, at which costs are kept."""
NEAR = 1e-3
"""A cost has settled when it is above its last value by less than this share of it."""
CURVE_RUNS = 20
LOWEST = 0.3
"""Bands are cut at this share of the mean, since a logarithmic axis has no 0."""
ALIKE = (
    "The panels of KM and HL look alike, for no row is as far as Huber's delta = 5 from its centre."
)

Curve = tuple[float, int]
"""rho and B"""


def cost_run(loss: str, rho: float, inner_steps: int, seed: int) -> dict[str, Any]:
    """The cost of one run at LOG_ROUNDS, above its last value; and whether it ever rose."""
    model, _, _ = iris_fit("DGC", loss, rho, seed, inner_steps=inner_steps, rounds=LAST_ROUND)
    cost = np.asarray(model.history_["cost"])
    # Rounds that would change nothing have been left out.
    cost = np.append(cost, np.full(LAST_ROUND - len(cost), cost[-1]))
    above = cost - cost[-1]
    return {
        "last": float(f"{cost[-1]:.8g}"),
        "above": [float(f"{value:.4g}") for value in above[LOG_ROUNDS - 1]],
        "rise": float(f"{max(np.diff(cost).max() / cost[-1], 0.0):.2g}"),
        "settled": 1 + int(np.flatnonzero(above <= NEAR * cost[-1])[0]),
    }


def cost_key(loss: str, rho: float, inner_steps: int = 1) -> str:
    """The key of these runs, without the seed."""
    return f"iris-costs/{loss}/rho={rho:g}/B={inner_steps}"


def cost_tasks(curves: Iterable[Curve], runs: int) -> list[Task]:
    """All losses, one task per seed."""
    return [
        Task(
            f"{cost_key(loss, rho, steps)}/{seed}",
            cost_run,
            {"loss": loss, "rho": rho, "inner_steps": steps, "seed": seed},
        )
        for loss in DGC_LOSSES
        for rho, steps in curves
        for seed in range(runs)
    ]


def cost_curves(
    results: Results, loss: str, curve: Curve, runs: int, *, above: bool = False
) -> FloatArray:
    """Costs of all runs at LOG_ROUNDS; or (J^t - J^T) / J^T, J^T a run's own last cost."""
    key = cost_key(loss, *curve)
    values, last = results.runs(key, "above", runs), results.runs(key, "last", runs)[:, None]
    found: FloatArray = values / last if above else values + last
    return found


def settled(results: Results, loss: str, curve: Curve, runs: int) -> float:
    """Rounds, averaged over runs, until a cost is within 0.1 % of its last value."""
    return float(results.runs(cost_key(loss, *curve), "settled", runs).mean())


def largest_rise(results: Results, curves: Sequence[Curve], runs: int) -> float:
    """The largest rise of any cost in one round, as a share of its last value."""
    return max(
        float(results.runs(cost_key(loss, *curve), "rise", runs).max())
        for loss in DGC_LOSSES
        for curve in curves
    )


def drawn_costs(
    results: Results,
    curves: dict[str, Curve],
    runs: int,
    *,
    above: bool = False,
    until: int = LAST_ROUND,
    yscale: str = "log",
) -> Any:
    """Three panels, one per loss: means over runs, and a standard deviation around them."""
    figure, axes = panels(len(DGC_LOSSES), width=2.7, height=2.9)
    shown = until >= LOG_ROUNDS
    floor = 1e-12 if above else 0.0
    for panel, loss in zip(axes[0], DGC_LOSSES, strict=True):
        for place, (name, curve) in enumerate(curves.items()):
            values = cost_curves(results, loss, curve, runs, above=above)[:, shown]
            mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1 if runs > 1 else 0)
            mean = np.where(mean > floor, mean, np.nan)
            style = line_style(place)
            panel.plot(LOG_ROUNDS[shown], mean, label=name, **style)
            low, high = np.maximum(mean - spread, LOWEST * mean), mean + spread
            panel.fill_between(
                LOG_ROUNDS[shown], low, high, color=style["color"], alpha=0.2, linewidth=0
            )
        panel.set(xscale="log", yscale=yscale, title=f"DGC-{loss}", xlabel="round")
    axes[0, 0].set_ylabel("$(J^t - J^T) / J^T$" if above else "cost $J_\\rho$")
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(names))
    return figure
