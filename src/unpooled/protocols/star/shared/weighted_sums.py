"""Sums over all of a party's rows, and whether they are enough to speak of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.kernels.linalg.products import matmul
from unpooled.parallel import in_chunks
from unpooled.privacy.row_groups import enough_rows
from unpooled.types import FloatArray, IntArray


def used_weights(data: PartyData) -> tuple[FloatArray, IntArray, str]:
    """The weights by which a party's rows count in sums over all of them, and their row groups.

    Where its policy has a minimum that they do not reach, none counts.
    """
    known = enough_rows(data.weights, data.min_count)
    weights = data.weights if known else np.zeros(len(data.weights))
    remark = "" if known or not len(data.weights) else "held back: too few rows"
    return weights, np.where(weights > 0, 0, -1), remark


def weighted_sum(
    data: PartyData, weights: FloatArray, of: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Σ w f(x) over the party's rows, chunk by chunk."""

    def part(span: slice) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):  # noticed where messages are checked
            return matmul(weights[span], of(data.rows[span]))

    total: FloatArray = np.zeros(data.rows.shape[1])
    for own in in_chunks(part, data.rows.shape):
        total += own
    return total
