"""The data sets of the comparison, and how their rows are prepared and dealt out to parties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from unpooled import datasets
from unpooled.experiments.splits import split
from unpooled.types import FloatArray, IntArray

MOST_ROWS = 5000
SMALL_ROWS = 2000
"""Sets of fewer rows get more seeds."""
SITES = "sites"
COMPARED_SPLITS = ("iid", "(1.0)", "(0.3)", "(0.1)")


def _as_they_are(X: FloatArray) -> FloatArray:
    return X


def _standardised(X: FloatArray) -> FloatArray:
    return np.asarray(StandardScaler().fit_transform(X))


def _imputed(X: FloatArray) -> FloatArray:
    return _standardised(np.where(np.isnan(X), np.nanmedian(X, axis=0), X))


def _pixels(X: FloatArray) -> FloatArray:
    return np.asarray(X / X.max())


@dataclass(frozen=True)
class DataSet:
    """A data set: its name, file, columns and classes."""

    title: str
    file: str
    prepare: Callable[[FloatArray], FloatArray] = _as_they_are
    small: bool = False
    """Whether it has fewer than ``SMALL_ROWS`` rows."""
    rows: int = MOST_ROWS
    """Most rows of a run."""
    sites: bool = False
    """Whether it comes from several places: a split of its own; its classes are sick or not."""

    @property
    def splits(self) -> tuple[str, ...]:
        """How its rows are dealt out."""
        return (*COMPARED_SPLITS, SITES) if self.sites else COMPARED_SPLITS


DATA_SETS = {
    data.file: data
    for data in (
        DataSet("S1", "s1"),
        DataSet("S2", "s2"),
        DataSet("S3", "s3"),
        DataSet("S4", "s4"),
        DataSet("Iris", "iris", small=True),
        DataSet("Wine", "wine", _standardised, small=True),
        DataSet("Breast cancer", "breast_cancer", _standardised, small=True),
        DataSet("Heart", "heart_4sites", _imputed, small=True, sites=True),
        DataSet("Digits", "digits", _pixels, small=True),
        DataSet("MNIST", "mnist", _pixels, rows=2000),
        DataSet("Mushrooms", "mushrooms"),
        DataSet("CIFAR-10 features", "cifar10_efflite0_features", rows=2000),
    )
}


@lru_cache(maxsize=2)
def sample(file: str, seed: int, most: int) -> Bunch:
    """At most ``most`` rows, drawn by the seed: ``X``, ``y`` and, if there are any, ``site``."""
    data = DATA_SETS[file]
    raw = datasets.load(file)
    chosen: IntArray = np.arange(len(raw.X))
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(len(raw.X), most, replace=False))
    y = raw.y[chosen]
    if data.sites:
        y = (y > 0).astype(np.int64)
    site = raw.site[chosen].astype(np.int64) if data.sites else None
    return Bunch(X=data.prepare(raw.X[chosen]), y=y, site=site)


def dealt(rows: Bunch, how: str, seed: int) -> IntArray:
    """The party of each row."""
    return rows.site if how == SITES else split(rows.y, how, seed)
