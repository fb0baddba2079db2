"""The S-sets over parties, as the FeCA paper has them: methods, one run, and its key.

S1 to S4 (Fränti & Virmajoki 2006) are 15 Gaussian clusters in the plane, 5000 rows, with known true
centres. Ten parties hold the rows iid, or each class by Dirichlet(0.3) or Dirichlet(0.1). The run's
number is the seed of the split, which is the same for all methods, and of the method.

**Distance** is the Frobenius norm of the difference between found and true centres under the
optimal matching, in raw coordinates, in units of 1e4. Only matched centres count, so a method that
returns fewer looks better: their number always stands beside it. FeCA makes up k centres where it
finds fewer groups; for FeCA the number is that of means of groups, and "groups" is the distance of
these alone. Purity and NMI are those of assigning every row to the nearest centre.

What the paper leaves open for FeCA, both of which are shown: whether a party's k-means has one
start or ten, and whether the close pair that justified a removal is tested again ("literal", as
Algorithm 2 is printed) or becomes one centroid ("merged").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.utils import Bunch

from unpooled import (
    KFED,
    FeCA,
    FuzzyCMeans,
    MatchedAveraging,
    OneShotKMeans,
    datasets,
    partition,
)
from unpooled.errors import InputError
from unpooled.experiments.feca.readings import KFED_CHOICES, READINGS
from unpooled.experiments.reproduction.registry import S_SETS
from unpooled.experiments.reproduction.tasks import Results, Scale, Task
from unpooled.experiments.splits import SPLITS, split
from unpooled.metrics import center_distance, nmi, purity
from unpooled.types import FloatArray, IntArray

UNIT = 1e4
LOST = 5e4
"""A true centre that no centre is within this distance of is lost; two are 1.7e5 apart or more."""
SHARE_PARTIES = 20
"""Parties that hold 5 % of the rows each."""
_QUICK_ROWS = 600

ROWS_AND_DISTANCE = (
    "S-sets, 15 clusters in the plane, 5000 rows each. The run's number is the seed of the split, "
    "the same for all methods, and of the method. Distance: Frobenius norm of the difference "
    "between found and true centres under the optimal matching, in raw coordinates, / 1e4. Only "
    "matched centres count, so the number of centres stands beside it; for FeCA it is the number "
    "of means of groups (others make up 15)."
)
TEN_PARTIES = " Ten parties: iid, or each class by Dirichlet(0.3) or Dirichlet(0.1)."
FECA_READINGS = (
    " The paper does not say how often a party's k-means starts, nor whether the pair that "
    "justified a removal is tested again (literal, as printed) or merged; the rows say which "
    "reading they are of."
)
OTHER_METHODS = (
    " Fuzzy c-means iterates until a party's centres stay, or 30 steps in each of ten rounds. "
    "OneShotKMeans with 15 local clusters sends as many numbers as FeCA does."
)
S_SET_SETTING = ROWS_AND_DISTANCE + TEN_PARTIES + FECA_READINGS + OTHER_METHODS


@dataclass(frozen=True)
class SSetMethod:
    """How to make it from (n_clusters, random_state), and its row in the paper's tables."""

    make: Callable[..., Any]
    printed: str = ""
    clusters: int | None = None
    """How many to ask for; None: as many as there are."""


