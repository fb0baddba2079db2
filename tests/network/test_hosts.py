"""DGC between four hosts whose links lose, lag, slow down and break: it ends where it should.

On data with clear clusters that is where the undisturbed run ends. On any data it is a fixed point
of the whole problem: the gradient of J_rho (:mod:`unpooled.protocols.mesh.dgc`), with every row at
the nearest of its own peer's centres, vanishes for all peers together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.network.hosts import Hosts, Program, ended, obstacle, prepare, ring, until
from tests.network.site import STUDY
from unpooled.data.parties import Parties
from unpooled.deploy.plan_file import read_plan
from unpooled.kernels.assignment.nearest import nearest
from unpooled.simulate import run_mesh

pytestmark = pytest.mark.long

NAMES = ("N1", "N2", "N3", "N4")
RHO = 10.0
ROUND_TIMEOUT, PATIENCE = 5.0, 60.0
LONGEST = 600.0
"""Seconds for a run, on a machine that does other things too."""

Rows = dict[str, np.ndarray]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    with Hosts(NAMES) as made:
        yield made


# Data, with a start for the centres


def separated() -> tuple[Rows, np.ndarray]:
    rng, centers = np.random.default_rng(0), np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    rows = {
        name: np.concatenate(
            [c + rng.normal(size=(8 + 4 * ((i + k) % 3), 2)) for k, c in enumerate(centers)]
        )
        for i, name in enumerate(NAMES)
    }
    return rows, centers + 3.0


def overlapping() -> tuple[Rows, np.ndarray]:
    rng = np.random.default_rng(1)
    rows = {name: rng.normal(size=(60, 2)) + 0.7 * rng.normal(size=2) for name in NAMES}
    return rows, rng.normal(size=(4, 2))


def digits() -> tuple[Rows, np.ndarray]:
    X, rng = load_digits().data, np.random.default_rng(2)
    chosen = rng.permutation(len(X))[:400]
    rows = dict(zip(NAMES, np.split(X[chosen], len(NAMES)), strict=True))
    return rows, X[chosen[:200]].reshape(10, 20, -1).mean(axis=1)


# What happens to links; once the programs run if it takes them


def nothing(hosts: Hosts, programs: dict[str, Program]) -> None:
    """The links are what they are."""


def loses(hosts: Hosts) -> None:
    for a, b in ring(NAMES):
        hosts.lose(a, b, 10)


def lags(hosts: Hosts) -> None:
    hosts.delay("N1", "N2", 0.02)
    hosts.delay("N3", "N4", 0.005)


def is_slow(hosts: Hosts) -> None:
    hosts.limit("N1", 2000)
    hosts.limit("N3", 4000)


def breaks_for_a_second(hosts: Hosts, programs: dict[str, Program]) -> None:
    for exchange in (10, 25, 40):
        _at(programs, exchange)
        hosts.cut("N1", "N2")
        time.sleep(1.0)
        hosts.heal("N1", "N2")


def breaks_for_long(hosts: Hosts, programs: dict[str, Program]) -> None:
    _at(programs, 40)
    hosts.cut("N2", "N3")
    time.sleep(1.7 * ROUND_TIMEOUT)
    hosts.heal("N2", "N3")


def leaves_one_alone(hosts: Hosts, programs: dict[str, Program]) -> None:
    _at(programs, 40)
    hosts.cut("N4", "N3")
    time.sleep(0.3)
    hosts.cut("N4", "N1")
    time.sleep(2.2 * ROUND_TIMEOUT)
    hosts.heal("N4", "N1")
    time.sleep(0.3)
    hosts.heal("N4", "N3")


def _at(programs: dict[str, Program], exchange: int) -> None:
    until(lambda: programs["N1"].progress >= exchange, LONGEST, f"exchange {exchange}")


BEFORE: dict[str, list[Callable[[Hosts], None]]] = {
    "quiet": [],
    "loses": [loses],
    "lags": [lags],
    "is slow": [is_slow],
    "all of it": [loses, lags, is_slow],
}


@pytest.mark.parametrize(
    ("data", "before", "during"),
    [
        (separated, "quiet", nothing),
        (separated, "loses", nothing),
        (separated, "lags", breaks_for_a_second),
        (separated, "quiet", breaks_for_long),
        (separated, "loses", leaves_one_alone),
        (overlapping, "all of it", breaks_for_long),
        (overlapping, "lags", leaves_one_alone),
        (digits, "is slow", breaks_for_a_second),
        (digits, "quiet", leaves_one_alone),
    ],
)
def test_ends_at_a_fixed_point(
    hosts: Hosts,
    tmp_path: Path,
    data: Callable[[], tuple[Rows, np.ndarray]],
    before: str,
    during: Callable[[Hosts, dict[str, Program]], None],
) -> None:
    rows, start = data()
    parameters = {"rho": RHO, "init": start.tolist(), "n_clusters": len(start), "tol": 1e-10}
    programs = plan(hosts, tmp_path, "DGC", parameters, rows)
    for do in BEFORE[before]:
        do(hosts)
    seconds = run(hosts, programs, during)

    x = np.stack([programs[name].centers() for name in NAMES])
    slope = gradient(x, rows)
    far = np.abs(x - undisturbed(tmp_path, rows)).max()
    count, missed = participation(programs)
    print(
        f"\n{data.__name__}, {before}, {during.__name__}: {seconds:.1f} s, {count} exchanges, "
        f"{missed} of them partial; gradient {slope:.1e}, from the undisturbed centres {far:.1e}"
    )
    assert slope <= 1e-6
    if data is separated:
        assert far <= 1e-6
    if during in (breaks_for_long, leaves_one_alone):
        assert missed > 0
    elif during is nothing and before == "quiet":
        assert far == 0.0


def test_admm_after_an_exchange_that_one_side_heard(hosts: Hosts, tmp_path: Path) -> None:
    """ADMM keeps an error where a cut link left one side with a message that the other missed.

    How large depends on when: here it is only reported, and peers agree among themselves.
    """
    rows, start = separated()
    parameters = {"init": start.tolist(), "n_clusters": len(start), "tol": 1e-10}
    programs = plan(hosts, tmp_path, "ADMMKMeans", parameters, rows)
    run(hosts, programs, breaks_for_long)
    x = np.stack([programs[name].centers() for name in NAMES])
    far = np.abs(x - undisturbed(tmp_path, rows)).max()
    count, missed = participation(programs)
    one_sided = sum(one != other for one, other in heard(programs))
    print(
        f"\nADMM: {count} exchanges, {missed} of them partial, {one_sided} one-sided; "
        f"{far:.1e} from the undisturbed centres"
    )
    assert np.abs(x - x[0]).max() <= 1e-6
    if not one_sided:
        assert far <= 1e-6


def plan(
    hosts: Hosts, folder: Path, method: str, parameters: dict[str, object], rows: Rows
) -> dict[str, Program]:
    content = {
        "method": method,
        "releases": ["limits", "centers"],
        "edges": ring(NAMES),
        "round_timeout": ROUND_TIMEOUT,
        "patience": PATIENCE,
        "parameters": {"max_rounds": 9000, **parameters},
    }
    # Under deployment the rows would be means of cells, among which clusters are not apart.
    return prepare(hosts, folder, content, rows, STUDY)


def run(
    hosts: Hosts,
    programs: dict[str, Program],
    during: Callable[[Hosts, dict[str, Program]], None],
) -> float:
    with ended(programs):
        for program in programs.values():
            program.start()
        during(hosts, programs)
        end = time.monotonic() + LONGEST
        for program in programs.values():
            assert program.wait(end - time.monotonic()) == 0, program.errors()
            program.read()
    lines = [line for program in programs.values() for line in program.lives[0]]
    return max(line.time for line in lines) - min(line.time for line in lines)


def undisturbed(folder: Path, rows: Rows) -> np.ndarray:
    own = read_plan(folder / "plan.toml")
    parties = Parties.of(list(rows.values()), names=NAMES)
    run = run_mesh(own.protocol, parties, own.topology, seed=own.run_seed, blocks=len(NAMES))
    return run.result["centers"]


def gradient(x: np.ndarray, rows: Rows) -> float:
    """The norm of the gradient of J_rho on a ring."""
    total = 0.0
    for i, own in enumerate(rows.values()):
        labels = nearest(own, np.zeros(len(own), dtype=np.int64), x[i : i + 1])
        apart = 2 * x[i] - x[i - 1] - x[(i + 1) % len(x)]
        fit = [(x[i, k] - own[labels == k]).sum(axis=0) for k in range(x.shape[1])]
        total += float(((apart + np.array(fit) / RHO) ** 2).sum())
    return float(np.sqrt(total))


def participation(programs: dict[str, Program]) -> tuple[int, int]:
    """How many exchanges there were, and in how many somebody was not heard."""
    found = [programs[name].manifest()["participation"] for name in NAMES]
    missed = set()
    for own in found:
        for spans in (own["asleep"], *own["not_heard"].values()):
            missed |= {n for first, last in spans for n in range(first, last + 1)}
    return max(own["exchanges"] for own in found), len(missed)


def heard(programs: dict[str, Program]) -> Iterator[tuple[bool, bool]]:
    """For every link and exchange: does one side hear the other, and the other way round?"""
    found = {name: programs[name].manifest()["participation"] for name in NAMES}

    def hears(name: str, other: str, n: int) -> bool:
        spans = found[name]["not_heard"].get(other, [])
        return not any(first <= n <= last for first, last in spans)

    for n in range(max(own["exchanges"] for own in found.values())):
        for a, b in ring(NAMES):
            yield hears(a, b, n), hears(b, a, n)
