"""Digits (1,797 images of 8 x 8 pixels) over ten parties: what DeepFeCA makes of them.

Held by ten parties, iid or each class by Dirichlet(0.3) or Dirichlet(0.1). The same ConvNet before
the first round and after the last one; and FeCA and OneShotKMeans on the raw pixels beside it,
which is what learnt features have to beat. NMI is of ten clusters of all images; linear evaluation
and nearest neighbours learn from the features of every other image and its class, and are tested on
the rest.

    unpooled reproduce deep-digits --runs 3
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np

from unpooled import FeCA, OneShotKMeans, datasets
from unpooled.deep import ConvNet, DeepCluster, DeepFeCA, knn_accuracy, linear_accuracy
from unpooled.experiments.splits import split
from unpooled.metrics import nmi
from unpooled.types import FloatArray, IntArray

DIGIT_SPLITS = ("iid", "(0.3)", "(0.1)")


def grey_convnet() -> ConvNet:
    """For images of one channel."""
    return ConvNet(1, width=16)


DIGIT_OPTIONS: dict[str, Any] = {
    "encoder": grey_convnet,
    "n_prototypes": 30,
    "rounds": 20,
    "epochs": 2,
    "learning_rate": 0.05,
    "augmentation": "signs",
}


def digit_scores(features: FloatArray, y: IntArray, labels: IntArray) -> tuple[float, float, float]:
    """NMI, linear and neighbours' accuracy."""
    learnt = (features[::2], y[::2], features[1::2], y[1::2])
    return nmi(y, labels), linear_accuracy(*learnt), knn_accuracy(*learnt)


def report(runs: int, **options: Any) -> Iterator[str]:
    """The table, line by line."""
    data = datasets.load("digits")
    yield from (__doc__ or "").split("\n\n    unpooled")[0].splitlines()
    yield f"\nMeans of {runs} run(s).\n"
    yield f"{'method':34}{'split':>7}{'NMI':>8}{'linear':>8}{'kNN':>8}{'CPU seconds':>13}"
    given = {**DIGIT_OPTIONS, **options}

    def line(title: str, how: str, model: Any) -> str:
        found = []
        for seed in range(runs):
            begin = process_time()
            model.set_params(random_state=seed).fit(data.X, groups=split(data.y, how, seed))
            passed = process_time() - begin
            learnt = model.features(data.X) if isinstance(model, DeepFeCA) else data.X
            found.append((*digit_scores(np.asarray(learnt), data.y, model.labels_), passed))
        a, b, c, seconds = np.mean(found, axis=0)
        return f"{title:34}{how:>7}{a:8.3f}{b:8.3f}{c:8.3f}{seconds:13.1f}"

    for how in DIGIT_SPLITS:
        yield line("FeCA on raw pixels", how, FeCA(10))
        yield line("OneShotKMeans on raw pixels", how, OneShotKMeans(10, local_clusters=10))
        for name in ("feca", "one-shot"):
            before = {**given, "aggregation": name, "rounds": 0}
            yield line(f"untrained network, {name}", how, DeepFeCA(10, **before))
            yield line(f"DeepFeCA, {name}", how, DeepFeCA(10, aggregation=name, **given))
    yield line("pooled DeepCluster", "iid", DeepCluster(10, **given))
