"""Clusters that no straight line separates: two rings, two moons, and digits, at four parties.

Rows are dealt out at random. Given is the adjusted Rand index against what was drawn, or against
the digits, of KernelKMeans and of k-means on the pooled rows, as means over runs; both are drawn
for the first run in ``kernel-shapes.png``. The options of KernelKMeans (gamma, features,
directions, rounds) were **chosen for each set by itself**, with its labels in sight, by seeds 0 to
5; runs have seeds from 100 on. k-means has nothing to choose, so this shows what kernels can find,
not what they find untuned.

    unpooled reproduce kernel-shapes --runs 10
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score, confusion_matrix

from unpooled import KernelKMeans
from unpooled.kernels.lloyd.matching import matched
from unpooled.types import FloatArray, IntArray

SHAPE_PARTIES = 4
FIRST_SHAPE_SEED = 100
FIGURE = Path("kernel-shapes.png")


@dataclass(frozen=True)
class LabelledShape:
    """Rows, what they are, and how to find it."""

    title: str
    X: FloatArray
    y: IntArray
    options: dict[str, Any] = field(default_factory=dict)

    def linear(self, seed: int) -> IntArray:
        """The labels by k-means on the pooled rows."""
        k = len(np.unique(self.y))
        return np.asarray(KMeans(k, n_init=10, random_state=seed).fit_predict(self.X))

    def kernel(self, seed: int) -> KernelKMeans:
        """KernelKMeans over the parties."""
        groups = np.random.default_rng(seed).permutation(len(self.X)) % SHAPE_PARTIES
        model = KernelKMeans(len(np.unique(self.y)), random_state=seed, **self.options)
        return model.fit(self.X, groups=groups)


def shapes() -> tuple[LabelledShape, ...]:
    """The three of them."""
    rings, ring = make_circles(1000, factor=0.3, noise=0.05, random_state=0)
    moons, moon = make_moons(1000, noise=0.06, random_state=0)
    images, digits = load_digits(return_X_y=True)
    spread = np.square(images - images.mean(axis=0)).sum(axis=1).mean()
    fine = {"n_features": 1024, "n_components": 60, "power": 0.15, "normalise": True}
    return (
        LabelledShape("two rings", rings, ring, {"gamma": 4.0}),
        LabelledShape(
            "two moons", moons, moon, {"gamma": 10.0, "n_features": 1024, "max_rounds": 6}
        ),
        LabelledShape("digits", images, digits, {"gamma": 0.5 / spread, "final": "lloyd", **fine}),
    )


def report(runs: int) -> Iterator[str]:
    """The table, line by line as it gets done."""
    yield f"$ unpooled reproduce kernel-shapes --runs {runs}"
    yield ""
    yield f"Adjusted Rand index, means over {runs} runs (worst), {SHAPE_PARTIES} parties"
    yield "KernelKMeans' options were chosen for each set by itself, by the labels of other seeds"
    yield f"  {'':12}{'k-means, pooled':>18}{'KernelKMeans':>18}{'numbers sent by a party':>26}"
    drawn = []
    for shape in shapes():
        seeds = range(FIRST_SHAPE_SEED, FIRST_SHAPE_SEED + runs)
        linear = [shape.linear(seed) for seed in seeds]
        kernel = [shape.kernel(seed) for seed in seeds]
        labels = [np.asarray(model.labels_) for model in kernel]
        sent = np.mean([model.traffic_.floats_up for model in kernel]) / SHAPE_PARTIES
        found = (_scores(shape, linear), _scores(shape, labels))
        yield f"  {shape.title:12}{found[0]:>18}{found[1]:>18}{sent:26.0f}"
        drawn.append((shape, linear[0], labels[0]))
    yield ""
    yield draw_shapes(drawn, FIGURE)


def _scores(shape: LabelledShape, labels: list[IntArray]) -> str:
    scores = [adjusted_rand_score(shape.y, own) for own in labels]
    return f"{np.mean(scores):.3f} ({min(scores):.3f})"


def draw_shapes(drawn: list[tuple[LabelledShape, IntArray, IntArray]], figure: Path) -> str:
    """k-means above, KernelKMeans below."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "No figure was drawn: pip install 'unpooled[report]' brings what draws it."
    canvas = Figure(figsize=(11, 7), layout="constrained")
    axes = canvas.subplots(2, len(drawn), squeeze=False)
    for column, (shape, *both) in enumerate(drawn):
        for row, (name, labels) in enumerate(
            zip(("k-means, pooled", "KernelKMeans"), both, strict=True)
        ):
            score = adjusted_rand_score(shape.y, labels)
            axes[row, column].set_title(f"{shape.title}: {name}, ARI {score:.2f}")
            _panel(axes[row, column], shape, labels)
    canvas.savefig(figure, dpi=80)
    return f"Both are drawn in {figure}."


def _panel(axes: Any, shape: LabelledShape, labels: IntArray) -> None:
    """Rows in the plane coloured by label, or which label has rows of which class."""
    if shape.X.shape[1] == 2:
        axes.scatter(*shape.X.T, c=labels, s=4, cmap="coolwarm")
        axes.set_aspect("equal")
        return
    table = confusion_matrix(shape.y, labels).astype(float)
    axes.imshow(table[:, np.argsort(matched(table.T, np.diag(table.sum(axis=1))))], cmap="Blues")
    axes.set(xlabel="cluster", ylabel="digit", xticks=[], yticks=range(len(table)))
