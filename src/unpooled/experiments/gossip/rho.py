r"""A finite rho on Iris: how soon users are at the minimum of J_rho, and how low it is beside DGC.

Ten users on a ring. Where labels no longer change, the centres that J_rho asks for solve

    (W_i(k) / rho + L) x(k) = S_i(k) / rho,

S_i(k) and W_i(k) being the sums and weights of the clusters that the run ended with. Counted are
exchanges (the start's, not those that find the tree, and one per round) until the distance of all
users' centres to these is 1e-6 of what it was at the start. Then the cost J_rho at the end, over
that of DGC from the same start ("tree"), and of DGC as published ("dkm+c"), and the exchanges to
the same 1e-6 of DGC from the same start, plain and with Nesterov's momentum.

    unpooled reproduce gossip-rho --runs 20
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unpooled import DGC, GossipKMeans
from unpooled.data.parties import Parties
from unpooled.experiments.gossip.setting import FIRST_SEED, IRIS, Problem
from unpooled.experiments.gossip.traces import Trace, trace
from unpooled.graphs.topology import Topology
from unpooled.types import FloatArray

NEAR_SHARE = 1e-6
RHO_TOL = 1e-9
"""So that runs do not stop before they are that near."""
EXCHANGE_BARS = {10.0: 45, 100.0: 110, 1000.0: 260}
DGC_ROUNDS = {10.0: 1000, 100.0: 3000, 1000.0: 30_000}

MOST_DGC_RUNS = {100.0: 10, 1000.0: 3}
"""Runs of plain DGC, which takes thousands of rounds there."""


@dataclass(frozen=True)
class RhoEnding:
    """Exchanges until users were near where they should be (None: never), and J_rho at the end."""

    exchanges: int | None
    cost: float


def fixed_point(parties: Parties, network: Topology, centers: FloatArray, rho: float) -> FloatArray:
    """Where J_rho has its minimum while rows keep to the nearest of their user's ``centers``."""
    m, k, d = centers.shape
    from_rows = parties.rows[:, None, :] - centers[parties.owner]
    labels = np.vecdot(from_rows, from_rows).argmin(axis=1)
    place = parties.owner * k + labels
    weights = np.bincount(place, parties.weights, m * k).reshape(m, k)
    sums = np.zeros((m * k, d))
    np.add.at(sums, place, parties.weights[:, None] * parties.rows)
    sums = sums.reshape(m, k, d)
    laplacian = network.laplacian.toarray()
    solved = [
        np.linalg.solve(np.diag(weights[:, j]) / rho + laplacian, sums[:, j] / rho)
        for j in range(k)
    ]
    return np.stack(solved, axis=1)


def exchanges_until_near(seen: Trace, target: FloatArray) -> int | None:
    """Until the distance to ``target`` has come to 1e-6 of the first, to stay there."""
    distances = np.array([np.linalg.norm(centers - target) for centers in seen.centers])
    far = np.flatnonzero(distances > NEAR_SHARE * distances[0])
    return None if far[-1] + 1 == len(distances) else int(seen.exchanges[far[-1] + 1])


def rho_ending(model: Any, problem: Problem, rho: float, seed: int) -> RhoEnding:
    """One run over the users of this seed."""
    parties, network = problem.network(seed)
    seen = trace(model.set_params(n_clusters=problem.n_clusters), parties, network, seed)
    final = seen.centers[-1]
    target = fixed_point(parties, network, final, rho)
    return RhoEnding(exchanges_until_near(seen, target), penalised(parties, network, final, rho))


def penalised(parties: Parties, network: Topology, centers: FloatArray, rho: float) -> float:
    """J_rho."""
    from_rows = parties.rows[:, None, :] - centers[parties.owner]
    squared = np.vecdot(from_rows, from_rows).min(axis=1)
    return float(0.5 * parties.weights @ squared / rho + network.disagreement(centers))


def report(runs: int) -> Iterator[str]:
    """The table, line by line as it gets done."""
    yield f"$ unpooled reproduce gossip-rho --runs {runs}"
    yield ""
    yield f"{IRIS.title}, {runs} runs; exchanges: median, worst"
    for rho in EXCHANGE_BARS:
        yield ""
        yield from _lines(rho, runs)


def _lines(rho: float, runs: int) -> Iterator[str]:
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    few = min(runs, MOST_DGC_RUNS.get(rho, runs))
    rounds: dict[str, Any] = {"rho": rho, "max_rounds": DGC_ROUNDS[rho], "tol": RHO_TOL}
    ours = [rho_ending(GossipKMeans(rho=rho, tol=RHO_TOL), IRIS, rho, seed) for seed in seeds]
    yield f"rho = {rho:g}"
    yield f"  {'GossipKMeans':36}{_exchanges(ours)}   {_bar_verdict(ours, EXCHANGE_BARS[rho])}"
    baselines: dict[str, dict[str, Any]] = {
        "DGC, nesterov, the same start": {"solver": "nesterov", "init": "tree"},
        "DGC, plain, the same start": {"solver": "plain", "init": "tree"},
        "DGC, plain, dkm+c": {"solver": "plain", "init": "dkm+c"},
    }
    for name, options in baselines.items():
        slow = options["solver"] == "plain"
        own = seeds[:few] if slow else seeds
        done = [rho_ending(DGC(**rounds, **options), IRIS, rho, seed) for seed in own]
        line = f"  {name:36}{_exchanges(done)}   {_costs(ours[: len(done)], done)}"
        yield line + (f" ({few} runs)" if len(done) < runs else "")


def _exchanges(done: list[RhoEnding]) -> str:
    counts = [np.inf if run.exchanges is None else run.exchanges for run in done]
    never = sum(run.exchanges is None for run in done)
    counted = f"{np.median(counts):8g}{max(counts):8g}"
    return counted + (f" ({never} of {len(done)} never)" if never else "")


def _bar_verdict(done: list[RhoEnding], bar: int) -> str:
    median = np.median([np.inf if run.exchanges is None else run.exchanges for run in done])
    return f"[bar {bar}: {'met' if median <= bar else 'missed'}]"


def _costs(ours: list[RhoEnding], theirs: list[RhoEnding]) -> str:
    ratios = np.array([a.cost / b.cost for a, b in zip(ours, theirs, strict=True)])
    mean = np.mean([run.cost for run in ours]) / np.mean([run.cost for run in theirs])
    return (
        f"J_rho of GossipKMeans over its: mean {ratios.mean():.6f}, worst {ratios.max():.6f}, "
        f"of the means {mean:.6f}"
    )
