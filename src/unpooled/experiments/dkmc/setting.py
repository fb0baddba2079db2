"""Iris over a ring of ten users, dealt out evenly or not, as the DKM+C paper has it.

DGC with k-means and CGC, gradient clustering of the pooled rows, from starts that know no labels;
1,000 rounds, weights 1, the largest step by which the cost never rises. The paper leaves open, or
only draws:

- **The heterogeneous split**: two of three classes per user, in unlike amounts. ``AMOUNTS`` is
  ours.
- **Accuracy** "across users": with the best matching of clusters and classes, of each user on its
  own rows (own), or of each user's centres on all rows (all).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from unpooled import DGC
from unpooled.experiments.reproduction.tasks import Task
from unpooled.metrics import accuracy
from unpooled.types import FloatArray, IntArray

T = 1000
AMOUNTS = np.array(
    [
        [10, 5, 0],
        [0, 12, 6],
        [12, 0, 4],
        [4, 9, 0],
        [0, 4, 11],
        [5, 0, 13],
        [7, 3, 0],
        [0, 9, 5],
        [9, 0, 11],
        [3, 8, 0],
    ]
)
"""Rows of each class that a user has in the heterogeneous split, in the order of the file."""
EVEN = np.full((10, 3), 5)
SPLIT_AMOUNTS = {"homogeneous": EVEN, "heterogeneous": AMOUNTS}
RHO_OF_SPLIT = {"homogeneous": 10.0, "heterogeneous": 100.0}

_HEAVY = 2.0**20
"""Weights and rho times the same power of two are the same problem to the bit, and compiled."""

DKMC_SETTING = (
    "Iris over a ring of ten users. Homogeneous: five rows of each class per user, in the order of "
    "the file, rho = 10. Heterogeneous: two of three classes per user, 10 to 20 rows in unlike "
    "amounts, rho = 100; the paper only draws its amounts, so these are ours. K-means, weights 1, "
    "the largest step by which the cost never rises, 1,000 rounds. Random starts are three rows "
    "of a user, drawn at random; no start knows labels. Accuracy with the best matching of "
    "clusters and classes, averaged over users: of each user on its own rows (own), or of each "
    "user's centres on all rows (all); the paper does not say which."
)


def holders(split: str) -> IntArray:
    """Who holds each row of Iris."""
    amounts = SPLIT_AMOUNTS[split]
    return np.concatenate([np.repeat(np.arange(len(amounts)), column) for column in amounts.T])


def start_fit(
    method: str, split: str, start: dict[str, Any], seed: int, rounds: int = T
) -> tuple[DGC, FloatArray, IntArray, IntArray]:
    """A fitted "DGC" or "CGC" (pooled), rows, classes, and who holds what."""
    X, y = load_iris(return_X_y=True)
    users = holders(split) if method == "DGC" else np.zeros(len(X), dtype=np.int64)
    model = DGC(
        3,
        loss="kmeans",
        rho=_HEAVY * RHO_OF_SPLIT[split],
        graph="ring" if method == "DGC" else None,
        **{"init_rounds": 0, "align": False, **start},
        inner_steps=1,
        step_size="auto",
        solver="plain",
        max_rounds=rounds,
        tol=1e-12,
        random_state=seed,
    )
    return model.fit(X, groups=users, sample_weight=np.full(len(X), _HEAVY)), X, y, users


def start_accuracy(
    method: str, split: str, start: dict[str, Any], seed: int, rounds: int = T
) -> dict[str, float]:
    """The accuracy in per cent after so many rounds, by both readings."""
    model, X, y, users = start_fit(method, split, start, seed, rounds)
    labels = np.asarray(model.labels_)
    own = [accuracy(y[users == i], labels[users == i]) for i in np.unique(users)]
    every = [
        accuracy(y, np.square(X[:, None] - centers).sum(axis=2).argmin(axis=1))
        for centers in model.peer_centers_
    ]
    return {name: round(100 * float(np.mean(v)), 4) for name, v in (("own", own), ("all", every))}


STARTS: dict[str, dict[str, Any]] = {
    "random": {"init": "random"},
    "k-means++": {"init": "k-means++"},
    **{f"L = {L}": {"init": "dkm+c", "init_rounds": L} for L in range(5)},
    **{f"L = {L}, aligned": {"init": "dkm+c", "init_rounds": L, "align": True} for L in range(5)},
    "tree": {"init": "tree"},
}
"""How users start: DKM+C with L rounds as published, with indices aligned, and the merged start."""


def deviation(values: FloatArray) -> FloatArray:
    """The standard deviation over runs; 0 of a single one."""
    return np.asarray(values.std(axis=0, ddof=min(1, len(values) - 1)))


def final_key(split: str, start: str) -> str:
    """The key of these runs, without the seed."""
    return f"starts/{split}/{start}"


def final_tasks(split: str, start: str, runs: int) -> list[Task]:
    """DGC for T rounds, one task per seed."""
    given = {"method": "DGC", "split": split, "start": STARTS[start]}
    key = final_key(split, start)
    return [Task(f"{key}/{seed}", start_accuracy, {**given, "seed": seed}) for seed in range(runs)]
