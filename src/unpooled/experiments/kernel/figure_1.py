"""Figure 1: how fast DSPGD converges, with CEM and without.

The error after t iterations is |K_t - K~|² / N², where K_t is the estimate and K~ the exact kernel
matrix cut to its s largest eigenvalues. Runs of t iterations give it: t is all they differ by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.kernel.setting import (
    KERNEL_SETTING,
    LAST,
    MNIST_SMALL,
    MUSHROOMS,
    QUICK_SWEEP,
    SWEEP,
    KernelSetting,
    dspgd_key,
    dspgd_tasks,
)
from unpooled.experiments.reproduction.drawing import line_style, panels, point_style
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.types import FloatArray

REFERENCES = {MUSHROOMS.title: 0.4, MNIST_SMALL.title: 0.03}
"""The paper's curves lie below c / t."""
CONVERGENCE_SETS = (MUSHROOMS, MNIST_SMALL)
_RUNS = {(MUSHROOMS.title, True): 20, (MUSHROOMS.title, False): 5}
_RUNS |= {(MNIST_SMALL.title, True): 3, (MNIST_SMALL.title, False): 2}
_LONGEST_WITHOUT = {MUSHROOMS.title: LAST, MNIST_SMALL.title: 10}
_SLOPES = (-1.25, -0.8)
"""What is taken for "as 1/t"."""
_APART = 0.1
"""What is taken for curves that nearly overlap."""
_WAYS = {True: "with CEM", False: "without CEM"}


def _runs(setting: KernelSetting, compress: bool, scale: Scale) -> int:
    return min(scale.runs, _RUNS[setting.title, compress])


def _times(setting: KernelSetting, compress: bool, scale: Scale) -> tuple[int, ...]:
    times = QUICK_SWEEP if scale.quick else SWEEP
    most = _LONGEST_WITHOUT[setting.title]
    return tuple(t for t in times if compress or t <= most)


def tasks(scale: Scale) -> list[Task]:
    """Both sets, with CEM and without."""
    return [
        task
        for setting in CONVERGENCE_SETS
        for compress in _WAYS
        for task in dspgd_tasks(
            setting,
            _times(setting, compress, scale),
            _runs(setting, compress, scale),
            scale,
            compress,
        )
    ]


def _errors(
    setting: KernelSetting, compress: bool, scale: Scale, results: Results
) -> tuple[FloatArray, FloatArray]:
    """t, and the errors (t, runs)."""
    times = _times(setting, compress, scale)
    seeds = setting.seeds(_runs(setting, compress, scale))
    found = [results.runs(dspgd_key(setting, t, compress), "error", seeds) for t in times]
    return np.array(times, dtype=float), np.array(found)


def _slope(t: FloatArray, errors: FloatArray) -> float:
    return float(np.polyfit(np.log(t), np.log(errors.mean(axis=1)), 1)[0])


def _claims(setting: KernelSetting, scale: Scale, results: Results) -> list[Claim]:
    t, errors = _errors(setting, True, scale, results)
    means, reference = errors.mean(axis=1), REFERENCES[setting.title]
    part = means * t / reference
    slope = _slope(t, errors)
    single = [_slope(t, errors[:, [run]]) for run in range(errors.shape[1])]
    without = _errors(setting, False, scale, results)[1]
    shared = errors[: len(without), : without.shape[1]].mean(axis=1)
    apart = np.abs(without.mean(axis=1) / shared - 1)
    above = ", ".join(f"{time:.0f}" for time in t[part > 1])
    title = setting.title
    return [
        Claim(
            f"{title}: the error is below {reference:g}/t",
            f"at most {part.max():.2f} of {reference:g}/t, at t = {t[part.argmax()]:.0f}; "
            f"{means[0]:.2g} after the first iteration, {means[-1]:.2g} after {t[-1]:.0f}",
            bool((part < 1).all()),
            f"The mean error is above at t = {above}, and below at {(part <= 1).sum()} of {len(t)} "
            "values of t. How rows and columns were scaled, of which the kernel and so the level "
            "of the error depend, is not said.",
        ),
        Claim(
            f"{title}: it falls as 1/t",
            f"log error falls over log t with a slope of {slope:.2f}; single runs "
            f"{max(single):.2f} to {min(single):.2f}",
            _SLOPES[0] <= slope <= _SLOPES[1],
            f"The slope is taken over t = {t[0]:.0f} to {t[-1]:.0f} and is outside {_SLOPES[0]:g} "
            f"to {_SLOPES[1]:g}.",
        ),
        Claim(
            f"{title}: with CEM and without, the curves nearly overlap",
            f"the mean errors of the same {without.shape[1]} seeds differ by at most "
            f"{apart.max():.2%}, up to t = {t[len(apart) - 1]:.0f}",
            bool(apart.max() <= _APART),
            f"They differ by {apart.max():.1%} at t = {t[apart.argmax()]:.0f}; both draw "
            "the same features, so all of it comes of where Lanczos stops.",
        ),
    ]


