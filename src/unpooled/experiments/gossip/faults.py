"""GossipKMeans while messages get lost, and while users go, come back, come late or never return.

Lost messages are sent again, so they cost time alone: centres must be those of the run without
losses bit for bit, in at most twice its time at 5 % lost and three times at 20 %.

Users that go: a random user is down from a random exchange on, for a random time or for ever, or
from the beginning; or the tree's root, user 0, goes for ever during the start. The others must end
with the same centres and at a Lloyd point of the right rows: those of the users who are up when the
others decide to stop. So must a user who returns. That is, coordinates differ, and are moved by one
more exact step, by at most 1e-8 of the largest that rows have (Iris 7.9, S1 1e6); "apart" and
"step" are as is. Where a user goes or returns so shortly before the end that the news cannot be
round, which takes up to m - 1 exchanges, either set of rows is right; these runs are counted
beside. So are those that did not stop by themselves within 300 cycles, right or wrong.

    unpooled reproduce gossip-faults --runs 50
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from unpooled import GossipKMeans
from unpooled.data.parties import Parties
from unpooled.experiments.gossip.setting import (
    FIRST_SEED,
    IRIS,
    PROBLEMS,
    S1,
    Problem,
    largest_disagreement,
    lloyd_step,
)
from unpooled.messages.message import Message
from unpooled.simulate import Options, Run, run_mesh
from unpooled.simulate.faults import MessagesLost, UserDown
from unpooled.types import BoolArray, FloatArray

EXACT_SHARE = 1e-8
RATES = {0.05: 2.0, 0.20: 3.0}
"""Shares of messages lost, and how much longer a run may take."""
LOSSY_RUNS = 5
MAX_ROUNDS = 300
LATEST = 60
"""Users go before this exchange, and for less than so many."""


def report(runs: int) -> Iterator[str]:
    """The tables, line by line as they get done."""
    yield f"$ unpooled reproduce gossip-faults --runs {runs}"
    yield ""
    yield from _crashes(runs)
    yield ""
    yield from _losses(min(runs, LOSSY_RUNS))


def _losses(runs: int) -> Iterator[str]:
    yield f"Lost messages, {runs} runs: time over that without losses, [bar]"
    yield f"  {'':26}{'lost':>6}{'same centres':>14}{'time: mean':>12}{'worst':>14}"
    for problem in PROBLEMS:
        seeds = range(FIRST_SEED, FIRST_SEED + runs)
        whole = [_lossy_run(problem, seed) for seed in seeds]
        for rate, bar in RATES.items():
            lossy = [_lossy_run(problem, seed, MessagesLost(rate, seed)) for seed in seeds]
            pairs = list(zip(whole, lossy, strict=True))
            same = sum(np.array_equal(a.result["centers"], b.result["centers"]) for a, b in pairs)
            times = [b.elapsed / a.elapsed for a, b in pairs]
            verdict = "met" if same == runs and max(times) <= bar else "missed"
            yield (
                f"  {problem.title:26}{rate:6.0%}{f'{same} of {runs}':>14}{np.mean(times):12.2f}"
                f"{f'{max(times):.2f} [{bar:g}]':>14}  {verdict}"
            )


def _lossy_run(problem: Problem, seed: int, *faults: MessagesLost) -> Run:
    parties, network = problem.network(seed)
    protocol = GossipKMeans(problem.n_clusters).planned(parties)
    return run_mesh(protocol, parties, network, seed=seed, options=Options(faults=faults))


def _back(rng: np.random.Generator, m: int) -> UserDown:
    since = int(rng.integers(1, LATEST))
    return UserDown(int(rng.integers(m)), since, since + int(rng.integers(1, LATEST)))


def _gone(rng: np.random.Generator, m: int) -> UserDown:
    return UserDown(int(rng.integers(m)), int(rng.integers(1, LATEST)))


def _late(rng: np.random.Generator, m: int) -> UserDown:
    return UserDown(int(rng.integers(m)), 0, int(rng.integers(1, LATEST)))


SCENARIOS: dict[str, Callable[[np.random.Generator, int], UserDown]] = {
    "goes and returns": _back,
    "goes for ever": _gone,
    "comes late": _late,
    "root goes at the start": lambda rng, m: UserDown(0, int(rng.integers(0, 3 * m // 2 + 1))),
}
"""On a ring of m users the start takes 3 m / 2 + 1 exchanges, the tree included."""


def _crashes(runs: int) -> Iterator[str]:
    yield f"Users that go, {runs} runs; exchanges without those for the tree"
    yield (
        f"  {'':30}{'right':>7}{'news late':>11}{'wrong':>7}{'cut off':>9}"
        f"{'exchanges: median':>19}{'worst':>7}{'apart':>9}{'step':>9}"
    )
    for problem in (IRIS, S1):
        for name, draw in SCENARIOS.items():
            done = []
            for seed in range(FIRST_SEED, FIRST_SEED + runs):
                fault = draw(np.random.default_rng(seed), problem.n_users)
                done.append(fault_ending(problem, seed, fault))
            counts = Counter(run.verdict for run in done)
            exchanges = [run.exchanges for run in done]
            yield (
                f"  {problem.file + ': ' + name:30}{counts['right']:7}{counts['news late']:11}"
                f"{counts['wrong']:7}{sum(run.cut_off for run in done):9}"
                f"{np.median(exchanges):19g}{max(exchanges):7}"
                f"{max(run.apart for run in done):9.1e}{max(run.step for run in done):9.1e}"
            )


@dataclass(frozen=True)
class FaultEnding:
    """What the users who are up in the end have come to."""

    verdict: str
    """"right", "news late" (either set of rows would be right) or "wrong"."""
    exchanges: int
    """Until they terminated, without those for the tree."""
    cut_off: bool
    """Whether they terminated because of ``max_rounds``."""
    apart: float
    step: float


class _AllTerminated(Exception):
    """Nobody is left but a user who never returns; the run would wait for it."""

    def __init__(self, centers: FloatArray) -> None:
        super().__init__()
        self.centers = centers


def fault_ending(problem: Problem, seed: int, fault: UserDown) -> FaultEnding:
    """One run with a user that is down for a while."""
    parties, network = problem.network(seed)
    protocol = GossipKMeans(problem.n_clusters, max_rounds=MAX_ROUNDS).planned(parties)
    others = np.arange(len(parties)) != fault.user
    start = 3 * network.reach + 1
    terminated: list[int] = []

    def watch(_: str, message: Message) -> None:
        if message.kind != "sums":
            return
        gone = message.body["epoch"][others] < 0  # how a user's last message is marked
        if gone.any():
            terminated.append(start + message.round)
        if gone.all() and fault.until is None:
            raise _AllTerminated(np.array(message.body["sums"][..., :-1]))

    how = Options(faults=(fault,), watch=watch)
    try:
        centers = run_mesh(protocol, parties, network, seed=seed, options=how).result["centers"]
    except _AllTerminated as end:
        centers = end.centers
    decided = terminated[0] - 1
    down = fault.since <= decided and (fault.until is None or decided < fault.until)
    live = others | (fault.until is not None) | (not down)
    without = _moved_by_a_step(parties, others, centers[live])
    complete = _moved_by_a_step(parties, np.ones_like(others), centers[live])
    expected, other = (without, complete) if down else (complete, without)
    changed = [at for at in (fault.since, fault.until) if at is not None and at <= decided]
    news_late = any(decided - at < len(parties) - 1 for at in changed)
    disagreement = largest_disagreement(centers[live])
    exact = EXACT_SHARE * np.abs(parties.rows).max()
    verdict, step = "wrong", expected
    if disagreement <= exact and expected <= exact:
        verdict = "right"
    elif disagreement <= exact and news_late and other <= exact:
        verdict, step = "news late", other
    cut_off = terminated[0] - start >= MAX_ROUNDS * network.reach
    return FaultEnding(
        verdict, terminated[0] + 1 - (network.reach + 1), cut_off, disagreement, step
    )


def _moved_by_a_step(parties: Parties, users: BoolArray, centers: FloatArray) -> float:
    """How far one exact Lloyd step of these users' rows moves the centres."""
    x = centers[0] + (centers - centers[0]).mean(axis=0)
    return float(np.abs(lloyd_step(parties.rows[users[parties.owner]], x) - x).max())
