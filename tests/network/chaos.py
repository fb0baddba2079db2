"""Kills, freezes and cuts off parties of real runs, then checks what came of these.

    python tests/network/chaos.py --seed 0 --kills 100

Every run is a plan whose programs run as processes of their own, over TLS, each on a host of its
own (:mod:`tests.network.hosts`, which takes root): stars of four parties of whom two or three are
enough, and rings of four peers. In every run some are killed (SIGKILL) and started again with the
same directory, a coordinator with --resume, after a random while. Half of the kills come at any
moment, half right before or after something is written or sent, where most can go wrong. On top of
that come freezes (SIGSTOP, SIGCONT) and links that are cut and healed. When they happen is drawn as
a share of the run, so that they land inside; who ends by itself because others were away too long
is started again. Checked after every run:

1. Nothing hangs. No question and no exchange takes longer than ``patience``, plus SLACK for the
   machine and the time for which the program itself was frozen. The whole run takes at most START
   + PACE for every exchange + ``round_timeout`` + ``patience`` for parting, and for every
   disturbance its own length + START + ``round_timeout`` + ``patience``.
2. The result is that of the in-process run with what was recorded as faults
   (:mod:`unpooled.simulate.replay`), bit for bit: centres, labels, and every message that is in
   anybody's ledger.
3. No line of a ledger is lost: for everything in a receiver's journal the sender's ledger has a
   line with its hash, and the chains of all ledgers hold.

It prints a line for every run and exits with 1 if one of them failed, whose directory is kept.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.network.hosts import Hosts, Program, ended, obstacle, prepare, ring
from unpooled.data.parties import Parties
from unpooled.deploy.own import read_own
from unpooled.deploy.plan import Plan
from unpooled.deploy.plan_file import read_plan
from unpooled.deploy.results import star_labels
from unpooled.kernels.assignment.nearest import nearest
from unpooled.messages.codec import decode, encode
from unpooled.messages.message import Message
from unpooled.network.storage.journal import JOURNAL, Records
from unpooled.network.storage.ledger_file import LEDGER, read_ledger
from unpooled.simulate import Options, run_mesh, run_star
from unpooled.simulate.replay import mesh_faults, star_faults

COORDINATOR = "coordinator"
NAMES = ("N1", "N2", "N3", "N4")
ROUND_TIMEOUT, PATIENCE = 2.0, 8.0
SLACK = 6.0
"""Seconds for a machine that does other things too, and for puts that wait for a full way."""
START = 30.0
"""Seconds in which a process has started."""
PACE = 0.2
"""Seconds in which an exchange between parties that are all there is through."""
GIVEN_UP = ("has not heard of the coordinator", "has given up", "start them, then this again")
"""How programs end that have waited in vain; their owners would start them again."""


MORTAL = """
import os, random, signal, sys
from unpooled.cli import main
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.journal import Journal
from unpooled.network.storage.ledger_file import LedgerFile
from unpooled.network.zenoh import ZenohTransport

left = None
draw = random.Random(sys.argv[1])

def condemn(*_):
    global left
    left = draw.randrange(1, 30)

def passed():
    global left
    if left is not None:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

def mortal(kind, name):
    inner = getattr(kind, name)
    def outer(*args, **more):
        passed()
        value = inner(*args, **more)
        passed()
        return value
    setattr(kind, name, outer)

for kind, name in (
    (LedgerFile, "append"), (Journal, "append"), (StateDirectory, "write"), (ZenohTransport, "put")
):
    mortal(kind, name)
signal.signal(signal.SIGUSR1, condemn)
sys.exit(main(sys.argv[2:]))
"""
"""unpooled's command line, which upon SIGUSR1 dies at one of its next writes or puts."""


@dataclass(frozen=True)
class Kind:
    """A sort of run: its plan, everybody's rows, and about how many exchanges it takes."""

    name: str
    star: bool
    content: Mapping[str, Any]
    rows: Callable[[np.random.Generator], np.ndarray]
    length: int
    own: str = ""


