"""GossipKMeans on five problems: exchanges, numbers sent, cost over pooled k-means, exactness.

All users must end with the same centres, to 1e-8, and at a Lloyd point of the pooled rows: one more
exact step moves no coordinate by more than 1e-8 (also on S1, where they go up to 1e6). The second
table has sums along a tree in place of gossip, the third losses other than k-means, the reference
of which is the same method with one user who holds all rows.

    unpooled reproduce gossip-table --runs 20
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unpooled import GossipKMeans
from unpooled.experiments.gossip.setting import (
    DIGITS_REGULAR,
    DIGITS_RING,
    FIRST_SEED,
    IRIS,
    PROBLEMS,
    GossipRun,
    Problem,
    gossip_run,
    tree_exchanges,
)

EXACT_TO = 1e-8
OTHER_LOSSES = ("huber", "logistic")
OTHER_LOSS_RUNS = 5


def report(runs: int) -> Iterator[str]:
    """The tables, line by line as they get done."""
    yield f"$ unpooled reproduce gossip-table --runs {runs}"
    yield ""
    yield f"GossipKMeans, {runs} runs: [bar] after what it is for, exchanges + those for the tree"
    yield (
        f"  {'':26}{'exchanges: median':>18}{'worst':>12}{'tree':>6}{'floats per user':>17}"
        f"{'cost: mean':>18}{'worst':>9}{'apart':>9}{'step':>9}"
    )
    done: dict[str, list[GossipRun]] = {}
    for problem in PROBLEMS:
        done[problem.title] = _gossip_runs("gossip", problem, runs)
        yield _problem_line(problem, done[problem.title])
    yield ""
    yield f"Sums by gossip or along a tree, medians over {runs} runs"
    yield (
        f"  {'':26}{'averaging':>10}{'exchanges':>11}{'cycles':>8}{'floats per user':>17}"
        f"{'per user and cycle':>20}{'cost: mean':>12}{'apart':>9}{'step':>9}"
    )
    for problem in (DIGITS_RING, DIGITS_REGULAR):
        by_tree = _gossip_runs("tree", problem, runs)
        for averaging, found in (("gossip", done[problem.title]), ("tree", by_tree)):
            yield f"  {problem.title:26}{averaging:>10}{_averaging_line(found)}"
    yield ""
    few = min(runs, OTHER_LOSS_RUNS)
    yield f"Other losses, {few} runs"
    yield (
        f"  {'':26}{'loss':>10}{'exchanges: median':>20}{'worst':>7}{'cost: mean':>13}{'worst':>9}"
    )
    for problem in (IRIS, DIGITS_RING):
        for loss in OTHER_LOSSES:
            yield f"  {problem.title:26}{loss:>10}{loss_line(problem, loss, few)}"


def _gossip_runs(averaging: str, problem: Problem, runs: int) -> list[GossipRun]:
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    return [gossip_run(GossipKMeans(averaging=averaging), problem, seed) for seed in seeds]


def _problem_line(problem: Problem, done: list[GossipRun]) -> str:
    bars = problem.bars
    exchanges, costs = [run.exchanges for run in done], [run.cost for run in done]
    floats = np.median([run.floats for run in done])
    apart, step = max(run.apart for run in done), max(run.step for run in done)
    median = f"{np.median(exchanges):g} [{bars.median}]"
    worst = f"{max(exchanges)} [{bars.worst}]"
    mean = f"{np.mean(costs):.5f} [{bars.cost}]"
    tree = f"+{max(run.tree for run in done)}"
    return (
        f"  {problem.title:26}{median:>18}{worst:>12}{tree:>6}{floats:17.0f}"
        f"{mean:>18}{max(costs):9.5f}{apart:9.1e}{step:9.1e}  {bars_verdict(problem, done)}"
    )


def bars_verdict(problem: Problem, done: list[GossipRun]) -> str:
    """Whether all bars are met, or which are not."""
    bars, exchanges = problem.bars, [run.exchanges for run in done]
    missed = {
        "median": np.median(exchanges) > bars.median,
        "worst": max(exchanges) > bars.worst,
        "cost": np.mean([run.cost for run in done]) > bars.cost,
        "apart": max(run.apart for run in done) > EXACT_TO,
        "step": max(run.step for run in done) > EXACT_TO,
        "unfinished": not all(run.converged for run in done),
    }
    names = [name for name, short in missed.items() if short]
    return f"missed: {', '.join(names)}" if names else "met"


def _averaging_line(done: list[GossipRun]) -> str:
    exchanges, cycles, floats, per_cycle = (
        np.median([getattr(run, name) for run in done])
        for name in ("exchanges", "cycles", "floats", "floats_per_cycle")
    )
    apart, step = max(run.apart for run in done), max(run.step for run in done)
    mean = np.mean([run.cost for run in done])
    return (
        f"{exchanges:11g}{cycles:8g}{floats:17.0f}{per_cycle:20.0f}{mean:12.5f}"
        f"{apart:9.1e}{step:9.1e}"
    )


def loss_line(problem: Problem, loss: str, runs: int) -> str:
    """Exchanges, and the cost over that of one user with all rows."""
    alone = GossipKMeans(problem.n_clusters, loss=loss, random_state=FIRST_SEED)
    reference = alone.fit(problem.data.X).history_["cost"][-1]
    seeds = range(FIRST_SEED, FIRST_SEED + runs)
    done = [problem.fitted(GossipKMeans(loss=loss), seed) for seed in seeds]
    exchanges = [model.traffic_.rounds - tree_exchanges(model.traffic_) for model in done]
    costs = [model.history_["cost"][-1] / reference for model in done]
    return f"{np.median(exchanges):20g}{max(exchanges):7}{np.mean(costs):13.5f}{max(costs):9.5f}"
