"""How few rows can be distinguished from everything that has left.

A release of sums over groups of rows says which group each row is in, by ``row_groups``: one label
per row, -1 for a row that is in none. Rows that had the same labels in every release so far cannot
be distinguished: call such a set an *atom*. Each sum that left is a sum over whole atoms, so is
every sum, difference or other linear combination of any number of them, and with the total of all
rows given too. If every atom has at least m rows, nothing that can be computed from the releases in
this way is about fewer than m rows. Pairs of rounds, unions of clusters, remainders below a total
are all covered, since they are linear combinations.

Rows carry weights, and a sum in which one row outweighs all others is a sum of one row. So sizes
are *effective*: (Σ w)² / Σ w², which is the number of rows where their weights are equal.

What this does not cover: that an atom was split is itself a fact about its rows. A coordinator that
chooses its questions to that end, and asks thousands of them, can narrow down where the m-th row of
an atom lies in one direction, about as finely as one over the number of its questions. Caps on
rounds are there for that.
"""

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


def split_atoms(atoms: IntArray, labels: IntArray) -> IntArray:
    """The atoms once these labels are known too, numbered from 0."""
    span = int(labels.max(initial=-1)) + 2
    return np.asarray(np.unique(atoms * span + labels + 1, return_inverse=True)[1])


class Audit:
    """What one party has let out so far, as far as it tells rows apart."""

    def __init__(self, weights: FloatArray) -> None:
        self._weights = weights
        self._atoms = np.zeros(len(weights), dtype=np.int64)
        self._recorded: list[IntArray] = []
        """What has left since the atoms were last worked out: not before somebody asks."""
        self._split_by: IntArray | None = None
        """The labels that split atoms last: the same ones again split nothing."""

    @property
    def atoms(self) -> IntArray:
        """The atom of every row after all that has left."""
        for earlier in self._recorded:
            if self._split_by is None or not np.array_equal(earlier, self._split_by):
                self._atoms = self._atoms_after(earlier)
                self._split_by = earlier
        self._recorded = []
        return self._atoms

    @atoms.setter
    def atoms(self, known: IntArray) -> None:
        self._atoms, self._recorded, self._split_by = known, [], None

    def smallest_group(self, row_groups: IntArray) -> float:
        """The smallest number of rows that could be distinguished if this left too."""
        known = self.atoms
        atoms = self._atoms_after(row_groups)
        if atoms is known and not atoms.any():
            return np.inf  # nothing was said of any row, now or before
        sizes = effective_sizes(atoms, self._weights, int(atoms.max()) + 1)
        return float(sizes[sizes > 0].min(initial=np.inf))

    def record(self, row_groups: IntArray) -> None:
        """This has left."""
        self._recorded.append(row_groups)

    def _atoms_after(self, row_groups: IntArray) -> IntArray:
        labels = np.asarray(row_groups)
        if labels.shape != self._atoms.shape or labels.dtype.kind != "i" or (labels < -1).any():
            return np.arange(len(self._atoms))  # no label per row: anything may have been said
        return self._atoms if (labels == -1).all() else split_atoms(self._atoms, labels)


def coarsened(
    atoms: IntArray, wanted: IntArray, together: IntArray, weights: FloatArray, min_count: int
) -> IntArray:
    """Labels that may leave, as near as can be to those wanted.

    Within each atom, the rows that want the same label form a cell. An atom is split if this makes
    at least two groups that are large enough: each large cell is one, and the small cells together
    are another. That one is left out (-1), or, if it is too small, goes with the largest cell. An
    atom that cannot be split gets the label ``together``, which must not depend on more of its rows
    than is known already: a choice by majority, say, would tell where the median row is. What is
    left out once (``together`` is -1) stays out.
    """
    if not len(wanted):
        return wanted
    cells = split_atoms(atoms, wanted)
    large = _enough_rows(cells, weights, min_count)
    rest = _enough_rows(np.where(large, 2 * atoms, 2 * atoms + 1), weights, min_count) & ~large
    groups = np.unique(np.stack([atoms[large], cells[large]]), axis=1)[0]
    n_groups = np.bincount(groups, minlength=int(atoms.max()) + 1)[atoms]
    n_groups += np.isin(atoms, atoms[rest])
    splits = (n_groups >= 2) & (together >= 0)
    with_rest = np.where(rest, -1, _of_largest_cell(atoms, cells, weights, wanted))
    labels = np.where(splits, np.where(large, wanted, with_rest), together)
    # Weights so unlike that a cell is too small with others added to it: such an atom stays whole.
    poor = ~_enough_rows(split_atoms(atoms, labels), weights, min_count)
    return np.where(np.isin(atoms, atoms[poor]), together, labels)


def _enough_rows(groups: IntArray, weights: FloatArray, min_count: int) -> BoolArray:
    """For every row, whether its group is large enough."""
    sizes = effective_sizes(groups, weights, int(groups.max(initial=-1)) + 1)
    return enough(sizes, min_count)[groups]


def _of_largest_cell(
    atoms: IntArray, cells: IntArray, weights: FloatArray, labels: IntArray
) -> IntArray:
    """For every row, the label of the cell of most weight in its atom (the lowest of equals)."""
    mass = np.bincount(cells, weights)
    order = np.lexsort((-labels, mass[cells], atoms))
    first = np.zeros(int(atoms.max()) + 1, dtype=np.int64)
    first[atoms[order]] = labels[order]  # the last one written is the largest
    return first[atoms]


def enough_rows(weights: FloatArray, min_count: int) -> bool:
    """Whether all rows together are enough to speak of."""
    return bool(_enough_rows(np.zeros(len(weights), dtype=np.int64), weights, min_count).any())


def room(n_rows: int, min_count: int) -> int:
    """As many clusters as leave each of them twice the rows that it must have."""
    return n_rows // (2 * min_count) if min_count > 1 else n_rows


def sendable(labels: IntArray, weights: FloatArray, n_clusters: int, min_count: int) -> IntArray:
    """The clusters that may leave in one release: those of at least ``min_count`` rows.

    What is suppressed must not be found by taking the rest from a total: where all suppressed rows
    together are too few, the smallest of the remaining clusters is suppressed with them.
    """
    if min_count <= 1:
        return np.arange(n_clusters)
    sizes = effective_sizes(np.maximum(labels, 0), np.where(labels < 0, 0, weights), n_clusters)
    kept = enough(sizes, min_count)
    for cluster in np.argsort(sizes, kind="stable"):
        rest = np.where((labels < 0) | ~kept[labels], weights, 0.0)
        remainder = effective_sizes(np.zeros(len(rest), dtype=np.int64), rest, 1)
        if remainder[0] == 0 or enough(remainder, min_count)[0]:
            break
        kept[cluster] = False
    return np.flatnonzero(kept)
