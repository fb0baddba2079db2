"""Figure 5: how well the radii that parties send cover centroids of the same true centre, on S1.

With c_i a centroid that a party sent, θ_s the true centre nearest to it and r_s the radius that is
used at the coordinator to group what belongs to θ_s (the largest one among the centroids of θ_s),

    σ_i = |c_i - θ_s| / r_s.

The paper says that σ_i stays below 0.5 for all centroids, so that any two centroids of a true
centre are at most r_s apart. "own radius" divides by the centroid's own radius instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from unpooled.data.parties import Parties
from unpooled.experiments.feca.setting import (
    BEST_FECA,
    FECA_READINGS,
    LITERAL_FECA,
    ROWS_AND_DISTANCE,
    S_SET_METHODS,
    TEN_PARTIES,
    sset,
    sset_groups,
)
from unpooled.experiments.reproduction import drawing
from unpooled.experiments.reproduction.page import Claim, Claims, Page, Plain
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.splits import SPLITS, spelled
from unpooled.messages.message import Message, Reply
from unpooled.simulate import Options, run_star

COVER_METHODS = (LITERAL_FECA, BEST_FECA)
BOUND = 0.5


def covers(method: str, how: str, seed: int, quick: bool = False) -> dict[str, list[float]]:
    """σ of every centroid that was sent, by both readings of the radius, and its true centre."""
    data = sset("s1", quick)
    groups = sset_groups(data.y, how, seed)
    parties = Parties.of([data.X[groups == i] for i in np.unique(groups)])
    sent: list[Reply] = []

    def watch(_: str, message: Message) -> None:
        if isinstance(message, Reply):
            sent.append(message)

    model = S_SET_METHODS[method].make(len(data.centers), random_state=seed)
    run_star(model.planned(parties), parties, seed=seed, options=Options(watch=watch))
    centroids = np.concatenate([reply.body["centroids"] for reply in sent])
    radii = np.concatenate([reply.body["radii"] for reply in sent])
    apart = cdist(centroids, data.centers)
    nearest = apart.argmin(axis=1)
    widest = np.zeros(len(data.centers))
    np.maximum.at(widest, nearest, radii)
    distance = apart.min(axis=1)
    tiny = np.finfo(float).tiny
    alone = radii <= 0  # a party's single row: no radius covers anything
    return {
        "group": np.round(distance / np.maximum(widest[nearest], tiny), 4).tolist(),
        "own": np.round(distance[~alone] / radii[~alone], 4).tolist(),
        "center": nearest.tolist(),
        "alone": [float(alone.sum())],
    }


def _key(method: str, how: str) -> str:
    return f"feca-covers/{method}/{how}"


def tasks(scale: Scale) -> list[Task]:
    """Two readings of FeCA, three splits."""
    return [
        Task(
            f"{_key(method, how)}/{seed}",
            covers,
            {"method": method, "how": how, "seed": seed, "quick": scale.quick},
        )
        for method in COVER_METHODS
        for how in SPLITS
        for seed in range(scale.runs)
    ]


def _values(method: str, how: str, name: str, scale: Scale, results: Results) -> Any:
    runs = [results[f"{_key(method, how)}/{seed}"][name] for seed in range(scale.runs)]
    return np.concatenate([np.array(run, dtype=float) for run in runs])


def page(scale: Scale, results: Results) -> Page:
    """The claim for every split, and shares."""
    claims, rows = (
        [],
        [["method", "split", "radius", "centroids", "below 0.5", "median", "largest"]],
    )
    for method in COVER_METHODS:
        for how in SPLITS:
            for name, title in (("group", "of the group"), ("own", "own")):
                found = _values(method, how, name, scale, results)
                below = 100 * np.mean(found < BOUND)
                rows.append(
                    [
                        method,
                        spelled(how),
                        title,
                        str(len(found)),
                        f"{below:.1f} %",
                        f"{np.median(found):.3f}",
                        f"{found.max():.2f}",
                    ]
                )
            claims.append(_claim(method, how, scale, results))
    held = sum(claim.holds for claim in claims)
    shares = [
        np.mean(_values(method, how, "group", scale, results) < BOUND)
        for method in COVER_METHODS
        for how in SPLITS
    ]
    conclusion = (
        f"That sigma is below 0.5 for every centroid holds in {held} of {len(claims)} cases; "
        f"between {100 * min(shares):.1f} and {100 * max(shares):.1f} % of the centroids are."
    )
    caption = (
        f"sigma of all centroids that parties sent, {scale.runs} runs, by true centre, with the "
        f"radius of the group; the line is 0.5, stars mark the largest. {LITERAL_FECA}. Values "
        "above 2 are drawn at 2."
    )
    drawn = Plain("Shares", rows)
    return Page([Claims("The figure's claim", claims), drawn], conclusion, caption)


def _claim(method: str, how: str, scale: Scale, results: Results) -> Claim:
    found = _values(method, how, "group", scale, results)
    above = int((found >= BOUND).sum())
    return Claim(
        f"sigma is below 0.5 for all centroids, {how} ({method.partition(', ')[2]})",
        f"{above} of {len(found)} centroids are at or above it; the largest is {found.max():.2f}",
        above == 0,
        f"{above / len(found):.1%} of the centroids are farther: rows of a cluster that a party "
        "hardly holds have a mean far from the true centre (the paper says so of extreme splits), "
        "and centroids between clusters that the removal leaves count too.",
    )


def draw(scale: Scale, results: Results) -> Any:
    """A panel for every split."""
    figure, axes = drawing.panels(len(SPLITS), width=3.8, height=3.0)
    for axis, how in zip(axes[0], SPLITS, strict=True):
        found = _values(LITERAL_FECA, how, "group", scale, results)
        center = _values(LITERAL_FECA, how, "center", scale, results)
        shifted = center + np.linspace(-0.25, 0.25, len(center)) + 1
        axis.plot(
            shifted,
            np.minimum(found, 2),
            ".",
            color=drawing.COLOURS[2],
            markersize=4,
            rasterized=True,
        )
        for one in np.unique(center):
            largest = found[center == one].max()
            axis.plot(one + 1, min(largest, 2), "*", color=drawing.COLOURS[1], markersize=7)
        axis.axhline(BOUND, color=drawing.COLOURS[0], linestyle="--", linewidth=1.2)
        axis.set_title(f"S1, {spelled(how)}")
        axis.set_xlabel("true centre")
        axis.set_xticks([1, 5, 10, 15])
        axis.set_ylim(0, 2.08)
    axes[0, 0].set_ylabel("sigma (no unit)")
    return figure


EXPERIMENT = Experiment(
    title="FeCA, Figure 5: how well radii cover centroids",
    setting=ROWS_AND_DISTANCE
    + TEN_PARTIES
    + FECA_READINGS
    + " Here S1. sigma of a centroid is its distance to the nearest true centre, divided by the "
    "largest radius among the centroids of that true centre, which is the one that is grouped by.",
    runs=3,
    quick_runs=1,
    tasks=tasks,
    page=page,
    draw=draw,
)
