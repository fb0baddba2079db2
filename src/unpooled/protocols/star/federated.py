"""Federated k-means: Lloyd's iteration on all parties' rows from sums and counts.

The centres of every round are those of Lloyd's iteration on the pooled rows from the same start
(:mod:`unpooled.protocols.star.shared.sums` is one round, and says what becomes of empty clusters).
It ends when no centre moves by more than ``tol`` times the root mean square distance of a row to
its centre, or after ``max_rounds``; with ``tol=0`` when nothing moves at all.

The start is :class:`unpooled.protocols.star.one_shot.OneShotKMeans`, or centres drawn from parties'
sketches (:mod:`unpooled.protocols.star.shared.drawn_starts`), neither of which sends a row, or
given centres. From several starts it is run one after the other, and the centres that cost least
are kept. Of a run's last centres c' it is known, without asking again, what rows would pay that
stayed in their clusters: Q_k - N_k |c'_k - c_k|² each; where a run has converged they all do.

Sent by a party: what the start sends, and K (d + 2) numbers a round.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unpooled.kernels.assignment.centers import movement
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import Release, Size
from unpooled.protocols.star.base import Coordinator, StarProtocol, Step
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.protocols.star.shared import sums
from unpooled.protocols.star.shared.centroids import refuse_no_replies
from unpooled.protocols.star.shared.drawn_starts import DrawnStarts
from unpooled.types import FloatArray, in_c_order


@dataclass(frozen=True)
class _Descent:
    """One run of Lloyd's iteration: where it ended."""

    centers: FloatArray
    cost: float
    rounds: int
    movement: float
    converged: bool


@dataclass(frozen=True, eq=False)
class FederatedKMeans(StarProtocol):
    """The protocol; ``start`` finds the first centres, or is them."""

    start: OneShotKMeans | DrawnStarts | FloatArray
    max_rounds: int = 100
    tol: float = 1e-4
    name: ClassVar[str] = "federated k-means"

    @property
    def releases(self) -> tuple[Release, ...]:
        start = self.start.releases if isinstance(self.start, StarProtocol) else ()
        return (*start, sums.release(self._clusters))

    @property
    def asks(self) -> tuple[Release, ...]:
        start = self.start.asks if isinstance(self.start, StarProtocol) else ()
        return (*start, sums.question(self._clusters))

    @property
    def _clusters(self) -> Size:
        return self.start.found if isinstance(self.start, StarProtocol) else len(self.start)

    @property
    def steps(self) -> Mapping[str, Step]:
        start = self.start.steps if isinstance(self.start, StarProtocol) else {}
        return {**start, "sums": sums.cluster_sums}

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        if isinstance(self.start, OneShotKMeans):
            starts = [(yield from self.start.one_shot(rng))["centers"]]
        elif isinstance(self.start, DrawnStarts):
            starts = yield from self.start.drawn(rng)
        else:
            starts = [in_c_order(self.start)]
        rounds, best = 0, None
        for centers in starts:
            run = yield from self._descent(centers, rounds)
            rounds += run.rounds
            if best is None or run.cost < best.cost:
                best = run
        assert best is not None  # there is always a start
        return {
            "centers": best.centers,
            "rounds": np.array(rounds),
            "iterations": np.array(best.rounds),
            "movement": np.array(best.movement),
            "converged": np.array(best.converged),
        }

    def _descent(self, centers: FloatArray, first: int) -> Generator[Ask | Note, Any, _Descent]:
        """Lloyd's iteration from these centres, its rounds counted from ``first``."""
        # Where empty clusters are put is drawn, but always alike: given centres have one outcome.
        directions = np.random.default_rng(len(centers))
        relocations = len(centers)  # of empty clusters; more would be going round in circles
        cost = moved = np.inf
        converged, number = False, 0
        while not converged and number < self.max_rounds:
            reply = yield Ask("sums", {"centers": centers}, first + number)
            total, counts, scatter = (reply[field] for field in sums.FIELDS)
            if not counts.any():  # no party has anything to say
                refuse_no_replies(number)
                number += 1
                break
            refill = directions if relocations > 0 else None
            fresh = sums.means(total, counts, scatter, centers, refill)
            relocations -= int((counts == 0).sum())
            moved = movement(centers, fresh)
            typical = float(np.sqrt(scatter.sum() / counts.sum()))
            note = {"cost": np.array(scatter.sum()), "movement": np.array(moved)}
            yield Note(first + number, note)
            cost = float((scatter - counts * np.square(fresh - centers).sum(axis=1)).sum())
            centers = fresh
            converged = moved <= self.tol * typical
            number += 1
        return _Descent(centers, cost, number, moved, converged)
