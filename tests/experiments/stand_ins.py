"""Small made-up sets with the names and columns of the real ones, so that all experiments run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CLASSES = 10


def write_stand_ins(folder: Path, rows: int = 300) -> None:
    """Writes an npz file for every set that experiments ask for."""
    rng = np.random.default_rng(0)
    _write_s_sets(folder, rng)
    y = np.arange(rows) % CLASSES
    parts = (np.arange(rows) >= 2 * rows // 3).astype(np.uint8)

    def pixels(*shape: int) -> np.ndarray:
        """Bytes whose mean depends on the class."""
        means = rng.uniform(40, 215, size=(CLASSES, *shape))
        return rng.normal(means[y], 30).clip(0, 255).astype(np.uint8)

    np.savez(folder / "mnist.npz", X=pixels(784), y=y, split=parts)
    np.savez(folder / "cifar10_20k.npz", X=pixels(32, 32, 3), y=y, split=parts)
    features = (pixels(1280) / 255).astype(np.float16)
    np.savez(folder / "cifar10_efflite0_features.npz", X=features, y=y, split=parts)
    marks = rng.uniform(size=(2, 112))
    np.savez(folder / "mushrooms.npz", X=rng.uniform(size=(rows, 112)) < marks[y % 2], y=y % 2)
    relief = rng.normal(rng.uniform(0, 3000, size=(7, 54))[y % 7], 300).astype(np.int16)
    np.savez(folder / "covtype_100k.npz", X=relief, y=y % 7)
    patients = rng.normal(rng.uniform(0, 5, size=(2, 13))[y % 2]).astype(np.float32)
    patients[rng.uniform(size=patients.shape) < 0.05] = np.nan
    site = rng.integers(4, size=rows).astype(np.uint8)
    np.savez(folder / "heart_4sites.npz", X=patients, y=y % 2, site=site)


def _write_s_sets(folder: Path, rng: np.random.Generator) -> None:
    """Fifteen clusters of twenty rows on a grid, wider from set to set."""
    grid = 1e5 * np.stack(np.divmod(np.arange(15), 4), axis=1)
    y = np.repeat(np.arange(15), 20)
    for place in range(4):
        X = grid[y] + 10.0 ** (2 + place / 2) * rng.normal(size=(300, 2))
        np.savez(folder / f"s{place + 1}.npz", X=X, y=y, centers=grid)