BEST_FECA = "FeCA, 10 starts, merged"
LITERAL_FECA = "FeCA, 1 start, literal"
FECAS = {
    LITERAL_FECA: SSetMethod(partial(FeCA, n_init=1, merge=False), "FeCA"),
    "FeCA, 1 start, merged": SSetMethod(partial(FeCA, n_init=1), "FeCA"),
    "FeCA, 10 starts, literal": SSetMethod(partial(FeCA, merge=False), "FeCA"),
    BEST_FECA: SSetMethod(FeCA, "FeCA"),
}
BASELINES = {
    "M-Avg, 1 start": SSetMethod(partial(MatchedAveraging, n_init=1), "M-Avg"),
    "M-Avg, 10 starts": SSetMethod(MatchedAveraging, "M-Avg"),
    **{
        f"FFCM {version}, {rounds} round{'s' if rounds > 1 else ''}": SSetMethod(
            partial(FuzzyCMeans, merge=merge, max_rounds=rounds, local_steps=steps),
            f"FFCM {version}, {rounds} round{'s' if rounds > 1 else ''}",
        )
        for version, merge in (("v1", "average"), ("v2", "kmeans"))
        for rounds, steps in ((1, None), (10, 30))
    },
    "k-FED, k' = 5": SSetMethod(partial(KFED, local_clusters=5), "k-FED"),
}
POOLED = {
    "pooled KMeans, 1 start": SSetMethod(partial(KMeans, n_init=1), "Centralized"),
    "pooled KMeans, 10 starts": SSetMethod(partial(KMeans, n_init=10), "Centralized"),
    "pooled KMeans, 1 random start": SSetMethod(
        partial(KMeans, n_init=1, init="random"), "Centralized"
    ),
}
ONE_SHOT = "OneShotKMeans, 15 local"
OURS = {
    ONE_SHOT: SSetMethod(partial(OneShotKMeans, local_clusters=15)),
    "OneShotKMeans, 30 local": SSetMethod(partial(OneShotKMeans, local_clusters=30)),
    "OneShotKMeans, 15 local, refined": SSetMethod(
        partial(OneShotKMeans, local_clusters=15, refine=True)
    ),
}
THEORETICAL = {
    "FeCA theoretical, 1 start, literal": SSetMethod(
        partial(FeCA, radius="theoretical", n_init=1, merge=False), "FeCA, theoretical"
    ),
    "FeCA theoretical, 10 starts, merged": SSetMethod(
        partial(FeCA, radius="theoretical"), "FeCA, theoretical"
    ),
}
UNREFINED = {
    "FeCA, 1 start, no removal": SSetMethod(partial(FeCA, n_init=1, remove=False)),
    "FeCA, 10 starts, no removal": SSetMethod(partial(FeCA, remove=False)),
}
OTHER_K = {
    f"{name}, k = {k}, k' = {local}": SSetMethod(
        partial(method.make, local_clusters=local), "FeCA", clusters=k
    )
    for k, local in ((15, 10), (15, 20), (10, 15))
    for name, method in FECAS.items()
    if name in (LITERAL_FECA, BEST_FECA)
}
KFED_OVER_K = {
    k: {
        f"k-FED, k' = {k}": SSetMethod(partial(KFED, local_clusters=k), "k-FED"),
        **{
            f"{name}, k' = {k}": SSetMethod(partial(make, k), "k-FED")
            for name, make in KFED_CHOICES.items()
        },
    }
    for k in range(2, 16)
}
S_SET_METHODS: dict[str, SSetMethod] = {
    **{name: method for row in KFED_OVER_K.values() for name, method in row.items()},
    **FECAS,
    **BASELINES,
    **OURS,
    **POOLED,
    **THEORETICAL,
    **UNREFINED,
    **OTHER_K,
    **{name: SSetMethod(make, printed) for name, (make, printed) in READINGS.items()},
}

QUICK_METHODS = (
    LITERAL_FECA,
    BEST_FECA,
    "M-Avg, 1 start",
    "FFCM v2, 1 round",
    "k-FED, k' = 5",
    ONE_SHOT,
    *POOLED,
    *THEORETICAL,
    "FeCA, 1 start, no removal",
    *(name for name in OTHER_K if name.startswith(LITERAL_FECA)),
    "k-FED, any 15, k' = 5",
    "FFCM v2, 1 round, weak server",
)


def shown(scale: Scale, methods: Iterable[str]) -> list[str]:
    """Those of the methods that are run; quick: the quicker ones."""
    return [name for name in methods if not scale.quick or name in QUICK_METHODS]


