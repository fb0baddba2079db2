"""Figure 3: Table 1 drawn, a point for each run."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.feca.setting import (
    BASELINES,
    BEST_FECA,
    LITERAL_FECA,
    ONE_SHOT,
    POOLED,
    S_SET_METHODS,
    S_SET_SETTING,
    shown,
    sset_cells,
    sset_key,
    sset_tasks,
)
from unpooled.experiments.feca.table_1 import printed_distance
from unpooled.experiments.reproduction import drawing
from unpooled.experiments.reproduction.page import Claim, Claims, Page
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.splits import SPLITS

_ROWS = (
    LITERAL_FECA,
    BEST_FECA,
    "M-Avg, 1 start",
    *(name for name in BASELINES if not name.startswith("M-Avg")),
    ONE_SHOT,
    next(iter(POOLED)),
)
_CLAIMED = tuple(name for name in _ROWS if name in BASELINES)


def tasks(scale: Scale) -> list[Task]:
    """The runs of Table 1 that are drawn."""
    return sset_tasks(_ROWS, sset_cells(scale), scale)


def _sets(scale: Scale) -> list[str]:
    return list(dict.fromkeys(name for name, _ in sset_cells(scale)))


def page(scale: Scale, results: Results) -> Page:
    """The claim that the figure makes, cell by cell."""
    claims = []
    for cell in sset_cells(scale):
        means = {
            name: float(results.runs(sset_key(name, *cell), "distance", scale.runs).mean())
            for name in shown(scale, _ROWS)
        }
        feca = min((LITERAL_FECA, BEST_FECA), key=lambda name: means[name])
        best = min(shown(scale, _CLAIMED), key=lambda name: means[name])
        claims.append(
            Claim(
                f"FeCA is nearest to the true centres, {cell[0].upper()} {cell[1]}",
                f"{feca} {means[feca]:.2f}; the best baseline is {best} with {means[best]:.2f}",
                means[feca] < means[best],
                f"The paper prints {_text(best, cell)} for {best}, and it comes out at "
                f"{means[best]:.2f} here; {_beyond_chance(feca, best, cell, scale, results)}. See "
                "feca-table-1 for readings of the baselines.",
            )
        )
    held = sum(claim.holds for claim in claims)
    conclusion = (
        f"FeCA, in the better of two readings, is nearer to the true centres than every baseline "
        f"in {held} of {len(claims)} cells; the paper draws it nearest in all of them."
    )
    caption = (
        f"Distance to the true centres / 1e4 over {scale.runs} runs: a point is a run, a bar the "
        "mean with one standard deviation (to the left at most 0.9 of the mean), a cross the "
        "paper's mean (blue). Red: FeCA, green: ours, dark: the others. Logarithmic scale; what is "
        "below 0.5 is cut off."
    )
    return Page([Claims("The figure's claim", claims)], conclusion, caption)


def _beyond_chance(
    feca: str, best: str, cell: tuple[str, str], scale: Scale, results: Results
) -> str:
    """Whether two means differ by more than twice the standard error of runs in pairs."""
    one, two = (
        results.runs(sset_key(name, *cell), "distance", scale.runs) for name in (feca, best)
    )
    gap = one - two
    error = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else np.inf
    more = "more" if abs(gap.mean()) > 2 * error else "no more"
    return f"the difference, {gap.mean():+.2f}, is {more} than twice its standard error"


def _text(method: str, cell: tuple[str, str]) -> str:
    paper = printed_distance(S_SET_METHODS[method].printed, cell)
    return "nothing" if paper is None else str(paper)


def draw(scale: Scale, results: Results) -> Any:
    """A panel for every set and split; methods from top to bottom."""
    sets, rows = _sets(scale), shown(scale, _ROWS)
    figure, axes = drawing.panels(len(SPLITS), len(sets), width=3.6, height=2.7)
    for line, name in enumerate(sets):
        for column, how in enumerate(SPLITS):
            axis = axes[line, column]
            for place, method in enumerate(rows):
                values = results.runs(sset_key(method, name, how), "distance", scale.runs)
                own = method.startswith("FeCA")
                colour = drawing.COLOURS[1 if own else 4 if method == ONE_SHOT else 0]
                level = np.full(len(values), place)
                axis.plot(values, level, ".", color=colour, alpha=0.35, rasterized=True)
                spread = values.std(ddof=1) if len(values) > 1 else 0.0
                mean = values.mean()
                axis.errorbar(
                    mean,
                    place,
                    xerr=[[min(spread, 0.9 * mean)], [spread]],
                    fmt="|",
                    color=colour,
                    markersize=11,
                    capsize=3,
                    rasterized=True,
                )
                paper = printed_distance(S_SET_METHODS[method].printed, (name, how))
                if paper is not None:
                    axis.plot(paper.value, place, "x", color=drawing.COLOURS[2], rasterized=True)
            axis.set_xscale("log")
            axis.set_xlim(0.5, 150)
            axis.set_xticks([1, 10, 100], ["1", "10", "100"])
            axis.minorticks_off()
            axis.grid(axis="y", visible=False)
            axis.set_ylim(len(rows) - 0.4, -0.6)
            axis.set_yticks(range(len(rows)), rows if column == 0 else [""] * len(rows))
            axis.set_title(f"{name.upper()}, {how if how == 'iid' else f'Dirichlet{how}'}")
            if line == len(sets) - 1:
                axis.set_xlabel("distance / 1e4")
    return figure


EXPERIMENT = Experiment(
    title="FeCA, Figure 3: Table 1, drawn",
    setting=S_SET_SETTING,
    runs=10,
    quick_runs=1,
    tasks=tasks,
    page=page,
    draw=draw,
)
