"""The S-sets over ten parties: Tables 1 and 4 of the FeCA paper, and S1 of its Table 6.

Setting: S1 to S4 (Fränti & Virmajoki 2006; 15 Gaussian clusters in the plane, 5000 rows, known true
centres), ten parties, rows dealt out iid or each class by Dirichlet(0.3) or Dirichlet(0.1). The
run's number is the seed of the split, which is the same for all methods, and of the method.

Distance is the Frobenius norm of the difference between found and true centres under the optimal
matching, in raw coordinates, in units of 1e4. Only matched centres count, so a method that returns
fewer looks better: their number always stands beside it. FeCA makes up k centres where it finds
fewer groups; for FeCA the number is that of means of groups, and their own distance is given as
well. Purity and NMI are those of assigning every row to the nearest centre.

Data: files s1.npz to s4.npz with X, y and centers, in the folder that UNPOOLED_DATA names.

    unpooled reproduce feca-ssets --runs 10
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Bunch

from unpooled import (
    KFED,
    FeCA,
    FederatedKMeans,
    FuzzyCMeans,
    MatchedAveraging,
    OneShotKMeans,
    datasets,
)
from unpooled.experiments.feca.paper import DISTANCE, NMI, PURITY, S_SETS, Cell
from unpooled.experiments.feca.verdicts import BEST_FECA, NOTES, overview, verdicts
from unpooled.experiments.splits import SPLIT_PARTIES, SPLITS, split
from unpooled.metrics import center_distance, nmi, purity

UNIT = 1e4
LOST = 5e4
BATCHES = 6


@dataclass(frozen=True)
class Method:
    """How to make it from (n_clusters, random_state), and its row in the paper's tables."""

    make: Callable[..., Any]
    printed: str = ""


S_SET_METHODS = {
    "FeCA, 1 start, literal": Method(partial(FeCA, n_init=1, merge=False), "FeCA"),
    "FeCA, 1 start, merged": Method(partial(FeCA, n_init=1), "FeCA"),
    "FeCA, 10 starts, literal": Method(partial(FeCA, merge=False), "FeCA"),
    "FeCA, 10 starts, merged": Method(FeCA, "FeCA"),
    "FeCA, 10, theoretical": Method(partial(FeCA, radius="theoretical"), "FeCA, theoretical"),
    "M-Avg, 1 start": Method(partial(MatchedAveraging, n_init=1), "M-Avg"),
    "M-Avg, 10 starts": Method(MatchedAveraging, "M-Avg"),
    "FFCM v1, 1 round": Method(
        partial(FuzzyCMeans, merge="average", max_rounds=1), "FFCM v1, 1 round"
    ),
    "FFCM v1, 10 rounds": Method(
        partial(FuzzyCMeans, merge="average", max_rounds=10), "FFCM v1, 10 rounds"
    ),
    "FFCM v2, 1 round": Method(
        partial(FuzzyCMeans, merge="kmeans", max_rounds=1), "FFCM v2, 1 round"
    ),
    "FFCM v2, 10 rounds": Method(
        partial(FuzzyCMeans, merge="kmeans", max_rounds=10), "FFCM v2, 10 rounds"
    ),
    "k-FED, k' = 5": Method(partial(KFED, local_clusters=5), "k-FED"),
    "OneShotKMeans": Method(OneShotKMeans),
    "OneShotKMeans, radii": Method(partial(OneShotKMeans, send="radii")),
    "OneShotKMeans, refined": Method(partial(OneShotKMeans, refine=True)),
    "FederatedKMeans": Method(FederatedKMeans),
    "pooled KMeans, 1 start": Method(partial(KMeans, n_init=1), "Centralized"),
    "pooled KMeans, 10 starts": Method(partial(KMeans, n_init=10), "Centralized"),
}


@dataclass(frozen=True)
class SSetScores:
    """What one run came to, or the mean of several."""

    distance: float
    centers: float
    groups_only: float
    purity: float
    nmi: float
    lost: float = 0.0
    """True centres that no centre is within 5e4 of; two of them are at least 1.7e5 apart."""
    deviation: float = 0.0
    """The standard deviation of the distance over runs."""


