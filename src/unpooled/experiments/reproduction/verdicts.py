"""Whether a number of ours is the paper's: both are means over runs, which differ by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from unpooled.types import FloatArray

Verdict: TypeAlias = Literal[
    "agrees", "close", "better", "worse", "higher", "lower", "not printed", "holds", "does not hold"
]
AGREEING: tuple[Verdict, ...] = ("agrees", "close", "holds")
"""Verdicts that need no explanation; so does "not printed"."""

EXPLANATION = (
    "**agrees**: the means differ by at most twice the standard error of their difference plus "
    "half a unit of the last printed digit: these runs do not tell them apart. **close**: by more, "
    "but by less than one standard deviation of single runs (the larger of the paper's and ours). "
    "Else **better** or **worse**, or **higher** or **lower** where neither is good. Where a paper "
    "prints no deviation, ours stands in for it; where it does not say over how many runs it took "
    "a mean, ten are assumed. ± is the standard deviation over runs."
)
SHORT = (
    "A number *agrees* if it differs from the printed one by no more than chance explains (twice "
    "the standard error), and is *close* if it differs by more, but by less than single runs do; "
    "else it is *better* or *worse*, or *higher* or *lower* where neither is good. Claims in words "
    "or drawn *hold* or *do not hold*, by a criterion that the page names. A number counts once "
    "for every reading of the paper that was tried."
)


@dataclass(frozen=True)
class Printed:
    """A number of a paper: as text, so that its digits are known."""

    text: str
    deviation: float | None = None
    runs: int = 10
    """Over how many runs the paper took the mean."""

    @property
    def value(self) -> float:
        """The number."""
        return float(self.text)

    @property
    def rounding(self) -> float:
        """Half a unit of the last digit."""
        digits = self.text.lower().split("e")
        places = len(digits[0].partition(".")[2])
        exponent = int(digits[1]) if len(digits) > 1 else 0
        return 0.5 * 10.0 ** (exponent - places)

    def __str__(self) -> str:
        return self.text if self.deviation is None else f"{self.text} ± {self.deviation:g}"


def printed(text: str, runs: int = 10) -> Printed:
    """A number as it stands in a paper: "91.53±2.17" or "0.48"."""
    value, _, deviation = text.partition("±")
    return Printed(value.strip(), float(deviation) if deviation else None, runs)


def verdict(
    paper: Printed | None, ours: FloatArray, better: Literal["high", "low"] | None = None
) -> Verdict:
    """How the mean of ``ours``, one number per run, stands to what the paper printed.

    Two means of n and m runs with standard deviations s and t differ by chance by about
    √(s²/n + t²/m), their standard error.
    """
    if paper is None:
        return "not printed"
    spread = float(np.std(ours, ddof=1)) if len(ours) > 1 else 0.0
    theirs = spread if paper.deviation is None else paper.deviation
    error = np.sqrt(theirs**2 / paper.runs + spread**2 / len(ours))
    apart = float(np.mean(ours)) - paper.value
    if abs(apart) <= 2 * error + paper.rounding:
        return "agrees"
    if abs(apart) <= max(theirs, spread) + paper.rounding:
        return "close"
    if better is None:
        return "higher" if apart > 0 else "lower"
    return "better" if (apart > 0) == (better == "high") else "worse"
