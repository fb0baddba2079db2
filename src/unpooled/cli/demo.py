"""The demo: digits at ten parties, unlike each other, clustered by every method."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from unpooled import (
    DGC,
    KFED,
    CoresetKMeans,
    FeCA,
    FederatedKMeans,
    FuzzyCMeans,
    MatchedAveraging,
    OneShotKMeans,
    losses,
    partition,
)
from unpooled.kernels.lloyd.matching import matched
from unpooled.metrics import accuracy
from unpooled.types import FloatArray

STAR = {
    "OneShotKMeans": OneShotKMeans(10, random_state=0),
    "OneShotKMeans, deployment": OneShotKMeans(10, policy="deployment", random_state=0),
    "OneShotKMeans, refined": OneShotKMeans(10, refine=True, random_state=0),
    "FederatedKMeans": FederatedKMeans(10, random_state=0),
    "FederatedKMeans, deployment": FederatedKMeans(10, policy="deployment", random_state=0),
    "FeCA": FeCA(10, random_state=0),
    "KFED, 4 local clusters": KFED(10, local_clusters=4, random_state=0),
    "MatchedAveraging": MatchedAveraging(10, random_state=0),
    "FuzzyCMeans, 10 rounds": FuzzyCMeans(10, fuzzifier=1.2, random_state=0),
    "CoresetKMeans (sends rows)": CoresetKMeans(10, coreset_size=200, random_state=0),
}
MESH = {
    name: DGC(10, loss=loss, max_rounds=500, random_state=1)
    for name, loss in (
        ("DGC, k-means loss", losses.SquaredEuclidean()),
        ("DGC, Huber loss", losses.Huber(delta=1.0)),
        ("DGC, logistic loss", losses.Logistic()),
    )
}


def demo(figure: Path) -> None:
    """Prints the tables, draws the figure."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    groups = partition.dirichlet(y, n_parties=10, alpha=0.3, random_state=0)
    sizes = np.bincount(groups)
    print(
        f"{len(X)} images of digits at ten parties, {sizes.min()} to {sizes.max()} each, with "
        "different digits at each (Dirichlet 0.3).\n"
    )
    pooled = KMeans(10, n_init=10, random_state=0).fit(X)
    print(f"{'':30}accuracy    cost   rounds   sent per party")
    print(f"{'k-means of the pooled images':30}{accuracy(y, pooled.labels_):7.1%}{1.0:9.3f}")
    print("\nWith a coordinator, to whom parties send summaries:")
    models, costs = {}, {}
    for name, method in (STAR | MESH).items():
        if name == next(iter(MESH)):
            print(
                "\nPeer to peer on a ring, nobody in charge; neighbours send each other ten "
                "centres a round\n(the start is made of clusters that they pass on along a tree):"
            )
        with _Waiting(f"{name} ..."):
            models[name] = model = clone(method).fit(X, groups=groups)
        costs[name] = float(np.square(X - model.cluster_centers_[model.predict(X)]).sum())
        costs[name] /= pooled.inertia_
        sent = model.traffic_.bytes_up / 10
        print(
            f"{name:30}{accuracy(y, model.labels_):7.1%}{costs[name]:9.3f}{model.n_rounds_:9}"
            f"{_in_kilobytes(sent):>17}",
            flush=True,
        )
    print(
        "\ncost: of all images at the common centres, relative to pooled k-means.\n"
        "deployment: the policy of real sites, by which nothing that a party sends, nor any\n"
        "difference of it, is about fewer than 10 of its images."
    )
    print(_draw(models, costs, pooled.cluster_centers_, figure))


def _in_kilobytes(number: float) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e5 else f"{number / 1e3:.1f} kB"


class _Waiting:
    """Shows what is going on while it lasts, on a terminal only."""

    def __init__(self, text: str) -> None:
        self._text = text if sys.stdout.isatty() else ""

    def __enter__(self) -> None:
        print(self._text, end="\r", flush=True)

    def __exit__(self, *error: object) -> None:
        print(" " * len(self._text), end="\r", flush=True)


def _draw(models: dict[str, Any], costs: dict[str, float], pooled: FloatArray, figure: Path) -> str:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "\nNo figure was drawn: pip install 'unpooled[report]' brings what draws it."
    canvas = Figure(figsize=(12, 8), layout="constrained")
    panels: Any = canvas.subfigures(2, 1, height_ratios=[2, 1])
    above, below = panels
    price, agreement = above.subplots(1, 2)
    _draw_prices(price, models, costs)
    for name in MESH:
        consensus = models[name].history_["consensus"]
        agreement.plot(1 + np.arange(len(consensus)), consensus, label=name)
    agreement.set(
        title="DGC: largest distance of a party's centre to the mean",
        xlabel="round",
        xscale="log",
        yscale="log",
    )
    agreement.legend()
    agreement.grid(alpha=0.3)
    below.suptitle("Centres: pooled k-means (above), OneShotKMeans (below)")
    found = models["OneShotKMeans"].cluster_centers_
    found = found[np.argsort(matched(found, pooled))]
    for axes, center in zip(below.subplots(2, 10).flat, [*pooled, *found], strict=True):
        axes.imshow(center.reshape(8, 8), cmap="gray_r")
        axes.axis("off")
    return _save(canvas, figure)


def _save(canvas: Any, figure: Path) -> str:
    try:
        canvas.savefig(figure, dpi=120)
    except (OSError, ValueError) as error:
        return f"\nNo figure was drawn: {figure} cannot be written ({error})."
    return f"\nCost against what was sent, agreement, and centres are drawn in {figure}."


def _draw_prices(axes: Any, models: dict[str, Any], costs: dict[str, float]) -> None:
    """Cost of the result over bytes sent, one point per method."""
    for name, model in models.items():
        sent = model.traffic_.bytes_up / 10
        axes.plot(sent, costs[name], "o" if name in STAR else "s", label=name)
    axes.axhline(1.0, color="gray", linewidth=1)
    axes.set(
        title="Cost relative to pooled k-means",
        xlabel="bytes sent per party",
        xscale="log",
        ylim=(0.99, None),
    )
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
