"""Compiles what there is to compile, so that no fit has to wait for it.

    python -m unpooled.kernels.compiled.ahead

Compiled code is kept on disk, so it is once for an installation and a machine. `make` does it when
it installs; without that, the first fit that is worth it does.
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.compiled import clusters, descent, restarts
from unpooled.kernels.compiled._jit import waits_explained


def compile_rounds() -> None:
    """What rounds of DGC need."""
    rows, offsets = np.arange(32.0).reshape(16, 2), np.array([0, 8, 16])
    x, links = np.stack([rows[:2]] * 2), (np.array([0, 1, 2]), np.array([1, 0]))
    with waits_explained():
        for kind, reach in ((clusters.KMEANS, np.inf), (clusters.FAIR, -1.0)):
            s = clusters.clusters(rows, np.ones(16), offsets, 2)
            how = descent.slope(*links, np.full(2, 0.1), 1.0, (kind, 1.0, reach))
            descent.exchange(s, x, np.empty_like(x), how, True)
            descent.costs(s, x, how)
        descent.drift(s, x, how, 1)


def compile_restarts() -> None:
    """What many small k-means need."""
    restarts.best_labels(np.arange(32.0).reshape(16, 2), np.ones(16), 2, 2, 0)


if __name__ == "__main__":
    compile_rounds()
    compile_restarts()
