"""Compiles all that fits need, so that none has to wait for it.

    python -m unpooled.kernels.compiled.ahead

Compiled code is kept on disk: once for an installation and a machine is enough. `make` does it when
it installs; otherwise the first fit that is long enough does.
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.compiled._jit import waits_explained
from unpooled.kernels.compiled.cells import Blocks
from unpooled.kernels.compiled.clusters import empty_clusters
from unpooled.kernels.compiled.columns import advance_columns
from unpooled.kernels.compiled.costs import costs
from unpooled.kernels.compiled.loss_terms import FAIR, KMEANS, LossTerms
from unpooled.kernels.compiled.restarts import best_labels
from unpooled.kernels.compiled.rounds import exchange
from unpooled.kernels.compiled.steps import step_rule


def compile_rounds() -> None:
    """Compiles what rounds of DGC need."""
    rows, offsets = np.arange(32.0).reshape(16, 2), np.array([0, 8, 16])
    x, links = np.stack([rows[:2]] * 2), (np.array([0, 1, 2]), np.array([1, 0]))
    with waits_explained():
        for loss in (LossTerms(KMEANS, 1.0, np.inf), LossTerms(FAIR, 1.0, -1.0)):
            state = empty_clusters(rows, np.ones(16), offsets, 2)
            rule = step_rule(*links, np.full(2, 0.1), 1.0, loss)
            exchange(state, x, np.empty_like(x), rule, True)
            costs(state, x, rule)
        advance_columns(state, x, rule, 1)


def compile_restarts() -> None:
    """Compiles what many small k-means need."""
    best_labels(np.arange(32.0).reshape(16, 2), np.ones(16), 2, 2, 0)


def compile_cells() -> None:
    """Compiles what a party's cells need."""
    rows, some, ones = np.arange(32, dtype=np.float32).reshape(16, 2), np.ones(16, bool), np.ones(2)
    blocks = Blocks.of(rows, ones, np.ones(16), some, some, 3)
    blocks.group(np.arange(len(blocks)), some, np.full(16, -1))


if __name__ == "__main__":
    compile_rounds()
    compile_restarts()
    compile_cells()
