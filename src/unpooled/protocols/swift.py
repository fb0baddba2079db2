"""The rounds of :mod:`unpooled.protocols.dgc` for losses of the distance, compiled.

Labels are those of the plain way, centres too, up to rounding; rows that cannot have changed are
not looked at (:mod:`unpooled.kernels.clusters`). Where all users are in one block and nobody looks
at what they say in between, rounds follow each other without coming back to the interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.kernels import clusters, descent
from unpooled.losses import DistanceLoss, Euclidean, Fair, Huber, Logistic, Loss, SquaredEuclidean
from unpooled.protocols.mesh import Block, Heard
from unpooled.protocols.rounds import farthest, refuse_lost
from unpooled.tables import LARGEST
from unpooled.types import Body, FloatArray

_NUMBERS = 1 << 26
"""Of centres, in all rounds of a leap."""
_SHORT, _LONG = 8, 1024
"""Rounds of a leap, however many numbers that is."""


@dataclass(frozen=True)
class Kind:
    """A loss as compiled code knows it."""

    number: int
    bend: float
    reach: float
    """Up to where it is the square."""


def kind_of(loss: Loss) -> Kind | None:
    """How compiled code calls the loss; None if it does not know it."""
    if type(loss) is SquaredEuclidean:
        return Kind(clusters.KMEANS, np.inf, np.inf)
    if type(loss) is Huber:
        return Kind(clusters.HUBER, float(loss.delta), float(loss.delta))
    if type(loss) is Logistic:
        return Kind(clusters.LOGISTIC, 1.0, -1.0)
    if type(loss) is Fair:
        return Kind(clusters.FAIR, float(loss.c), -1.0)
    return None


class Swift:
    """The block's rows in their clusters, and its users' steps."""

    def __init__(
        self,
        block: Block,
        loss: DistanceLoss,
        kind: Kind,
        x: FloatArray,
        rho: float,
        alpha: FloatArray,
        *,
        by_cluster: bool,
        inner_steps: int,
    ) -> None:
        parties = block.parties
        self._block, self._metric, self._rho, self._by_cluster = block, loss.metric, rho, by_cluster
        self._euclidean = isinstance(loss.metric, Euclidean)
        self._flat = loss.metric.flattened
        # With several steps to a round, a row that is held may leave the square in between.
        reach = kind.reach if inner_steps == 1 or np.isinf(kind.reach) else -1.0
        self._kind = Kind(kind.number, kind.bend, reach)
        self._alpha: FloatArray = np.ascontiguousarray(alpha[:, 0, 0])
        self._s = clusters.clusters(
            self._flat(parties.rows), parties.weights, parties.offsets, x.shape[1]
        )
        self._seen = np.zeros_like(x)
        self._say: FloatArray = np.zeros((5, len(block)))
        self._one_step = inner_steps == 1

    @property
    def changed(self) -> FloatArray:
        """How many rows of each user changed cluster when they were last labelled."""
        return np.asarray(self._say[descent.CHANGED].astype(np.int64))

    def step(self, heard: Heard, y: FloatArray, *, label: bool) -> FloatArray:
        """Where a step from ``y`` leads, with what was heard; rows are labelled first, or not."""
        if label:
            z = self._flat(y)
            descent.follow(self._s, self._seen, z)
            self._seen = z
        how = self._slope(heard.links.indptr, heard.links.indices)
        if self._euclidean:
            new = np.empty_like(y)
            descent.exchange(self._s, heard.everyone("centers"), new, how, self._say, label)
            return new
        innovation = descent.innovate(self._s, self._flat(y), how, self._say, label)
        gradient = heard.disagreement("centers") + self._metric.unflattened(innovation) / self._rho
        step = self._alpha[:, None, None]
        if self._by_cluster:
            stiffness = self._s.sums[..., clusters.WEIGHT, None] / self._rho
            stiffness = stiffness + heard.degrees[:, None, None]
            step = np.divide(step, stiffness, out=np.zeros_like(stiffness), where=stiffness > 0)
        return y - step * gradient

    def _slope(self, first: np.ndarray, others: np.ndarray) -> descent.Slope:
        return descent.Slope(
            first.astype(np.int64),
            others.astype(np.int64),
            self._alpha,
            self._by_cluster,
            1.0 / self._rho,
            self._kind.number,
            self._kind.bend,
            self._kind.reach,
        )

    def note(self, x_before: FloatArray, x: FloatArray) -> Body:
        """What a round has come to: see :func:`unpooled.protocols.rounds.compare`."""
        refuse_lost(self._block, x)
        return {
            "cost": self._costs(x) / self._rho,
            "centers": x,
            "changed": self.changed,
            "movement": farthest(x - x_before),
        }

    def _costs(self, x: FloatArray) -> FloatArray:
        kind = self._kind
        return descent.costs(self._s, self._flat(x), kind.number, kind.bend, kind.reach)

    @property
    def may_leap(self) -> bool:
        """Whether rounds may follow each other without coming back."""
        graph = self._block.graph
        connected = graph.components.max(initial=0) == 0
        return bool(self._block.alone and self._one_step and self._euclidean and connected)

    def leap(
        self, x: FloatArray, rounds: int, rest: descent.Rest
    ) -> tuple[FloatArray, FloatArray, Body, int, bool]:
        """Up to so many rounds: the centres, those before the last step, what there is to note of
        the rounds, how many there were, and whether users are at rest."""
        block, graph = self._block, self._block.graph
        longest = min(_LONG, max(_SHORT, _NUMBERS // x.size))
        if rest.window:
            longest = rest.window * max(1, longest // rest.window)
        rounds = min(rounds, longest)
        descent.follow(self._s, self._seen, x)
        book, spread = np.zeros((rounds, 5, len(block))), np.zeros(rounds)
        links = block.neighbourhood.links
        here, there = x.copy(), np.empty_like(x)
        how = self._slope(links.indptr, links.indices)
        bound = LARGEST - np.abs(x).max()
        rounds, at_rest = descent.leap(self._s, here, there, how, rest, book, spread, bound)
        if rounds % 2:
            here, there = there, here
        self._seen = here
        refuse_lost(block, here)
        book, spread = book[:rounds], spread[:rounds]
        cost = book[:, descent.HELD_COST].copy()
        cost[:-1] += book[1:, descent.LOOSE_COST]  # known when rows are next looked at
        cost[-1] = self._costs(here)
        penalty = np.append(0.25 * book[1:, descent.APART].sum(axis=1), graph.disagreement(here))
        note = {
            "cost": cost / self._rho,
            "penalty": penalty,
            "consensus": spread,
            "changed": book[:, descent.CHANGED].astype(np.int64),
            "movement": book[:, descent.MOVED],
        }
        return here, there, note, rounds, at_rest
