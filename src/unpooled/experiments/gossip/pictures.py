"""What users' centres do, round by round, and what agreement costs: GossipKMeans and baselines.

``gossip-paths.png``: ten users on a ring hold rows of three of six blobs each; the ways of all
users' centres by DGC (rho = 100) as published, and by DGC and GossipKMeans from centres that all
users are given, on a circle around the mean of all rows.

``gossip-costs.png``: digits, each split by Dirichlet(0.3) over 50 users with four links each; how
far users are apart, in units of the rows' spread, and the cost of their mean centres above that of
pooled k-means, over the numbers that a user has sent by then. Methods as published start by dkm+c,
by which users may number their centres differently; the merged start has them agree from the first.

    unpooled reproduce gossip-pictures --runs 1
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs

from unpooled import DGC, ADMMKMeans, GossipKMeans, KarSwenson, partition
from unpooled.data.parties import Parties
from unpooled.experiments.gossip.setting import DIGITS_REGULAR, FIRST_SEED, Problem, center_cost
from unpooled.experiments.gossip.traces import Trace, trace
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.metrics import consensus_distance
from unpooled.types import FloatArray

PATHS = Path("gossip-paths.png")
COSTS = Path("gossip-costs.png")
NO_FIGURE = "No figure was drawn: pip install 'unpooled[report]' brings what draws it."
BLOBS = ((0.0, 0.0), (6.0, 0.5), (11.0, 3.0), (1.0, 7.0), (6.5, 6.5), (11.5, 9.0))
STD = 1.2
RADIUS = 1.5
BLOB_USERS = 10
LEAST_APART, LEAST_ABOVE = 1e-12, 1e-4
"""What is less is drawn as this."""


def report(runs: int) -> Iterator[str]:
    """Draws the first run; more would only hide it."""
    yield f"$ unpooled reproduce gossip-pictures --runs {runs}"
    yield draw_paths(PATHS)
    yield draw_costs(DIGITS_REGULAR, DRAWN_METHODS, COSTS)


def six_blobs(seed: int) -> tuple[Parties, Topology]:
    """Users with rows of three of six blobs each."""
    X, y = make_blobs(600, centers=np.array(BLOBS), cluster_std=STD, random_state=seed)
    groups = partition.by_class(y, n_parties=BLOB_USERS, classes_per_party=3, random_state=seed)
    parties = Parties.of([X[groups == user] for user in range(BLOB_USERS)])
    return parties, topology("ring", parties.names)


def draw_paths(figure: Path) -> str:
    """Every user's centres from the start to the end, one panel per method."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return NO_FIGURE
    seed = FIRST_SEED
    parties, network = six_blobs(seed)
    k, mean = len(BLOBS), parties.rows.mean(axis=0)
    turns = 2 * np.pi * (np.arange(k) + 0.25) / k
    given = mean + RADIUS * np.column_stack([np.cos(turns), np.sin(turns)])
    methods: dict[str, Any] = {
        "DGC, dkm+c": DGC(k, rho=100.0, init="dkm+c", solver="plain", max_rounds=3000),
        "DGC, given centres": DGC(k, rho=100.0, init=given, solver="plain", max_rounds=3000),
        "GossipKMeans, given centres": GossipKMeans(k, init=given),
    }
    canvas = Figure(figsize=(13, 4.6), layout="constrained")
    axes = canvas.subplots(1, len(methods), sharex=True, sharey=True)
    for panel, (name, model) in zip(axes, methods.items(), strict=True):
        seen = trace(model, parties, network, seed)
        _paths(panel, parties, seen)
        panel.set_title(f"{name}: {seen.exchanges[-1]} exchanges")
    canvas.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, markerscale=1.5
    )
    canvas.savefig(figure, dpi=80)
    return f"Users' centres on their way are drawn in {figure}."