def kinds(rng: np.random.Generator) -> Iterator[Kind]:
    """The sorts of runs, with fresh data each time."""
    # Who was away at the very end is not in the result; that is no failure of the run here.
    common = {"round_timeout": ROUND_TIMEOUT, "patience": PATIENCE, "min_parties": 1}
    start = rng.normal(size=(4, 2)).tolist()
    quorum = int(rng.integers(2, len(NAMES)))
    mesh = {**common, "method": "DGC", "releases": ["limits", "centers"], "edges": ring(NAMES)}
    steady = {"n_clusters": 4, "rho": 50.0, "init": start, "max_rounds": 600, "tol": 0.0}
    yield Kind(
        "fuzzy",
        True,
        {
            **common,
            "method": "FuzzyCMeans",
            "releases": ["moments", "start", "centers"],
            "standardise": True,
            "quorum": quorum,
            "parameters": {
                "n_clusters": 4,
                "merge": "average",
                "local_steps": 1,
                "max_rounds": 250,
                "tol": 0.0,
            },
        },
        _overlapping,
        250,
    )
    yield Kind("dgc", False, {**mesh, "parameters": steady}, _overlapping, 600)
    yield Kind(
        "federated",
        True,
        {
            **common,
            "method": "FederatedKMeans",
            "releases": ["sums"],
            "quorum": quorum,
            "parameters": {
                "n_clusters": 8,
                "init": rng.uniform(size=(8, 2)).tolist(),
                "max_rounds": 200,
                "tol": 0.0,
            },
        },
        lambda rng: rng.uniform(size=(20_000, 2)),
        30,
        "[policy]\nmin_count = 3\n",
    )
    stops = {**steady, "max_rounds": 5000, "tol": 1e-9}
    yield Kind("dgc-stops", False, {**mesh, "parameters": stops}, _overlapping, 500)
    for name, loss in (("gossip", "kmeans"), ("gossip-huber", "huber")):
        gossip = {
            **mesh,
            "method": "GossipKMeans",
            "releases": ["tree", "echo", "clusters", "start", "sums"],
            "parameters": {"n_clusters": 4, "loss": loss},
        }
        yield Kind(name, False, gossip, _overlapping, 150)


def _overlapping(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(400, 2)) + rng.normal(size=2)


# Disturbances


@dataclass
class Disturbance:
    """Something that happens to a program or a link, and is over after some seconds."""

    what: str
    at: int
    """How many exchanges the run has gone through by then."""
    who: tuple[str, ...]
    seconds: float
    exact: bool = False
    """For a kill: at a write or a put."""
    began: float = 0.0
    over: float = 0.0


def drawn(rng: np.random.Generator, kind: Kind, kills: int) -> list[Disturbance]:
    """So many kills, and up to three other things."""

    def moment() -> int:
        return int(rng.integers(0, kind.length + 1))

    def seconds() -> float:
        # Mostly shorter than patience, now and then longer.
        most = PATIENCE + 2 * ROUND_TIMEOUT if rng.random() < 0.15 else 2 * ROUND_TIMEOUT
        return float(rng.uniform(0.05, most))

    def somebody() -> str:
        if kind.star and rng.random() < 0.3:
            return COORDINATOR
        return str(rng.choice(NAMES))

    def link() -> tuple[str, ...]:
        if kind.star:
            return COORDINATOR, str(rng.choice(NAMES))
        return tuple(ring(NAMES)[int(rng.integers(len(NAMES)))])

    found = [
        Disturbance("kill", moment(), (somebody(),), seconds(), exact=bool(rng.integers(2)))
        for _ in range(kills)
    ]
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.5:
            found.append(Disturbance("freeze", moment(), (somebody(),), seconds()))
        else:
            found.append(Disturbance("cut", moment(), link(), seconds()))
    return sorted(found, key=lambda one: one.at)


@dataclass
class Outcome:
    """What came of a run."""

    seconds: float = 0.0
    bound: float = 0.0
    exchanges: int = 0
    longest: float = 0.0
    """Seconds that the longest exchange took, without the program's own freezes."""
    gave_up: int = 0
    """How often a program ended because others were away too long, and was started again."""
    partial: int = 0
    """Exchanges or questions in which somebody was missing."""
    done: list[Disturbance] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def count(self, what: str) -> int:
        """How many disturbances of a sort there were."""
        return sum(one.what == what for one in self.done)


