"""What is compiled ahead is all that fits need, and is never older than its sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unpooled import DGC, KarSwenson, losses
from unpooled.kernels.compiled import _jit, rounds
from unpooled.kernels.compiled.ahead import compile_restarts, compile_rounds
from unpooled.kernels.compiled.columns import _advance_all
from unpooled.kernels.compiled.costs import _costs
from unpooled.kernels.compiled.restarts import _run_starts, best_labels
from unpooled.protocols.mesh import dgc

RNG = np.random.default_rng(0)
MODELS = {
    "k-means": DGC(3),
    "all rounds": DGC(3, tol=0.0),
    "huber": DGC(3, loss="huber"),
    "logistic": DGC(3, loss="logistic"),
    "several steps": DGC(3, loss="fair", inner_steps=2),
    "momentum": DGC(3, solver="nesterov"),
    "mahalanobis": DGC(3, metric=losses.Mahalanobis(np.diag(np.arange(1.0, 71.0)))),
    "kar & swenson": KarSwenson(3),
    "isolated users": DGC(3, graph=None),
}


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
@pytest.mark.parametrize("model", MODELS)
def test_fits_compile_nothing_more(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    compile_rounds()
    monkeypatch.setattr(dgc, "WORTH_COMPILING", 0)
    rows = RNG.normal(size=(60, 70)) + 3 * RNG.integers(3, size=(60, 1))
    MODELS[model].set_params(max_rounds=200, init=rows[:3]).fit([rows[u::4] for u in range(4)])
    for compiled in (rounds._run_rounds, _costs, _advance_all):
        assert len(compiled.signatures) == 1


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_restarts_compile_nothing_more() -> None:
    compile_restarts()
    best_labels(RNG.normal(size=(50, 3)), np.ones(50), 4, 3, 1)
    assert len(_run_starts.signatures) == 1


def test_small_fits_wait_for_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "run_rounds", None)
    monkeypatch.setattr(rounds, "exchange", None)
    DGC(3, random_state=0).fit(RNG.normal(size=(100, 4)), groups=np.arange(100) % 5)


def test_code_older_than_a_source_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    kept = tmp_path / "__pycache__" / "one.function.nbi"
    for name in ("one.py", "another.py"):
        (tmp_path / name).touch()
    for written, stays in ((2_000.0, True), (900.0, False)):
        kept.touch()
        for name, when in {"one.py": 500.0, "another.py": 1_000.0}.items():
            os.utime(tmp_path / name, (when, when))
        os.utime(kept, (written, written))
        _jit.drop_older(tmp_path)
        assert kept.exists() == stays


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_waits_are_explained_in_one_line_wherever_it_goes() -> None:
    """In a pipe: a program that has set up no log, as most have not."""
    code = (
        "from unpooled.kernels.compiled import _jit\n"
        "with _jit.waits_explained():\n    pass\n"
        "with _jit.waits_explained():\n"
        "    _jit.numba.njit(lambda x: x + 1)(1)\n    _jit.numba.njit(lambda x: x + 2)(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.count("compiling for this machine, once") == 1
    assert done.stderr.count("\n") == 1


def test_without_a_place_to_keep_it_code_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = _jit.numba.njit
    plain(lambda x: x)(1)  # the compiler itself compiles something before its first work

    def njit(**options: object) -> object:
        if options["cache"]:
            raise RuntimeError("cannot cache function: no locator available")
        return plain(**options)

    monkeypatch.setattr(_jit.numba, "njit", njit)
    assert _jit.jit(lambda x: x + 1)(1) == 2
