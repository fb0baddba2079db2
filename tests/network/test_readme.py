"""The README's examples and its trials between organisations, typed in as they stand there."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled import load

README = Path(__file__).parents[2] / "README.md"
BESIDE_PYTHON = str(Path(sys.executable).parent)
MEANS = [[60, 120], [80, 140], [60, 160]]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with keys, plan and data."""
    where = tmp_path_factory.mktemp("readme")
    prepared = _typed(_blocks()[0], where)
    dry, audit = prepared.split("\nNothing was sent.\n")
    assert "cells of at least 10 persons" in dry
    assert "guesses at who is in the data" in audit
    return where / "trial"


def test_three_terminals_give_a_standardised_clustering(trial: Path) -> None:
    terminals = _blocks()[1]
    running = [
        subprocess.Popen(["bash", "-c", line + "\nwait"], cwd=trial, **_how())
        for line in terminals.splitlines()
    ]
    try:
        for terminal in running:
            assert terminal.wait(timeout=180) == 0
    finally:
        for terminal in running:
            terminal.kill()
            terminal.communicate()
    labels = (trial / "West.run/labels.csv").read_text().split()
    assert labels[0] == "label"
    assert len(labels) == 201
    rows = np.loadtxt(trial / "west.csv", delimiter=",", skiprows=1)
    for folder in ("coordinator.run", "West.run"):
        model = load(trial / folder / "model.unpooled")
        assert _distance(model.cluster_centers_) < 2
        assert model.predict(rows).tolist() == [int(label) for label in labels[1:]]


def test_three_peers_agree_on_a_clustering(trial: Path) -> None:
    _typed(_blocks()[2], trial)
    models = [load(trial / f"{n}.peer/model.unpooled") for n in ("North", "South", "West")]
    assert all(_distance(model.cluster_centers_) < 2 for model in models)
    apart = np.ptp([model.cluster_centers_ for model in models], axis=0)
    assert apart.max() < 1e-6


def test_every_example_with_a_result_prints_it() -> None:
    pairs = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", README.read_text(), re.S)
    assert len(pairs) == 2
    names: dict[str, Any] = {}  # later examples go on with what earlier ones made
    for code, shown in pairs:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == shown


def _blocks() -> list[str]:
    """What is to be typed in: to prepare, in three terminals, and without a coordinator."""
    section = README.read_text().split("## Between organisations")[1].split("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, re.S)
    assert len(blocks) == 3
    return blocks


def _how() -> dict[str, Any]:
    path = os.pathsep.join([BESIDE_PYTHON, os.environ["PATH"]])
    return {"env": {**os.environ, "PATH": path}, "text": True, "stdout": subprocess.PIPE}


def _typed(block: str, where: Path) -> str:
    """Runs a block to its end; what it printed."""
    running = subprocess.Popen(["bash", "-euc", block], cwd=where, start_new_session=True, **_how())
    try:
        printed, _ = running.communicate(timeout=180)
    finally:
        with suppress(ProcessLookupError):  # whatever it left in the background
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert running.returncode == 0
    return str(printed)


def _distance(centers: np.ndarray) -> float:
    """How far the centres are from the means that rows were drawn around."""
    return float(abs(centers[np.lexsort(centers.round().T)] - MEANS).max())
