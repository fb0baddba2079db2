"""Sums and squared distances in compiled code, each added up in one fixed order.

Nothing here may be reordered: labels and centres depend on the last bit of these numbers.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unpooled.kernels.compiled._jit import inner
from unpooled.types import FloatArray

SingleArray: TypeAlias = NDArray[np.float32]

_NARROW = 64
"""Columns below which a squared distance is added up in eight sums."""


@inner
def pairwise_sum(work: FloatArray | SingleArray, i: int, width: int) -> float:
    """The sum of the first ``width`` numbers of ``work[i]``, which it overwrites.

    The upper half is added to the lower half until 32 numbers are left; these are added to four
    sums in turn, and the four sums in pairs.
    """
    while width > 32:
        half = (width + 1) // 2
        for j in range(width - half):
            work[i, j] += work[i, j + half]
        width = half
    a0 = a1 = a2 = a3 = 0.0
    for j in range(0, width - 3, 4):
        a0 += work[i, j]
        a1 += work[i, j + 1]
        a2 += work[i, j + 2]
        a3 += work[i, j + 3]
    for j in range(width - width % 4, width):
        a0 += work[i, j]
    return (a0 + a1) + (a2 + a3)


@inner
def squared_in_lanes(x: FloatArray, i: int, y: FloatArray, r: int) -> float:
    """|x_i - y_r|^2: the squares of every eighth column go to the same of eight sums, which are
    then added in pairs."""
    d = x.shape[1]
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    for j in range(0, d - 7, 8):
        z0 = x[i, j] - y[r, j]
        z1 = x[i, j + 1] - y[r, j + 1]
        z2 = x[i, j + 2] - y[r, j + 2]
        z3 = x[i, j + 3] - y[r, j + 3]
        z4 = x[i, j + 4] - y[r, j + 4]
        z5 = x[i, j + 5] - y[r, j + 5]
        z6 = x[i, j + 6] - y[r, j + 6]
        z7 = x[i, j + 7] - y[r, j + 7]
        a0 += z0 * z0
        a1 += z1 * z1
        a2 += z2 * z2
        a3 += z3 * z3
        a4 += z4 * z4
        a5 += z5 * z5
        a6 += z6 * z6
        a7 += z7 * z7
    # The columns that are left: the sums rotate, so that each column still gets a sum of its own.
    for j in range(d - d % 8, d):
        z0 = x[i, j] - y[r, j]
        a0, a1, a2, a3, a4, a5, a6, a7 = a1, a2, a3, a4, a5, a6, a7, a0 + z0 * z0
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@inner
def squared_between(x: FloatArray, i: int, y: FloatArray, r: int, room: FloatArray) -> float:
    """|x_i - y_r|^2; ``room`` (1, d) is overwritten.

    The squares of wide rows are stored and added up by `pairwise_sum`: that reads memory in the
    order that processors prefetch best.
    """
    d = x.shape[1]
    if d < _NARROW:
        return squared_in_lanes(x, i, y, r)
    for j in range(d):
        z = x[i, j] - y[r, j]
        room[0, j] = z * z
    return pairwise_sum(room, 0, d)
