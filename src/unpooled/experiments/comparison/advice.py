"""Which method to use when: found in the summary, in words and numbers that can be checked again.

For every situation, of the methods that it allows: those whose mean over its cases is as good as
the best one's, up to a small margin, and of these the one that sends the smallest number of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.experiments.comparison.data import DATA_SETS, SITES
from unpooled.experiments.comparison.methods import COMPARED, POOLED, SHOW_ROWS
from unpooled.experiments.comparison.summary import Block, Summary
from unpooled.experiments.reproduction.page import rows_of

NEAR = 0.01
"""A cost is near that of pooled k-means if it is at most this share above it."""
TOLERABLE = 0.05
"""The share above pooled k-means that "few bytes" still allows, in every case."""

MARGINS = {"cost": 0.0002, "nmi": 0.005, "party_bytes": 0.0}
"""Means that differ by at most this are as good as each other."""

Allowed = Callable[[Summary, str], bool]


def _in_rounds(most: int) -> Allowed:
    """Star methods that keep rows where they are and take at most so many rounds, always."""

    def allowed(summary: Summary, method: str) -> bool:
        return _coordinated(summary, method) and summary.of("rounds", method).max() <= most

    return allowed


def _coordinated(summary: Summary, method: str) -> bool:
    return COMPARED[method].role == "star" and method not in SHOW_ROWS


def _peer_to_peer(summary: Summary, method: str) -> bool:
    return COMPARED[method].role == "mesh"


def _any_coordinated(summary: Summary, method: str) -> bool:
    return COMPARED[method].role == "star"


def _tolerable(summary: Summary, method: str) -> bool:
    return float(summary.of("cost", method).max()) - 1 <= TOLERABLE


def _any(summary: Summary, method: str) -> bool:
    return True


@dataclass(frozen=True)
class Situation:
    """What somebody has, and what matters."""

    name: str
    allowed: Allowed
    cases: Callable[[Block], bool] = lambda block: True
    measure: str = "cost"
    """What is to be low (of "nmi": high), in the mean over cases."""

    def candidates(self, summary: Summary) -> list[str]:
        """The methods that it allows."""
        return [method for method in summary.methods if self.allowed(summary, method)]

    def merit(self, summary: Summary, method: str) -> float:
        """The lower the better: its mean over the cases."""
        return self._mean(summary, method, self.measure)

    def best(self, summary: Summary) -> list[str]:
        """The methods as good as any that is allowed, the one that sends least bytes first."""
        merits = {method: self.merit(summary, method) for method in self.candidates(summary)}
        bound = min(merits.values(), default=0.0) + MARGINS[self.measure]
        good = [method for method, merit in merits.items() if merit <= bound]
        return sorted(good, key=lambda method: self._mean(summary, method, "party_bytes"))

    def _mean(self, summary: Summary, method: str, measure: str) -> float:
        values = summary.of(measure, method, summary.where(self.cases))
        if measure == "party_bytes":  # so that no data set outweighs others
            return float(np.log(values).mean())
        return float(values.mean()) * (-1 if measure == "nmi" else 1)


def _lacking(block: Block) -> bool:
    return block.how == "(0.1)"


SITUATIONS = (
    Situation("A coordinator, one round", _in_rounds(1)),
    Situation("A coordinator, two rounds", _in_rounds(2)),
    Situation("A coordinator, any number of rounds", _coordinated),
    Situation("No coordinator", _peer_to_peer),
    Situation("Parties lack clusters (Dirichlet 0.1), one round", _in_rounds(1), _lacking),
    Situation("Parties lack clusters (Dirichlet 0.1), no coordinator", _peer_to_peer, _lacking),
    Situation("Few bytes, never 5 % above pooled", _tolerable, measure="party_bytes"),
    Situation("A coordinator that may see a sample of rows too", _any_coordinated),
    Situation("Classes matter, not cost (NMI)", _any, measure="nmi"),
    Situation("Few large sites that differ (the four hospitals)", _any, lambda b: b.how == SITES),
)


@dataclass(frozen=True)
class Statement:
    """What to use in a situation, with the numbers that this rests on."""

    situation: Situation
    method: str
    numbers: Mapping[str, float]

    def holds(self, summary: Summary) -> bool:
        """Whether the numbers are the summary's, and the method is the best one by them."""
        good = self.situation.best(summary)
        numbers = _numbers(summary, self.situation, self.method)
        return good[:1] == [self.method] and dict(self.numbers) == numbers

    @property
    def says(self) -> str:
        """The statement, in words."""
        n = self.numbers
        text = (
            f"{self.situation.name}: **{self.method}** is within {100 * NEAR:g} % of pooled "
            f"k-means in {n['near']:g} of {n['cases']:g} cases, on average {_apart(n['cost'])} and "
            f"at worst {_apart(n['worst'])} it, with {size_in_words(n['party_bytes'])} per party "
            f"and {_rounds(n)}."
        )
        if self.situation.measure == "nmi":
            text += f" Its mean NMI is {n['nmi']:.3f}."
        return text

    def row(self) -> list[str]:
        """For the decision table."""
        n = self.numbers
        middle, least, most = (size_in_words(n[key]) for key in ("party_bytes", "least", "most"))
        return [
            self.situation.name,
            _code(self.method),
            f"{_percent(n['cost'])}, {_percent(n['worst'])}",
            f"{middle} ({least} to {most})",
            _rounds(n).removesuffix(" rounds").removesuffix(" round"),
        ]


