"""One round of DGC against its peers in the same run: `make bench`.

Digits at ten users on a ring, k-means loss. The peers are one Lloyd iteration of scikit-learn on
the pooled rows and one round of the plain loops that the tests compare with. Ratios, not times:
medians of alternating measurements.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from unpooled import DGC

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.protocols import reference


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    X, _ = load_digits(return_X_y=True)
    X = X / 16.0
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.arange(len(X)) % 10)
    tables = [X[groups == i] for i in range(10)]
    start = X[rng.choice(len(X), 10, replace=False)]
    ring = np.roll(np.eye(10), 1, axis=1) + np.roll(np.eye(10), -1, axis=1)

    def dgc(rounds: int) -> float:
        model = DGC(10, init=start, max_rounds=rounds, tol=0, step_size=0.01)
        return seconds(lambda: model.fit(X, groups=groups))

    def lloyd(rounds: int) -> float:
        model = KMeans(10, init=start, n_init=1, max_iter=rounds, tol=0, algorithm="lloyd")
        return seconds(lambda: model.fit(X))

    def loops() -> float:
        ones = [np.ones(len(table)) for table in tables]
        centers = np.stack([start] * 10)
        loss = reference.distance_loss("kmeans")
        return seconds(
            lambda: reference.dgc(
                loss, tables, ones, ring, centers, rho=10.0, rounds=1, step_size=0.01
            )
        )

    measured = [((dgc(60) - dgc(10)) / 50, (lloyd(9) - lloyd(1)) / 8, loops()) for _ in range(9)]
    round_, iteration, loop = np.median(measured, axis=0)
    print("digits, ten users on a ring, k-means loss, medians of 9")
    print(f"  one round of DGC / one Lloyd iteration of scikit-learn: {round_ / iteration:.2f}")
    print(f"  one round of DGC / one round of plain loops:            {round_ / loop:.4f}")


if __name__ == "__main__":
    main()
