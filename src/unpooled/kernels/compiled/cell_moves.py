"""Rows that move to other cells or change places, compiled.

The scatter of a cell with sum S = Σ w x and weight a is Σ w |x|² - |S|² / a, so a move takes as
much off the scatter of all cells as it adds to Σ |S|² / a. With the products x · y of all pairs of
rows, and x · S of every row and cell, that is a handful of operations for any move, however many
columns there are.

By turns each row makes the best of its moves: to another cell, if its own can spare it, or in
exchange for a row of another cell. Cells that have grown are cut in two. It ends when no move takes
anything off; that is a local optimum in which cells have as many rows as suits the data, from the
least number to about twice of it.
"""

from __future__ import annotations

import numpy as np

from unpooled.kernels.compiled._jit import inner, jit
from unpooled.kernels.compiled.cell_cuts import allowed, cut
from unpooled.kernels.compiled.cell_sums import products_of, put
from unpooled.kernels.compiled.distances import SingleArray
from unpooled.types import BoolArray, FloatArray, IntArray

_TOL = 1e-10
"""Of the mean |x|² of rows: what a move must take off."""
_MOST_TURNS = 30


@inner
def _count_in(i: int, weights: FloatArray, fresh: BoolArray, sums: FloatArray) -> None:
    """Adds a row to the sums by which a cell is allowed."""
    w = weights[i]
    sums[2] += w
    sums[3] = max(sums[3], w)
    if fresh[i]:
        sums[1] += w * w
        sums[0] += w


@inner
def _still_allowed(
    cell: int,
    out: int,
    into: int,
    first: IntArray,
    after: IntArray,
    weights: FloatArray,
    fresh: BoolArray,
    min_count: int,
) -> bool:
    """Whether a cell may lose the row ``out`` and gain the row ``into`` (-1: none)."""
    sums = np.zeros(4)
    i = first[cell]
    while i >= 0:
        if i != out:
            _count_in(i, weights, fresh, sums)
        i = after[i]
    if into >= 0:
        _count_in(into, weights, fresh, sums)
    return allowed(sums[0], sums[1], sums[2], sums[3], min_count)


@inner
def _best_transfer(
    r: int,
    n_cells: int,
    seen: int,
    best: float,
    changed: IntArray,
    products: FloatArray,
    weights: FloatArray,
    fresh: BoolArray,
    labels: IntArray,
    links: IntArray,
    first: IntArray,
    dots: FloatArray,
    sums: FloatArray,
    min_count: int,
    plain: bool,
) -> tuple[float, int]:
    """The cell to which the row moves with the most gain above ``best``, or -1."""
    a, w, target = labels[r], weights[r], -1
    after = links[0]
    if sums[2, a] <= min_count or not (
        plain or _still_allowed(a, r, -1, first, after, weights, fresh, min_count)
    ):
        return best, target
    own = w * w * products[r, r]
    lost = sums[0, a] / sums[1, a] - (sums[0, a] - 2 * w * dots[a, r] + own) / (sums[1, a] - w)
    for c in range(n_cells):
        if c != a and (changed[a] > seen or changed[c] > seen):
            gain = (sums[0, c] + 2 * w * dots[c, r] + own) / (sums[1, c] + w)
            gain -= sums[0, c] / sums[1, c] + lost
            if gain > best and (
                plain or _still_allowed(c, -1, r, first, after, weights, fresh, min_count)
            ):
                best, target = gain, c
    return best, target


@inner
def _best_exchange(
    r: int,
    n_cells: int,
    seen: int,
    best: float,
    changed: IntArray,
    products: FloatArray,
    weights: FloatArray,
    fresh: BoolArray,
    labels: IntArray,
    links: IntArray,
    first: IntArray,
    dots: FloatArray,
    sums: FloatArray,
    min_count: int,
    plain: bool,
) -> int:
    """The row to change places with for the most gain above ``best``, or -1."""
    a, w, partner, after = labels[r], weights[r], -1, links[0]
    own, of_row, of_cell = w * w * products[r, r], products[r], dots[a]
    norm, mass = sums[0, a] + own - 2 * w * dots[a, r], sums[1, a] - w
    for c in range(n_cells):
        if c == a or not (changed[a] > seen or changed[c] > seen):
            continue
        other, mass_c = sums[0, c] + own + 2 * w * dots[c, r], sums[1, c] + w
        now = sums[0, a] / sums[1, a] + sums[0, c] / sums[1, c]
        s = first[c]
        while s >= 0:
            v = weights[s]
            cross = v * v * products[s, s] - 2 * w * v * of_row[s]
            gain = (norm + cross + 2 * v * of_cell[s]) / (mass + v)
            gain += (other + cross - 2 * v * dots[c, s]) / (mass_c - v) - now
            if gain > best and (
                plain
                or (
                    _still_allowed(a, r, s, first, after, weights, fresh, min_count)
                    and _still_allowed(c, s, r, first, after, weights, fresh, min_count)
                )
            ):
                best, partner = gain, s
            s = after[s]
    return partner


@jit
def refine(
    rows: SingleArray,
    weights: FloatArray,
    fresh: BoolArray,
    cells: IntArray,
    n_cells: int,
    min_count: int,
    plain: bool,
) -> int:
    """Improves ``cells``, the cell of each row; returns how many there are then.

    Rows should be about their mean. ``plain`` says that all rows are fresh and of one weight, so
    that their number alone decides what is allowed.
    """
    n = len(rows)
    most = max(n_cells, n // min_count)
    products, tol = products_of(rows), 0.0
    labels, links, first = np.full(n, -1), np.full((2, n), -1), np.full(most, -1)
    dots, sums = np.zeros((most, n)), np.zeros((3, most))
    for r in range(n):
        put(r, cells[r], products, weights, labels, links, first, dots, sums)
        tol += _TOL * weights[r] * products[r, r] / n
    changed, visited, clock = np.ones(most, dtype=np.int64), np.zeros(n, dtype=np.int64), 1
    right, moved = np.empty(n, dtype=np.bool_), True
    for _ in range(_MOST_TURNS):
        if not moved:
            break
        moved = False
        for r in range(n):
            seen, visited[r], a = visited[r], clock, labels[r]
            best, target = _best_transfer(
                r, n_cells, seen, tol, changed, products, weights, fresh, labels, links,
                first, dots, sums, min_count, plain,
            )  # fmt: skip
            partner = _best_exchange(
                r, n_cells, seen, best, changed, products, weights, fresh, labels, links,
                first, dots, sums, min_count, plain,
            )  # fmt: skip
            if partner >= 0:
                target = labels[partner]
                put(partner, a, products, weights, labels, links, first, dots, sums)
            if target >= 0:
                put(r, target, products, weights, labels, links, first, dots, sums)
                clock, moved = clock + 1, True
                changed[a] = changed[target] = clock
        for c in range(n_cells):
            if sums[2, c] >= 2 * min_count and n_cells < most and changed[c] > 0:
                members = np.flatnonzero(labels == c)
                if cut(rows, weights, fresh, members, min_count, right) > tol:
                    clock, moved = clock + 1, True
                    changed[c] = changed[n_cells] = clock
                    for i in range(len(members)):
                        if right[i]:
                            r = members[i]
                            put(r, n_cells, products, weights, labels, links, first, dots, sums)
                    n_cells += 1
    cells[:] = labels
    return n_cells
