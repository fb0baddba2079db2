"""Verdicts on numbers and the pages that show them."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled.experiments.reproduction.page import Cell, Claim, Claims, Page, Plain, Table, counted
from unpooled.experiments.reproduction.verdicts import Printed, printed, verdict


def runs(mean: float, deviation: float, n: int = 10) -> np.ndarray:
    """Numbers with just this mean and standard deviation."""
    values = np.linspace(-1, 1, n)
    return mean + deviation * values / values.std(ddof=1)


def test_printed_numbers_know_their_digits() -> None:
    assert printed("91.53±2.17") == Printed("91.53", 2.17)
    assert printed("91.53±2.17").rounding == pytest.approx(0.005)
    assert Printed("3.3e-1").value == 0.33
    assert Printed("3.3e-1").rounding == pytest.approx(0.005)
    assert Printed("5e-3").rounding == pytest.approx(0.0005)
    assert Printed("34599.4").rounding == pytest.approx(0.05)
    assert Printed("12").rounding == 0.5
    assert str(printed("1.0±0.1")) == "1.0 ± 0.1"


def test_means_agree_within_twice_the_standard_error() -> None:
    paper = Printed("10.0", 1.0)  # the standard error of the difference is sqrt(.1 + .1) = .447
    assert verdict(paper, runs(10.9, 1.0)) == "agrees"
    assert verdict(paper, runs(9.1, 1.0)) == "agrees"
    assert verdict(paper, runs(11.0, 1.0)) == "close"
    assert verdict(paper, runs(11.1, 1.0)) == "higher"
    assert verdict(paper, runs(8.9, 1.0)) == "lower"
    assert verdict(paper, runs(8.9, 1.0), "low") == "better"
    assert verdict(paper, runs(8.9, 1.0), "high") == "worse"
    assert verdict(paper, runs(11.1, 1.0), "high") == "better"
    assert verdict(None, runs(1.0, 1.0)) == "not printed"


def test_more_runs_make_a_stricter_verdict() -> None:
    assert verdict(Printed("10.0", 1.0, runs=10), runs(10.6, 1.0, 10)) == "agrees"
    assert verdict(Printed("10.0", 1.0, runs=1000), runs(10.6, 1.0, 1000)) == "close"


def test_without_a_printed_deviation_ours_stands_in() -> None:
    assert verdict(Printed("10.0"), runs(10.9, 1.0)) == "agrees"
    assert verdict(Printed("10.0"), np.array([10.04])) == "agrees"  # by rounding alone
    assert verdict(Printed("10.0"), np.array([10.06])) == "higher"


def test_a_page_shows_reasons_where_they_are_needed() -> None:
    cells = [
        Cell(("A", "1"), Printed("10.0", 1.0), runs(10.0, 1.0), why="no need to say"),
        Cell(("B", "2"), Printed("10.0", 1.0), runs(20.0, 1.0), why="twice | as much"),
        Cell(("C", "3"), None, runs(3.0, 1.0), why="no need to say"),
    ]
    table = Table("Means", ("method", "k"), cells, digits=2, better="low")
    claims = Claims("Words", [Claim("it falls", "it rises by 2", False, why="a sign")])
    page = Page([table, claims, Plain("Own", [["a", "b"], ["1", "2"]])], "All is well.")
    text = "\n".join(page.lines())
    assert "| A | 1 | 10.0 ± 1 | 10.00 ± 1.00 | +0.00 | agrees |  |" in text
    assert "| B | 2 | 10.0 ± 1 | 20.00 ± 1.00 | +10.00 | worse | twice \\| as much |" in text
    assert "| C | 3 | - | 3.00 ± 1.00 | - | not printed |  |" in text
    assert "| it falls | it rises by 2 | does not hold | a sign |" in text
    assert "no need" not in text
    assert "| a | b |\n|---|---|\n| 1 | 2 |" in text
    assert counted(page.counts()) == "1 agrees, 1 worse, 1 not printed, 1 does not hold"
    found = page.as_json()
    assert found["verdicts"] == {"agrees": 1, "does not hold": 1, "not printed": 1, "worse": 1}
    assert found["tables"][0]["cells"][1]["why"] == "twice | as much"
