"""Table 6: FeCA with the theoretical radius (Algorithm 3) beside the empirical one, on S1."""

from __future__ import annotations

import numpy as np

from unpooled.experiments.feca.setting import (
    FECA_READINGS,
    FECAS,
    ROWS_AND_DISTANCE,
    S_SET_METHODS,
    TEN_PARTIES,
    THEORETICAL,
    lost_text,
    shown,
    sset_key,
    sset_tasks,
)
from unpooled.experiments.reproduction.page import Cell, Claim, Claims, Page, Table
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.reproduction.verdicts import AGREEING, printed
from unpooled.experiments.splits import SPLITS

TABLE_6 = {
    "FeCA, theoretical": ("1.1±0.1", "31.8±23.8", "58.9±15.1"),
    "FeCA": ("1.0±0.1", "6.8±3.7", "22.3±15.6"),
}
"""As printed: iid, (0.3), (0.1)."""


def tasks(scale: Scale) -> list[Task]:
    """Both radii, in their readings."""
    return sset_tasks([*THEORETICAL, *FECAS], [("s1", how) for how in SPLITS], scale)


def page(scale: Scale, results: Results) -> Page:
    """The table, and the claim that comes with it."""
    cells = [
        _cell(method, place, scale, results)
        for method in shown(scale, (*THEORETICAL, *FECAS))
        for place in range(len(SPLITS))
    ]
    table = Table(
        "Distance to the true centres of S1 / 1e4",
        ("method", "split", "centres", "means of groups alone"),
        cells,
        digits=2,
        better="low",
    )
    claims = _claims(scale, results)
    judged = list(zip(table.cells, table.verdicts(), strict=True))
    good = {
        name: sum(v in AGREEING for cell, v in judged if cell.where[0] in rows)
        for name, rows in (("theoretical", THEORETICAL), ("empirical", FECAS))
    }
    held = sum(claim.holds for claim in claims.claims)
    of = {
        name: len(SPLITS) * len(shown(scale, rows))
        for name, rows in (("theoretical", THEORETICAL), ("empirical", FECAS))
    }
    conclusion = (
        f"{good['theoretical']} of {of['theoretical']} cells of the theoretical radius and "
        f"{good['empirical']} of {of['empirical']} of the empirical one agree or are close. "
        f"That the theoretical radius is worse where parties differ holds in {held} "
        f"of {len(claims.claims)} comparisons."
    )
    return Page([table, claims], conclusion)


def _cell(method: str, place: int, scale: Scale, results: Results) -> Cell:
    how = SPLITS[place]
    key = sset_key(method, "s1", how)
    groups = results.runs(key, "groups", scale.runs).mean()
    centers = results.runs(key, "centers", scale.runs).mean()
    why = (
        f"{centers:.1f} groups a run, whose means alone are {groups:.1f} away. "
        f"{lost_text(results, method, 's1', how, scale.runs)}"
    )
    if method in THEORETICAL:
        why += (
            " Where all but one centroid overlap another, ours takes the smallest distance of any "
            "two; the paper does not say what happens then."
        )
    return Cell(
        (method, how, f"{centers:.1f}", f"{groups:.2f}"),
        printed(TABLE_6[S_SET_METHODS[method].printed][place]),
        results.runs(key, "distance", scale.runs),
        why,
    )


def _claims(scale: Scale, results: Results) -> Claims:
    claims = []
    pairs = zip(THEORETICAL, ("FeCA, 1 start, literal", "FeCA, 10 starts, merged"), strict=True)
    for theoretical, empirical in pairs:
        for how in SPLITS[1:]:
            one, two = (
                results.runs(sset_key(method, "s1", how), "distance", scale.runs)
                for method in (theoretical, empirical)
            )
            error = (one - two).std(ddof=1) / np.sqrt(len(one)) if len(one) > 1 else 0.0
            claims.append(
                Claim(
                    f"The theoretical radius is worse, {how}, {theoretical.partition(', ')[2]}",
                    f"{one.mean():.1f} and {two.mean():.1f}; standard error of the difference "
                    f"{error:.1f}",
                    bool(one.mean() - two.mean() > 2 * error),
                    f"{'Not settled by' if one.mean() + 2 * error > two.mean() else 'Better in'} "
                    f"{len(one)} runs: the difference is {one.mean() - two.mean():+.1f}, twice its "
                    f"standard error {2 * error:.1f}.",
                )
            )
    note = "Worse is: by more than twice the standard error of the difference, run by run."
    return Claims("Where parties differ", claims, note)


EXPERIMENT = Experiment(
    title="FeCA, Table 6: the theoretical radius",
    setting=ROWS_AND_DISTANCE + TEN_PARTIES + FECA_READINGS + " Here S1 alone.",
    runs=10,
    quick_runs=1,
    tasks=tasks,
    page=page,
)
