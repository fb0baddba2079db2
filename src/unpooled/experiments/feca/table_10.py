"""Table 10: FeCA with another number of clusters than the true one, on S1."""

from __future__ import annotations

import numpy as np

from unpooled.experiments.feca.mse import (
    MSE_READINGS,
    TRUE_CENTERS,
    square_errors,
    squared_mean,
    squares_text,
)
from unpooled.experiments.feca.setting import (
    BEST_FECA,
    FECA_READINGS,
    LITERAL_FECA,
    OTHER_K,
    ROWS_AND_DISTANCE,
    TEN_PARTIES,
    lost_text,
    mean_text,
    shown,
    sset_key,
    sset_tasks,
)
from unpooled.experiments.reproduction.page import Cell, Claim, Claims, Page, Table
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.reproduction.verdicts import AGREEING, Printed
from unpooled.experiments.splits import SPLITS

TABLE_10 = {
    (15, 10): ("34599.4", "21055.7", "19311.6"),
    (15, 20): ("9.9", "5960.4", "8738.6"),
    (10, 15): ("8.4", "551.2", "7532.7"),
    (15, 15): ("6.7", "308.3", "3315.3"),
}
"""As printed in units of 1e6, by (k, k'): iid, (0.3), (0.1)."""
_CELLS = [("s1", how) for how in SPLITS]
_FECA = (LITERAL_FECA, BEST_FECA)


def tasks(scale: Scale) -> list[Task]:
    """Both readings of FeCA, with every k and k'."""
    return sset_tasks([*OTHER_K, *_FECA], _CELLS, scale)


def _method(base: str, k: int, local: int) -> str:
    return base if (k, local) == (15, 15) else f"{base}, k = {k}, k' = {local}"


def page(scale: Scale, results: Results) -> Page:
    """The table by both readings of the measure, and the paper's claims."""
    cells = [
        _cell(base, k, local, how, reading, scale, results)
        for (k, local) in TABLE_10
        for base in _FECA
        if _method(base, k, local) in shown(scale, [*OTHER_K, *_FECA])
        for how in SPLITS
        for reading in MSE_READINGS
    ]
    table = Table(
        "Mean square error / 1e6, S1",
        ("method", "k", "k'", "split", "over", "centres"),
        cells,
        digits=1,
        better="low",
        note=f"{squares_text()} " + "; ".join(f"{k}: {v}" for k, v in MSE_READINGS.items()) + ".",
    )
    claims = _claims(scale, results)
    judged = list(zip(table.cells, table.verdicts(), strict=True))
    good = {
        over: sum(v in AGREEING for cell, v in judged if cell.where[4] == over)
        for over in MSE_READINGS
    }
    conclusion = (
        f"Of {len(judged) // 2} cells {good['all']} agree or are close if all centres count, and "
        f"{good['groups']} if the means of groups alone do. {squares_text()} "
        f"{sum(claim.holds for claim in claims.claims)} of {len(claims.claims)} claims hold."
    )
    return Page([table, claims], conclusion)


def _cell(
    base: str, k: int, local: int, how: str, reading: str, scale: Scale, results: Results
) -> Cell:
    method = _method(base, k, local)
    key = sset_key(method, "s1", how)
    centers = results.runs(key, "centers", scale.runs).mean()
    distance = results.runs(key, "distance", scale.runs)
    text = TABLE_10[k, local][SPLITS.index(how)]
    why = (
        f"Our mean distance is {mean_text(distance)}, whose square over {k} is "
        f"{squared_mean(float(distance.mean()), k):.1f}; {text} is that of a distance of "
        f"{np.sqrt(float(text) * k / 100):.1f}. "
    )
    if centers < k:
        why += f"{centers:.1f} groups are found a run; all other centres are made up. "
    if k == TRUE_CENTERS:
        why += lost_text(results, method, "s1", how, scale.runs)
    return Cell(
        (base, str(k), str(local), how, reading, f"{centers:.1f}"),
        Printed(text),
        square_errors(results, method, "s1", how, scale.runs, reading, min(k, TRUE_CENTERS)),
        why,
    )


def _claims(scale: Scale, results: Results) -> Claims:
    claims = []
    for base in _FECA:
        if _method(base, 15, 10) not in shown(scale, OTHER_K):
            continue
        few, many, right = (
            results.runs(sset_key(_method(base, 15, local), "s1", "iid"), "distance", scale.runs)
            for local in (10, 20, 15)
        )
        number = results.runs(sset_key(_method(base, 15, 10), "s1", "iid"), "centers", scale.runs)
        reading = base.partition(", ")[2]
        claims += [
            Claim(
                f"Too small a k' harms, too large a one hardly does, iid ({reading})",
                f"distance {few.mean():.1f} for k' = 10, {many.mean():.1f} for 20, "
                f"{right.mean():.1f} for 15",
                bool(few.mean() > 5 * right.mean() and many.mean() < 2 * right.mean()),
                f"k' = 20 multiplies the distance by {many.mean() / right.mean():.1f}, k' = 10 by "
                f"{few.mean() / right.mean():.1f}.",
            ),
            Claim(
                f"With k' = 10 fewer than 15 groups may be found, iid ({reading})",
                f"{int((number < TRUE_CENTERS).sum())} of {len(number)} runs, the smallest number "
                f"is {np.min(number):.0f}",
                bool((number < TRUE_CENTERS).any()),
                f"All of {len(number)} runs found {np.min(number):.0f} groups or more.",
            ),
        ]
    return Claims("What the paper says of it", claims)


EXPERIMENT = Experiment(
    title="FeCA, Table 10: other k than the true one",
    setting=ROWS_AND_DISTANCE
    + TEN_PARTIES
    + FECA_READINGS
    + " Here S1; parties look for k' clusters, k centres are asked for, 15 are true. The mean "
    "square error is not defined in the paper: two readings are shown.",
    runs=10,
    quick_runs=1,
    tasks=tasks,
    page=page,
)