def _paths(axes: Any, parties: Parties, seen: Trace) -> None:
    ways = np.stack(seen.centers)  # (rounds, users, K, d)
    axes.scatter(*parties.rows.T, s=4, c="0.8", linewidths=0, label="rows")
    for user in range(ways.shape[1]):
        for k in range(ways.shape[2]):
            axes.plot(*ways[:, user, k].T, c=f"C{k}", lw=0.8, alpha=0.6)
    for k in range(ways.shape[2]):
        first = {"s": 14, "facecolors": "none", "edgecolors": f"C{k}"}
        last = {"s": 50, "c": f"C{k}", "marker": "X", "edgecolors": "k", "linewidths": 0.6}
        axes.scatter(*ways[0, :, k].T, **first, label="users' start" if k == 0 else None)
        axes.scatter(*ways[-1, :, k].T, **last, zorder=3, label="users' end" if k == 0 else None)
    axes.set_aspect("equal")


DRAWN_ROUNDS = 800
DRAWN_METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "DGC, dkm+c": (
        DGC(rho=100.0, init="dkm+c", solver="plain", max_rounds=DRAWN_ROUNDS),
        {"c": "C0", "ls": ":"},
    ),
    "DGC nesterov, merged start": (
        DGC(rho=100.0, solver="nesterov", init="tree", max_rounds=DRAWN_ROUNDS),
        {"c": "C0"},
    ),
    "Kar & Swenson, dkm+c": (
        KarSwenson(rho=100.0, init="dkm+c", max_rounds=DRAWN_ROUNDS),
        {"c": "C1", "ls": (0, (1, 5)), "lw": 2.5},
    ),
    "ADMM, dkm+c": (
        ADMMKMeans(init="dkm+c", max_rounds=DRAWN_ROUNDS),
        {"c": "C2", "ls": ":"},
    ),
    "ADMM, merged start": (ADMMKMeans(init="tree", max_rounds=DRAWN_ROUNDS), {"c": "C2"}),
    "GossipKMeans": (GossipKMeans(), {"c": "C3", "lw": 2.2, "marker": "o", "ms": 4}),
    "GossipKMeans, sums by tree": (
        GossipKMeans(averaging="tree"),
        {"c": "C4", "lw": 2.2, "marker": "s", "ms": 4},
    ),
}
"""Estimators, and how their lines are drawn."""


def draw_costs(
    problem: Problem, methods: dict[str, tuple[Any, dict[str, Any]]], figure: Path
) -> str:
    """Agreement on the left, cost on the right, over the numbers sent."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return NO_FIGURE
    seed = FIRST_SEED
    parties, network = problem.network(seed)
    spread = float(np.sqrt(parties.rows.var(axis=0).sum()))
    canvas = Figure(figsize=(12, 6), layout="constrained")
    left, right = canvas.subplots(1, 2)
    for name, (model, style) in methods.items():
        seen = trace(model.set_params(n_clusters=problem.n_clusters), parties, network, seed)
        shown = _some(len(seen.centers))
        distances = [consensus_distance(seen.centers[i]) / spread for i in shown]
        costs = [_excess_cost(parties.rows, seen.centers[i], problem.pooled) for i in shown]
        floats = np.maximum(seen.floats[shown], 1.0)
        left.plot(floats, np.maximum(distances, LEAST_APART), label=name, **style)
        right.plot(floats, np.maximum(costs, LEAST_ABOVE), label=name, **style)
    left.set(
        title="How far users are apart",
        ylabel=f"largest distance to the mean / spread (from {LEAST_APART:g} on)",
    )
    right.set(
        title="Cost above that of pooled k-means",
        ylabel=f"cost / pooled cost - 1 (from {LEAST_ABOVE:g} on)",
    )
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="numbers sent per user")
        axes.grid(alpha=0.3)
    canvas.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    canvas.suptitle(problem.title)
    canvas.savefig(figure, dpi=80)
    return f"Agreement and cost over what is sent are drawn in {figure}."


def _some(rounds: int, most: int = 150) -> list[int]:
    """Which rounds to draw: all, or as many that lie evenly on a logarithmic axis."""
    if rounds <= most:
        return list(range(rounds))
    return sorted({0, *np.geomspace(1, rounds - 1, most).astype(int).tolist()})


def _excess_cost(rows: FloatArray, centers: FloatArray, pooled: float) -> float:
    return center_cost(rows, centers.mean(axis=0)) / pooled - 1.0
