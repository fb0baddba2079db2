"""How many rows or persons a group is worth: one that outweighs all others is one alone."""

from __future__ import annotations

import numpy as np

from unpooled.types import BoolArray, FloatArray, IntArray

ROUNDING = 1e-9
"""Effective sizes are compared with whole numbers up to this share."""


def effective_sizes(labels: IntArray, weights: FloatArray, n_labels: int) -> FloatArray:
    """(Σ w)² / Σ w² over the rows of each label; 0 where there is no weight."""
    largest = np.zeros(n_labels)
    np.maximum.at(largest, labels, weights)
    relative = np.divide(weights, largest[labels], out=np.zeros(len(weights)), where=weights > 0)
    first = np.bincount(labels, relative, n_labels)
    second = np.bincount(labels, relative**2, n_labels)
    return np.divide(first**2, second, out=np.zeros(n_labels), where=second > 0)


def enough(sizes: FloatArray, min_count: int) -> BoolArray:
    """Which sizes reach the minimum."""
    return sizes >= min_count * (1 - ROUNDING)
