"""The tables of the comparison's pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unpooled.experiments.comparison.advice import NEAR, size_in_words
from unpooled.experiments.comparison.data import DATA_SETS
from unpooled.experiments.comparison.methods import COMPARED, KERNELS, POOLED
from unpooled.experiments.comparison.pareto import Standing, front_members
from unpooled.experiments.comparison.ranks import mean_ranks
from unpooled.experiments.comparison.summary import Block, Summary
from unpooled.experiments.comparison.tasks import (
    compared_seeds,
    compared_splits,
    fit_key,
    pooled_key,
)
from unpooled.experiments.reproduction.page import Plain, rows_of
from unpooled.experiments.reproduction.tasks import Results, Scale
from unpooled.types import FloatArray


def overall(summary: Summary) -> Plain:
    """All cases in one table, in the order of ranks."""
    ranks = mean_ranks(summary.means["cost"])
    by_nmi = mean_ranks(-summary.means["nmi"])
    rows = [["method", "kind", "rank by cost", "cost over pooled, %: mean", "median", "worst"]]
    rows[0] += [f"cases within {100 * NEAR:g} %", "rank by NMI", "NMI", "accuracy"]
    rows[0] += ["bytes per party: median", "rounds: median", "rounds: most"]
    for place in np.argsort(ranks, kind="stable"):
        name = summary.methods[place]
        cost = 100 * (summary.of("cost", name) - 1)
        rounds = summary.of("rounds", name)
        rows.append(
            [name, COMPARED[name].role, f"{ranks[place]:.2f}"]
            + [f"{value:.2f}" for value in (cost.mean(), np.median(cost), cost.max())]
            + [f"{(cost <= 100 * NEAR).sum()} of {len(cost)}", f"{by_nmi[place]:.2f}"]
            + [f"{summary.of(measure, name).mean():.3f}" for measure in ("nmi", "accuracy")]
            + [size_in_words(float(np.median(summary.of("party_bytes", name))))]
            + [f"{np.median(rounds):.0f}", f"{rounds.max():.0f}"]
        )
    return Plain("All cases", rows, _OVERALL)


_OVERALL = (
    "A case is a data set under a split, its numbers are means over seeds; this table has means "
    "(medians, the worst) over cases. Ranks are those among all methods within a case."
)


def deployed(summary: Summary) -> Plain:
    """The cost where every party is its cells, by data set."""
    assert summary.deployed is not None  # of a whole run
    owner = np.array([block.file for block in summary.blocks])
    rows = [["method", *(DATA_SETS[file].title for file in summary.files)]]
    rows[0] += ["mean, %", "median, %", "worst, %", "cases without a result"]
    for j, name in enumerate(summary.methods):
        column = summary.deployed[:, j]
        there = column[~np.isnan(column)]
        means = [_mean_there(column[owner == file]) for file in summary.files]
        over = [100 * (value - 1) for value in (there.mean(), np.median(there), there.max())]
        rows.append([name, *means, *(f"{value:.2f}" for value in over)])
        rows[-1].append(f"{len(column) - len(there)} of {len(column)}")
    return Plain("Under the policy `deployment`: every party is its cells", rows, _DEPLOYED)


def _mean_there(values: FloatArray) -> str:
    there = values[~np.isnan(values)]
    return f"{there.mean():.3f}" if len(there) else "-"


_DEPLOYED = (
    "Cost over pooled k-means of all rows, as above, where parties hand out nothing but means of "
    "cells of at least 10 persons; means over splits, of seed 0. Parties of fewer than 10 rows "
    "take no part: of Iris and wine, with 15 and 18 rows at a party, a party has one cell, and "
    "where clusters are dealt out unevenly many have none. Such sites are too small for this "
    "minimum. FeCA goes by distances of single rows, which cells do not have."
)


def of_data_set(summary: Summary, file: str) -> Plain:
    """One data set: cost by split, all else as means over splits."""
    here = summary.where(lambda block: block.file == file)
    places = [int(place) for place in np.flatnonzero(here)]
    splits = [summary.blocks[i].how for i in places]
    members = front_members(summary, file)
    rows = [["method", *(f"cost, {how}" for how in splits), "NMI", "accuracy"]]
    rows[0] += ["bytes", "bytes per party", "numbers sent", "rounds", "on the front"]
    reference = summary.pooled[file]
    rows.append([POOLED, *("1" for _ in splits)])
    rows[1] += [f"{reference[measure]:.3f}" for measure in ("nmi", "accuracy")] + ["-"] * 5
    for j, name in enumerate(summary.methods):
        costs = [f"{summary.means['cost'][i, j]:.4f} ± {summary.spread[i, j]:.4f}" for i in places]
        shares = [f"{summary.of(m, name, here).mean():.3f}" for m in ("nmi", "accuracy")]
        sent = [size_in_words(summary.of(m, name, here).mean()) for m in ("bytes", "party_bytes")]
        counts = [f"{summary.of(m, name, here).mean():.0f}" for m in ("floats", "rounds")]
        rows.append([name, *costs, *shares, *sent, *counts, "yes" if name in members else ""])
    return Plain(DATA_SETS[file].title, rows)


def at_centres(summary: Summary) -> Plain:
    """The cost at the centres that methods give, over that of pooled k-means."""
    names = [name for name in summary.methods if name not in KERNELS]
    table = summary.per_file("center_cost")
    rows = [["method", *(DATA_SETS[file].title for file in summary.files)]]
    for name in names:
        column = table[:, list(summary.methods).index(name)]
        rows.append([name, *(f"{value:.4f}" for value in column)])
    return Plain("The cost at the centres that methods give", rows, _AT_CENTRES)


_AT_CENTRES = (
    "Σ of squared distances of rows to the nearest of a method's own centres (of a mesh, the mean "
    "of users' centres), over the cost of pooled k-means; means over splits and seeds. Methods "
    "whose centres are points of another space, those with a kernel, have none."
)


def standings(found: Sequence[Standing]) -> Plain:
    """Where our methods are on the front, and what dominates them where they are not."""
    rows = [["data set", "method", "among", "on the front", "else: which dominates it"]]
    for one in found:
        by = (
            f"{one.by}: cost lower by {100 * one.cheaper:.3f} % of pooled, "
            f"bytes {one.times:.1f} times fewer"
        )
        among = "all" if one.among == "all" else "methods without a coordinator"
        answer = ["yes", ""] if one.on_front else ["no", by]
        rows.append([DATA_SETS[one.file].title, one.method, among, *answer])
    return Plain("Our methods and the fronts", rows)


def times(scale: Scale, results: Results, summary: Summary) -> str:
    """The page of times, the only one that differs from run to run."""
    return "\n".join(_time_lines(scale, results, summary)) + "\n"


def _time_lines(scale: Scale, results: Results, summary: Summary) -> Iterator[str]:
    yield "# How long fits take\n"
    yield (
        "CPU seconds of a fit on one thread, all parties together, means over splits and seeds; in "
        "brackets, relative to pooled k-means with ten starts in the same run. What fits send is "
        "in [comparison.md](comparison.md). These numbers differ from run to run.\n"
    )
    rows = [["method", *(DATA_SETS[file].title for file in summary.files)]]
    pooled = {
        file: np.mean(
            [results.seconds(pooled_key(scale, file, s)) for s in compared_seeds(scale, file)]
        )
        for file in summary.files
    }
    rows.append([POOLED, *(f"{seconds:.3f}" for seconds in pooled.values())])
    for name in summary.methods:
        row = [name]
        for file in summary.files:
            seconds = np.mean(
                [
                    results.seconds(fit_key(scale, Block(file, how), name, seed))
                    for how in compared_splits(scale, file)
                    for seed in compared_seeds(scale, file)
                ]
            )
            row.append(f"{seconds:.2f} ({seconds / pooled[file]:.1f})")
        rows.append(row)
    yield from rows_of(rows)
