"""How the time of a round of DGC grows with rows, users, clusters and columns.

    python benchmarks/exponents.py [--runs 3] [--write]

From a base case, one size at a time is varied over a factor of 16, for a loss whose rows can be
summed up in advance (k-means) and one whose rows cannot (logistic); in early rounds, when rows
change clusters, and in steady ones. An exponent is the slope of the line nearest to the logarithms,
by least squares. With --write the table and the figure (which needs the extra `report`) are kept as
benchmarks/exponents.txt and benchmarks/exponents.svg.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
from timing import by_turns, machine, seconds

from unpooled import DGC
from unpooled.protocols.mesh import dgc

FILE = Path(__file__).with_suffix(".txt")
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = {
    ("kmeans", "early"): (1, 61),
    ("kmeans", "steady"): (200, 2200),
    ("logistic", "early"): (1, 31),
    ("logistic", "steady"): (50, 300),
}
"""The loss, and from where to where rounds are timed."""
APART = 3.0
"""How far clusters are apart, in standard deviations, however many columns there are."""


@dataclass(frozen=True)
class Size:
    """Of a problem; rows are those of each user."""

    rows: int = 512
    users: int = 32
    clusters: int = 16
    columns: int = 32

    def times(self, what: str, factor: float) -> Size:
        """With one of them varied."""
        return replace(self, **{what: round(factor * getattr(self, what))})


BASE = Size()
SIZES = tuple(field.name for field in fields(Size))
Curves = dict[tuple[str, str, str], list[float]]
"""By size, loss and phase: the time of a round over that of the base case, for every factor."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    # However little there is to do: the costs of two ways would be mixed up otherwise.
    with patch.object(dgc, "WORTH_COMPILING", 0):
        curves = measured(options.runs)
    base = ", ".join(f"{number} {name}" for name, number in asdict(BASE).items())
    lines = [
        f"$ python benchmarks/exponents.py --runs {options.runs} --write",
        machine(),
        f"\nTime of a round of DGC ~ size ^ exponent; each from a quarter to four times of {base}",
        "".join(f"{title:>18}" for title in ("", *(" ".join(key) for key in ROUNDS))),
    ]
    for what in SIZES:
        found = [exponent(curves[what, *key]) for key in ROUNDS]
        lines.append(f"{what:>18}" + "".join(f"{number:18.2f}" for number in found))
    print(*lines, sep="\n")
    if options.write:
        FILE.write_text("\n".join(lines) + "\n")
        draw(curves, FILE.with_suffix(".svg"))


def measured(runs: int) -> Curves:
    """All of them by turns, so that a slow minute of the machine bends no curve."""
    ends = {(what, factor): BASE.times(what, factor) for what in SIZES for factor in FACTORS}
    points = list(product(dict.fromkeys(ends.values()), ROUNDS))
    fits = [partial(fit, *point, rounds) for point in points for rounds in ROUNDS[point[1]]]
    fits[0]()  # loads compiled code
    # The fastest of the runs: noise only takes time, and differences have it twice.
    taken = by_turns(runs, *(partial(seconds, run) for run in fits), of=min)
    rounds = {
        point: (many - few) / (ROUNDS[point[1]][1] - ROUNDS[point[1]][0])
        for point, (few, many) in zip(points, np.reshape(taken, (-1, 2)), strict=True)
    }
    if backward := [point for point, taken in rounds.items() if taken <= 0]:
        sys.exit(f"More rounds took less time for {backward[0]}: give more --runs.")
    return {
        (what, *key): [rounds[ends[what, f], key] / rounds[BASE, key] for f in FACTORS]
        for what, key in product(SIZES, ROUNDS)
    }


def fit(size: Size, key: tuple[str, str], rounds: int) -> None:
    rows, start = problem(size)
    groups = np.arange(len(rows)) % size.users
    model = DGC(
        size.clusters,
        loss=key[0],
        rho=10.0,
        init=start,
        solver="plain",
        max_rounds=rounds,
        tol=0.0,
    )
    model.fit(rows, groups=groups)


@cache
def problem(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and those that centres start from."""
    rng = np.random.default_rng(0)
    n = size.rows * size.users
    places = rng.normal(size=(size.clusters, size.columns)) * APART / np.sqrt(2 * size.columns)
    rows = places[rng.integers(size.clusters, size=n)] + rng.normal(size=(n, size.columns))
    return rows, rows[: size.clusters].copy()


def exponent(curve: list[float]) -> float:
    return float(np.polyfit(np.log(FACTORS), np.log(curve), 1)[0])


def draw(curves: Curves, figure: Path) -> None:
    """One panel for every size."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(10, 8), layout="constrained")
    for what, axes in zip(SIZES, canvas.subplots(2, 2, sharey=True).flat, strict=True):
        numbers = [getattr(BASE.times(what, factor), what) for factor in FACTORS]
        for loss, phase in ROUNDS:
            curve = curves[what, loss, phase]
            axes.plot(
                numbers,
                curve,
                color="C0" if loss == "kmeans" else "C1",
                linestyle="-" if phase == "steady" else ":",
                marker="o",
                label=f"{loss}, {phase} rounds: {exponent(curve):.2f}",
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(numbers, [str(number) for number in numbers])
        axes.set(xlabel=f"{what} of each user" if what == "rows" else what)
        axes.set(ylabel="time of a round / that of the base case")
        axes.grid(alpha=0.3)
        axes.legend(title="exponent")
    # The same figure from the same numbers, whenever it is drawn.
    with rc_context({"svg.hashsalt": "unpooled", "svg.fonttype": "none"}):
        canvas.savefig(figure, metadata={"Date": None})


if __name__ == "__main__":
    main()
