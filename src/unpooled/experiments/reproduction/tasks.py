"""Experiments, cut into tasks that can be run in any order, on any core, and kept when done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.types import FloatArray

if TYPE_CHECKING:
    from unpooled.experiments.reproduction.page import Page


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    runs: int
    """Runs of everything that is random: seeds 0, 1, ..."""
    quick: bool = False
    """Whether data and rounds are cut down too, to see in seconds that all of it works."""


@dataclass(frozen=True)
class Task:
    """One piece of work: a function of a module, and what it is called with.

    It returns numbers, lists of numbers and dicts of these. What it returns as "seconds" is kept
    apart from all else, since it is another one every time.
    """

    key: str
    """A path, such as "iris/DGC/KM/10/3": the first part names the file that results are kept in.
    Experiments that name the same key share the result."""
    call: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def store(self) -> str:
        """The name of the file that its result is kept in."""
        return self.key.split("/")[0]


class Results:
    """What tasks returned, by their keys."""

    def __init__(self, values: Mapping[str, Any], seconds: Mapping[str, float]) -> None:
        self._values = values
        self._seconds = seconds

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def runs(self, prefix: str, name: str, seeds: Iterable[int] | int) -> FloatArray:
        """``name`` of the results "prefix/seed", one entry for each seed (a number: 0, 1, ...)."""
        seeds = range(seeds) if isinstance(seeds, int) else seeds
        return np.array([self._values[f"{prefix}/{seed}"][name] for seed in seeds], dtype=float)

    def seconds(self, key: str) -> float:
        """The seconds that the task gave, or took."""
        return self._seconds[key]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper: what is computed for it, and how it is shown."""

    title: str
    setting: str
    """What was done, in full: data, parties, options, measures, and what the paper left open."""
    runs: int
    """Runs, if nobody asks for another number."""
    quick_runs: int
    tasks: Callable[[Scale], Sequence[Task]]
    page: Callable[[Scale, Results], Page]
    draw: Callable[[Scale, Results], Any] | None = None
    """A figure of matplotlib, or several by name."""
    seeds: str = "0 to {last}"
    """Which seeds: ``last`` is the number of runs less one."""
