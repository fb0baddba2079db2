"""Sums over all of a party's rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.kernels.linalg.products import matmul
from unpooled.parallel import in_chunks
from unpooled.types import FloatArray


def weighted_sum(data: PartyData, of: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Σ w f(x) over the party's rows, chunk by chunk."""

    def part(span: slice) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):  # noticed where messages are checked
            return matmul(data.weights[span], of(data.rows[span]))

    total: FloatArray = np.zeros(data.rows.shape[1])
    for own in in_chunks(part, data.rows.shape):
        total += own
    return total
