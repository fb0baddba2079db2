"""Fits every estimator on the test sets and saves labels and centres: run once per processor.

python -m tests.processors.fits FILE iris [blobs ...]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs

import unpooled
from tests.estimators.test_sklearn import ESTIMATORS, MESH, found_by
from unpooled.preprocessing import StandardScaler

SETS = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: _standardised(*load_wine(return_X_y=True)),
    "cancer": lambda: _standardised(*load_breast_cancer(return_X_y=True)),
    "digits": lambda: load_digits(return_X_y=True),
    "blobs": lambda: make_blobs(600, 5, centers=4, random_state=0),
}
PARTIES = 5
EXTRA: dict[str, Any] = {
    "KernelKMeans, lloyd": unpooled.KernelKMeans(final="lloyd"),
    "KernelKMeans, dspgd": unpooled.KernelKMeans(solver="dspgd", n_features=64, max_rounds=3),
    "OneShotKMeans, refined": unpooled.OneShotKMeans(refine=True),
    "GossipKMeans, private": unpooled.GossipKMeans(topology="private"),
    "GossipKMeans, tree": unpooled.GossipKMeans(averaging="tree"),
}
"""Beside every estimator as it comes: other ways through the same ones."""


def _standardised(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By our own scaler, which is part of what must be the same."""
    groups = np.arange(len(X)) % PARTIES
    return StandardScaler().fit_transform(X, groups=groups), y


def models() -> dict[str, Any]:
    """Every estimator, by name."""
    plain = {own.__name__: own() for own in ESTIMATORS}
    for own in MESH:
        plain[own.__name__].set_params(max_rounds=200)
    return {**plain, **EXTRA}


def fitted(name: str) -> dict[str, np.ndarray]:
    """Labels and centres of every estimator on the set of this name."""
    X, y = SETS[name]()
    groups = np.random.default_rng(0).permutation(np.arange(len(X)) % PARTIES)
    found: dict[str, np.ndarray] = {}
    for method, model in models().items():
        model.set_params(n_clusters=len(np.unique(y)), random_state=0).fit(X, groups=groups)
        found[f"{name}: {method}: labels"] = model.labels_
        found[f"{name}: {method}: centers"] = found_by(model)
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **{k: v for name in sys.argv[2:] for k, v in fitted(name).items()})
