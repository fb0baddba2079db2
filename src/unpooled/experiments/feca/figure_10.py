"""Figure 10: objective values of pooled k-means on 100, 75 and 50 % of the rows of the S-sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from unpooled.experiments.feca.setting import sset
from unpooled.experiments.reproduction import drawing
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.registry import S_SETS
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.types import FloatArray

PARTS = (100, 75, 50)
"""Per cent of the rows."""
POOLED_STARTS = {"random": "random rows", "k-means++": "k-means++"}
STUCK = 1.05
"""An objective that is this much above the best one is a poor local solution."""
_BEST_OF = 50


def objective(name: str, part: int, init: str, seed: int, quick: bool = False) -> dict[str, float]:
    """The objective of one start, and of the best of many, on the same rows."""
    data = sset(name, quick)
    rows = np.random.default_rng(seed).permutation(len(data.X))
    chosen = data.X[rows[: len(rows) * part // 100]]
    k = len(data.centers)
    found = KMeans(k, init=init, n_init=1, random_state=seed).fit(chosen)
    best = KMeans(k, n_init=5 if quick else _BEST_OF, random_state=seed).fit(chosen)
    return {"objective": float(found.inertia_), "best": float(best.inertia_)}


def _sets(scale: Scale) -> tuple[str, ...]:
    return S_SETS[:1] if scale.quick else S_SETS


def _key(name: str, part: int, init: str) -> str:
    return f"feca-objective/{name}/{part}/{init}"


def tasks(scale: Scale) -> list[Task]:
    """Every set, share of rows and start."""
    return [
        Task(
            f"{_key(name, part, init)}/{seed}",
            objective,
            {"name": name, "part": part, "init": init, "seed": seed, "quick": scale.quick},
        )
        for name in _sets(scale)
        for part in PARTS
        for init in POOLED_STARTS
        for seed in range(scale.runs)
    ]


def _excess(name: str, part: int, init: str, scale: Scale, results: Results) -> FloatArray:
    key = _key(name, part, init)
    found: FloatArray = results.runs(key, "objective", scale.runs) / results.runs(
        key, "best", scale.runs
    )
    return found


def page(scale: Scale, results: Results) -> Page:
    """How often one start is stuck."""
    claims = []
    rows = [["set", "rows", "start", "stuck", "mean above the best", "largest"]]
    for name in _sets(scale):
        for part in PARTS:
            stuck = {}
            for init, title in POOLED_STARTS.items():
                excess = _excess(name, part, init, scale, results)
                stuck[title] = int((excess > STUCK).sum())
                rows.append(
                    [
                        name.upper(),
                        f"{part} %",
                        title,
                        f"{stuck[title]} of {len(excess)}",
                        f"{100 * (excess.mean() - 1):.1f} %",
                        f"{100 * (excess.max() - 1):.1f} %",
                    ]
                )
            claims.append(
                Claim(
                    f"Lloyd's algorithm often ends in a poor local solution, {name.upper()}, "
                    f"{part} % of the rows",
                    ", ".join(f"{title}: {count} of {scale.runs}" for title, count in stuck.items())
                    + f" runs are more than {100 * (STUCK - 1):.0f} % above the best",
                    max(stuck.values()) >= scale.runs / 3,
                    f"Fewer than a third of the runs are stuck, whatever the start: {stuck}.",
                )
            )
    held = sum(claim.holds for claim in claims)
    totals = {
        title: np.mean(
            [
                _excess(name, part, init, scale, results) > STUCK
                for name in _sets(scale)
                for part in PARTS
            ]
        )
        for init, title in POOLED_STARTS.items()
    }
    conclusion = (
        f"One start is stuck (more than {100 * (STUCK - 1):.0f} % above the best of many) in "
        + " and ".join(
            f"{100 * share:.0f} % of runs from {title}" for title, share in totals.items()
        )
        + f"; that it often is, with one of the two starts, holds in {held} of {len(claims)} cases."
    )
    caption = (
        f"Objective of pooled k-means with one start, {scale.runs} seeds; filled: random rows, "
        "open: k-means++; lines: the best of many starts, mean over the seeds' own draws of rows."
    )
    drawn = Plain("How far above the best", rows)
    return Page([Claims("The figure's claim", claims), drawn], conclusion, caption)


def draw(scale: Scale, results: Results) -> Any:
    """A panel for every set: the objective of every seed."""
    sets = _sets(scale)
    columns = min(2, len(sets))
    figure, axes = drawing.panels(columns, -(-len(sets) // columns), width=3.4, height=2.7)
    for axis, name in zip(axes.flat, sets, strict=True):
        seeds = np.arange(scale.runs)
        for place, part in enumerate(PARTS):
            style = drawing.point_style(place)
            for init in POOLED_STARTS:
                values = results.runs(_key(name, part, init), "objective", scale.runs) / 1e13
                plain = init == "random"
                axis.plot(
                    seeds + 0.2 * (place - 1),
                    values,
                    linestyle="none",
                    fillstyle="full" if plain else "none",
                    label=f"{part} % of the rows" if plain else None,
                    **style,
                )
            best = results.runs(_key(name, part, "random"), "best", scale.runs).mean() / 1e13
            axis.axhline(best, **drawing.line_style(place), linewidth=1, alpha=0.6)
        axis.set_title(name.upper())
        axis.set_xlabel("seed")
        axis.set_ylabel("objective / 1e13")
        axis.set_ylim(bottom=0)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


EXPERIMENT = Experiment(
    title="FeCA, Figure 10: local solutions of pooled k-means",
    setting=(
        "S1 to S4, pooled k-means with one start on 100, 75 and 50 % of the rows, drawn at random "
        "for each seed. The paper does not say how it starts: random rows and k-means++ are both "
        f"shown. The best is that of {_BEST_OF} k-means++ starts on the same rows. Rows are drawn "
        "anew for every seed, all of them in another order too, so single runs are not those of "
        "Table 1."
    ),
    runs=10,
    quick_runs=2,
    tasks=tasks,
    page=page,
    draw=draw,
)
