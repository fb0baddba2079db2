"""How few rows can be told apart from everything that has left.

A release of sums over groups of rows says which group each row is in, by ``behind``: one label
per row, -1 for a row that is in none. Rows that had the same labels in every release so far
cannot be told apart: call such a set an *atom*. Each sum that left is a sum over whole atoms, so
is every sum, difference or other linear combination of any number of them, and with the total of
all rows given too. If every atom has at least m rows, nothing that can be computed from the
releases in this way is about fewer than m rows. Pairs of rounds, unions of clusters, remainders
below a total are all covered, since they are linear combinations.

Rows carry weights, and a sum in which one row outweighs all others is a sum of one row. So sizes
are *effective*: (Σ w)² / Σ w², which is the number of rows where their weights are equal.
"""

from __future__ import annotations

import numpy as np

from unpooled.types import BoolArray, FloatArray, IntArray

ROUNDING = 1e-9
"""Effective sizes are compared with whole numbers up to this share."""

_AGREED = 2 / 3


def effective_sizes(labels: IntArray, weights: FloatArray, n_labels: int) -> FloatArray:
    """(Σ w)² / Σ w² over the rows of each label; 0 where there are none."""
    weights = weights / max(float(weights.max(initial=0.0)), np.finfo(float).tiny)
    first = np.bincount(labels, weights, n_labels)
    second = np.bincount(labels, weights**2, n_labels)
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

    def fewest(self, behind: IntArray) -> float:
        """The fewest rows that could be told apart if this left too."""
        atoms = self._atoms_after(behind)
        if atoms is self._atoms and not atoms.any():
            return np.inf  # nothing was said of any row, now or before
        sizes = effective_sizes(atoms, self._weights, int(atoms.max()) + 1)
        return float(sizes[sizes > 0].min(initial=np.inf))

    def record(self, behind: IntArray) -> None:
        """This has left."""
        self._atoms = self._atoms_after(behind)

    def _atoms_after(self, behind: IntArray) -> IntArray:
        if behind.shape != self._atoms.shape or behind.dtype.kind not in "iu":
            return np.arange(len(self._atoms))  # no label per row: anything may have been said
        if (behind < 0).all():
            return self._atoms
        return split_atoms(self._atoms, np.maximum(behind, -1))


def coarsened(
    atoms: IntArray | None, wanted: IntArray, weights: FloatArray, min_count: int
) -> tuple[IntArray, IntArray]:
    """Labels that may leave, as near as can be to those wanted, and the atoms they leave behind.

    Within each atom, the rows that want the same label form a cell. Cells that are large enough get
    what they want. The others of the atom are taken together: if they are enough, they get the
    label that two thirds of them want, or -1 (left out) if there is none; if they are too few,
    they go with the atom's largest cell. Where weights are so unlike that this does not make every
    cell large enough, the whole atom is taken together. An atom that is itself too small (a party
    with few rows) is left out.
    """
    atoms = np.zeros(len(wanted), dtype=np.int64) if atoms is None else atoms
    if min_count <= 1 or not len(wanted):
        return wanted, split_atoms(atoms, wanted)
    few = ~_enough_rows(split_atoms(atoms, wanted), weights, min_count)
    labels = wanted
    if few.any():
        together = _enough_rows(np.where(few, 2 * atoms, 2 * atoms + 1), weights, min_count)
        agreed = _agreed(atoms, wanted, np.where(few, weights, 0.0), at_least=_AGREED)
        largest = _agreed(atoms, wanted, weights, at_least=0.0)
        labels = np.where(few, np.where(together, agreed, largest), wanted)
        poor = ~_enough_rows(split_atoms(atoms, labels), weights, min_count)
        if poor.any():
            whole = _agreed(atoms, wanted, weights, at_least=_AGREED)
            whole = np.where(_enough_rows(atoms, weights, min_count), whole, -1)
            labels = np.where(np.isin(atoms, atoms[poor]), whole, labels)
    return labels, split_atoms(atoms, labels)


def _enough_rows(groups: IntArray, weights: FloatArray, min_count: int) -> BoolArray:
    """For every row, whether its group is large enough."""
    sizes = effective_sizes(groups, weights, int(groups.max(initial=-1)) + 1)
    return enough(sizes, min_count)[groups]


def _agreed(groups: IntArray, labels: IntArray, weights: FloatArray, at_least: float) -> IntArray:
    """For every row, the label that most of its group has, by weight (the lowest of equals).

    -1 if less than the share ``at_least`` has it.
    """
    cells = split_atoms(groups, labels)
    mass = np.bincount(cells, weights)
    order = np.lexsort((-labels, mass[cells], groups))
    n_groups = int(groups.max(initial=-1)) + 1
    first, share = np.zeros(n_groups, dtype=np.int64), np.zeros(n_groups)
    first[groups[order]] = labels[order]  # the last one written is the largest
    share[groups[order]] = mass[cells[order]]
    total = np.bincount(groups, weights, n_groups)
    return np.where(share >= at_least * total, first, -1)[groups]


def sendable(labels: IntArray, weights: FloatArray, n_clusters: int, min_count: int) -> IntArray:
    """The clusters that may leave in one release: those of at least ``min_count`` rows.

    What is suppressed must not be found by taking the rest from a total: where all suppressed rows
    together are too few, the smallest of the remaining clusters is suppressed with them.
    """
    kept = np.ones(n_clusters, dtype=bool)
    sizes = effective_sizes(np.maximum(labels, 0), np.where(labels < 0, 0, weights), n_clusters)
    kept &= enough(sizes, min_count)
    for cluster in np.argsort(sizes, kind="stable"):
        rest = np.where((labels < 0) | ~kept[labels], weights, 0.0)
        remainder = effective_sizes(np.zeros(len(rest), dtype=np.int64), rest, 1)
        if remainder[0] == 0 or enough(remainder, min_count)[0]:
            break
        kept[cluster] = False
    return np.flatnonzero(kept)
