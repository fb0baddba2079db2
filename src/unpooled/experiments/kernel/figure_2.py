"""Figure 2: the numbers that parties send per iteration, with CEM and without."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.kernel.cem import (
    CEM_RUNS_TEXT,
    CEM_SETS,
    CEM_WAYS,
    cem_found,
    cem_last,
    cem_runs,
    cem_tasks,
)
from unpooled.experiments.kernel.setting import KERNEL_SETTING, KernelSetting
from unpooled.experiments.reproduction.drawing import COLOURS, panels
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale
from unpooled.types import FloatArray

STATED_SAVING = 0.98


def _per_iteration(
    setting: KernelSetting, scale: Scale, results: Results, compress: bool, name: str = "eigenpairs"
) -> FloatArray:
    return cem_found(setting, scale, results, compress, name) / cem_last(scale)


def _saving(setting: KernelSetting, scale: Scale, results: Results) -> float:
    sent = [_per_iteration(setting, scale, results, way).mean() for way in CEM_WAYS]
    return float(1 - sent[0] / sent[1])


def _claims(setting: KernelSetting, scale: Scale, results: Results) -> list[Claim]:
    saved = _saving(setting, scale, results)
    sent, stated = (
        [_per_iteration(setting, scale, results, way, name) for way in CEM_WAYS]
        for name in ("eigenpairs", "stated")
    )
    apart = np.abs(np.array(sent) - np.array(stated)).max() * cem_last(scale)
    return [
        Claim(
            f"{setting.title}: CEM saves more than 98 %",
            f"{saved:.2%}: {sent[0].mean():,.0f} instead of {sent[1].mean():,.0f} numbers per "
            "iteration",
            saved > STATED_SAVING,
            "What is saved is 1 - M (D + r) Q1 / ((N + M D) Q0), so it goes by the number of rows; "
            f"here it is {saved:.2%}.",
        ),
        Claim(
            f"{setting.title}: Theorem 2, Q M (D + r) numbers with CEM and Q (N + M D) without",
            f"what is sent differs by {apart:.0f} numbers from it, in {len(sent[0])} runs",
            bool(apart == 0),
            "The theorem counts products with vectors; something else was sent beside them.",
        ),
    ]


def page(scale: Scale, results: Results) -> Page:
    """The claims, and the numbers that are drawn."""
    claims = [claim for setting in CEM_SETS for claim in _claims(setting, scale, results)]
    rows = [["set", "runs", "with CEM", "without CEM", "saved"]]
    for setting in CEM_SETS:
        sent = [f"{_per_iteration(setting, scale, results, way).mean():,.0f}" for way in CEM_WAYS]
        saved = f"{_saving(setting, scale, results):.2%}"
        rows.append([setting.title, str(cem_runs(setting, scale)), *sent, saved])
    savings = [_saving(setting, scale, results) for setting in CEM_SETS]
    return Page(
        [
            Claims("What the paper says", claims),
            Plain("Numbers sent by parties for eigenpairs, per iteration", rows),
        ],
        conclusion=(
            f"CEM saves {min(savings):.1%} to {max(savings):.1%} of the numbers that parties send "
            f"for eigenpairs; of {len(claims)} statements {sum(c.holds for c in claims)} hold. The "
            "fourth set of the paper, Smartphone, is not to be had."
        ),
        caption=(
            "Numbers that parties send for eigenpairs per iteration, mean over T iterations and "
            "runs; bars of one standard deviation over runs where there are several."
        ),
    )


def draw(scale: Scale, results: Results) -> Any:
    """Bars, on a logarithmic axis."""
    figure, axes = panels(1, width=6.0)
    panel, places = axes[0, 0], np.arange(len(CEM_SETS))
    for place, (compress, way) in enumerate(CEM_WAYS.items()):
        sent = [_per_iteration(setting, scale, results, compress) for setting in CEM_SETS]
        # No bar, and no cap, where there is one run.
        spread = [found.std(ddof=1) if len(found) > 1 else np.nan for found in sent]
        panel.bar(
            places + 0.4 * (place - 0.5),
            [found.mean() for found in sent],
            0.38,
            yerr=spread,
            capsize=3,
            color=("#9fb8d0", COLOURS[0])[place],
            edgecolor="black",
            hatch=("//", "")[place],
            label=way,
        )
    panel.set(yscale="log", ylabel="numbers sent per iteration", xticks=places)
    panel.set_xticklabels([setting.title for setting in CEM_SETS])
    panel.grid(visible=False, axis="x")
    panel.set_ylim(top=panel.get_ylim()[1] * 4)  # room for the legend
    panel.legend(ncols=2, loc="upper left")
    return figure


EXPERIMENT = Experiment(
    title="Federated kernel k-means, Figure 2: what CEM saves",
    setting=f"{KERNEL_SETTING}\n\n{CEM_RUNS_TEXT} Counted is what parties send for eigenpairs, as "
    "the paper counts: neither the bandwidth nor the final clustering.",
    runs=5,
    quick_runs=2,
    tasks=cem_tasks,
    page=page,
    draw=draw,
    seeds="0 to {last}, on Covertype 1000 and on",
)
