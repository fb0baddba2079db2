"""Ranks over many cases: Friedman's test, Nemenyi's critical difference, and their diagram.

As Demšar (2006), *Statistical Comparisons of Classifiers over Multiple Data Sets*, has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from unpooled.types import FloatArray

LEVEL = 0.05


class Friedman(NamedTuple):
    """Whether k methods are alike in N cases."""

    statistic: float
    p: float
    critical_difference: float
    """Mean ranks that differ by less do not differ at the level ``LEVEL``."""


def mean_ranks(values: FloatArray) -> FloatArray:
    """The mean rank of each column over rows: 1 is the lowest value, equal ones share ranks."""
    return np.asarray(stats.rankdata(values, axis=1).mean(axis=0))


def nemenyi(methods: int, cases: int) -> float:
    """q √(k (k + 1) / (6 N)), with q the studentised range's quantile over √2."""
    q = stats.studentized_range.ppf(1 - LEVEL, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * cases)))


def friedman(values: FloatArray) -> Friedman:
    """Friedman's test of ``values`` (cases, methods)."""
    cases, methods = values.shape
    test = stats.friedmanchisquare(*values.T)
    return Friedman(float(test.statistic), float(test.pvalue), nemenyi(methods, cases))


def cliques(ranks: FloatArray, difference: float) -> list[tuple[int, int]]:
    """Groups that do not differ, as first and last place in the order of ranks; largest ones."""
    ordered = np.sort(ranks)
    ends = [int(np.searchsorted(ordered, rank + difference, side="right")) - 1 for rank in ordered]
    before = [-1, *ends]
    return [
        (first, last)
        for first, (previous, last) in enumerate(pairwise(before))
        if last > first and last > previous
    ]


def draw_ranks(names: Sequence[str], ranks: FloatArray, difference: float) -> Any:
    """The critical difference diagram: methods at their ranks, bars join those alike."""
    from matplotlib.figure import Figure

    order, k = np.argsort(ranks, kind="stable"), len(ranks)
    bars = cliques(ranks, difference)
    half, top = (k + 1) // 2, 0.32 * len(bars) + 0.5
    figure = Figure(figsize=(8.4, 1.0 + 0.3 * (half + len(bars))))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(-1.9, k + 2.9)
    axes.set_ylim(-(top + 0.85 * half), 2.7)
    axes.plot([1, k], [0, 0], color="black", linewidth=1.2)
    for tick in range(1, k + 1):
        axes.plot([tick, tick], [0, 0.22], color="black", linewidth=1.0)
        axes.text(tick, 0.34, str(tick), ha="center", va="bottom", fontsize=9)
    for place, which in enumerate(order):
        rank, left = ranks[which], place < half
        depth = top + 0.85 * (place if left else k - 1 - place)
        side = 0.7 if left else k + 0.3
        axes.plot([rank, rank, side], [0, -depth, -depth], color="#666666", linewidth=0.8)
        text = f"{names[which]}  {rank:.1f}" if left else f"{rank:.1f}  {names[which]}"
        shift = -0.08 if left else 0.08
        align = "right" if left else "left"
        axes.text(side + shift, -depth, text, ha=align, va="center", fontsize=9)
    for level, (first, last) in enumerate(bars):
        ends = [ranks[order[first]] - 0.06, ranks[order[last]] + 0.06]
        axes.plot(ends, [-0.35 - 0.32 * level] * 2, color="black", linewidth=3.2)
    axes.plot([1, 1 + difference], [1.45, 1.45], color="#c0392b", linewidth=2.0, marker="|")
    label = f"critical difference {difference:.2f}"
    axes.text(1.1 + difference, 1.45, label, va="center", fontsize=9)
    axes.text(k, 2.3, "mean rank by cost (1 is best)", ha="right", va="center", fontsize=9)
    return figure
