"""Figure 12: Tables 8 and 9 drawn: FeCA over the number of parties."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.feca.parties import (
    PARTY_METHODS,
    PARTY_NUMBERS,
    PARTY_SETTING,
    Sharing,
    falling_claim,
    party_distances,
    party_numbers,
    party_tasks,
    settled_claim,
)
from unpooled.experiments.feca.setting import FECA_READINGS, ROWS_AND_DISTANCE
from unpooled.experiments.feca.table_8 import TABLE_8
from unpooled.experiments.feca.table_9 import TABLE_9
from unpooled.experiments.reproduction import drawing
from unpooled.experiments.reproduction.page import Claims, Page
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.reproduction.verdicts import printed

_PANELS: dict[Sharing, tuple[str, str]] = {
    "5%": ("5 % of the rows each", TABLE_8["distance"]),
    "all": ("all rows shared", TABLE_9["distance"]),
}


def tasks(scale: Scale) -> list[Task]:
    """The runs of both tables."""
    return [task for sharing in _PANELS for task in party_tasks(sharing, scale)]


def page(scale: Scale, results: Results) -> Page:
    """What the figure shows, as claims."""
    claims = [
        *(falling_claim("5%", method, scale, results) for method in PARTY_METHODS),
        *(settled_claim("all", method, scale, results) for method in PARTY_METHODS),
    ]
    held = sum(claim.holds for claim in claims)
    conclusion = (
        f"{held} of {len(claims)} claims hold: with 5 % of the rows each, more parties bring the "
        f"centres nearer ({claims[1].found}); with all rows shared their number matters little "
        f"({claims[3].found})."
    )
    caption = (
        f"Distance to the true centres of S1 / 1e4, mean and standard deviation over {scale.runs} "
        "runs, and the paper's. Logarithmic scale; one party is pooled k-means."
    )
    return Page([Claims("What the figure shows", claims)], conclusion, caption)


def draw(scale: Scale, results: Results) -> Any:
    """Two panels."""
    figure, axes = drawing.panels(2, width=4.6, height=3.3)
    numbers = np.array(party_numbers(scale))
    for axis, (sharing, (title, texts)) in zip(axes[0], _PANELS.items(), strict=True):
        for place, method in enumerate(PARTY_METHODS):
            _line(axis, numbers, party_distances(method, sharing, scale, results), place, method)
        there = [printed(text) for text in texts.split()]
        axis.errorbar(
            np.array(PARTY_NUMBERS) + 0.15,
            [own.value for own in there],
            yerr=_bars([own.value for own in there], [own.deviation or 0.0 for own in there]),
            label="paper",
            capsize=2,
            markersize=4,
            **drawing.line_style(3),
            marker=drawing.MARKS[3],
        )
        axis.set_yscale("log")
        axis.set_title(f"S1, {title}")
        axis.set_xlabel("parties")
        axis.set_xticks([1, 5, 10, 15, 20])
        axis.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        axis.minorticks_off()
    axes[0, 0].set_ylabel("distance / 1e4")
    axes[0, 1].legend(fontsize=9)
    return figure


def _line(axis: Any, numbers: Any, values: list[Any], place: int, label: str) -> None:
    means = [own.mean() for own in values]
    spread = [own.std(ddof=1) if len(own) > 1 else 0.0 for own in values]
    axis.errorbar(
        numbers - 0.15 * (1 - place),
        means,
        yerr=_bars(means, spread),
        label=label,
        capsize=2,
        markersize=4,
        **drawing.line_style(place),
        marker=drawing.MARKS[place],
    )


def _bars(means: list[float], spread: list[float]) -> list[list[float]]:
    """Down and up; down not below a tenth of the mean, since the scale is logarithmic."""
    return [[min(s, 0.9 * m) for m, s in zip(means, spread, strict=True)], spread]


EXPERIMENT = Experiment(
    title="FeCA, Figure 12: Tables 8 and 9, drawn",
    setting=ROWS_AND_DISTANCE + FECA_READINGS + PARTY_SETTING + " Shares of 5 % are disjoint.",
    runs=10,
    quick_runs=1,
    tasks=tasks,
    page=page,
    draw=draw,
)
