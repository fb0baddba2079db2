"""Images over a ring of ten users, as the DGC paper has them: MNIST 0-6, CIFAR3 and CIFAR8.

A thousand training images a class, pixels over 255, dealt out so that every user has equal shares
of every class; users start from one random image of their own per class. The paper leaves open:

- **Which images**: MNIST's are drawn afresh for each run; of CIFAR-10 the first thousand of each
  class in the file of the training set.
- **Which classes CIFAR3 has**: see the scan in :mod:`unpooled.experiments.dgc.table_3`.
- **Step size**: the largest by which the cost never rises.
- **Accuracy**: on a user's own rows, averaged over users, with "cluster k is class k" (identity),
  with the best matching for each user (best), or with one best matching for all users (joint).
"""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np
from sklearn.cluster import KMeans

from unpooled import DGC, datasets, partition
from unpooled.experiments.dgc.setting import DGC_LOSSES, own_accuracy, shortened, starts
from unpooled.experiments.reproduction.tasks import Task
from unpooled.metrics import accuracy
from unpooled.types import FloatArray, IntArray

IMAGE_USERS = 10
IMAGES_PER_CLASS = 1000
IMAGE_ROUNDS = 4000
IMAGE_TOL = 1e-4
RHO_OF = {"mnist": 10.0, "cifar10_20k": 100.0}
COLUMNS = {
    "Sklearn KM++": ("scikit-learn", "KM"),
    "CGC-KM": ("CGC", "KM"),
    "LGC-KM": ("LGC", "KM"),
    "DGC-KM": ("DGC", "KM"),
    "DGC-HL": ("DGC", "HL"),
    "DGC-LL": ("DGC", "LL"),
}
"""The columns of Table 3: method and loss."""
TEN_STARTS = "Sklearn KM++, ten starts"
"""KMeans with the default of scikit-learn until 1.3; since 1.4 k-means++ is started once."""


@lru_cache(maxsize=1)
def _training(data: str, folder: str | None) -> tuple[FloatArray, IntArray]:
    found = datasets.load(data, folder=folder)
    train = np.asarray(found.split) == 0
    return found.X[train], found.y[train]


def images(
    data: str, classes: tuple[int, ...], per_class: int, seed: int
) -> tuple[FloatArray, IntArray]:
    """Training images of these classes, which are numbered from 0 on."""
    X, y = _training(data, os.environ.get(datasets.FOLDER_VARIABLE))
    rng = np.random.default_rng(seed)
    chosen = []
    for one in classes:
        rows = np.flatnonzero(y == one)
        few = len(rows) > per_class
        chosen.append(np.sort(rng.choice(rows, per_class, replace=False)) if few else rows)
    rows = np.concatenate(chosen)
    return X[rows] / 255, np.unique(y[rows], return_inverse=True)[1]


def image_run(
    data: str,
    classes: tuple[int, ...],
    method: str,
    loss: str,
    seed: int,
    *,
    per_class: int = IMAGES_PER_CLASS,
    rounds: int = IMAGE_ROUNDS,
) -> dict[str, float]:
    """What one run came to: accuracies, and the rounds until it stopped."""
    X, y = images(data, tuple(classes), per_class, seed)
    n_clusters = len(np.unique(y))
    if method in ("scikit-learn", TEN_STARTS):
        n_init = 10 if method == TEN_STARTS else 1
        labels = KMeans(n_clusters, n_init=n_init, random_state=seed).fit(X).labels_
        return {"best": shortened(100 * accuracy(y, labels))}
    users = partition.balanced(
        y, n_parties=min(IMAGE_USERS, int(np.bincount(y).min())), random_state=seed
    )
    users = np.zeros_like(y) if method == "CGC" else users
    model = DGC(
        n_clusters,
        loss=DGC_LOSSES[loss],
        rho=RHO_OF[data],
        graph="ring" if method == "DGC" else None,
        init=starts(X, y, users, seed),
        align=False,
        inner_steps=1,
        step_size="auto",
        solver="plain",
        max_rounds=rounds,
        tol=IMAGE_TOL,
    ).fit(X, groups=users)
    labels = np.asarray(model.labels_)
    found = {match: own_accuracy(y, labels, users, match) for match in ("identity", "best")}
    found["joint"] = 100 * accuracy(y, labels)
    return {name: shortened(value) for name, value in found.items()} | {"rounds": model.n_rounds_}


def image_key(data: str, classes: tuple[int, ...], column: str) -> str:
    """The key of these runs, without the seed."""
    return f"images/{data}/{''.join(map(str, classes))}/{column}"


def image_tasks(
    data: str, classes: tuple[int, ...], runs: int, quick: bool, *, ten_starts: bool = False
) -> list[Task]:
    """All columns, one task per seed."""
    found = []
    columns = COLUMNS | ({TEN_STARTS: (TEN_STARTS, "KM")} if ten_starts else {})
    for column, (method, loss) in columns.items():
        given = {"data": data, "classes": classes, "method": method, "loss": loss}
        cut = {"per_class": 40, "rounds": 20} if quick else {}
        for seed in range(runs):
            key = f"{image_key(data, classes, column)}/{seed}"
            found.append(Task(key, image_run, {**given, **cut, "seed": seed}))
    return found
