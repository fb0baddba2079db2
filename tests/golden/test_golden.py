"""Every method still gives what it gave: labels and traffic the same, centres to 1e-9.

``results.npz`` was written by ``python -m tests.golden.make tests/golden/results.npz``. Whoever
changes a method on purpose writes it anew and says so in CHANGELOG.md.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.golden.make import estimators, in_process

RESULTS = Path(__file__).parent / "results.npz"
NOT_COMPARED = ("digest", "refusal")
"""Bits of messages, which are another processor's; sentences, which other tests compare."""


@cache
def golden() -> dict[str, np.ndarray]:
    with np.load(RESULTS) as kept:
        return {name: kept[name] for name in kept.files}


def test_protocols_give_what_they_gave() -> None:
    _compare(in_process(), lambda name: not name.split(" | ")[1].startswith("fit"))


@pytest.mark.long
def test_estimators_give_what_they_gave() -> None:
    _compare(estimators(), lambda name: name.split(" | ")[1].startswith("fit"))


def _compare(found: dict[str, np.ndarray], wanted: object) -> None:
    kept = {name: value for name, value in golden().items() if wanted(name)}  # type: ignore[operator]
    assert kept.keys() <= found.keys()  # a new method has none to compare with
    for name, value in kept.items():
        field = name.rpartition(" | ")[2]
        if field in NOT_COMPARED:
            continue
        if field != "centers" and value.dtype.kind == "f":
            continue  # maps of directions that hardly differ are another processor's too
        if value.dtype.kind == "f":
            scale = max(1.0, float(np.abs(value).max(initial=0.0)))
            np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-9 * scale, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], value, err_msg=name)
