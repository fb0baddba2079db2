"""The runs with CEM and without that Figures 2, 4 and 5 show: all of T iterations."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.kernel.setting import (
    COVERTYPE,
    LAST,
    MNIST_60K,
    MUSHROOMS,
    KernelSetting,
    dspgd_key,
    dspgd_tasks,
)
from unpooled.experiments.reproduction.drawing import line_style
from unpooled.experiments.reproduction.tasks import Results, Scale, Task
from unpooled.types import FloatArray

CEM_SETS = (MUSHROOMS, MNIST_60K, COVERTYPE)
CEM_WAYS = {True: "with CEM", False: "without CEM"}
_QUICK_LAST = 4
_RUNS = {MUSHROOMS.title: 5, MNIST_60K.title: 1, COVERTYPE.title: 2}

CEM_RUNS_TEXT = (
    f"T = {LAST} with CEM and without; 5 runs on Mushrooms, 2 on Covertype, 1 on MNIST, of "
    "the same seeds with and without. How many runs the paper has is not said."
)


def cem_last(scale: Scale) -> int:
    """T."""
    return _QUICK_LAST if scale.quick else LAST


def cem_runs(setting: KernelSetting, scale: Scale) -> int:
    """How many runs."""
    return min(scale.runs, _RUNS[setting.title])


def cem_tasks(scale: Scale) -> list[Task]:
    """All of them."""
    return [
        task
        for setting in CEM_SETS
        for compress in CEM_WAYS
        for task in dspgd_tasks(
            setting, [cem_last(scale)], cem_runs(setting, scale), scale, compress
        )
    ]


def cem_found(
    setting: KernelSetting, scale: Scale, results: Results, compress: bool, name: str
) -> FloatArray:
    """``name`` of every run: "eigenpairs", "stated", or by iteration "products" or "rank"."""
    key = dspgd_key(setting, cem_last(scale), compress)
    return results.runs(key, name, setting.seeds(cem_runs(setting, scale)))


def draw_by_iteration(axes: Any, values: FloatArray, place: int, label: str) -> None:
    """The mean of runs (runs, T) over t, with a band of one standard deviation."""
    t, mean, style = np.arange(1, values.shape[1] + 1), values.mean(axis=0), line_style(place)
    axes.plot(t, mean, label=label, **style)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        axes.fill_between(t, mean - spread, mean + spread, alpha=0.15, color=style["color"], lw=0)
