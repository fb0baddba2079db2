"""Figure 3: final accuracy of DGC from random starts and from DKM+C, over its rounds L.

DKM+C never aligns the indices of centres between users, while DGC's consensus compares index k
with index k. Beside the published start there are ours: with aligned indices, and one merged along
a tree from which all users start alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.experiments.dkmc.setting import (
    DKMC_SETTING,
    SPLIT_AMOUNTS,
    deviation,
    final_key,
    final_tasks,
)
from unpooled.experiments.reproduction.drawing import COLOURS, panels, same_heights
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.types import FloatArray

ROUNDS_OF_START = tuple(range(5))
PUBLISHED = tuple(f"L = {L}" for L in ROUNDS_OF_START)
ALIGNED = tuple(f"L = {L}, aligned" for L in ROUNDS_OF_START)
SHOWN = ("random", *PUBLISHED, *ALIGNED, "tree")
BEST_L = {"homogeneous": 3, "heterogeneous": 1}
"""Which L the paper finds best."""
PAPER_RUNS = 5
READINGS = ("own", "all")


def tasks(scale: Scale) -> list[Task]:
    """Every split and start."""
    return [
        task
        for split in SPLIT_AMOUNTS
        for start in SHOWN
        for task in final_tasks(split, start, scale.runs)
    ]


def page(scale: Scale, results: Results) -> Page:
    """The claims, and all accuracies."""
    claims = []
    for split in SPLIT_AMOUNTS:
        claims += [_best(split, scale, results), _beats_random(split, scale, results)]
    held = sum(claim.holds for claim in claims)
    published, aligned, tree = (
        [float(np.mean(_good(split, name, scale, results))) for split in SPLIT_AMOUNTS]
        for name in (PUBLISHED, ALIGNED, ("tree",))
    )
    conclusion = (
        f"{held} of {len(claims)} of the paper's statements hold over {scale.runs} runs (the paper "
        f"has {PAPER_RUNS}). Runs that end above 85 % on own rows, homogeneous and heterogeneous: "
        f"{published[0]:.1%} and {published[1]:.1%} from DKM+C as published, over all L; "
        f"{aligned[0]:.1%} and {aligned[1]:.1%} once indices are aligned, which is ours; "
        f"{tree[0]:.1%} and {tree[1]:.1%} from the start merged along a tree, also ours."
    )
    caption = (
        f"Accuracy after 1,000 rounds of DGC, mean over {scale.runs} runs with its 95 % interval, "
        "over the rounds L of DKM+C; lines are random starts (dashed) and the start merged along a "
        "tree (dotted), bands their 95 % intervals."
    )
    note = (
        "Ahead is: by more than two standard errors of the difference, by both readings; by less, "
        "these runs do not settle which is better."
    )
    said = Claims("What the paper says", claims, note)
    return Page([said, _all(scale, results)], conclusion, caption)


def _runs(
    split: str, start: str, scale: Scale, results: Results, reading: str = "own"
) -> FloatArray:
    return results.runs(final_key(split, start), reading, scale.runs)


def _good(split: str, starts: tuple[str, ...], scale: Scale, results: Results) -> list[float]:
    """The share of runs that end above 85 %, for each start."""
    return [float(np.mean(_runs(split, start, scale, results) > 85)) for start in starts]


def _error(values: FloatArray) -> float:
    return float(deviation(values) / np.sqrt(len(values)))


def _best(split: str, scale: Scale, results: Results) -> Claim:
    """Whether the paper's L is ahead of all others, beyond chance."""
    said, parts, ahead = f"L = {BEST_L[split]}", [], []
    for reading in READINGS:
        ours = {start: _runs(split, start, scale, results, reading) for start in PUBLISHED}
        order = sorted(ours, key=lambda start: -ours[start].mean())
        rival = order[1] if order[0] == said else order[0]
        gap = float(ours[said].mean() - ours[rival].mean())
        error = float(np.hypot(_error(ours[said]), _error(ours[rival])))
        ahead.append(gap > 2 * error)
        parts.append(
            f"{reading} rows: {said} {ours[said].mean():.2f}, against {rival} "
            f"{ours[rival].mean():.2f} (difference {gap:+.2f} ± {error:.2f})"
        )
    share = _winners(split, scale, results)
    why = (
        f"{said} is not ahead of all others by two standard errors (±) by both readings. Of "
        "groups of five runs, the paper's number, L = 0, 1, 2, 3, 4 are best in "
        f"{', '.join(f'{one:.0%}' for one in share)} (own rows): five runs do not tell."
    )
    return Claim(f"{split}: {said} is best", "; ".join(parts), all(ahead), why)


