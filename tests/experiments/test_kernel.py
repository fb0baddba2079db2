"""The kernel experiments, on data that come with scikit-learn and with few runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unpooled.experiments.kernel import compare, paper, setting, shapes
from unpooled.experiments.kernel.setting import (
    MNIST_60K,
    MUSHROOMS,
    KernelRun,
    KernelSetting,
)

IRIS = KernelSetting("Iris", "iris", 3, 15, 3, 60)


def test_columns_are_scaled_and_parties_are_of_like_size() -> None:
    assert IRIS.data.X.min() == 0
    assert IRIS.data.X.max() == 1
    assert np.bincount(IRIS.groups(0)).tolist() == [30] * setting.KERNEL_PARTIES
    assert (IRIS.groups(0) != IRIS.groups(1)).any()


@pytest.mark.long
def test_the_estimate_gets_nearer_to_the_exact_matrix() -> None:
    """Its error falls about as 1/t."""
    errors = np.mean([paper.recovery_errors(IRIS, seed, 12) for seed in range(2)], axis=0)
    slope = np.polyfit(np.log(np.arange(1, 13)), np.log(errors), 1)[0]
    assert -1.8 < slope < -0.6


def test_what_is_sent_is_what_the_theorem_says() -> None:
    title, iterations, *numbers, saved = paper.savings(IRIS, 4).split()
    sent, stated, sent_without, stated_without = map(int, numbers)
    assert (title, iterations) == ("Iris", "4")
    assert sent == stated > 0
    assert sent_without == stated_without > sent
    assert saved == f"{1 - sent / sent_without:.2%}"


def runs(scores: list[float], floats: int = 100, rounds: int = 4) -> list[KernelRun]:
    return [KernelRun(score, floats, rounds) for score in scores]


@pytest.mark.parametrize(
    ("ours", "floats", "word"),
    [
        ([0.5, 0.52, 0.51], 19, "met"),
        ([0.5, 0.52, 0.51], 21, "missed"),
        ([0.49, 0.51, 0.51], 10, "met"),
        ([0.40, 0.42, 0.41], 10, "missed"),
    ],
)
def test_ours_must_not_be_lower_beyond_the_interval(
    ours: list[float], floats: int, word: str
) -> None:
    theirs = runs([0.5, 0.51, 0.515])
    assert compare._verdict_on_ours(MNIST_60K, theirs, runs(ours, floats)).endswith(word)


@pytest.mark.parametrize(
    ("score", "floats", "rounds", "word"),
    [
        (0.54, 9_999, 5, "met"),
        (0.52, 9_999, 5, "missed"),
        (0.54, 10_001, 5, "missed"),
        (0.54, 9_999, 6, "missed"),
    ],
)
def test_the_bars_of_mushrooms(score: float, floats: int, rounds: int, word: str) -> None:
    ours = runs([score] * 3, floats, rounds)
    assert compare._verdict_on_ours(MUSHROOMS, runs([0.5, 0.51, 0.52]), ours).endswith(word)


def test_kernels_find_the_rings_and_draw_them(tmp_path: Path) -> None:
    rings = shapes.shapes()[0]
    found, linear = rings.kernel(7).labels_, rings.linear(7)
    assert shapes._scores(rings, [found]) == "1.000 (1.000)"
    assert float(shapes._scores(rings, [linear]).split()[0]) < 0.1
    assert "drawn in" in shapes.draw_shapes([(rings, linear, found)], tmp_path / "rings.png")
    assert (tmp_path / "rings.png").stat().st_size > 10_000
