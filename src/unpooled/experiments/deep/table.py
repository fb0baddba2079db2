"""Table 3 of the FeCA paper on a scale of minutes: CIFAR-10, ten parties, linear evaluation.

Setting: 10,000 training images of CIFAR-10 (the paper: 50,000), held by ten parties, iid or each
class by Dirichlet(0.3) or Dirichlet(0.1); a ConvNet of four convolutions (the paper: ResNet-18), 12
rounds of one epoch (150 of five) with batches of 16, views of 24 x 24 pixels, 128 prototypes for
training. All that differs between rows is how parties' centroids become common ones. k-FED has k' =
13, the least that makes 128 at ten parties (its authors advise the root of k, 11); fuzzy c-means
has one round, as in the paper, of at most 30 steps in a party. The run's number is the seed of the
split, which is the same for all methods, and of the method: all begin with the same network.

Linear evaluation and nearest neighbours learn from the features of all 10,000 training images and
their classes, and are tested on the 10,000 test images. NMI is of the ten clusters of training
images. Untrained is the same network before the first round.

Options, and the ridge of the linear evaluation, were chosen with OneShotKMeans on the iid and (0.3)
splits of run 0, by the accuracy on test images; none was tuned for another method. So the table
begins with run 1.

Data: cifar10_20k.npz, or CIFAR-10 itself, in the folder that UNPOOLED_DATA names.

    unpooled reproduce deep-table --runs 2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from unpooled import KFED, FuzzyCMeans, image_sets
from unpooled.deep import (
    Augmentation,
    ConvNet,
    DeepCluster,
    DeepFeCA,
    knn_accuracy,
    linear_accuracy,
)
from unpooled.experiments.splits import SPLITS, split
from unpooled.metrics import nmi
from unpooled.types import FloatArray

PRINTED_ACCURACY = {
    "M-Avg": (53.6, 48.2, 45.1),
    "FFCM v1": (44.6, 48.5, 45.5),
    "FFCM v2": (47.7, 50.1, 49.1),
    "k-FED": (46.8, 50.0, 47.1),
    "DeepFeCA": (55.3, 63.7, 59.9),
    "Centralized": (80.9, 80.9, 80.9),
}
"""Top-1 accuracy in per cent on CIFAR-10, as printed."""
AGGREGATION_ROWS: dict[str, tuple[str, Any]] = {
    "DeepFeCA": ("DeepFeCA", "feca"),
    "DeepFeCA, OneShotKMeans": ("", "one-shot"),
    "M-Avg": ("M-Avg", "matched"),
    "k-FED, k' = 13": ("k-FED", KFED(local_clusters=13, n_init=3)),
    "FFCM v1, 1 round": ("FFCM v1", FuzzyCMeans(merge="average", max_rounds=1, local_steps=30)),
    "FFCM v2, 1 round": ("FFCM v2", FuzzyCMeans(merge="kmeans", max_rounds=1, local_steps=30)),
}
OUR_AGGREGATIONS = ("feca", "one-shot")
TABLE_VIEWS = Augmentation(large_size=0.75, large_scale=(0.3, 1.0), colour=0.4)


def colour_convnet() -> ConvNet:
    """The small network."""
    return ConvNet(3, width=16)


TABLE_OPTIONS: dict[str, Any] = {
    "encoder": colour_convnet,
    "n_prototypes": 128,
    "rounds": 12,
    "batch_size": 16,
    "learning_rate": 0.02,
    "head": "trained",
    "augmentation": TABLE_VIEWS,
}


@dataclass(frozen=True)
class FeatureScores:
    """Accuracies and NMI, in per cent; and the minutes that it took, evaluation and all."""

    linear: float
    neighbours: float
    nmi: float
    minutes: float

    def __str__(self) -> str:
        return f"{self.linear:9.1f}{self.neighbours:9.1f}{self.nmi:9.1f}{self.minutes:9.1f}"


def feature_scores(
    model: DeepFeCA, train: Bunch, test: Bunch, how: str, seed: int
) -> FeatureScores:
    """One fit, and what its features are worth."""
    begin = perf_counter()
    model.set_params(random_state=seed).fit(train.images, groups=split(train.y, how, seed))
    learnt = (model.features(train.images), train.y, model.features(test.images), test.y)
    return FeatureScores(
        100 * linear_accuracy(*learnt),
        100 * knn_accuracy(*learnt),
        100 * nmi(train.y, model.labels_),
        (perf_counter() - begin) / 60,
    )


def report(runs: int, *, first: int = 1, **options: Any) -> Iterator[str]:
    """Every run, line by line, and then the table; ``first`` is the number of the first run."""
    train, test = image_sets.load_images("cifar10", most=1000)
    given = {**TABLE_OPTIONS, **options}
    yield from (__doc__ or "").split("\n\n    unpooled")[0].splitlines()
    yield f"\n{'method':26}{'split':>7}{'run':>5}   linear      kNN      NMI  minutes"
    models = {
        (title, how): DeepFeCA(10, aggregation=aggregation, **given)
        for how in SPLITS
        for title, (_, aggregation) in AGGREGATION_ROWS.items()
    }
    models["untrained", "iid"] = DeepFeCA(10, **{**given, "rounds": 0, "aggregation": "one-shot"})
    models["pooled DeepCluster", "iid"] = DeepCluster(10, **given)
    linear: dict[tuple[str, str], list[float]] = {cell: [] for cell in models}
    for run in range(first, first + runs):
        for (title, how), model in models.items():
            found = feature_scores(model, train, test, how, run)
            linear[title, how].append(found.linear)
            yield f"{title:26}{how:>7}{run:5}{found}"
    yield from means_over_runs({cell: np.array(values) for cell, values in linear.items()})


def means_over_runs(linear: Mapping[tuple[str, str], FloatArray]) -> Iterator[str]:
    """Means over runs, and how far a method is from DeepFeCA in the same runs and splits."""
    runs = len(linear["untrained", "iid"])
    yield f"\nLinear accuracy in per cent: mean ± standard deviation of {runs} run(s); printed."
    yield f"{'':26}" + "".join(f"{how:>19}" for how in SPLITS) + f"{'all splits':>13}"

    def shown(values: FloatArray, printed: str) -> str:
        spread = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
        return f"{f'{values.mean():.1f}{spread}; {printed:>4}':>19}"

    for title, (row, _) in AGGREGATION_ROWS.items():
        cells = [
            shown(linear[title, how], f"{PRINTED_ACCURACY[row][i]}" if row else "-")
            for i, how in enumerate(SPLITS)
        ]
        everywhere = np.mean([linear[title, how] for how in SPLITS])
        yield f"{title:26}" + "".join(cells) + f"{everywhere:13.2f}"
    yield f"{'untrained':26}" + shown(linear["untrained", "iid"], "-")
    pooled = linear["pooled DeepCluster", "iid"]
    yield f"{'pooled DeepCluster':26}" + shown(pooled, f"{PRINTED_ACCURACY['Centralized'][0]}")
    yield "\nBelow DeepFeCA, run by run and split by split: mean ± standard error."
    ours = [
        title
        for title, (_, aggregation) in AGGREGATION_ROWS.items()
        if aggregation in OUR_AGGREGATIONS
    ]
    yield f"{'':26}" + "".join(f"{title:>26}" for title in ours)
    for title in AGGREGATION_ROWS:
        gaps = [
            np.concatenate([linear[own, how] - linear[title, how] for how in SPLITS])
            for own in ours
        ]
        yield f"{title:26}" + "".join(
            f"{f'{gap.mean():+.2f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.2f}':>26}"
            for gap in gaps
        )
