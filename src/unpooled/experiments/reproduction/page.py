"""A page: tables of "paper, ours, difference, verdict", as Markdown and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from unpooled.experiments.reproduction.verdicts import (
    AGREEING,
    EXPLANATION,
    Printed,
    Verdict,
    verdict,
)
from unpooled.types import FloatArray


@dataclass(frozen=True)
class Cell:
    """One number of a paper beside ours."""

    where: tuple[str, ...]
    """What it is of: one text for each of the table's ``heads``."""
    paper: Printed | None
    ours: FloatArray
    """One number per run."""
    why: str = ""
    """Our best evidence why, shown where they differ."""


@dataclass(frozen=True)
class Table:
    """Cells under common heads."""

    title: str
    heads: tuple[str, ...]
    cells: Sequence[Cell]
    digits: int
    """Decimals of ours."""
    better: Literal["high", "low"] | None = None
    note: str = ""

    def verdicts(self) -> list[Verdict]:
        """The verdict on each cell."""
        return [verdict(cell.paper, cell.ours, self.better) for cell in self.cells]

    def lines(self) -> Iterator[str]:
        """As Markdown."""
        yield f"## {self.title}\n"
        if self.note:
            yield f"{self.note}\n"
        heads = [*self.heads, "paper", "ours", "difference", "verdict", "why"]
        yield from rows_of([heads, *(self._row(*pair) for pair in self._judged())])

    def _judged(self) -> Iterator[tuple[Cell, Verdict]]:
        return zip(self.cells, self.verdicts(), strict=True)

    def _row(self, cell: Cell, judged: Verdict) -> list[str]:
        mean, digits = float(np.mean(cell.ours)), self.digits
        spread = f" ± {np.std(cell.ours, ddof=1):.{digits}f}" if len(cell.ours) > 1 else ""
        there, apart = "-", "-"
        if cell.paper is not None:
            there, apart = str(cell.paper), f"{mean - cell.paper.value:+.{digits}f}"
        ours = f"{mean:.{digits}f}{spread}"
        return [*cell.where, there, ours, apart, judged, _reason(cell.why, judged)]

    def as_json(self) -> dict[str, Any]:
        """Title and cells, for programs."""
        cells = [
            {
                "where": dict(zip(self.heads, cell.where, strict=True)),
                "paper": None if cell.paper is None else str(cell.paper),
                "ours": float(np.mean(cell.ours)),
                "deviation": float(np.std(cell.ours, ddof=1)) if len(cell.ours) > 1 else None,
                "runs": len(cell.ours),
                "verdict": judged,
                "why": _reason(cell.why, judged),
            }
            for cell, judged in self._judged()
        ]
        return {"title": self.title, "cells": cells}


@dataclass(frozen=True)
class Claim:
    """What a paper says in words or draws, and whether it is so."""

    says: str
    found: str
    """What was measured, with its numbers."""
    holds: bool
    why: str = ""


@dataclass(frozen=True)
class Claims:
    """Claims under a title."""

    title: str
    claims: Sequence[Claim]
    note: str = ""

    def verdicts(self) -> list[Verdict]:
        """The verdict on each claim."""
        return ["holds" if claim.holds else "does not hold" for claim in self.claims]

    def lines(self) -> Iterator[str]:
        """As Markdown."""
        yield f"## {self.title}\n"
        if self.note:
            yield f"{self.note}\n"
        rows = [["the paper says", "ours", "verdict", "why"]]
        for claim, judged in zip(self.claims, self.verdicts(), strict=True):
            rows.append([claim.says, claim.found, judged, _reason(claim.why, judged)])
        yield from rows_of(rows)

    def as_json(self) -> dict[str, Any]:
        """Title and claims, for programs."""
        cells = [
            {
                "says": claim.says,
                "ours": claim.found,
                "verdict": judged,
                "why": _reason(claim.why, judged),
            }
            for claim, judged in zip(self.claims, self.verdicts(), strict=True)
        ]
        return {"title": self.title, "cells": cells}


@dataclass(frozen=True)
class Plain:
    """A table of ours that no paper has, or text: no verdicts."""

    title: str
    rows: Sequence[Sequence[str]] = ()
    """The first row has the heads."""
    note: str = ""

    def verdicts(self) -> list[Verdict]:
        """None."""
        return []

    def lines(self) -> Iterator[str]:
        """As Markdown."""
        yield f"## {self.title}\n"
        if self.note:
            yield f"{self.note}\n"
        yield from rows_of(self.rows)

    def as_json(self) -> dict[str, Any]:
        """Title and rows, for programs."""
        return {"title": self.title, "rows": [list(row) for row in self.rows], "cells": []}


@dataclass(frozen=True)
class Page:
    """What there is to say of an experiment."""

    parts: Sequence[Table | Claims | Plain]
    conclusion: str
    """What came of it, in a few sentences: stands first."""
    caption: str | Mapping[str, str] = ""
    """What the figure shows; of several figures, each by its name."""
    files: dict[str, str] = field(default_factory=dict)
    """Further files by name."""

    def counts(self) -> Counter[Verdict]:
        """How often each verdict was given."""
        return Counter(judged for part in self.parts for judged in part.verdicts())

    def lines(self) -> Iterator[str]:
        """The parts as Markdown."""
        for part in self.parts:
            yield from part.lines()
            yield ""
        if any(isinstance(part, Table) for part in self.parts):
            yield f"{EXPLANATION}\n"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "conclusion": self.conclusion,
            "verdicts": dict(sorted(self.counts().items())),
            "tables": [part.as_json() for part in self.parts],
        }


def _reason(why: str, judged: Verdict) -> str:
    return "" if judged in AGREEING or judged == "not printed" else why


def rows_of(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table; the first row has the heads."""
    if not rows:
        return
    yield _row(rows[0])
    yield "|" + "---|" * len(rows[0])
    yield from (_row(row) for row in rows[1:])


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def counted(counts: Counter[Verdict]) -> str:
    """Counts of verdicts in words: "11 agree, 1 worse"."""
    words = {"agrees": "agree", "holds": "hold", "does not hold": "do not hold"}
    order = list(dict.fromkeys(Verdict.__args__))  # type: ignore[attr-defined]
    return ", ".join(
        f"{counts[name]} {name if counts[name] == 1 else words.get(name, name)}"
        for name in order
        if counts[name]
    )
