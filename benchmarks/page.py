"""One page of ratios: the time ours takes over that of its peers, medians of runs that take turns.

    make bench                                        (or python benchmarks/page.py)
    python benchmarks/page.py --only federated fuzzy
    python benchmarks/page.py --write                 keeps it as benchmarks/page.txt
    python benchmarks/page.py --check                 fails where it is 25 % worse than that

Below 1 ours is faster; a bar is what a ratio is to stay below. Peers are scikit-learn, Faiss (in
single precision, from random rows, for as many iterations as scikit-learn takes) and NumPy as one
would write it down. MNIST is mnist.npz in the folder that UNPOOLED_DATA names; without it, what
needs it is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from races import PAGE
from timing import Group, Race, machine

from unpooled.datasets import FOLDER_VARIABLE

FILE = Path(__file__).with_suffix(".txt")
WORSE = 1.25
TRIES = 3
"""Of a race that looks worse: machines are noisy."""


def main(
    arguments: Sequence[str] | None = None, groups: Iterable[Group] = PAGE, file: Path = FILE
) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the races")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="keep the page")
    what.add_argument("--check", action="store_true", help="compare with the page that was kept")
    options = parser.parse_args(arguments)
    names = [race.name for group in groups for race in group.races]
    if strangers := [name for name in options.only or () if name not in names]:
        parser.error(f"no race is called {strangers[0]}; there are {', '.join(names)}")
    if options.only and options.write:
        parser.error("the page is kept as a whole; leave out --only")
    if options.check and not file.exists():
        parser.error(f"there is no {file.name} to compare with; make it with --write")
    groups = [group.only(options.only or names) for group in groups]
    if options.check:
        before = kept(file.read_text(), options.only)
        return 1 if printed(check(groups, before)) else 0
    lines = printed(page(groups))
    if options.write:
        file.write_text("\n".join(lines) + "\n")
    return 0


def page(groups: Iterable[Group]) -> Iterator[str]:
    """Line by line, as it is measured."""
    yield "$ python benchmarks/page.py --write"
    yield machine({"faiss-cpu": "Faiss"})
    for group in groups:
        if group.races:
            yield f"\n{group.title}"
        for race in group.races:
            found = measured(race) if at_hand(group) else {}
            for name, peer in race.lanes.items():
                ratio = f"{found[name]:.3g}" if found else "left out"
                bar = f"{peer.bar:.3g}" if peer.bar else ""
                yield f"{name:24}{ratio:>9}{bar:>6}  {race.what} / {peer.what}"


def kept(text: str, only: Sequence[str] | None = None) -> dict[str, float]:
    """The ratios on a page."""
    lines = re.findall(r"^([\w-]+)(/[\w-]+) +(\d\S*) ", text, re.MULTILINE)
    return {race + peer: float(ratio) for race, peer, ratio in lines if not only or race in only}


def check(groups: Iterable[Group], before: Mapping[str, float]) -> Iterator[str]:
    """A line for every ratio that is worse than before, or has nothing to be compared with."""
    unseen = dict(before)
    for group in groups:
        for race in group.races:
            for name in race.lanes:
                unseen.pop(name, None)
            if not at_hand(group):
                print(f"{race.name}: left out, for want of {group.needs}.npz", file=sys.stderr)
                continue
            found = measured(race)
            for _ in range(TRIES - 1):
                if any(ratio > WORSE * before.get(name, ratio) for name, ratio in found.items()):
                    again = measured(race)
                    found = {name: min(ratio, again[name]) for name, ratio in found.items()}
            for name, ratio in found.items():
                if name not in before:
                    yield f"{name}: {ratio:.3g}, and nothing on the page to compare it with"
                elif ratio > WORSE * before[name]:
                    worse = 100 * (ratio / before[name] - 1)
                    yield f"{name}: {ratio:.3g}, {worse:.0f} % worse than {before[name]:.3g}"
    for name in unseen:
        yield f"{name}: on the page, but there is no such race any more"


def at_hand(group: Group) -> bool:
    """Whether there is the data set that it needs."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return not group.needs or bool(folder and (Path(folder) / f"{group.needs}.npz").is_file())


def measured(race: Race) -> dict[str, float]:
    progress(f"{race.name} ...")
    return race.ratios()


def printed(lines: Iterable[str]) -> list[str]:
    """The lines, each printed as soon as it is there."""
    done = []
    for line in lines:
        progress("")
        print(line, flush=True)
        done.append(line)
    return done


def progress(text: str) -> None:
    """What is being done, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
