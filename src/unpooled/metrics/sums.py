"""Sums per cluster, added over parties: what the scores without classes are computed from.

In each pass every party works on its own rows, hands out sums per cluster only, and the sums are
added in party order:

1. weight W_k and sum of rows of each cluster k, hence the global mean m and a first centre g_k;
2. the sums of w z and w |z|² with z = x - g_k, taken after moving the origin to m. With
   δ_k = Σ w z / W_k the centre is c_k = g_k + δ_k and the scatter about it is
   S_k = Σ w |z|² - W_k |δ_k|². Sums about a point this near lose no digits, however far from
   zero the data lie;
3. where a score needs it, the sum of a quantity of each row that depends on W, c and S only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from unpooled.data.tables import Expected, read
from unpooled.errors import InputError
from unpooled.metrics.inputs import distinct_labels
from unpooled.types import FloatArray, IntArray, all_rows

_SAME_PLACE = 1e-13
"""Distances below this share of the data's radius are rounding, not distance."""


@dataclass(frozen=True)
class LabelledRows:
    """One party's own rows; ``codes`` numbers their clusters from 0 to n_clusters - 1."""

    rows: FloatArray
    codes: IntArray
    weights: FloatArray
    n_clusters: int

    @cached_property
    def membership(self) -> sp.csc_array:
        """The weight of each row (across) in each cluster (down)."""
        shape = self.n_clusters, len(self.rows)
        return sp.csc_array((self.weights, self.codes, np.arange(shape[1] + 1)), shape=shape)

    def per_cluster(self, values: FloatArray) -> FloatArray:
        """The weighted sum of ``values``, one per row, over the rows of each cluster."""
        return np.asarray(self.membership @ values)


@dataclass(frozen=True)
class ClusterMoments:
    """What the parties know together; centres and mean are relative to ``origin``."""

    origin: FloatArray
    weight: FloatArray
    center: FloatArray
    scatter: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Of all rows; not exactly 0, since ``origin`` was found by a less exact sum."""
        return np.asarray(np.sum(self.weight[:, None] * self.center, axis=0) / self.weight.sum())

    @property
    def negligible(self) -> float:
        """The squared distance below which rows and centres are at the same place."""
        moment = self.scatter + self.weight * np.sum(self.center**2, axis=1)
        return float(_SAME_PLACE**2 * moment.sum() / self.weight.sum())


def added_over_parties(
    parties: list[LabelledRows], sums: Callable[[LabelledRows], tuple[Any, ...]]
) -> tuple[Any, ...]:
    """One pass: every party's sums, added in party order."""
    totals = sums(parties[0])
    for party in parties[1:]:
        totals = tuple(total + part for total, part in zip(totals, sums(party), strict=True))
    return totals


def summarise(
    X: Any, labels: Any, groups: Any, sample_weight: Any
) -> tuple[list[LabelledRows], ClusterMoments]:
    """Passes 1 and 2."""
    parties = _labelled_rows(X, labels, groups, sample_weight)

    def plain(party: LabelledRows) -> tuple[FloatArray, FloatArray]:
        return party.per_cluster(np.ones(len(party.rows))), party.per_cluster(party.rows)

    weight, total = added_over_parties(parties, plain)
    if weight.sum() <= len(weight):
        raise InputError(
            f"The weights add up to {weight.sum():g} rows for {len(weight)} clusters: a score "
            "needs more rows than clusters, and weights count rows."
        )
    origin = total.sum(axis=0) / weight.sum()
    guess = total / weight[:, None] - origin

    def about_the_guess(party: LabelledRows) -> tuple[FloatArray, FloatArray]:
        z = party.rows - origin - guess[party.codes]
        return party.per_cluster(z), party.per_cluster(np.sum(z**2, axis=1))

    first, second = added_over_parties(parties, about_the_guess)
    shift = first / weight[:, None]
    scatter = np.maximum(second - weight * np.sum(shift**2, axis=1), 0.0)
    return parties, ClusterMoments(origin, weight, guess + shift, scatter)


def _labelled_rows(X: Any, labels: Any, groups: Any, sample_weight: Any) -> list[LabelledRows]:
    """Every party's rows with the numbers of their clusters, without the rows of weight 0."""
    table = read(X, groups, sample_weight, Expected("a score"))
    own = table.per_row(labels, "labels")
    there = table.parties.weights > 0
    names = distinct_labels(own[there])
    if len(names) < 2:
        raise InputError(f"labels name {len(names)} cluster(s): a score needs at least 2.")
    # Rows of weight 0 may have a label that no other row has: any code does for them.
    codes = np.searchsorted(names, np.where(there, own, names[0]))
    parties = []
    for party in range(len(table.parties)):
        span = slice(*table.parties.offsets[party : party + 2])
        kept = there[span]
        data = table.parties[party]
        parties.append(
            LabelledRows(
                all_rows(data.rows)[kept], codes[span][kept], data.weights[kept], len(names)
            )
        )
    return parties