class Chaos:
    """One run under disturbances."""

    def __init__(
        self,
        hosts: Hosts,
        programs: Mapping[str, Program],
        kind: Kind,
        planned: list[Disturbance],
        seed: str,
    ) -> None:
        self.outcome = Outcome()
        self._seed = seed
        self._hosts = hosts
        self._programs = programs
        self._kind = kind
        self._planned = planned
        self._now: list[Disturbance] = []
        self._condemned: list[Disturbance] = []
        """Kills that wait for a write."""
        self._at_end = 0.0
        """When the coordinator was last seen before its end."""

    def run(self) -> Outcome:
        """Runs until everybody has come to an end, or the time is over."""
        outcome, began = self.outcome, time.monotonic()
        for name in self._programs:
            self._start(name)
        while True:
            now = time.monotonic()
            outcome.seconds = now - began
            outcome.bound = self._bound()
            if outcome.seconds > outcome.bound:
                late = [name for name, own in self._programs.items() if own.code != 0]
                outcome.wrong.append(
                    f"hangs: {', '.join(late)} not at the end after {outcome.bound:.0f} s"
                )
                break
            self._disturb(now)
            self._bury(now)
            self._restore(now)
            self._look_after()
            if (
                not self._now
                and not self._condemned
                and all(own.code == 0 for own in self._programs.values())
            ):
                break
            if outcome.wrong:
                break
            time.sleep(0.01)
        outcome.exchanges = self._progress()
        return outcome

    def _bound(self) -> float:
        each = START + ROUND_TIMEOUT + PATIENCE
        disturbed = sum(one.seconds + each for one in self.outcome.done)
        return each + PACE * max(self._kind.length, self._progress()) + disturbed

    def _progress(self) -> int:
        leading = (COORDINATOR,) if self._kind.star else NAMES
        return max(self._programs[name].progress for name in leading)

    def _disturb(self, now: float) -> None:
        busy = {name for one in (*self._now, *self._condemned) for name in one.who}
        while self._planned and self._planned[0].at <= self._progress():
            one = self._planned[0]
            if busy & set(one.who):
                return  # one thing at a time for each
            if one.what != "cut" and not self._programs[one.who[0]].running:
                if self._programs[one.who[0]].code == 0:
                    self._planned.pop(0)  # it is at its end already
                    continue
                return
            self._planned.pop(0)
            busy |= set(one.who)
            one.began = now
            if one.exact:
                self._programs[one.who[0]].signal(signal.SIGUSR1)
                self._condemned.append(one)
                continue
            if one.what == "cut":
                self._hosts.cut(*one.who)
            elif one.what == "freeze":
                self._programs[one.who[0]].signal(signal.SIGSTOP)
            else:
                self._programs[one.who[0]].kill()
            self._now.append(one)
            self.outcome.done.append(one)

    def _bury(self, now: float) -> None:
        """Finds those that have come to their last write."""
        for one in list(self._condemned):
            code = self._programs[one.who[0]].code
            if code is None:
                continue
            self._condemned.remove(one)
            if code in (-signal.SIGKILL, -signal.SIGUSR1):  # the latter before it could listen
                one.began = now
                self._now.append(one)
                self.outcome.done.append(one)

    def _restore(self, now: float) -> None:
        for one in [one for one in self._now if now >= one.began + one.seconds]:
            self._now.remove(one)
            one.over = now
            if one.what == "cut":
                self._hosts.heal(*one.who)
            elif one.what == "freeze":
                self._programs[one.who[0]].signal(signal.SIGCONT)
            else:
                self._start(one.who[0])

    def _look_after(self) -> None:
        """Starts again who has waited in vain; anything else that ends is wrong."""
        dying = (*self._now, *self._condemned)
        killed = {one.who[0] for one in dying if one.what == "kill"}
        for name, program in self._programs.items():
            if program.code in (None, 0) or name in killed:
                continue
            if not any(words in program.errors() for words in GIVEN_UP):
                said = program.errors().strip()[-600:]
                self.outcome.wrong.append(f"{name} ended with {program.code}: {said}")
                return
            self.outcome.gave_up += 1
            self._start(name)
        if self._kind.star:
            self._hand_out_again()

    def _hand_out_again(self) -> None:
        """Starts the coordinator once more where a party that was away waits for the result."""
        now = time.monotonic()
        if self._programs[COORDINATOR].code != 0:
            self._at_end = now
        elif now > self._at_end + 1.0:
            for program in (self._programs[name] for name in NAMES):
                program.read()
                said = {line.event["event"] for line in program.lives[-1]}
                if program.running and "waiting" in said and "done" not in said:
                    self._start(COORDINATOR)
                    return

    def _start(self, name: str) -> None:
        program = self._programs[name]
        more = ("--resume",) if name == COORDINATOR and program.lives else ()
        program.start(*more, how=("-c", MORTAL, f"{self._seed} {name} {len(program.lives)}"))


# Checks


