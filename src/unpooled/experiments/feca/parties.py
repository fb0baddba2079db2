"""FeCA over the number of parties: what Tables 8 and 9 and Figure 12 share."""

from __future__ import annotations

from typing import Literal

import numpy as np

from unpooled.experiments.feca.setting import BEST_FECA, LITERAL_FECA, lost_text, sset_key, sset_run
from unpooled.experiments.reproduction.page import Cell, Claim, Claims, Page, Table
from unpooled.experiments.reproduction.tasks import Results, Scale, Task
from unpooled.experiments.reproduction.verdicts import AGREEING, printed
from unpooled.types import FloatArray

Sharing = Literal["5%", "all"]
"""Every party holds 5 % of the rows, or parties share all rows."""
PARTY_METHODS = (LITERAL_FECA, BEST_FECA)
ALONE = "pooled KMeans, 1 start"
"""The paper has pooled k-means for one party."""
PARTY_NUMBERS = tuple(range(1, 21))
PARTY_MEASURES: dict[str, tuple[str, Literal["low", "high"]]] = {
    "distance": ("Distance to the true centres / 1e4", "low"),
    "purity": ("Purity", "high"),
    "nmi": ("NMI", "high"),
}
PARTY_SETTING = (
    " Here S1, iid, 1 to 20 parties. Purity and NMI are those of all rows, assigned after one step "
    "of Lloyd's iteration on all rows from the centres found, as the paper has it. With one party "
    "the paper runs pooled k-means on what it holds: so does the row of one party here (one "
    "k-means++ start)."
)


def party_numbers(scale: Scale) -> list[int]:
    """How many parties."""
    return [1, 2, 10] if scale.quick else list(PARTY_NUMBERS)


def how_shared(sharing: Sharing, parties: int) -> str:
    """The name of the split."""
    return f"5% M={parties}" if sharing == "5%" else f"M={parties}"


def party_key(method: str, sharing: Sharing, parties: int) -> str:
    """The key of these runs, without the seed."""
    return sset_key(ALONE if parties == 1 else method, "s1", how_shared(sharing, parties))


def party_tasks(sharing: Sharing, scale: Scale) -> list[Task]:
    """Both readings of FeCA, for every number of parties."""
    keys = dict.fromkeys(
        party_key(method, sharing, parties)
        for method in PARTY_METHODS
        for parties in party_numbers(scale)
    )
    tasks = []
    for key in keys:
        _, method, name, how = key.split("/")
        given = {"method": method, "name": name, "how": how, "quick": scale.quick}
        tasks += [
            Task(f"{key}/{seed}", sset_run, {**given, "seed": seed}) for seed in range(scale.runs)
        ]
    return tasks


def party_distances(
    method: str, sharing: Sharing, scale: Scale, results: Results
) -> list[FloatArray]:
    """The distances of all runs, for every number of parties."""
    return [
        results.runs(party_key(method, sharing, parties), "distance", scale.runs)
        for parties in party_numbers(scale)
    ]


def party_page(
    sharing: Sharing, texts: dict[str, str], claims: Claims, scale: Scale, results: Results
) -> Page:
    """The tables for the three measures, and claims."""
    tables = [_table(measure, sharing, texts, scale, results) for measure in PARTY_MEASURES]
    judged = [
        (cell.where[0], verdict)
        for table in tables
        for cell, verdict in zip(table.cells, table.verdicts(), strict=True)
    ]
    counts = ", ".join(
        f"{sum(v in AGREEING for name, v in judged if name == method)} of "
        f"{sum(name == method for name, _ in judged)} with {method.partition(', ')[2]}"
        for method in PARTY_METHODS
    )
    held = sum(claim.holds for claim in claims.claims)
    conclusion = (
        f"Cells that agree or are close: {counts}. {held} of {len(claims.claims)} claims hold: "
        + "; ".join(claim.found for claim in claims.claims)
        + "."
    )
    return Page([*tables, claims], conclusion)


def _table(
    measure: str, sharing: Sharing, texts: dict[str, str], scale: Scale, results: Results
) -> Table:
    title, better = PARTY_MEASURES[measure]
    there = dict(zip(PARTY_NUMBERS, texts[measure].split(), strict=True))
    cells = []
    for method in PARTY_METHODS:
        for parties in party_numbers(scale):
            key = party_key(method, sharing, parties)
            centers = results.runs(key, "centers", scale.runs).mean()
            cells.append(
                Cell(
                    (method, str(parties), f"{centers:.1f}"),
                    printed(there[parties]),
                    results.runs(key, measure, scale.runs),
                    _why(method, measure, sharing, parties, scale, results),
                )
            )
    return Table(title, ("method", "parties", "centres"), cells, digits=3, better=better)


def _why(
    method: str, measure: str, sharing: Sharing, parties: int, scale: Scale, results: Results
) -> str:
    if parties == 1:
        distance = results.runs(party_key(method, sharing, 1), "distance", scale.runs)
        return (
            f"One party is pooled k-means: single runs lie between {distance.min():.3f} and "
            f"{distance.max():.3f}, by how often one k-means++ start is stuck."
        )
    other = next(name for name in PARTY_METHODS if name != method)
    means = " and ".join(
        f"{name.partition(', ')[2]} "
        f"{results.runs(party_key(name, sharing, parties), measure, scale.runs).mean():.2f}"
        for name in (method, other)
    )
    lost = lost_text(results, method, "s1", how_shared(sharing, parties), scale.runs)
    return f"Means: {means}. {lost}"


def settled_claim(sharing: Sharing, method: str, scale: Scale, results: Results) -> Claim:
    """That distances hardly depend on the number of parties."""
    means = [own.mean() for own in party_distances(method, sharing, scale, results)[1:]]
    numbers = party_numbers(scale)[1:]
    worst = numbers[int(np.argmax(means))]
    return Claim(
        f"From two parties on the distance is about 1.1 ({method.partition(', ')[2]})",
        f"means from {min(means):.2f} to {max(means):.2f} ({method.partition(', ')[2]})",
        bool(max(means) <= 1.5),
        f"The largest mean, {max(means):.2f}, is at {worst} parties. "
        + lost_text(results, method, "s1", how_shared(sharing, worst), scale.runs),
    )


def falling_claim(sharing: Sharing, method: str, scale: Scale, results: Results) -> Claim:
    """That distances fall with the number of parties."""
    means = [own.mean() for own in party_distances(method, sharing, scale, results)[1:]]
    numbers = party_numbers(scale)[1:]
    rank = float(np.corrcoef(np.argsort(np.argsort(means)), numbers)[0, 1])
    return Claim(
        f"The distance falls with the number of parties ({method.partition(', ')[2]})",
        f"{means[0]:.2f} with {numbers[0]} parties, {means[-1]:.2f} with {numbers[-1]}, rank "
        f"correlation {rank:.2f} ({method.partition(', ')[2]})",
        bool(means[-1] < means[0] and rank < -0.5),
        f"Means go from {min(means):.2f} to {max(means):.2f} without a clear order.",
    )