def sset(name: str, quick: bool = False) -> Bunch:
    """A set; ``quick``: only every so many rows of it."""
    data = datasets.load(name)
    if "centers" not in data:
        raise InputError(f"{name}.npz has no array 'centers', the true centres; add it.")
    if quick:
        every = max(1, len(data.X) // _QUICK_ROWS)
        data.X, data.y = data.X[::every], data.y[::every]
    return data


def sset_groups(y: IntArray, how: str, seed: int) -> IntArray:
    """The party of each row: a split by name, "M=7" (iid), or "5% M=7"; -1 is nobody's row."""
    if "M=" not in how:
        return split(y, how, seed)
    parties = int(how.partition("M=")[2])
    if not how.startswith("5%"):
        return partition.iid(len(y), n_parties=parties, random_state=seed)
    groups = partition.iid(len(y), n_parties=SHARE_PARTIES, random_state=seed)
    return np.where(groups < parties, groups, -1)


def sset_fit(method: str, data: Bunch, how: str, seed: int) -> Any:
    """A fitted model; pooled methods fit all rows that anybody holds."""
    chosen = S_SET_METHODS[method]
    model = chosen.make(chosen.clusters or len(data.centers), random_state=seed)
    if how == "pooled":
        return model.fit(data.X)
    groups = sset_groups(data.y, how, seed)
    held = groups >= 0
    if isinstance(model, KMeans):
        return model.fit(data.X[held])
    return model.fit(data.X[held], groups=groups[held])


def sset_run(method: str, name: str, how: str, seed: int, quick: bool = False) -> dict[str, float]:
    """One run: distance, number of centres, and what else the tables show."""
    data = sset(name, quick)
    model = sset_fit(method, data, how, seed)
    found = np.asarray(model.cluster_centers_)
    groups = int(getattr(model, "n_groups_", len(found)))
    scores = {
        "distance": center_distance(found, data.centers) / UNIT,
        "centers": float(groups),
        "groups": center_distance(found[:groups], data.centers) / UNIT,
        "lost": float((cdist(data.centers, found).min(axis=1) > LOST).sum()),
    }
    labels = cdist(data.X, found).argmin(axis=1)
    if "M=" in how:  # Appendix D: one step of Lloyd's iteration before rows are assigned
        sums = np.array([data.X[labels == k].sum(axis=0) for k in range(len(found))])
        counts = np.bincount(labels, minlength=len(found))[:, None]
        moved = np.where(counts > 0, sums / np.maximum(counts, 1), found)
        labels = cdist(data.X, moved).argmin(axis=1)
    return {**scores, "purity": purity(data.y, labels), "nmi": nmi(data.y, labels)}


def sset_key(method: str, name: str, how: str) -> str:
    """The key of these runs, without the seed; pooled rows know no split."""
    if method in POOLED and "M=" not in how:
        how = "pooled"
    store = "feca-parties" if "M=" in how else "feca-ssets"
    return f"{store}/{method}/{name}/{how}"


def sset_tasks(
    methods: Iterable[str], cells: Sequence[tuple[str, str]], scale: Scale, runs: int | None = None
) -> list[Task]:
    """One task per method that is shown, cell (a set and a split) and seed."""
    run = shown(scale, methods)
    keys = dict.fromkeys(sset_key(method, *cell) for method in run for cell in cells)
    tasks = []
    for key in keys:
        _, method, name, how = key.split("/")
        given = {"method": method, "name": name, "how": how, "quick": scale.quick}
        tasks += [
            Task(f"{key}/{seed}", sset_run, {**given, "seed": seed})
            for seed in range(runs or scale.runs)
        ]
    return tasks


def sset_cells(scale: Scale) -> list[tuple[str, str]]:
    """Sets and splits of Tables 1 and 4; quick: the first set."""
    names = S_SETS[:1] if scale.quick else S_SETS
    return [(name, how) for name in names for how in SPLITS]


def mean_text(values: FloatArray, digits: int = 1) -> str:
    """Mean and standard deviation in words."""
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


def lost_text(results: Results, method: str, name: str, how: str, runs: int) -> str:
    """How the distance depends on whether a true centre is lost, in words."""
    key = sset_key(method, name, how)
    lost = results.runs(key, "lost", runs) > 0
    distance = results.runs(key, "distance", runs)
    if not lost.any():
        return f"No run of {len(lost)} lost a true centre (none within 5e4 of it)."
    text = f"{lost.sum()} of {len(lost)} runs lost a true centre (none within 5e4 of it)"
    if lost.all():
        return f"{text}: {distance.mean():.1f}."
    return f"{text}: {distance[lost].mean():.1f} there, {distance[~lost].mean():.1f} in the others."
