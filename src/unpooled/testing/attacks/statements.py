"""What a listener makes of messages: points that may be rows, and sums with their counts.

Nothing here knows a method. Arrays as wide as the tables are points; those that come with counts
are sums over groups of rows, or means of them. In a plan that standardises, questions carry the
mean and the deviation of all, by which everything is put back into the columns' own units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from unpooled.protocols.prepare.standardise import MEAN, SCALE
from unpooled.testing.attacks.target import Said
from unpooled.types import Body, FloatArray

_MEANS = (
    ("centroids", "counts"),
    ("centers", "support"),
    ("mean", "weight"),
    ("points", "weights"),
    ("rows", "weights"),
    ("centers", "center_weights"),
)
"""Fields of means, with those that say what they are means of."""
_MOST_FOR_PAIRS = 25
"""Groups up to which every two of them are put together: all subsets would be too many."""
_MOST_GUESSED = 40
"""Counts that are tried out where none are sent."""


@dataclass(frozen=True)
class Groups:
    """Sums over groups of rows, and the weight of each."""

    sums: FloatArray
    counts: FloatArray

    @property
    def total(self) -> Groups:
        """All groups as one."""
        return Groups(self.sums.sum(axis=0, keepdims=True), self.counts.sum(keepdims=True))

    @property
    def means(self) -> FloatArray:
        """The mean of each group that has any weight."""
        some = np.abs(self.counts) > 1e-9
        return np.asarray(self.sums[some] / self.counts[some, None])

    def with_unions(self) -> Groups:
        """The groups, every two of them, all but one, and all."""
        k = len(self.sums)
        pairs = list(combinations(range(k), 2)) if k <= _MOST_FOR_PAIRS else []
        left, right = (np.array([pair[side] for pair in pairs], dtype=int) for side in (0, 1))
        s, n, all_of = self.sums, self.counts, self.total
        return Groups(
            np.vstack([s, s[left] + s[right], all_of.sums - s, all_of.sums]),
            np.concatenate([n, n[left] + n[right], all_of.counts - n, all_of.counts]),
        )


def joined(groups: Iterable[Groups], n_columns: int) -> Groups:
    """All of them, one after the other."""
    found = list(groups)
    none = Groups(np.empty((0, n_columns)), np.empty(0))
    return Groups(
        np.concatenate([one.sums for one in [none, *found]]),
        np.concatenate([one.counts for one in [none, *found]]),
    )


def points(said: Iterable[Said], n_columns: int) -> FloatArray:
    """Everything as wide as a row, as it was sent or as the mean of a sum."""
    found = [np.empty((0, n_columns))]
    for one in said:
        mean, scale = _units(one)
        found += [_array(one.body, name, n_columns) * scale + mean for name in one.body]
        group = groups_of(one, n_columns)
        if group is not None:
            found.append(group.means)
    return np.concatenate(found)


def groups_of(said: Said, n_columns: int) -> Groups | None:
    """The message as sums and counts; None if it has none."""
    group = _groups(said.body, n_columns)
    if group is None:
        return None
    mean, scale = _units(said)
    return Groups(group.sums * scale + group.counts[:, None] * mean, group.counts)


def all_groups(said: Iterable[Said], n_columns: int) -> Iterator[Groups]:
    """Of all messages that have any; where means come without counts, counts are tried out."""
    for one in said:
        group = groups_of(one, n_columns)
        if group is not None:
            yield group
        elif "centroids" in one.body:
            mean, scale = _units(one)
            centroids = _array(one.body, "centroids", n_columns) * scale + mean
            counts = np.repeat(np.arange(1.0, _MOST_GUESSED + 1), len(centroids))
            yield Groups(np.tile(centroids, (_MOST_GUESSED, 1)) * counts[:, None], counts)


def counted(said: Said) -> bool:
    """Whether the message says what its means are means of."""
    return "centroids" not in said.body or "counts" in said.body


def _groups(body: Body, n_columns: int) -> Groups | None:
    if "sums" in body:
        sums = np.atleast_2d(body["sums"])
        if sums.shape[1] == n_columns + 1:  # a peer's, with the weight as the last column
            return Groups(sums[:, :-1], sums[:, -1])
        for name in ("counts", "weight"):
            if name in body and sums.shape == (body[name].size, n_columns):
                return Groups(sums, body[name].reshape(-1))
        return None
    for means, counts in _MEANS:
        if means in body and counts in body:
            found, weights = _array(body, means, n_columns), body[counts].reshape(-1)
            if len(found) == len(weights):
                return Groups(found * weights[:, None], weights)
    return None


def _array(body: Body, name: str, n_columns: int) -> FloatArray:
    """The field's rows, if they are as wide as the tables' are."""
    value = np.atleast_1d(body[name])
    if value.shape[-1] != n_columns or value.dtype.kind != "f":
        return np.empty((0, n_columns))
    return np.asarray(value.reshape(-1, n_columns))


def _units(said: Said) -> tuple[FloatArray, FloatArray]:
    """What leads back to the columns' own units; also the origin that sums were asked about."""
    nothing, one = np.zeros(1), np.ones(1)
    if MEAN in said.question:
        return said.question[MEAN], said.question[SCALE]
    return said.question.get("origin", nothing), one
