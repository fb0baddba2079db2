"""Table 2: purity and NMI on features of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans
from sklearn.utils import Bunch

from unpooled import KFED, FeCA, FuzzyCMeans, MatchedAveraging, OneShotKMeans, datasets
from unpooled.experiments.reproduction.page import Cell, Claim, Claims, Page, Plain, Table
from unpooled.experiments.reproduction.tasks import Experiment, Results, Scale, Task
from unpooled.experiments.reproduction.verdicts import AGREEING, Printed
from unpooled.experiments.splits import FEATURE_SPLITS, split
from unpooled.metrics import nmi, purity

FEATURE_SETS = {
    "CIFAR-10": ("cifar10_efflite0_features", 10, 3),
    "CIFAR-100": ("cifar100_features", 100, 10),
}
"""The file, the number of clusters, and k' of k-FED, by data set."""
TABLE_2 = {
    "CIFAR-10": {
        "M-Avg": "0.48 0.45 0.41 0.39 0.43 0.41 0.35 0.34",
        "FFCM v1, 1 round": "0.24 0.32 0.37 0.36 0.33 0.37 0.38 0.36",
        "FFCM v1, 10 rounds": "0.20 0.20 0.23 0.24 0.31 0.31 0.32 0.31",
        "FFCM v2, 1 round": "0.32 0.44 0.53 0.56 0.27 0.43 0.48 0.50",
        "FFCM v2, 10 rounds": "0.32 0.43 0.53 0.56 0.27 0.43 0.48 0.50",
        "k-FED": "0.28 0.41 0.47 0.51 0.30 0.39 0.47 0.52",
        "FeCA": "0.61 0.60 0.58 0.57 0.53 0.51 0.49 0.50",
        "Centralized": "0.64 0.64 0.64 0.64 0.53 0.53 0.53 0.53",
    },
    "CIFAR-100": {
        "M-Avg": "0.20 0.19 0.19 0.18 0.37 0.37 0.36 0.36",
        "FFCM v1, 1 round": "0.06 0.07 0.07 0.07 0.24 0.25 0.24 0.25",
        "FFCM v1, 10 rounds": "0.03 0.03 0.04 0.03 0.13 0.13 0.15 0.14",
        "FFCM v2, 1 round": "0.10 0.11 0.11 0.12 0.27 0.30 0.30 0.32",
        "FFCM v2, 10 rounds": "0.10 0.10 0.10 0.12 0.26 0.28 0.29 0.31",
        "k-FED": "0.10 0.22 0.34 0.48 0.27 0.37 0.49 0.62",
        "FeCA": "0.37 0.37 0.37 0.34 0.49 0.49 0.49 0.47",
        "Centralized": "0.39 0.39 0.39 0.39 0.50 0.50 0.50 0.50",
    },
}
"""As printed: purity, then NMI; each iid, (1.0), (0.3), (0.1)."""
_FUZZY = partial(FuzzyCMeans, local_steps=30)
FEATURE_METHODS: dict[str, tuple[Callable[..., Any], str]] = {
    "FeCA, 1 start, literal": (partial(FeCA, n_init=1, merge=False), "FeCA"),
    "FeCA, 3 starts, merged": (partial(FeCA, n_init=3), "FeCA"),
    "M-Avg, 1 start": (partial(MatchedAveraging, n_init=1), "M-Avg"),
    "FFCM v1, 1 round": (partial(_FUZZY, merge="average", max_rounds=1), "FFCM v1, 1 round"),
    "FFCM v1, 10 rounds": (partial(_FUZZY, merge="average", max_rounds=10), "FFCM v1, 10 rounds"),
    "FFCM v2, 1 round": (partial(_FUZZY, merge="kmeans", max_rounds=1), "FFCM v2, 1 round"),
    "FFCM v2, 10 rounds": (partial(_FUZZY, merge="kmeans", max_rounds=10), "FFCM v2, 10 rounds"),
    "k-FED": (partial(KFED, n_init=3), "k-FED"),
    "OneShotKMeans": (partial(OneShotKMeans, n_init=3), ""),
    "pooled KMeans, 1 start": (partial(KMeans, n_init=1), "Centralized"),
}
_QUICK_FEATURE_METHODS = ("FeCA, 1 start, literal", "k-FED", "M-Avg, 1 start")
FEATURE_ROWS = 10_000
_QUICK_FEATURE_ROWS = 300
FEATURE_MEASURES = ("purity", "nmi")
_GET = (
    "CIFAR-100 is not at hand. Make `cifar100_features.npz` with arrays X (one row of features per "
    "image; the paper: the 2048 outputs of an ImageNet ResNet-50 before its last layer) and y "
    "(classes 0 to 99): read `cifar-100-binary` by `unpooled.image_sets.load_images('cifar100')`, "
    "pass enlarged images through a pretrained network, and put the file where UNPOOLED_DATA says. "
    "This page then has that half too."
)


