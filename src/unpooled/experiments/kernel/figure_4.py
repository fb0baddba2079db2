"""Figure 4: Lanczos steps per iteration, Q0 without CEM and Q1 with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.kernel.cem import (
    CEM_RUNS_TEXT,
    CEM_SETS,
    CEM_WAYS,
    cem_found,
    cem_runs,
    cem_tasks,
    draw_by_iteration,
)
from unpooled.experiments.kernel.setting import KERNEL_SETTING, KernelSetting
from unpooled.experiments.reproduction.drawing import panels
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale
from unpooled.types import FloatArray

_CLOSE = 0.25
"""Q0/Q1 is to be this near to 1."""
_NAMES = {True: "Q1, with CEM", False: "Q0, without CEM"}


def _steps(setting: KernelSetting, scale: Scale, results: Results) -> tuple[FloatArray, FloatArray]:
    """Q1 and Q0, (runs, T)."""
    found = [cem_found(setting, scale, results, way, "products") for way in CEM_WAYS]
    return found[0], found[1]


def _overall(setting: KernelSetting, scale: Scale, results: Results) -> float:
    """The mean of Q0 over the mean of Q1, over all iterations and runs."""
    q1, q0 = _steps(setting, scale, results)
    return float(q0.mean() / q1.mean())


def _claim(setting: KernelSetting, scale: Scale, results: Results) -> Claim:
    q1, q0 = _steps(setting, scale, results)
    ratio = q0.mean(axis=0) / q1.mean(axis=0)
    return Claim(
        f"{setting.title}: Q0 is close to Q1 in every iteration",
        f"Q0/Q1 is {_overall(setting, scale, results):.3f} over all iterations, {ratio.min():.2f} "
        f"to {ratio.max():.2f} in single ones; Q1 {q1.mean():.1f}, Q0 {q0.mean():.1f} steps",
        bool(np.abs(ratio - 1).max() <= _CLOSE),
        f"The largest gap is at t = {np.abs(ratio - 1).argmax() + 1}, over {_counted(len(q1))}; "
        "Lanczos starts from a random vector, of N entries without CEM and of D + r with it.",
    )


def _counted(runs: int) -> str:
    return f"{runs} run{'s' if runs > 1 else ''}"


def page(scale: Scale, results: Results) -> Page:
    """The claims, and the steps every ten iterations."""
    claims = [_claim(setting, scale, results) for setting in CEM_SETS]
    length = _steps(CEM_SETS[0], scale, results)[0].shape[1]
    times = [t for t in (1, 2, 5, 10, 20, 30, 40, 50) if t <= length]
    rows = [["set", "", "runs", *(f"t = {t}" for t in times)]]
    for setting in CEM_SETS:
        for name, steps in zip(_NAMES.values(), _steps(setting, scale, results), strict=True):
            means = [f"{steps[:, t - 1].mean():.1f}" for t in times]
            rows.append([setting.title, name, str(cem_runs(setting, scale)), *means])
    ratios = [_overall(setting, scale, results) for setting in CEM_SETS]
    note = (
        "A claim holds if Q0/Q1, each a mean over runs, is within a quarter of 1 in every "
        "iteration. Over all iterations, Q0/Q1 is the ratio of the means over iterations and runs."
    )
    return Page(
        [Claims("What the paper draws", claims, note), Plain("Mean steps", rows)],
        conclusion=(
            f"On {sum(c.holds for c in claims)} of {len(claims)} sets Q0 is within a quarter of Q1 "
            f"in every iteration; over all iterations Q0/Q1 is {min(ratios):.3f} to "
            f"{max(ratios):.3f}, so what CEM saves comes of shorter vectors, not of fewer of them."
        ),
        caption=(
            "Lanczos steps per iteration, mean over runs; bands of one standard deviation where "
            "there are several."
        ),
    )


def draw(scale: Scale, results: Results) -> Any:
    """A panel for each set."""
    figure, axes = panels(len(CEM_SETS), width=2.6, height=2.8)
    for panel, setting in zip(axes[0], CEM_SETS, strict=True):
        both = zip(_NAMES.values(), _steps(setting, scale, results), strict=True)
        for place, (name, steps) in enumerate(both):
            draw_by_iteration(panel, steps, place, name)
        panel.set(title=setting.title, xlabel="iteration t")
        panel.set_ylim(bottom=0)
    axes[0, 0].set_ylabel("Lanczos steps")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


EXPERIMENT = Experiment(
    title="Federated kernel k-means, Figure 4: Lanczos steps",
    setting=f"{KERNEL_SETTING}\n\n{CEM_RUNS_TEXT}",
    runs=5,
    quick_runs=2,
    tasks=cem_tasks,
    page=page,
    draw=draw,
    seeds="0 to {last}, on Covertype 1000 and on",
)
