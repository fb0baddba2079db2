"""Sums of cells that follow the rows that move between them, compiled.

Of each cell with sum S = Σ w x there are, in ``sums`` (3, cells), |S|², the weight and the number
of rows; in ``dots`` (cells, n) the products x · S with every row; and the rows themselves, as a
list: ``first`` (cells,) and in ``links`` (2, n) the row after each and the row before it, -1 for
none.
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.compiled._jit import inner
from unpooled.kernels.compiled.distances import SingleArray
from unpooled.types import FloatArray, IntArray


@inner
def products_of(rows: SingleArray) -> FloatArray:
    """x · y for all pairs of rows, added up column by column."""
    n, d = rows.shape
    columns, products = np.empty((d, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(d):
            columns[j, i] = rows[i, j]
    for i in range(n):
        of_row = products[i]
        for j in range(d):
            x, column = columns[j, i], columns[j]
            if x != 0.0:
                for k in range(n):
                    of_row[k] += x * column[k]
    return products


@inner
def put(
    r: int,
    cell: int,
    products: FloatArray,
    weights: FloatArray,
    labels: IntArray,
    links: IntArray,
    first: IntArray,
    dots: FloatArray,
    sums: FloatArray,
) -> None:
    """Takes a row out of its cell and into another (-1: none)."""
    for turn in range(2):
        c, w = (labels[r], -weights[r]) if turn == 0 else (cell, weights[r])
        if c < 0:
            continue
        sums[0, c] += 2 * w * dots[c, r] + w * w * products[r, r]
        sums[1, c] += w
        sums[2, c] += 1 if turn else -1
        of_row, of_cell = products[r], dots[c]
        for i in range(len(of_row)):
            of_cell[i] += w * of_row[i]
        if turn == 0:
            before, after = links[1, r], links[0, r]
            if before >= 0:
                links[0, before] = after
            else:
                first[c] = after
            if after >= 0:
                links[1, after] = before
        else:
            links[0, r], links[1, r] = first[c], -1
            if first[c] >= 0:
                links[1, first[c]] = r
            first[c] = r
    labels[r] = cell