def _winners(split: str, scale: Scale, results: Results) -> list[float]:
    """In which share of groups of five runs each L is best; ties are shared."""
    groups = max(scale.runs // PAPER_RUNS, 1)
    means = np.array(
        [
            _runs(split, start, scale, results)[: groups * PAPER_RUNS]
            .reshape(groups, -1)
            .mean(axis=1)
            for start in PUBLISHED
        ]
    )
    first = np.isclose(means, means.max(axis=0))
    return [float(one) for one in (first / first.sum(axis=0)).mean(axis=1)]


def _beats_random(split: str, scale: Scale, results: Results) -> Claim:
    parts, ahead, over, beyond = [], [], 0, 0
    for reading in READINGS:
        random = _runs(split, "random", scale, results, reading)
        gaps = []
        for start in PUBLISHED:
            ours = _runs(split, start, scale, results, reading)
            error = float(np.hypot(_error(ours), _error(random)))
            gaps.append((float(ours.mean() - random.mean()), error))
        ahead.append(all(gap > 2 * error for gap, error in gaps))
        over += sum(gap > 0 for gap, _ in gaps)
        beyond += sum(gap > 2 * error for gap, error in gaps)
        words = ", ".join(f"{gap:+.2f} ± {error:.2f}" for gap, error in gaps)
        parts.append(f"{reading} rows, over L: {words}")
    why = (
        f"Of {len(READINGS) * len(PUBLISHED)} means (five L, two readings) {over} are ahead of "
        f"random, {beyond} of them by two standard errors (±); all are asked for here."
    )
    says = f"{split}: DKM+C beats random starts"
    return Claim(says, f"points ahead of random, {'; '.join(parts)}", all(ahead), why)


def _all(scale: Scale, results: Results) -> Plain:
    rows = [["start", *(f"{split}, {name} rows" for split in SPLIT_AMOUNTS for name in READINGS)]]
    rows[0] += [f"{split}: runs above 85 %" for split in SPLIT_AMOUNTS]
    for start in SHOWN:
        shown = []
        for split in SPLIT_AMOUNTS:
            for name in READINGS:
                ours = _runs(split, start, scale, results, name)
                shown.append(f"{ours.mean():.2f} ± {deviation(ours):.2f}")
        good = [f"{_good(split, (start,), scale, results)[0]:.0%}" for split in SPLIT_AMOUNTS]
        rows.append([start, *shown, *good])
    note = '± is the standard deviation over runs. "aligned" and "tree" are ours.'
    return Plain("Accuracy after 1,000 rounds, in per cent", rows, note)


def draw(scale: Scale, results: Results) -> Any:
    """Two panels, as in the paper."""
    figure, axes = panels(2, width=3.7, height=3.2)
    for panel, split in zip(axes[0], SPLIT_AMOUNTS, strict=True):
        for place, (name, starts, mark) in enumerate(
            (("DKM+C", PUBLISHED, "o-"), ("DKM+C, aligned (ours)", ALIGNED, "s-."))
        ):
            points = [_runs(split, start, scale, results) for start in starts]
            means, halves = [v.mean() for v in points], [1.96 * _error(v) for v in points]
            where = np.array(ROUNDS_OF_START) + 0.08 * (place - 0.5)
            panel.errorbar(
                where, means, halves, fmt=mark, capsize=3, color=COLOURS[place], label=name
            )
        for name, dash, colour in (("random", "--", COLOURS[2]), ("tree", ":", COLOURS[3])):
            ours = _runs(split, name, scale, results)
            mean, half = ours.mean(), 1.96 * _error(ours)
            label = "random" if name == "random" else "tree (ours)"
            panel.axhline(mean, linestyle=dash, color=colour, label=label)
            panel.axhspan(mean - half, mean + half, color=colour, alpha=0.15, lw=0)
        panel.set(xlabel="rounds L of DKM+C", title=split, xticks=ROUNDS_OF_START)
    axes[0, 0].set_ylabel("accuracy in %")
    same_heights(axes[0])
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=2)
    return figure


EXPERIMENT = Experiment(
    title="DKM+C, Figure 3: accuracy over the rounds of DKM+C",
    setting=(
        f"{DKMC_SETTING} DKM+C with L rounds starts from k-means++ on own rows and then L times "
        "runs k-means on own and neighbours' centres."
    ),
    runs=100,
    quick_runs=2,
    tasks=tasks,
    page=page,
    draw=draw,
)
