"""Races: ours against peers in the same run, by turns, so that all meet the same machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distributions, version
from pathlib import Path
from statistics import median
from time import perf_counter

Clock = Callable[[], float]
"""Measures once, in seconds."""

VERSIONS = {"numpy": "NumPy", "scikit-learn": "scikit-learn", "numba": "Numba"}


@dataclass(frozen=True)
class Peer:
    """Whom ours is compared with; ``bar`` is the ratio that is to be kept to, if there is one."""

    name: str
    what: str
    clock: Clock
    bar: float | None = None


@dataclass(frozen=True)
class Race:
    """One thing of ours and its peers."""

    name: str
    what: str
    clock: Clock
    peers: tuple[Peer, ...]
    runs: int = 5

    @property
    def lanes(self) -> dict[str, Peer]:
        """The peers by the names that their ratios have on a page."""
        return {f"{self.name}/{peer.name}": peer for peer in self.peers}

    def ratios(self) -> dict[str, float]:
        """The median of ours over that of each peer."""
        ours, *theirs = by_turns(self.runs, self.clock, *(peer.clock for peer in self.peers))
        return {name: ours / their for name, their in zip(self.lanes, theirs, strict=True)}


@dataclass(frozen=True)
class Group:
    """Races on the same data; ``needs`` names the data set that must be at hand."""

    title: str
    races: tuple[Race, ...]
    needs: str | None = None

    def only(self, names: Collection[str]) -> Group:
        """With the races that are named."""
        return replace(self, races=tuple(race for race in self.races if race.name in names))


def by_turns(
    runs: int, *clocks: Clock, of: Callable[[Sequence[float]], float] = median
) -> list[float]:
    """The median of what each clock measures, or what else is asked for."""
    turns = [[clock() for clock in clocks] for _ in range(runs)]
    return [of(taken) for taken in zip(*turns, strict=True)]


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = perf_counter()
    work()
    return perf_counter() - began


def per_round(fit: Callable[[int], int], few: int, many: int) -> float:
    """What a round takes; ``fit`` is told how many it may take, and returns how many it took."""
    began = perf_counter()
    fewer = fit(few)
    between = perf_counter()
    more = fit(many)
    return ((perf_counter() - between) - (between - began)) / (more - fewer)


def machine(also: Mapping[str, str] | None = None) -> str:
    """What was measured on and with; ``also`` has further packages and how to call them."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = {**VERSIONS, **(also or {})}
    there = [f"{called} {version(name)}" for name, called in packages.items() if installed(name)]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB\n"
        f"Python {platform.python_version()}, {', '.join(there)}"
    )


def installed(package: str) -> bool:
    return any(distributions(name=package))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