def _numbers(summary: Summary, situation: Situation, method: str) -> dict[str, float]:
    where = summary.where(situation.cases)
    cost = summary.of("cost", method, where) - 1
    sent = summary.of("party_bytes", method, where)
    rounds = summary.of("rounds", method, where)
    return {
        "cases": float(where.sum()),
        "near": float((cost <= NEAR).sum()),
        "cost": float(cost.mean()),
        "worst": float(cost.max()),
        "party_bytes": float(np.median(sent)),
        "least": float(sent.min()),
        "most": float(sent.max()),
        "rounds": float(np.median(rounds)),
        "most_rounds": float(rounds.max()),
        "nmi": float(summary.of("nmi", method, where).mean()),
    }


def statements(summary: Summary) -> list[Statement]:
    """One for every situation that the summary has cases and methods for."""
    found = []
    for situation in SITUATIONS:
        if summary.where(situation.cases).any() and (good := situation.best(summary)):
            found.append(Statement(situation, good[0], _numbers(summary, situation, good[0])))
    return found


def decision_table(found: Sequence[Statement]) -> str:
    """As Markdown, for the README."""
    heads = ["situation", "use", "cost over pooled: mean, worst", "bytes per party", "rounds"]
    return "\n".join(rows_of([heads, *(statement.row() for statement in found)])) + "\n"


@dataclass(frozen=True)
class ClassGain:
    """By how much a method's clusters are nearer to classes than those of pooled k-means."""

    method: str
    gains: Mapping[str, float]
    """NMI above that of pooled k-means, of each data set, in the mean over splits and seeds."""

    def holds(self, summary: Summary) -> bool:
        """Whether the summary says so."""
        return self == class_gain(summary, self.method)

    @property
    def says(self) -> str:
        """The statement, in words."""
        above = {file: gain for file, gain in self.gains.items() if gain > 0}
        listed = ", ".join(f"{DATA_SETS[f].title} {gain:+.3f}" for f, gain in above.items())
        mean = float(np.mean(list(self.gains.values())))
        return (
            f"Clusters that are not round: the NMI of **{self.method}** is above that of {POOLED} "
            f"on {len(above)} of {len(self.gains)} data sets ({listed or 'none'}); over all of "
            f"them it differs by {mean:+.3f} on average."
        )


def class_gain(summary: Summary, method: str) -> ClassGain:
    """The gain of a method."""
    column = summary.per_file("nmi")[:, list(summary.methods).index(method)]
    pairs = zip(summary.files, column, strict=True)
    return ClassGain(
        method, {file: float(nmi) - summary.pooled[file]["nmi"] for file, nmi in pairs}
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if abs(share) >= 5e-5 else "0 %"


def _apart(share: float) -> str:
    return f"{_percent(abs(share))} {'below' if share <= -5e-5 else 'above'}"


def size_in_words(count: float) -> str:
    """Bytes: "12.3 kB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _rounds(numbers: Mapping[str, float]) -> str:
    middle, most = round(numbers["rounds"]), round(numbers["most_rounds"])
    text = f"{middle}" if middle == most else f"{middle} (up to {most})"
    return f"{text} round{'s' * (middle != 1 or most != 1)}"


def _code(method: str) -> str:
    name = COMPARED[method]
    options = ", ".join(f"{key}={value}" for key, value in name.options.items())
    return f"`{name.estimator}({options})`" if options else f"`{name.estimator}`"