@cache
def _loaded(name: str, folder: str | None) -> Bunch:
    return datasets.load(name, folder=folder)


def features_of(data_set: str, quick: bool) -> Bunch:
    """Rows spread evenly over the training part, as many as are used."""
    data = _loaded(FEATURE_SETS[data_set][0], os.environ.get(datasets.FOLDER_VARIABLE))
    rows = np.flatnonzero(data.split == 0) if "split" in data else np.arange(len(data.y))
    most = _QUICK_FEATURE_ROWS if quick else FEATURE_ROWS
    chosen = rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)]
    return Bunch(X=data.X[chosen], y=data.y[chosen])


def feature_run(
    data_set: str, method: str, how: str, seed: int, quick: bool = False
) -> dict[str, float]:
    """Purity and NMI of one run."""
    _, k, local = FEATURE_SETS[data_set]
    data = features_of(data_set, quick)
    model = FEATURE_METHODS[method][0](k, random_state=seed)
    if method == "k-FED":
        model.set_params(local_clusters=local)
    if method == "OneShotKMeans":
        model.set_params(local_clusters=k)  # as many numbers as FeCA sends
    if how == "pooled":
        model.fit(data.X)
    else:
        model.fit(data.X, groups=split(data.y, how, seed))
    labels = np.asarray(model.labels_)
    return {
        "purity": purity(data.y, labels),
        "nmi": nmi(data.y, labels),
        "centers": float(len(model.cluster_centers_)),
    }


def centers_apart(data_set: str, method: str, quick: bool = False) -> float:
    """The largest distance of two centres in one iid run, over that of rows to their mean."""
    data = features_of(data_set, quick)
    model = FEATURE_METHODS[method][0](FEATURE_SETS[data_set][1], random_state=0)
    model.fit(data.X, groups=split(data.y, "iid", 0))
    spread = np.sqrt(((data.X - data.X.mean(axis=0)) ** 2).sum(axis=1).mean())
    return float(f"{pdist(model.cluster_centers_).max() / spread:.0e}")


def _there() -> list[str]:
    names = datasets.available()
    return [data_set for data_set, (file, _, _) in FEATURE_SETS.items() if file in names]


def _run_methods(scale: Scale) -> list[str]:
    return [m for m in FEATURE_METHODS if not scale.quick or m in _QUICK_FEATURE_METHODS]


def _key(data_set: str, method: str, how: str) -> str:
    return f"feca-features/{data_set}/{method}/{'pooled' if method.startswith('pooled') else how}"


def tasks(scale: Scale) -> list[Task]:
    """Every method and split on the sets that are there."""
    keys = dict.fromkeys(
        _key(data_set, method, how)
        for data_set in _there()
        for how in FEATURE_SPLITS
        for method in _run_methods(scale)
    )
    made = []
    for key in keys:
        _, data_set, method, how = key.split("/")
        given = {"data_set": data_set, "method": method, "how": how, "quick": scale.quick}
        made += [
            Task(f"{key}/{seed}", feature_run, {**given, "seed": seed})
            for seed in range(scale.runs)
        ]
    made += [
        Task(
            _apart_key(data_set, method),
            centers_apart,
            {"data_set": data_set, "method": method, "quick": scale.quick},
        )
        for data_set in _there()
        for method in _run_methods(scale)
        if method.startswith("FFCM v1")
    ]
    return made


def _apart_key(data_set: str, method: str) -> str:
    return f"feca-features/{data_set}/{method}/apart"


def page(scale: Scale, results: Results) -> Page:
    """Tables and rankings of the sets that are there, and how to get the others."""
    parts: list[Table | Claims | Plain] = []
    for data_set in _there():
        parts += [_table(data_set, measure, scale, results) for measure in FEATURE_MEASURES]
        parts.append(_ranking(data_set, scale, results))
    if "CIFAR-100" not in _there():
        parts.append(Plain("CIFAR-100", note=_GET))
    return Page(parts, _conclusion(parts))


def _mean(data_set: str, method: str, how: str, measure: str, runs: int, results: Results) -> float:
    return float(results.runs(_key(data_set, method, how), measure, runs).mean())


