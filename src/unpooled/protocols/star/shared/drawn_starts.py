"""Starting centres drawn as k-means++, at random or by a function of one's own, from sketches.

On one table such a start takes rows for centres, and asking parties for rows would give these away.
Here every party draws rows at home, by k-means++ or at random, hands each of its rows to the
nearest of them, and sends the mean and the number of rows of every such group, once: a sketch of
its table. The coordinator draws K of all parties' means, weighted by their counts, in the same way;
or a function is given these means in place of the rows and returns K centres. It does so as
often as starts are wanted, from one sketch.

Sent by a party: d + 1 numbers for each of at most 10 K groups.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.kernels.assignment.centers import label
from unpooled.kernels.lloyd.kmeans import Clustering, distinct_rows, means_of
from unpooled.kernels.lloyd.seeding import Seeding
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import AtMost, Release
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.protocols.star.shared.centroids import CENTROIDS_ASK, ask_for_centroids, release
from unpooled.types import Body, FloatArray, all_rows

NAMES = ("k-means++", "random")
DrawCenters: TypeAlias = Callable[[FloatArray, int, np.random.RandomState], FloatArray]
"""What makes ``n_clusters`` centres of rows, as scikit-learn's k-means calls it."""
_GROUPS = 10
"""Times K."""


@dataclass(frozen=True, eq=False)
class DrawnStarts(StarProtocol):
    """The protocol; ``draw`` is one of ``NAMES`` or a function that the coordinator calls."""

    n_clusters: int
    draw: str | DrawCenters
    n_starts: int = 1
    name: ClassVar[str] = "drawn starts"

    @property
    def releases(self) -> tuple[Release, ...]:
        why = "means and numbers of the rows nearest to drawn ones"
        return (release(_GROUPS * self.n_clusters, why, ("counts",), ("sums", "counts")),)

    @property
    def asks(self) -> tuple[Release, ...]:
        return (CENTROIDS_ASK,)

    @property
    def found(self) -> AtMost:
        """How many centres there may be."""
        return AtMost(self.n_clusters, "clusters")

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"centroids": self.sketch}

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        starts = yield from self.drawn(rng)
        return {"centers": starts[0]}

    def drawn(self, rng: np.random.Generator) -> Generator[Ask | Note, Any, list[FloatArray]]:
        """The starts, each of K centres or as many as parties' means differ."""
        reply = yield from ask_for_centroids()
        points, weights = reply["centroids"], reply["counts"]
        if isinstance(self.draw, str):
            return [
                _drawn(points, weights, self.n_clusters, self.draw, rng)
                for _ in range(self.n_starts)
            ]
        seeds = [int(rng.integers(2**31 - 1)) for _ in range(self.n_starts)]
        return [self.draw(points, self.n_clusters, np.random.RandomState(s)) for s in seeds]

    def sketch(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """The party's sketch."""
        how = self.draw if isinstance(self.draw, str) else NAMES[0]
        found = _sketch(data, _GROUPS * self.n_clusters, how, rng)
        return {"centroids": found.centers, "counts": found.counts}, {}


def _sketch(data: PartyData, n_groups: int, how: str, rng: np.random.Generator) -> Clustering:
    """Means and counts of the rows nearest to each of the rows drawn."""
    rows, there = all_rows(data.rows), data.weights > 0
    labels = np.full(len(rows), -1, dtype=np.int64)
    if there.any():
        seeds = _drawn(rows[there], data.weights[there], n_groups, how, rng)
        labels[there] = label(rows[there], seeds)
    return means_of(rows, data.weights, labels)


def _drawn(
    rows: FloatArray, weights: FloatArray, n_clusters: int, how: str, rng: np.random.Generator
) -> FloatArray:
    """``n_clusters`` of the rows, or all that are distinct if these are fewer."""
    few = distinct_rows(rows, n_clusters)
    if few is not None:
        return few[0]
    random_state = np.random.RandomState(int(rng.integers(2**31 - 1)))
    if how == "random":
        shares = weights / weights.sum()
        return rows[random_state.choice(len(rows), n_clusters, replace=False, p=shares)]
    middle = np.average(rows, axis=0, weights=weights)
    return Seeding(weights)(rows - middle, n_clusters, random_state) + middle
