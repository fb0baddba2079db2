"""The defaults beside pooled k-means, on the data that come with scikit-learn; and the report."""

from __future__ import annotations

import pytest

from unpooled.experiments import held_out

BUNDLED = {
    problem.title: problem
    for problem in held_out.HELD_OUT
    if problem.name in ("wine", "breast_cancer", "digits") and problem.n_parties == 10
}
RUNS = 3


@pytest.mark.parametrize("label", ["OneShotKMeans", "GossipKMeans, ring", "DGC, ring"])
@pytest.mark.parametrize("title", BUNDLED)
def test_defaults_meet_their_bars(title: str, label: str) -> None:
    line = held_out.line(label, held_out.METHODS[label], BUNDLED[title], RUNS)
    assert line.endswith("met"), line


def test_a_verdict_compares_mean_and_worst_with_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter([1.0, 1.01, 1.02] * 4)
    monkeypatch.setattr(held_out, "held_out_cost", lambda *_: (next(costs), 7))
    problem = held_out.HELD_OUT[0]

    def verdict(*bars: float) -> str:
        return held_out.line("any", held_out.Defaults(object, *bars), problem, 3)

    assert verdict(1.011, 1.03).split() == ["any", "1.0100", "1.0200", "7", "met"]
    assert verdict(1.009, 1.03).endswith("missed")
    assert verdict(1.011, 1.015).endswith("missed")
    assert verdict().split()[-1] == "7"


def test_the_report_goes_on_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNPOOLED_DATA", raising=False)
    monkeypatch.setattr(held_out, "METHODS", {"OneShotKMeans": held_out.Defaults(lambda *_: None)})
    monkeypatch.setattr(held_out, "held_out_cost", lambda *_: (1.0, 1))
    lines = list(held_out.report(2))
    assert lines[0] == "$ unpooled reproduce held-out --runs 2"
    assert sum("UNPOOLED_DATA names no folder" in line for line in lines) == 4
    assert sum(line.startswith("  OneShotKMeans") for line in lines) == 5
