"""Matching of two sets of centres one to one, and the mean of many matched sets."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from unpooled.kernels.linalg.segments import means_or_keep, sums_by_label
from unpooled.types import FloatArray, IntArray


def matched(
    centers: FloatArray, reference: FloatArray, weights: FloatArray | None = None
) -> IntArray:
    """For each centre the reference centre it is paired with.

    Of all ways to pair them one to one, this has the least (weighted) sum of squared distances;
    there must be no more centres than reference centres.
    """
    squared = cdist(centers, reference, "sqeuclidean")
    if weights is not None:
        squared *= weights[:, None]
    return np.asarray(linear_sum_assignment(squared)[1], dtype=np.int64)


def matched_mean(
    sets: list[FloatArray], weights: list[FloatArray], reference: FloatArray, max_rounds: int = 100
) -> FloatArray:
    """The centres that minimise the weighted squared distances to the sets' matched centres.

    Alternates the two halves of the problem until the matchings stay: match each set optimally to
    the reference, then move each reference centre to the weighted mean of what was matched with it
    (it stays if that has no weight). Neither half can raise Σ w |c - m_π(c)|², so it ends.
    """
    points, weight = np.concatenate(sets), np.concatenate(weights)
    last: IntArray | None = None
    for _ in range(max_rounds):
        place = np.concatenate(
            [matched(own, reference, w) for own, w in zip(sets, weights, strict=True)]
        )
        if last is not None and np.array_equal(place, last):
            break
        last = place
        sums, counts = sums_by_label(points, weight, place, len(reference))
        reference = means_or_keep(sums, counts, reference)
    return reference
