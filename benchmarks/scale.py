"""Very many users in one process: a round of DGC, and the memory of a fit.

    python benchmarks/scale.py [--users 100000 1000000] [--runs 3] [--write]

Users are on a random 4-regular graph, and X is one array with groups. A round is compared with what
no round can do without: the sparse product that brings every user its neighbours' centres, L x of
scipy. Memory is the peak of a fit beyond what there was before it, over the size of the rows. Each
crowd has a process of its own; medians of runs that take turns. With --write it is kept as
benchmarks/scale.txt.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from timing import by_turns, machine, per_round, seconds

from unpooled import DGC
from unpooled.graphs.topology import Topology
from unpooled.kernels.compiled.ahead import compile_rounds
from unpooled.protocols.mesh import dgc

FILE = Path(__file__).with_suffix(".txt")
PRODUCTS = 10


@dataclass(frozen=True)
class Crowd:
    """Users, the rows of each, and how they are clustered."""

    n_users: int
    n_rows: int
    width: int
    n_clusters: int
    rounds: int

    def rows(self) -> np.ndarray:
        """Clusters that overlap; made in place, so that the peak of memory is theirs."""
        rng = np.random.default_rng(0)
        places = rng.normal(size=(self.n_clusters, self.width))
        rows = rng.standard_normal((self.n_users * self.n_rows, self.width))
        for part in np.array_split(rows, 100):
            part += places[rng.integers(self.n_clusters, size=len(part))]
        return rows

    def graph(self) -> sp.csr_array:
        """Two rings through all users in random order, drawn again while they share a link."""
        rng = np.random.default_rng(0)
        while True:
            rings = np.concatenate([rng.permutation(self.n_users) for _ in range(2)])
            follow = np.roll(rings.reshape(2, -1), 1, axis=1).ravel()
            one_way = sp.coo_array(
                (np.ones(len(rings)), (rings, follow)), shape=(self.n_users,) * 2
            )
            both = sp.csr_array(one_way + one_way.T)
            if both.max() == 1:
                return both


CROWDS = {
    crowd.n_users: crowd
    for crowd in (Crowd(100_000, 50, 16, 10, 100), Crowd(1_000_000, 10, 8, 5, 50))
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, nargs="+", choices=CROWDS, default=list(CROWDS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", type=int, choices=CROWDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(measured(CROWDS[options.measure], options.runs))
        return
    lines = [f"$ python benchmarks/scale.py --runs {options.runs}", machine({"scipy": "SciPy"}), ""]
    for users in options.users:
        command = [sys.executable, __file__, "--measure", str(users), "--runs", str(options.runs)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        lines.append(done.stdout.rstrip())
    print(*lines, sep="\n")
    if options.write:
        FILE.write_text("\n".join(lines) + "\n")


def measured(crowd: Crowd, runs: int) -> str:
    compile_rounds()  # so that it is there before memory is measured
    graph, rows = crowd.graph(), crowd.rows()  # in this order, the peak is what is kept
    groups = np.repeat(np.arange(crowd.n_users), crowd.n_rows)
    start = rows[np.random.default_rng(0).choice(len(rows), crowd.n_clusters, replace=False)]

    def fit(rounds: int) -> int:
        model = DGC(
            crowd.n_clusters,
            graph=graph,
            rho=10.0,
            init=start,
            solver="plain",
            max_rounds=rounds,
            tol=0.0,
        )
        return model.fit(rows, groups=groups).n_rounds_

    @cache
    def factors() -> tuple[sp.csr_array, np.ndarray]:
        x = np.random.default_rng(0).normal(size=(crowd.n_users, start.size))
        return Topology(graph).laplacian, x

    def a_round() -> float:
        with patch.object(dgc, "WORTH_COMPILING", 0):  # for one round it might not be
            spent = per_round(fit, 1, crowd.rounds)
        peaks.append(peak())
        return spent

    def a_product() -> float:
        laplacian, x = factors()
        return seconds(lambda: [laplacian @ x for _ in range(PRODUCTS)]) / PRODUCTS

    peaks = [peak()]
    spent, needed = by_turns(runs, a_round, a_product)
    memory = (peaks[1] - peaks[0]) / rows.nbytes  # before there is anything for the product
    return (
        f"{crowd.n_users:,} users of {crowd.n_rows} rows x {crowd.width}, {crowd.n_clusters} "
        f"clusters, {crowd.rounds} rounds\n"
        f"  a round / a sparse product   {spent / needed:.2f}\n"
        f"  memory beside rows / rows    {memory:.2f}"
    )


def peak() -> int:
    """The most bytes that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
