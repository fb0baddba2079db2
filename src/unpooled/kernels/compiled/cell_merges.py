"""Cells in which one row has more than half of the scatter, merged with others: compiled.

Of three numbers one has half of the scatter at least, wherever they are, and of few rows it is
often so. Such a row is no outlier: with the next cell it makes one that it does not dominate. So
small cells are merged, each with the one that adds the least scatter, if none of their rows
dominates what they make, it stays small, and they are near each other. An outlier dominates that
as well, or there is nothing near it: its cell is left as it is.
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.compiled._jit import inner, jit
from unpooled.kernels.compiled.cell_cuts import ROUNDING
from unpooled.kernels.compiled.cell_sums import products_of, put
from unpooled.kernels.compiled.distances import SingleArray
from unpooled.types import FloatArray, IntArray

LARGEST = 12
"""Rows of a cell that may come from a merger: among more, a row with half of the scatter is far
from all others."""
_OF_ITS_PART, _OF_ALL = 10.0, 0.25
"""What a merger may add to the scatter: so many times the row's part, or the cell's weight times so
much of the mean |x|². More would join what has nothing to do with each other."""


@inner
def _dominating_part(
    cell: int,
    other: int,
    products: FloatArray,
    weights: FloatArray,
    links: IntArray,
    first: IntArray,
    dots: FloatArray,
    sums: FloatArray,
) -> float:
    """The part of the row that has more than half of the scatter of two cells together, or of one
    (``other`` is -1); 0 if none has.

    A row's part is w |x - S / a|² = w (x · x - 2 x · S / a + |S|² / a²).
    """
    norm, mass, most, total, rounding = sums[0, cell], sums[1, cell], 0.0, 0.0, 0.0
    if other >= 0:
        norm += sums[0, other] + 2 * _product(cell, other, weights, links, first, dots)
        mass += sums[1, other]
    for turn in range(2 if other >= 0 else 1):
        i = first[other if turn else cell]
        while i >= 0:
            along = dots[cell, i] + (dots[other, i] if other >= 0 else 0.0)
            part = products[i, i] - 2 * along / mass + norm / mass / mass
            rounding += weights[i] * products[i, i] * 1e-12
            part = max(part, 0.0) * weights[i]
            most = max(most, part)
            total += part
            i = links[0, i]
    return most if most > max(0.5 * (1 + ROUNDING) * total, rounding) else 0.0


@inner
def _product(
    cell: int,
    other: int,
    weights: FloatArray,
    links: IntArray,
    first: IntArray,
    dots: FloatArray,
) -> float:
    """S · T of two cells."""
    found, i = 0.0, first[cell]
    while i >= 0:
        found += weights[i] * dots[other, i]
        i = links[0, i]
    return found


@inner
def _best_merger(
    cell: int,
    limit: float,
    n_cells: int,
    products: FloatArray,
    weights: FloatArray,
    links: IntArray,
    first: IntArray,
    dots: FloatArray,
    sums: FloatArray,
) -> int:
    """The cell to merge a dominated one with, or -1 if it is better left alone.

    Together they have a b / (a + b) |S / a - T / b|² more scatter than each for itself.
    """
    least, partner, a = limit, -1, sums[1, cell]
    for c in range(n_cells):
        if c == cell or sums[2, c] == 0 or sums[2, c] + sums[2, cell] > LARGEST:
            continue
        b = sums[1, c]
        between = sums[0, cell] / a / a + sums[0, c] / b / b
        between -= 2 * _product(cell, c, weights, links, first, dots) / a / b
        between *= a * b / (a + b)
        if between < least and not _dominating_part(
            cell, c, products, weights, links, first, dots, sums
        ):
            least, partner = between, c
    return partner


@jit
def merge_dominated(rows: SingleArray, weights: FloatArray, cells: IntArray, n_cells: int) -> None:
    """Merges cells that a row dominates, where that helps; changes the cell of each row.

    Rows should be about their mean.
    """
    n = len(rows)
    products = products_of(rows)
    labels, links, first = np.full(n, -1), np.full((2, n), -1), np.full(n_cells, -1)
    dots, sums = np.zeros((n_cells, n)), np.zeros((3, n_cells))
    total, mean_square = weights.sum(), 0.0
    for r in range(n):
        put(r, cells[r], products, weights, labels, links, first, dots, sums)
        mean_square += weights[r] * products[r, r] / total
    for c in range(n_cells):
        part = 0.0
        if sums[2, c]:
            part = _dominating_part(c, -1, products, weights, links, first, dots, sums)
        if part > 0.0:
            limit = max(_OF_ITS_PART * part, _OF_ALL * sums[1, c] * mean_square)
            target = _best_merger(c, limit, n_cells, products, weights, links, first, dots, sums)
            if target >= 0:
                for r in range(n):
                    if labels[r] == c:
                        put(r, target, products, weights, labels, links, first, dots, sums)
    cells[:] = labels
