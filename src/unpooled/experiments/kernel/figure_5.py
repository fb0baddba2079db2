"""Figure 5: the rank of the estimate Z_t, iteration by iteration."""

from __future__ import annotations

from typing import Any

from unpooled.experiments.kernel.cem import (
    CEM_RUNS_TEXT,
    CEM_SETS,
    cem_found,
    cem_runs,
    cem_tasks,
    draw_by_iteration,
)
from unpooled.experiments.kernel.setting import KERNEL_SETTING, KernelSetting
from unpooled.experiments.reproduction.drawing import line_style, panels
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale
from unpooled.types import FloatArray

_FACTOR = 5.0
"""What is taken for "a constant factor" of s: on Mushrooms the paper draws ranks of up to five
times s."""


def _ranks(setting: KernelSetting, scale: Scale, results: Results) -> FloatArray:
    """(runs, T)."""
    return cem_found(setting, scale, results, True, "rank")


def _claims(setting: KernelSetting, scale: Scale, results: Results) -> list[Claim]:
    ranks, s = _ranks(setting, scale, results), setting.n_components
    means, length = ranks.mean(axis=0), ranks.shape[1]
    middle, last = means[length // 2 : 3 * length // 4].mean(), means[3 * length // 4 :].mean()
    return [
        Claim(
            f"{setting.title}: the rank settles",
            f"mean {middle:.1f} in the third quarter of the iterations, {last:.1f} in the last",
            bool(abs(last - middle) <= max(1.0, 0.1 * middle)),
            f"It moves by {last - middle:+.1f} between the third and the last quarter.",
        ),
        Claim(
            f"{setting.title}: it stays within a constant factor of s = {s}",
            f"at most {ranks.max():.0f}, {ranks.max() / s:.1f} times s",
            bool(ranks.max() <= _FACTOR * s),
            f"The paper states no factor; {_FACTOR:g} was asked for here. lambda is the (k+2)-th "
            f"eigenvalue of the first iteration, so {setting.n_clusters + 2} directions are about "
            "what survives, whatever s is.",
        ),
    ]


def page(scale: Scale, results: Results) -> Page:
    """The claims, and ranks every ten iterations."""
    claims = [claim for setting in CEM_SETS for claim in _claims(setting, scale, results)]
    length = _ranks(CEM_SETS[0], scale, results).shape[1]
    times = [t for t in (1, 2, 5, 10, 20, 30, 40, 50) if t <= length]
    rows = [["set", "s", "runs", *(f"t = {t}" for t in times)]]
    for setting in CEM_SETS:
        means = [f"{_ranks(setting, scale, results)[:, t - 1].mean():.1f}" for t in times]
        counts = [str(setting.n_components), str(cem_runs(setting, scale))]
        rows.append([setting.title, *counts, *means])
    largest = [_ranks(one, scale, results).max() / one.n_components for one in CEM_SETS]
    settled = sum(claim.holds for claim in claims[::2])
    note = (
        "The rank settles if its means over the third and the last quarter of the iterations "
        "differ by at most 1, or a tenth of the former if that is more. It stays within a "
        f"constant factor if it never exceeds {_FACTOR:g} times s, in any run: the paper states no "
        "factor."
    )
    return Page(
        [Claims("What the paper draws", claims, note), Plain("Mean rank", rows)],
        conclusion=(
            f"The rank settles on {settled} of {len(CEM_SETS)} sets; at most it is "
            f"{min(largest):.1f} to {max(largest):.1f} times s, far below the number of rows."
        ),
        caption=(
            "Rank of the estimate, mean over runs; bands of one standard deviation where there "
            "are several. Dashed: s."
        ),
    )


def draw(scale: Scale, results: Results) -> Any:
    """A panel for each set."""
    figure, axes = panels(len(CEM_SETS), width=2.6, height=2.6)
    for panel, setting in zip(axes[0], CEM_SETS, strict=True):
        draw_by_iteration(panel, _ranks(setting, scale, results), 0, "rank of Z_t")
        panel.axhline(setting.n_components, label=f"s = {setting.n_components}", **line_style(1))
        panel.set(title=setting.title, xlabel="iteration t")
        panel.set_ylim(bottom=0)
        panel.legend(loc="lower right")
    axes[0, 0].set_ylabel("rank")
    return figure


EXPERIMENT = Experiment(
    title="Federated kernel k-means, Figure 5: the rank of the estimate",
    setting=f"{KERNEL_SETTING}\n\n{CEM_RUNS_TEXT} Ranks are those with CEM.",
    runs=5,
    quick_runs=2,
    tasks=cem_tasks,
    page=page,
    draw=draw,
    seeds="0 to {last}, on Covertype 1000 and on",
)
