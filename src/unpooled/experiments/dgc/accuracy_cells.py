"""Cells of the tables that have accuracies on Iris, by both matchings, with what explains them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.experiments.dgc.setting import iris_key
from unpooled.experiments.reproduction.page import Cell, Table
from unpooled.experiments.reproduction.tasks import Results
from unpooled.experiments.reproduction.verdicts import AGREEING, printed, verdict
from unpooled.types import FloatArray

MATCHINGS = ("identity", "best")
PAPER_RUNS = 10


def accuracy_pair(
    where: tuple[str, ...], text: str, key: str, results: Results, runs: int, because: str = ""
) -> list[Cell]:
    """One printed accuracy beside ours by both matchings; ``because``: further evidence."""
    ours = {name: results.runs(key, name, runs) for name in MATCHINGS}
    paper = printed(text)
    cells = []
    for name, other in (MATCHINGS, MATCHINGS[::-1]):
        judged = verdict(paper, ours[other], "high")
        evidence = [
            f"By the other matching it is {ours[other].mean():.2f} ({judged}).",
            in_tens(ours[name]),
            because,
        ]
        cells.append(Cell((*where, name), paper, ours[name], " ".join(filter(None, evidence))))
    return cells


def in_tens(values: FloatArray, digits: int = 2) -> str:
    """How much a mean of ten runs, which is what the paper has, depends on chance."""
    if len(values) < 2 * PAPER_RUNS:
        return ""
    blocks = len(values) // PAPER_RUNS
    means = values[: blocks * PAPER_RUNS].reshape(blocks, PAPER_RUNS).mean(axis=1)
    low, high = (f"{value:.{digits}f}" for value in (means.min(), means.max()))
    return f"Means of ten of our runs at a time reach from {low} to {high}."


def huber_is_kmeans(results: Results, rho: float, runs: int, inner_steps: int = 1) -> str:
    """Huber's loss with delta = 5 never meets a row farther than that on Iris."""
    km, hl = (
        results.runs(iris_key("DGC", loss, rho, inner_steps), "identity", runs)
        for loss in ("KM", "HL")
    )
    return (
        f"Huber's runs and those of k-means differ by at most {np.abs(km - hl).max():g} points "
        "here, for no row is as far as delta = 5 from its centre; between them the paper's "
        "numbers differ by chance."
    )


def agreeing_by_matching(table: Table) -> str:
    """How many cells agree or are close, for each matching, in words."""
    judged = list(zip(table.cells, table.verdicts(), strict=True))

    def count(name: str) -> str:
        of = [value for cell, value in judged if cell.where[-1] == name]
        return f"{sum(value in AGREEING for value in of)} of {len(of)}"

    return (
        f"{count('identity')} printed accuracies agree or are close if cluster k is class k, "
        f"{count('best')} by the best matching."
    )


def spread_of_means(cells: Sequence[Cell], matching: str) -> tuple[float, float]:
    """The smallest and the largest mean of ours, by a matching."""
    means = [float(cell.ours.mean()) for cell in cells if cell.where[-1] == matching]
    return min(means), max(means)
