"""How long cells take to make, and how much memory.

    python benchmarks/cells.py [--runs 1] [--write]

Cells of at least ten rows of Covertype (100,000 x 54, standardised; needs covtype_100k.npz in the
folder that UNPOOLED_DATA names) and of a million rows in 20 columns about 200 places. The peer is
scikit-learn's pairwise_distances_argmin, which does one thing only: it looks for the nearest of as
many centres as there are cells, for every row (timed on every 20th). So a ratio is in iterations of
k-means with as many clusters; both use all cores. Beside the time is that of all cores together,
which other programs on the machine change little. Memory is what a process has at most while it
makes the cells, beside the rows and what it had before, over the bytes of the rows. With --write
the table is kept as benchmarks/cells.txt.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, process_time

import numpy as np
from sklearn.metrics import pairwise_distances_argmin
from timing import by_turns, machine, seconds

from unpooled import datasets
from unpooled.privacy.cells import make_cells

FILE = Path(__file__).with_suffix(".txt")
MIN_COUNT = 10
EVERY = 20
COVERTYPE, MILLION = "covtype_100k", "1,000,000 x 20"
BARS = {COVERTYPE: 30.0, MILLION: 180.0}
"""Seconds on two cores."""
MOST_MEMORY = 2.0


def table(name: str) -> np.ndarray:
    if name == COVERTYPE:
        rows = datasets.load(name).X
        spread = rows.std(axis=0)
        rows -= rows.mean(axis=0)
        rows /= np.where(spread > 0, spread, 1.0)
        return rows
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1_000_000, 20))
    places = 3 * rng.normal(size=(200, 20))
    for at in range(0, len(rows), 5000):
        rows[at : at + 5000] += places[at // 5000]
    return rows


class Memory:
    """The most bytes that the process has while work is done, above what it has before."""

    def __enter__(self) -> Memory:
        self._done, self._before, self.most = Event(), resident(), 0
        self._thread = Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.most = max(self.most, resident() - self._before)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def line(name: str, runs: int) -> str:
    rows = table(name)
    weights = np.ones(len(rows))
    with Memory() as memory:
        began, used = perf_counter(), process_time()
        cells = make_cells(rows, weights, MIN_COUNT)
        first, used = perf_counter() - began, process_time() - used
    ours, peer = by_turns(
        runs,
        lambda: seconds(lambda: make_cells(rows, weights, MIN_COUNT)) if runs > 1 else first,
        lambda: EVERY * seconds(lambda: pairwise_distances_argmin(rows[::EVERY], cells.means)),
    )
    beside = memory.most / rows.nbytes
    met = "met" if ours <= BARS[name] and beside <= MOST_MEMORY else "missed"
    return (
        f"{name:16}{len(cells.counts):8}{cells.held_back.mean():11.2%}{ours:9.1f} s{used:9.1f} s"
        f"{ours / peer:9.2f}{beside:9.2f}   {BARS[name]:.0f} s, {MOST_MEMORY:.0f}   {met}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    make_cells(np.random.default_rng(0).normal(size=(100, 3)), np.ones(100), 3)  # is compiled
    lines = [
        f"$ python benchmarks/cells.py --runs {options.runs} --write",
        machine(),
        "",
        f"{'':16}{'cells':>8}{'held back':>11}{'time':>11}{'of cores':>11}{'ratio':>9}{'memory':>9}"
        "   bars",
    ]
    print(*lines, sep="\n", flush=True)
    for name in BARS:
        if name == COVERTYPE and name not in datasets.available():
            lines.append(f"{name}: UNPOOLED_DATA names no folder with {name}.npz")
        else:
            lines.append(line(name, options.runs))
        print(lines[-1], flush=True)
    if options.write:
        FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