def check(
    kind: Kind,
    folder: Path,
    programs: Mapping[str, Program],
    rows: Mapping[str, np.ndarray],
    outcome: Outcome,
) -> None:
    """Adds to the outcome what is wrong with the run."""
    plan = read_plan(folder / "plan.toml")
    outcome.wrong += waits(kind, programs, outcome)
    outcome.wrong += ledgers(programs)
    outcome.wrong += replayed(kind, plan, folder, programs, rows, outcome)


def waits(
    kind: Kind, programs: Mapping[str, Program], outcome: Outcome, clock: float | None = None
) -> Iterator[str]:
    """Whose exchanges took longer than they may; ``clock`` is when `monotonic` was 0."""
    offset = time.time() - time.monotonic() if clock is None else clock
    frozen = [one for one in outcome.done if one.what == "freeze"]
    for name in (COORDINATOR,) if kind.star else NAMES:
        program = programs[name]
        program.read()
        for life, lines in enumerate(program.lives):
            for before, after in pairwise(lines):
                if after.event["event"] != "round":
                    continue  # parting, which the time of the whole run bounds
                own = sum(
                    max(
                        0.0,
                        min(after.time, one.over + offset) - max(before.time, one.began + offset),
                    )
                    for one in frozen
                    if one.who == (name,)
                )
                took = after.time - before.time - own
                outcome.longest = max(outcome.longest, took)
                if took > PATIENCE + SLACK:
                    yield f"{name}, process {life}: {took:.1f} s before {dict(after.event)}"


def ledgers(programs: Mapping[str, Program]) -> Iterator[str]:
    """What somebody took though the ledger of its sender has no line of it."""
    digests = {
        name: {line["digest"] for line in read_ledger(own.to / LEDGER) if "digest" in line}
        for name, own in programs.items()
    }
    for name, program in programs.items():
        for header, parts in Records(program.to / JOURNAL):
            if "ended" in header:
                words = parts["words"]
                parts = {header["ended"]: words} if words and decode(words).body else {}
            for sender, raw in parts.items():
                if sha256(raw).hexdigest() not in digests[sender]:
                    yield f"{name} took from {sender} what is not in its ledger: {header}"


def replayed(
    kind: Kind,
    plan: Plan,
    folder: Path,
    programs: Mapping[str, Program],
    rows: Mapping[str, np.ndarray],
    outcome: Outcome,
) -> Iterator[str]:
    """Where the run is not the in-process run with the same faults."""
    said: dict[str, dict[tuple[str, int], str]] = {name: {} for name in programs}

    def watch(name: str, message: Message) -> None:
        said[name][message.kind, message.round] = sha256(encode(message)).hexdigest()

    parties = Parties.of(list(rows.values()), names=NAMES)
    policy = read_own(folder / f"{next(iter(rows))}.toml").policy
    if kind.star:
        questions = programs[COORDINATOR].manifest()["questions"]
        outcome.partial = sum(len(one["answered"]) < len(NAMES) for one in questions)
        answered = [one["answered"] for one in questions]
        lines = {name: read_ledger(programs[name].to / LEDGER) for name in NAMES}
        own = {name: {li["exchange"] for li in lines[name] if "exchange" in li} for name in NAMES}
        faults = star_faults(NAMES, answered, own)
        options = Options(policy=policy, faults=faults, quorum=plan.quorum, watch=watch)
        run = run_star(plan.protocol, parties, seed=plan.run_seed, options=options)
        result = run.result
        expected = dict.fromkeys(programs, plan.protocol.in_columns(result))
        labels = {name: star_labels(plan.protocol, rows[name], result) for name in NAMES}
    else:
        participation = {name: programs[name].manifest()["participation"] for name in NAMES}
        missed = set()
        for one in participation.values():
            for spans in (one["asleep"], *one["not_heard"].values()):
                missed |= {n for first, last in spans for n in range(first, last + 1)}
        outcome.partial = len(missed)
        faults = mesh_faults(NAMES, participation)
        options = Options(policy=policy, faults=faults, watch=watch)
        run = run_mesh(
            plan.protocol, parties, plan.topology, seed=plan.run_seed, blocks=4, options=options
        )
        centers = run.result["centers"]
        expected = dict(zip(NAMES, centers, strict=True))
        every = nearest(parties.rows, parties.owner, centers)
        labels = {name: every[parties.owner == i] for i, name in enumerate(NAMES)}
    for name, program in programs.items():
        if not np.array_equal(program.centers(), expected[name]):
            far = np.abs(program.centers() - expected[name]).max()
            yield f"the centres of {name} are {far:g} away from those of the replayed run"
        if name in labels and not np.array_equal(program.labels(), labels[name]):
            yield f"the labels of {name} are not those of the replayed run"
        yield from _other_words(name, program, said[name])