def sset_run(method: Method, data: Bunch, how: str, seed: int) -> SSetScores:
    """One run."""
    model = method.make(len(data.centers), random_state=seed)
    with warnings.catch_warnings():
        # that there are fewer centres than asked for: their number is reported
        warnings.simplefilter("ignore", ConvergenceWarning)
        if isinstance(model, KMeans):
            model.fit(data.X)
        else:
            model.fit(data.X, groups=split(data.y, how, seed))
    found = model.cluster_centers_
    groups = getattr(model, "n_groups_", len(found))
    return SSetScores(
        distance=center_distance(found, data.centers) / UNIT,
        centers=groups,
        groups_only=center_distance(found[:groups], data.centers) / UNIT,
        purity=purity(data.y, model.labels_),
        nmi=nmi(data.y, model.labels_),
        lost=float((cdist(data.centers, found).min(axis=1) > LOST).sum()),
    )


def sset_mean(method: Method, data: Bunch, how: str, runs: int) -> SSetScores:
    """The mean of many runs, seeds 0, 1, ..."""
    done = [sset_run(method, data, how, seed) for seed in range(runs)]
    distances = [run.distance for run in done]
    return SSetScores(
        distance=float(np.mean(distances)),
        centers=float(np.mean([run.centers for run in done])),
        groups_only=float(np.mean([run.groups_only for run in done])),
        purity=float(np.mean([run.purity for run in done])),
        nmi=float(np.mean([run.nmi for run in done])),
        deviation=float(np.std(distances)),
    )


def report(runs: int) -> Iterator[str]:
    """The tables, line by line as they get done."""
    yield f"$ unpooled reproduce feca-ssets --runs {runs}"
    yield ""
    yield f"S-sets, {SPLIT_PARTIES} parties, {runs} runs: mean ± standard deviation over runs"
    yield "distance: Frobenius norm over optimally matched centres, raw coordinates, / 1e4"
    yield "centres: how many there are; for FeCA how many are means of groups (others make up k)"
    yield "groups: the distance if only those centres are matched"
    done: dict[str, dict[Cell, SSetScores]] = {name: {} for name in S_SET_METHODS}
    for name in S_SETS:
        data = datasets.load(name)
        for how in SPLITS:
            yield ""
            yield _heading(f"{name.upper()}, {_spelled(how)}")
            for label, method in S_SET_METHODS.items():
                done[label][name, how] = sset_mean(method, data, how, runs)
                yield _cell_line(label, method.printed, (name, how), done[label][name, how])
    means = {
        label: {cell: run.distance for cell, run in row.items()} for label, row in done.items()
    }
    yield ""
    yield from overview(means)
    yield ""
    yield from verdicts(means, {label: method.printed for label, method in S_SET_METHODS.items()})
    yield ""
    yield from batches(runs)
    yield ""
    yield from NOTES


def batches(runs: int) -> Iterator[str]:
    """How much the mean of ``runs`` runs depends on which they are, where FeCA is least steady."""
    data = datasets.load("s1")
    done = [
        sset_run(S_SET_METHODS[BEST_FECA], data, "(0.3)", seed) for seed in range(BATCHES * runs)
    ]
    distances = np.array([run.distance for run in done])
    means = ", ".join(f"{mean:.1f}" for mean in distances.reshape(BATCHES, runs).mean(axis=1))
    lost = np.array([run.lost for run in done]) > 0
    yield (
        f"{BEST_FECA}, S1 (0.3), {BATCHES} batches of {runs} runs: {means}; "
        f"median of all {np.median(distances):.1f}"
    )
    if lost.any() and not lost.all():
        yield (
            f"  in {lost.sum()} of {len(lost)} runs some true centre has none within 5e4: "
            f"{distances[lost].mean():.1f} there, {distances[~lost].mean():.1f} in the others"
        )


def _spelled(how: str) -> str:
    return how if how == "iid" else f"Dirichlet{how}"


def _heading(cell: str) -> str:
    return (
        f"{cell:26}distance: paper  here           centres  groups   "
        "purity: paper  here   NMI: paper  here"
    )


def _cell_line(label: str, printed: str, cell: Cell, here: SSetScores) -> str:
    there = DISTANCE.get(printed, {}).get(cell)
    paper = f"{there[0]:5.1f} ±{there[1]:5.1f}" if there else "-"
    scores = (
        f"{_printed(table, printed, cell):>{width}}{value:6.2f}"
        for table, value, width in ((PURITY, here.purity, 14), (NMI, here.nmi, 13))
    )
    return (
        f"  {label:24}{paper:>15}  {here.distance:5.2f} ±{here.deviation:6.2f}{here.centers:9.1f}"
        f"{here.groups_only:8.2f} {''.join(scores)}"
    )


def _printed(table: Mapping[str, Mapping[Cell, float]], printed: str, cell: Cell) -> str:
    value = table.get(printed, {}).get(cell)
    return "-" if value is None else f"{value:.2f}"
