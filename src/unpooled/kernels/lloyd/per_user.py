"""Seeding and Lloyd's iteration for every user of a block at once."""

from __future__ import annotations

import numpy as np

from unpooled.kernels.assignment.nearest import nearest, squared_distance
from unpooled.kernels.linalg.segments import ClusterSums, means_or_keep
from unpooled.types import FloatArray, IntArray


def draw_rows(scores: FloatArray, offsets: IntArray) -> IntArray:
    """For every user, the row with the smallest score (the first one of equals)."""
    starts = offsets[:-1]
    smallest = np.repeat(np.minimum.reduceat(scores, starts), np.diff(offsets))
    place = np.where(scores == smallest, np.arange(len(scores)), len(scores))
    return np.asarray(np.minimum.reduceat(place, starts))


def random_rows(
    rows: FloatArray, offsets: IntArray, weights: FloatArray, noise: FloatArray
) -> FloatArray:
    """K rows of every user, drawn in proportion to their weights, no row twice if it can be.

    ``noise`` is (K, n) standard exponentials: the row with the smallest noise / weight is a draw in
    proportion to the weights. A user that has run out of rows starts over.
    """
    n_clusters = len(noise)
    chosen = np.empty((len(offsets) - 1, n_clusters, rows.shape[1]))
    left = weights.copy()
    sizes = np.diff(offsets)
    for k in range(n_clusters):
        exhausted = np.add.reduceat(left > 0, offsets[:-1]) == 0
        left = np.where(np.repeat(exhausted, sizes), weights, left)
        drawn = draw_rows(_divided(noise[k], left), offsets)
        chosen[:, k] = rows[drawn]
        left[drawn] = 0.0
    return chosen


def plus_plus(
    rows: FloatArray, offsets: IntArray, weights: FloatArray, noise: FloatArray
) -> FloatArray:
    """k-means++ for every user (Arthur & Vassilvitskii 2007).

    The first centre is a row drawn in proportion to the weights, each further one a row drawn in
    proportion to w * (squared distance to the nearest centre so far). A user all of whose rows are
    centres already repeats rows in proportion to the weights. ``noise`` as in `random_rows`.
    """
    n_clusters, sizes = len(noise), np.diff(offsets)
    chosen = np.empty((len(offsets) - 1, n_clusters, rows.shape[1]))
    distance = np.full(len(rows), np.inf)
    mass = weights
    for k in range(n_clusters):
        chosen[:, k] = rows[draw_rows(_divided(noise[k], mass), offsets)]
        distance = np.minimum(distance, squared_distance(np.repeat(chosen[:, k], sizes, 0), rows))
        mass = weights * distance
        covered = np.maximum.reduceat(mass, offsets[:-1]) == 0
        mass = np.where(np.repeat(covered, sizes), weights, mass)
    return chosen


def lloyd(
    rows: FloatArray,
    offsets: IntArray,
    weights: FloatArray,
    centers: FloatArray,
    max_rounds: int = 100,
) -> FloatArray:
    """Lloyd's iteration for every user, until no row of any user changes its cluster.

    An empty cluster keeps its centre.
    """
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    labels = np.full(len(rows), -1)
    for _ in range(max_rounds):
        fresh = nearest(rows, owner, centers)
        if np.array_equal(fresh, labels):
            break
        labels = fresh
        sums = ClusterSums(owner, labels, weights, centers.shape[:2])
        centers = means_or_keep(sums(rows), sums.weights(), centers)
    return centers


def _divided(noise: FloatArray, mass: FloatArray) -> FloatArray:
    """noise / mass, infinite where there is no mass: such a row is never drawn."""
    return np.divide(noise, mass, out=np.full_like(noise, np.inf), where=mass > 0)
