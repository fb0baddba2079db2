"""Figure 2: accuracy per iteration of DGC and CGC, from random starts and from k-means++."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.dkmc.setting import (
    DKMC_SETTING,
    SPLIT_AMOUNTS,
    STARTS,
    deviation,
    start_accuracy,
)
from unpooled.experiments.reproduction.drawing import line_style, panels, same_heights
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.types import FloatArray

AT_ROUNDS = (1, 2, 3, 5, 8, 13, 20, 35, 60, 100, 200, 400, 1000)
METHODS = ("DGC", "CGC")
BEGINNINGS = ("random", "k-means++")
READINGS = ("own", "all")


def tasks(scale: Scale) -> list[Task]:
    """Every method and start; CGC is the same for both splits."""
    return [
        Task(
            f"{_key(method, split, start)}/{seed}",
            accuracy_curve,
            {"method": method, "split": split, "start": start, "seed": seed},
        )
        for split in SPLIT_AMOUNTS
        for method in METHODS
        if (method, split) != ("CGC", "heterogeneous")
        for start in BEGINNINGS
        for seed in range(scale.runs)
    ]


def accuracy_curve(method: str, split: str, start: str, seed: int) -> dict[str, list[float]]:
    """Accuracies of one run after AT_ROUNDS; the same seed gives the same start every time."""
    found = [start_accuracy(method, split, STARTS[start], seed, rounds) for rounds in AT_ROUNDS]
    return {name: [one[name] for one in found] for name in READINGS}


def _key(method: str, split: str, start: str) -> str:
    return f"starts-curves/{method}/{split if method == 'DGC' else 'homogeneous'}/{start}"


def _curves(
    method: str, split: str, start: str, scale: Scale, results: Results, reading: str = "own"
) -> FloatArray:
    return results.runs(_key(method, split, start), reading, scale.runs)


def page(scale: Scale, results: Results) -> Page:
    """The claims, and final accuracies."""
    claims = [
        claim
        for split in SPLIT_AMOUNTS
        for claim in (_less_sensitive(split, scale, results), _improved(split, scale, results))
    ]
    rows = [["split", "method", "start", "own rows", "all rows", "runs below 80 % (own rows)"]]
    for split in SPLIT_AMOUNTS:
        for method in METHODS:
            for start in BEGINNINGS:
                final = [
                    _curves(method, split, start, scale, results, name)[:, -1] for name in READINGS
                ]
                shown = [f"{v.mean():.2f} ± {deviation(v):.2f}" for v in final]
                rows.append([split, method, start, *shown, f"{np.mean(final[0] < 80):.0%}"])
    conclusion = (
        f"{sum(claim.holds for claim in claims)} of {len(claims)} of the paper's statements hold "
        f"over {scale.runs} runs (the paper has 5). {claims[0].found[0].upper()}"
        f"{claims[0].found[1:]}."
    )
    caption = (
        f"Accuracy per round, mean over {scale.runs} runs with its 95 % interval; every user on "
        "its own rows. CGC has the pooled rows, so it is the same in both panels."
    )
    final_table = Plain("After 1,000 rounds", rows, "± is the standard deviation over runs.")
    note = (
        "± is the standard error. An improvement is to be beyond two of them by both readings. "
        "Less sensitive is who gains less by k-means++ and has the smaller deviation over runs."
    )
    return Page([Claims("What the paper says", claims, note), final_table], conclusion, caption)


def _gain(
    method: str, split: str, scale: Scale, results: Results, reading: str
) -> tuple[float, float]:
    """Points that k-means++ gains over random starts in the end, and their standard error."""
    low, high = (
        _curves(method, split, start, scale, results, reading)[:, -1] for start in BEGINNINGS
    )
    error = np.hypot(deviation(low), deviation(high)) / np.sqrt(scale.runs)
    return float(high.mean() - low.mean()), float(error)


def _less_sensitive(split: str, scale: Scale, results: Results) -> Claim:
    gains = {
        (method, name): _gain(method, split, scale, results, name)
        for method in METHODS
        for name in READINGS
    }
    found = ", ".join(
        f"{method} {gain:+.2f} ± {error:.2f} ({name} rows)"
        for (method, name), (gain, error) in gains.items()
    )
    spreads = {
        (method, start): float(deviation(_curves(method, split, start, scale, results))[-1])
        for method in METHODS
        for start in BEGINNINGS
    }
    words = ", ".join(f"{m} {start} {value:.2f}" for (m, start), value in spreads.items())
    holds = all(abs(gains["DGC", name][0]) < abs(gains["CGC", name][0]) for name in READINGS)
    holds &= all(spreads["DGC", start] < spreads["CGC", start] for start in BEGINNINGS)
    why = "DGC does not have both the smaller gain and the smaller deviation, by both readings."
    says = f"{split}: DGC is less sensitive to the start than CGC"
    said = f"points that k-means++ gains, {split}: {found}; deviation over runs (own rows): {words}"
    return Claim(says, said, holds, why)


def _improved(split: str, scale: Scale, results: Results) -> Claim:
    gains = {name: _gain("DGC", split, scale, results, name) for name in READINGS}
    found = ", ".join(f"{g:+.2f} ± {e:.2f} ({name} rows)" for name, (g, e) in gains.items())
    holds = all(gain > 2 * error for gain, error in gains.values())
    chance = ", ".join(f"{_by_fives(split, name, scale, results):.0%}" for name in READINGS)
    why = (
        "Not settled: the gain is not beyond two standard errors (±) by both readings. Of groups "
        f"of five runs, the paper's number, {chance} (own rows, all rows) show a gain."
    )
    return Claim(f"{split}: k-means++ improves DGC", f"gain: {found}", holds, why)


def _by_fives(split: str, reading: str, scale: Scale, results: Results) -> float:
    """The share of groups of five runs in which k-means++ is ahead of random starts."""
    groups = max(scale.runs // 5, 1)
    low, high = (
        _curves("DGC", split, start, scale, results, reading)[:, -1][: groups * 5]
        for start in BEGINNINGS
    )
    return float(np.mean((high - low).reshape(groups, -1).mean(axis=1) > 0))


def draw(scale: Scale, results: Results) -> Any:
    """Two panels, as in the paper."""
    figure, axes = panels(2, width=3.7, height=3.2)
    for panel, split in zip(axes[0], SPLIT_AMOUNTS, strict=True):
        place = 0
        for method in METHODS:
            for start in BEGINNINGS:
                values = _curves(method, split, start, scale, results)
                mean = values.mean(axis=0)
                half = 1.96 * deviation(values) / np.sqrt(scale.runs)
                style = line_style(place)
                panel.plot(AT_ROUNDS, mean, label=f"{method}, {start}", **style)
                panel.fill_between(
                    AT_ROUNDS, mean - half, mean + half, color=style["color"], alpha=0.15, lw=0
                )
                place += 1
        panel.set(xscale="log", xlabel="round", title=split)
    axes[0, 0].set_ylabel("accuracy in %")
    same_heights(axes[0])
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=2)
    return figure


EXPERIMENT = Experiment(
    title="DKM+C, Figure 2: how much the start matters",
    setting=f"{DKMC_SETTING} CGC draws its start from all rows.",
    runs=40,
    quick_runs=2,
    tasks=tasks,
    page=page,
    draw=draw,
)
