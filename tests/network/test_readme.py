"""The README's trial between organisations, typed in as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from unpooled import load

README = Path(__file__).parents[2] / "README.md"
BESIDE_PYTHON = str(Path(sys.executable).parent)


def test_three_terminals_give_a_standardised_clustering(tmp_path: Path) -> None:
    section = README.read_text().split("## Between organisations")[1].split("\n## ")[0]
    prepare, terminals = re.findall(r"```bash\n(.*?)```", section, re.S)
    path = os.pathsep.join([BESIDE_PYTHON, os.environ["PATH"]])
    how = {"env": {**os.environ, "PATH": path}, "text": True, "stdout": subprocess.PIPE}
    prepared = subprocess.run(["bash", "-euc", prepare], cwd=tmp_path, timeout=120, **how)
    assert prepared.returncode == 0
    assert prepared.stdout.rstrip().endswith("Nothing was sent.")
    running = [
        subprocess.Popen(["bash", "-c", line + "\nwait"], cwd=tmp_path / "trial", **how)
        for line in terminals.splitlines()
    ]
    try:
        for terminal in running:
            assert terminal.wait(timeout=180) == 0
    finally:
        for terminal in running:
            terminal.kill()
            terminal.communicate()
    scaler, model = (load(tmp_path / f"trial/coordinator.run/{n}.unpooled") for n in PARTS)
    centers = scaler.mean_ + scaler.scale_ * model.cluster_centers_
    order = np.lexsort(centers.round().T)
    assert abs(centers[order] - [[60, 120], [80, 140], [60, 160]]).max() < 2
    labels = (tmp_path / "trial/West.run/labels.csv").read_text().split()
    assert labels[0] == "label"
    assert len(labels) == 201


PARTS = ("scaler", "model")