def _other_words(name: str, program: Program, said: Mapping[tuple[str, int], str]) -> Iterator[str]:
    lines = [line for line in read_ledger(program.to / LEDGER) if "digest" in line]
    found = {(line["kind"], line["round"]): line["digest"] for line in lines}
    other = [key for key in found if said.get(key) != found[key]]
    if other:
        yield f"{name} has sent {len(other)} messages that the replayed run has not: {other[0]}"
    if set(said) - set(found):
        yield f"the ledger of {name} lacks {sorted(set(said) - set(found))[0]}"


# The whole


def one_run(number: int, kind: Kind, rng: np.random.Generator, kills: int, folder: Path) -> Outcome:
    """A run with so many kills, checked."""
    rows = {name: kind.rows(rng) for name in NAMES}
    planned = drawn(rng, kind, kills)
    names = ((COORDINATOR,) if kind.star else ()) + NAMES
    with Hosts(names) as hosts:
        content = {"seed": number, **kind.content}
        programs = prepare(hosts, folder, content, rows, kind.own)
        with ended(programs):
            outcome = Chaos(hosts, programs, kind, planned, str(rng.integers(2**32))).run()
    if not outcome.wrong:
        check(kind, folder, programs, rows, outcome)
    return outcome


def chaos(
    seed: int,
    kills: int,
    folder: Path,
    *,
    only: Sequence[str] = (),
    at_once: int = 4,
    say: Callable[[str], None] = print,
) -> list[Outcome]:
    """Runs until there were so many kills; a folder is left for every run that failed."""
    outcomes: list[Outcome] = []
    for number in range(10 * kills):
        left = kills - sum(outcome.count("kill") for outcome in outcomes)
        if left <= 0:
            break
        rng = np.random.default_rng([seed, number])
        wanted = [kind for kind in kinds(rng) if not only or kind.name in only]
        kind = wanted[number % len(wanted)]
        own = folder / f"run{number:03d}-{kind.name}"
        own.mkdir(parents=True)
        outcome = one_run(number, kind, rng, min(left, at_once), own)
        outcomes.append(outcome)
        what = ", ".join(f"{outcome.count(one)} {one}s" for one in ("kill", "freeze", "cut"))
        say(
            f"{number:3d} {kind.name:<10} {outcome.seconds:6.1f} s of {outcome.bound:5.0f}, "
            f"{outcome.exchanges:4d} exchanges, {outcome.partial:3d} of them partial, longest "
            f"{outcome.longest:4.1f} s; {what}, {outcome.gave_up} gave up; "
            + ("ok" if not outcome.wrong else f"FAILED, see {own}")
        )
        for sentence in outcome.wrong:
            say(f"      {sentence}")
        if not outcome.wrong:
            shutil.rmtree(own)
    return outcomes


def summary(outcomes: Sequence[Outcome]) -> str:
    """All runs in a line."""
    total = {what: sum(one.count(what) for one in outcomes) for what in ("kill", "freeze", "cut")}
    return (
        f"{len(outcomes)} runs, {total['kill']} kills, {total['freeze']} freezes, {total['cut']} "
        f"cuts, {sum(one.gave_up for one in outcomes)} times somebody gave up; "
        f"{sum(one.exchanges for one in outcomes)} exchanges, "
        f"{sum(one.partial for one in outcomes)} of them partial, the longest took "
        f"{max(one.longest for one in outcomes):.1f} s (at most {PATIENCE + SLACK:.0f}); "
        f"{sum(one.seconds for one in outcomes):.0f} s; "
        f"{sum(bool(one.wrong) for one in outcomes)} runs failed"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the command line; returns 0, or 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=(), help="kinds of runs (default: all)")
    parser.add_argument("--to", type=Path, help="where directories of failed runs are kept")
    options = parser.parse_args(arguments)
    reason = obstacle()
    if reason is not None:
        print(f"There can be no hosts: {reason}.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # hosts are taken away all the same
    folder = options.to or Path(tempfile.mkdtemp(prefix="unpooled-chaos-"))
    outcomes = chaos(options.seed, options.kills, folder, only=options.only)
    print(summary(outcomes))
    return int(any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
