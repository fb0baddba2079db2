"""What is run for the comparison: every fit is a task, and so is every pooled reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unpooled.experiments.comparison.data import DATA_SETS, SITES
from unpooled.experiments.comparison.methods import COMPARED, compared_fit, deployed_fit, pooled_fit
from unpooled.experiments.comparison.summary import Block, Summary, summarised
from unpooled.experiments.reproduction.tasks import Results, Scale, Task

RUNS_OF_LARGE = 3
RUNS_DEPLOYED = 1
QUICK_FILES = ("s1", "iris", "wine", "heart_4sites")
QUICK_ROWS = 200


def compared_files(scale: Scale) -> tuple[str, ...]:
    """The data sets: a few in a quick run."""
    return QUICK_FILES if scale.quick else tuple(DATA_SETS)


def compared_splits(scale: Scale, file: str) -> tuple[str, ...]:
    """How rows are dealt out: a few ways in a quick run."""
    splits = DATA_SETS[file].splits
    return tuple(how for how in splits if how in ("iid", "(0.1)", SITES) or not scale.quick)


def compared_seeds(scale: Scale, file: str) -> range:
    """As many as runs are asked for; few for large sets."""
    return range(scale.runs if DATA_SETS[file].small else min(scale.runs, RUNS_OF_LARGE))


def deployed_seeds(scale: Scale, file: str) -> range:
    """Seeds of the fits where parties are their cells."""
    return range(min(scale.runs, RUNS_DEPLOYED))


def compared_rows(scale: Scale, file: str) -> int:
    """Most rows of a run."""
    return QUICK_ROWS if scale.quick else DATA_SETS[file].rows


def fit_key(scale: Scale, block: Block, method: str, seed: int) -> str:
    """The key of a fit."""
    return f"comparison/{block.file}/{compared_rows(scale, block.file)}/{block.how}/{method}/{seed}"


def deployed_key(scale: Scale, block: Block, method: str, seed: int) -> str:
    """The key of a fit where parties are their cells."""
    return fit_key(scale, block, method, seed).replace("comparison", "deployment", 1)


def pooled_key(scale: Scale, file: str, seed: int) -> str:
    """The key of a pooled fit."""
    return f"comparison/{file}/{compared_rows(scale, file)}/pooled/{seed}"


def comparison_tasks(scale: Scale, files: Sequence[str]) -> list[Task]:
    """Seed by seed, so that tasks that come after each other share their rows."""
    found = []
    for file in files:
        for seed in compared_seeds(scale, file):
            given = {"file": file, "seed": seed, "most": compared_rows(scale, file)}
            found.append(Task(pooled_key(scale, file, seed), pooled_fit, given))
            for how in compared_splits(scale, file):
                for method in COMPARED:
                    key = fit_key(scale, Block(file, how), method, seed)
                    more = {"how": how, "method": method}
                    found.append(Task(key, compared_fit, given | more))
                    if seed in deployed_seeds(scale, file):
                        key = deployed_key(scale, Block(file, how), method, seed)
                        found.append(Task(key, deployed_fit, given | more))
    return found


def summary_of(scale: Scale, results: Results, files: Sequence[str]) -> Summary:
    """Means over seeds of what the tasks returned."""
    blocks = [Block(file, how) for file in files for how in compared_splits(scale, file)]

    def fits(
        key: Callable[[Scale, Block, str, int], str], seeds: Callable[[Scale, str], range]
    ) -> dict[Block, dict[str, list[Any]]]:
        return {
            block: {
                method: [
                    results[key(scale, block, method, seed)] for seed in seeds(scale, block.file)
                ]
                for method in COMPARED
            }
            for block in blocks
        }

    pooled = {
        file: [results[pooled_key(scale, file, seed)] for seed in compared_seeds(scale, file)]
        for file in files
    }
    deployed = fits(deployed_key, deployed_seeds)
    return summarised(fits(fit_key, compared_seeds), pooled, deployed)
