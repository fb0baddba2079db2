"""Fits every estimator on the test sets and saves labels and centres: run once per processor.

python -m tests.processors.fits FILE iris [blobs ...]
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning

import unpooled
from tests import tables
from unpooled.estimators.mesh import MeshEstimator
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
    plain = {own.__name__: own() for own in tables.estimators()}
    for model in plain.values():
        if isinstance(model, MeshEstimator):
            model.set_params(max_rounds=200)
    return {**plain, **EXTRA}


def fitted(*sets: str) -> dict[str, np.ndarray]:
    """Labels and centres of every estimator on these sets."""
    found: dict[str, np.ndarray] = {}
    for name in sets:
        X, y = SETS[name]()
        groups = np.random.default_rng(0).permutation(np.arange(len(X)) % PARTIES)
        for method, model in models().items():
            model.set_params(n_clusters=len(np.unique(y)), random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X, groups=groups)
            found[f"{name}: {method}: labels"] = model.labels_
            found[f"{name}: {method}: centers"] = getattr(
                model, "peer_centers_", model.cluster_centers_
            )
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **fitted(*sys.argv[2:]))