def _table(data_set: str, measure: str, scale: Scale, results: Results) -> Table:
    place = len(FEATURE_SPLITS) * FEATURE_MEASURES.index(measure)
    cells = []
    for method in _run_methods(scale):
        row = FEATURE_METHODS[method][1]
        texts = TABLE_2[data_set][row].split()[place:] if row else [""] * len(FEATURE_SPLITS)
        hows = FEATURE_SPLITS if row != "Centralized" else FEATURE_SPLITS[:1]
        for how, text in zip(hows, texts, strict=False):
            values = results.runs(_key(data_set, method, how), measure, scale.runs)
            centers = results.runs(_key(data_set, method, how), "centers", scale.runs).mean()
            cells.append(
                Cell(
                    (method, how if row != "Centralized" else "any", f"{centers:.1f}"),
                    Printed(text, runs=3) if text else None,
                    values,
                    _why(data_set, method, how, measure, scale, results),
                )
            )
    title = f"{data_set}: {'purity' if measure == 'purity' else 'NMI'}"
    return Table(title, ("method", "split", "centres"), cells, digits=3, better="high")


def _why(data_set: str, method: str, how: str, measure: str, scale: Scale, results: Results) -> str:
    text = "Features and rows are others: EfficientNet-Lite0 here, ResNet-50 in the paper"
    pooled = "pooled KMeans, 1 start"
    if pooled in _run_methods(scale):
        ours = _mean(data_set, pooled, how, measure, scale.runs, results)
        place = len(FEATURE_SPLITS) * FEATURE_MEASURES.index(measure)
        there = TABLE_2[data_set]["Centralized"].split()[place]
        text += f"; pooled k-means has {ours:.2f} here where the paper prints {there}"
        if not method.startswith("pooled"):
            own = _mean(data_set, method, how, measure, scale.runs, results)
            text += f", and this method reaches {own / ours:.2f} of that"
    if method.startswith("FFCM v1"):
        apart = results[_apart_key(data_set, method)]
        text += (
            f". In so many columns fuzzy c-means with fuzzifier 2 brings its centres together: in "
            f"an iid run no two are farther apart than {apart:.0e} of the rows' distance to their "
            "mean, so clusters are chance"
        )
    return f"{text}."


def _ranking(data_set: str, scale: Scale, results: Results) -> Claims:
    """What the paper says of which method is best, by purity and by NMI."""
    claims = []
    methods = [m for m in _run_methods(scale) if FEATURE_METHODS[m][1] not in ("", "Centralized")]
    for measure in FEATURE_MEASURES:
        for how in FEATURE_SPLITS:
            place = FEATURE_SPLITS.index(how)
            place += len(FEATURE_SPLITS) * FEATURE_MEASURES.index(measure)
            there = {
                row: float(texts.split()[place])
                for row, texts in TABLE_2[data_set].items()
                if row != "Centralized"
            }
            best = max(there, key=lambda row: there[row])
            means = {m: _mean(data_set, m, how, measure, scale.runs, results) for m in methods}
            first = max(means, key=lambda m: means[m])
            own = max(
                (m for m in methods if FEATURE_METHODS[m][1] == best),
                default=first,
                key=lambda m: means[m],
            )
            claims.append(
                Claim(
                    f"{best} is best of the paper's methods, {how}, {measure}",
                    f"{first} {means[first]:.3f}; {own} {means[own]:.3f}",
                    FEATURE_METHODS[first][1] == best,
                    f"{first} is ahead by {means[first] - means[own]:.3f} on these features.",
                )
            )
    return Claims(f"{data_set}: which method is best", claims)


def _conclusion(parts: list[Table | Claims | Plain]) -> str:
    judged = [v for part in parts if isinstance(part, Table) for v in part.verdicts()]
    judged = [v for v in judged if v != "not printed"]
    good = sum(v in AGREEING for v in judged)
    better = sum(v == "better" for v in judged)
    claims = [claim for part in parts if isinstance(part, Claims) for claim in part.claims]
    held = sum(claim.holds for claim in claims)
    return (
        f"On other features than the paper's, {good} of {len(judged)} values agree or are close, "
        f"{better} are better and {len(judged) - good - better} worse. Which of the paper's "
        f"methods is best is the same in {held} of {len(claims)} splits and measures."
    )


EXPERIMENT = Experiment(
    title="FeCA, Table 2: purity and NMI on features of images",
    setting=(
        f"{FEATURE_ROWS:,} training images of CIFAR-10 (the paper: all 50,000), features by an "
        "ImageNet-pretrained EfficientNet-Lite0, 1280 columns (the paper: ResNet-50, 2048), ten "
        "parties, iid or each class by Dirichlet(1.0), (0.3) or (0.1); k = 10, k-FED with k' = 3. "
        "Three runs, as in the paper; fuzzy c-means has at most 30 local steps a round; k-FED "
        "and OneShotKMeans have three starts; OneShotKMeans sends as many numbers as FeCA. Pooled "
        "k-means has one start."
    ),
    runs=3,
    quick_runs=1,
    tasks=tasks,
    page=page,
)