def _rows(setting: KernelSetting, scale: Scale, results: Results) -> list[list[str]]:
    rows = []
    for compress, way in _WAYS.items():
        t, errors = _errors(setting, compress, scale, results)
        for time, found in zip(t, errors, strict=True):
            spread = f"{found.std(ddof=1):.2e}" if len(found) > 1 else "-"
            bound = f"{REFERENCES[setting.title] / time:.2e}"
            numbers = [f"{time:.0f}", f"{found.mean():.2e}", spread, str(len(found)), bound]
            rows.append([setting.title, way, *numbers])
    return rows


def page(scale: Scale, results: Results) -> Page:
    """The claims, and the numbers that are drawn."""
    claims = [c for setting in CONVERGENCE_SETS for c in _claims(setting, scale, results)]
    heads = ["set", "", "t", "mean error", "standard deviation", "runs", "c/t"]
    rows = [row for setting in CONVERGENCE_SETS for row in _rows(setting, scale, results)]
    slopes = [_slope(*_errors(setting, True, scale, results)) for setting in CONVERGENCE_SETS]
    kept = sum(claim.holds for claim in claims)
    note = (
        "Judged are means over runs. Below c/t: at every t that was run. Falls as 1/t: the slope "
        f"is between {_SLOPES[0]:g} and {_SLOPES[1]:g}. Nearly overlap: the means over the same "
        f"seeds differ by at most {_APART:.0%} at every t."
    )
    return Page(
        [
            Claims("What the paper draws", claims, note),
            Plain("Mean error and its standard deviation", [heads, *rows]),
        ],
        conclusion=(
            f"Of the figure's {len(claims)} statements {kept} hold. The error falls as t to the "
            f"power of {slopes[0]:.2f} on Mushrooms and {slopes[1]:.2f} on MNIST-small."
        ),
        caption=(
            "Above: the normalised error of the estimate, mean over runs, with bars of a standard "
            "deviation (cut at a tenth of the mean); below: that deviation. Both are of "
            + "; ".join(
                f"{_runs(one, True, scale)} runs with CEM and {_runs(one, False, scale)} without "
                f"on {one.title}"
                for one in CONVERGENCE_SETS
            )
            + ". Over the same seeds the two curves coincide as the table of claims says."
        ),
    )


def draw(scale: Scale, results: Results) -> Any:
    """Errors above, their deviations below, both over t."""
    figure, axes = panels(2, 2, width=3.6, height=2.7)
    for column, setting in enumerate(CONVERGENCE_SETS):
        above, below = axes[:, column]
        for place, (compress, way) in enumerate(_WAYS.items()):
            t, errors = _errors(setting, compress, scale, results)
            style = line_style(place) | {"marker": point_style(place)["marker"]}
            # The curves overlap, so that with CEM is drawn broad and beneath the other.
            style |= {"linewidth": 3.6, "alpha": 0.6} if compress else {"linewidth": 1.4}
            deviations = errors.std(axis=1, ddof=1) if errors.shape[1] > 1 else np.zeros(len(t))
            # Bars may not reach 0, which a logarithmic axis does not have.
            lower = np.minimum(deviations, 0.9 * errors.mean(axis=1))
            above.errorbar(
                t, errors.mean(axis=1), [lower, deviations], label=way, capsize=2, **style
            )
            below.plot(t, deviations, **style)
        t = _errors(setting, True, scale, results)[0]
        reference = REFERENCES[setting.title]
        above.plot(t, reference / t, label="c/t", **line_style(6))
        above.set(title=f"{setting.title}, c = {reference:g}")
        for one in (above, below):
            one.set(xscale="log", yscale="log", xticks=t, xticklabels=[f"{x:.0f}" for x in t])
            one.set_xlabel("iteration t")
            one.minorticks_off()
    axes[0, 0].set_ylabel("|K_t - K~|² / N²")
    axes[1, 0].set_ylabel("standard deviation")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


EXPERIMENT = Experiment(
    title="Federated kernel k-means, Figure 1: how fast DSPGD converges",
    setting=f"{KERNEL_SETTING}\n\nThe error after t iterations is that of a run of t iterations, "
    f"for t = {', '.join(map(str, SWEEP))}; the paper draws every t. With CEM: 20 runs on "
    "Mushrooms, 3 on MNIST-small. Without: 5, and 2 up to t = 10, of the same seeds.",
    runs=20,
    quick_runs=2,
    tasks=tasks,
    page=page,
    draw=draw,
)
