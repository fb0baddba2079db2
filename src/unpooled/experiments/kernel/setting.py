"""The paper's data and settings: five parties that hold rows at random, γ by the mean distance.

(D, s) are Mushrooms 15, 2; MNIST 200, 12; Covertype 30, 10; coresets of 1000, 1000 and 4000 rows.
Covertype's columns are scaled to [0, 1] and 100,000 of its rows stand in for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.metrics import normalized_mutual_info_score
from sklearn.utils import Bunch

from unpooled import KernelKMeans, datasets
from unpooled.types import FloatArray, IntArray

KERNEL_PARTIES = 5


@dataclass(frozen=True)
class KernelSetting:
    """A data set, and what the paper does with it."""

    title: str
    file: str
    n_clusters: int
    n_features: int
    n_components: int
    coreset_size: int
    rows: int | None = None

    @cached_property
    def data(self) -> Bunch:
        """All rows, in columns that are alike in scale."""
        found = datasets.load(self.file)
        X: FloatArray = found.X[: self.rows]
        low, high = X.min(axis=0), X.max(axis=0)
        if self.file == "mnist":  # one scale for all pixels
            low, high = np.float64(X.min()), np.float64(X.max())
        return Bunch(X=(X - low) / np.where(high > low, high - low, 1.0), y=found.y[: self.rows])

    def groups(self, seed: int) -> IntArray:
        """Who holds which row."""
        return np.random.default_rng(seed).permutation(len(self.data.X)) % KERNEL_PARTIES

    def paper(self, seed: int, **options: Any) -> KernelKMeans:
        """The paper's way."""
        given = {
            "solver": "dspgd",
            "n_features": self.n_features,
            "n_components": self.n_components,
            "coreset_size": self.coreset_size,
        }
        return KernelKMeans(self.n_clusters, random_state=seed, **{**given, **options})


MUSHROOMS = KernelSetting("Mushrooms", "mushrooms", 2, 15, 2, 1000)
MNIST_60K = KernelSetting("MNIST", "mnist", 10, 200, 12, 1000, rows=60_000)
COVERTYPE = KernelSetting("Covertype", "covtype_100k", 7, 30, 10, 4000)
SETTINGS = (MUSHROOMS, MNIST_60K, COVERTYPE)


@dataclass(frozen=True)
class KernelRun:
    """What one fit came to; ``floats`` and ``rounds`` of everything, bandwidth and all."""

    nmi: float
    floats: int
    rounds: int


def kernel_run(model: Any, setting: KernelSetting, seed: int) -> KernelRun:
    """One fit over the parties of this seed."""
    model.fit(setting.data.X, groups=setting.groups(seed))
    score = float(normalized_mutual_info_score(setting.data.y, model.labels_))
    return KernelRun(score, model.traffic_.floats_up, model.traffic_.rounds)
