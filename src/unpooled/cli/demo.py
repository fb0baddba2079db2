"""The main job on a small example: ten parties, unlike each other, one clustering."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from unpooled import DGC, losses, partition
from unpooled.metrics import accuracy
from unpooled.types import FloatArray

METHODS = {
    "DGC, k-means loss": losses.SquaredEuclidean(),
    "DGC, Huber loss": losses.Huber(delta=1.0),
    "DGC, logistic loss": losses.Logistic(),
}


def demo(figure: Path) -> None:
    """Prints the table, draws the figure."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    groups = partition.dirichlet(y, n_parties=10, alpha=0.3, random_state=0)
    sizes = np.bincount(groups)
    print(
        f"{len(X)} images of digits at ten parties on a ring, {sizes.min()} to {sizes.max()} each, "
        "with different digits at each (Dirichlet 0.3).\n"
        "Neighbours send each other ten centres a round. (The start, DKM+C, sends as first\n"
        "centres images that k-means++ picked; one that sends none is given as init=<array>.)\n"
    )
    print(f"{'':27}accuracy   cost   rounds   sent per party   centres differ by")
    pooled = KMeans(10, n_init=10, random_state=0).fit(X)
    print(f"{'k-means of pooled images':27}{accuracy(y, pooled.labels_):7.1%}   1.000")
    models = {}
    for name, loss in METHODS.items():
        with _Waiting(f"{name} ..."):
            model = DGC(10, loss=loss, rho=100.0, max_rounds=500, random_state=1)
            model.fit(X, groups=groups)
        models[name] = model
        print(
            f"{name:27}{accuracy(y, model.labels_):7.1%}{_cost(X, model) / pooled.inertia_:8.3f}"
            f"{model.n_rounds_:9}{model.traffic_.bytes_up / 10 / 1e6:14.1f} MB"
            f"{model.history_['consensus'][-1]:17.3f}",
            flush=True,
        )
    print(
        "\ncost: of all images at the mean of the parties' centres, relative to pooled k-means.\n"
        "centres differ by: the largest distance of a party's centre to the mean over parties."
    )
    print(_draw(models, figure))


def _cost(X: FloatArray, model: Any) -> float:
    return float(np.square(X - model.cluster_centers_[model.predict(X)]).sum())


class _Waiting:
    """Shows what is going on while it lasts, on a terminal only."""

    def __init__(self, text: str) -> None:
        self._text = text if sys.stdout.isatty() else ""

    def __enter__(self) -> None:
        print(self._text, end="\r", flush=True)

    def __exit__(self, *error: object) -> None:
        print(" " * len(self._text), end="\r", flush=True)


def _draw(models: dict[str, Any], figure: Path) -> str:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "\nNo figure was drawn: pip install 'unpooled[report]' brings what draws it."
    canvas = Figure(figsize=(10, 4), layout="constrained")
    cost, agreement = canvas.subplots(1, 2)
    for name, model in models.items():
        history = model.history_
        rounds = 1 + np.arange(model.n_rounds_)
        cost.plot(rounds, history["cost"] / history["cost"][-1], label=name)
        agreement.plot(rounds, history["consensus"], label=name)
    cost.set(title="Cost $J_\\rho$, relative to its last value", yscale="log")
    agreement.set(title="Largest distance of a party's centre to the mean", yscale="log")
    for axes in (cost, agreement):
        axes.set(xlabel="round", xscale="log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.grid(alpha=0.3)
    cost.legend()
    try:
        canvas.savefig(figure, dpi=120)
    except (OSError, ValueError) as error:
        return f"\nNo figure was drawn: {figure} cannot be written ({error})."
    return f"\nCost and agreement, round by round, are drawn in {figure}."
