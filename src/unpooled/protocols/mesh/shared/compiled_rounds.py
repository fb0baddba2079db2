"""The rounds of :mod:`unpooled.protocols.mesh.dgc` for losses of the distance, compiled.

Labels are those of the plain way, centres too, up to rounding; rows that cannot have changed are
not looked at (:mod:`unpooled.kernels.compiled.clusters`). Where all users are in one block and
nobody looks at what they say in between, rounds follow each other without coming back to the
interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unpooled.data.tables import LARGEST
from unpooled.kernels.compiled import clusters, descent
from unpooled.kernels.compiled.folding import fold, worth_folding
from unpooled.losses import DistanceLoss, Euclidean, Fair, Huber, Logistic, Loss, SquaredEuclidean
from unpooled.protocols.mesh.base import Block, Heard
from unpooled.protocols.mesh.shared.rounds import farthest, refuse_lost
from unpooled.types import Body, FloatArray, IntArray

_TIE = 2.0**-44
"""Of the largest coordinate: more than what rounding does to a distance in other coordinates."""
_LONG = 1024
"""Rounds of a leap, at most."""


@dataclass(frozen=True)
class Kind:
    """A loss as compiled code knows it."""

    number: int
    bend: float
    reach: float
    """Up to where it is the square; the logistic loss is twice that from there on."""
    none: float = -1.0
    """The reach by which it would be so nowhere."""


def kind_of(loss: Loss) -> Kind | None:
    """How compiled code calls the loss; None if it does not know it."""
    if type(loss) is SquaredEuclidean:
        return Kind(clusters.KMEANS, np.inf, np.inf)
    if type(loss) is Huber:
        return Kind(clusters.HUBER, float(loss.delta), float(loss.delta))
    if type(loss) is Logistic:
        return Kind(clusters.LOGISTIC, 1.0, clusters.SATURATED, np.inf)
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
        self._kind = kind if inner_steps == 1 else replace(kind, reach=kind.none)
        self._alpha: FloatArray = np.ascontiguousarray(alpha[:, 0, 0])
        rows = self._flat(parties.rows)
        # Differences that are equal but for their sign differ by rounding in other coordinates.
        tie = 0.0 if self._euclidean else _TIE
        self._s = clusters.clusters(rows, parties.weights, parties.offsets, x.shape[1], tie)
        self._seen = np.zeros_like(x)
        self._calm = False
        """Whether it will be a good while until a row is due."""
        self._changed: FloatArray = np.zeros(len(block))
        self._one_step = inner_steps == 1

    @property
    def changed(self) -> IntArray:
        """How many rows of each user changed cluster when they were last labelled."""
        return self._changed.astype(np.int64)

    def step(self, heard: Heard, y: FloatArray, *, label: bool) -> FloatArray:
        """Where a step from ``y`` leads, with what was heard; rows are labelled first, or not."""
        if label:
            z = self._flat(y)
            descent.follow(self._s, self._seen, z)
            self._seen = z
        new = np.empty_like(y)
        if self._euclidean:
            how = self._slope(heard.links)
            changed = descent.exchange(self._s, heard.everyone("centers"), new, how, label)
        else:
            how = self._slope(heard.links, pull_only=True)
            changed = descent.exchange(self._s, self._flat(y), new, how, label)
            pull = self._metric.unflattened(new)
            mass = self._s.sums[:, : y.shape[1], clusters.MASS]
            gradient = heard.disagreement("centers") + pull / self._rho
            new = y - how.lengths(mass)[..., None] * gradient
        if label:
            self._changed = changed
        return new

    def _slope(self, links: sp.csr_array, *, pull_only: bool = False) -> descent.Slope:
        loss = (self._kind.number, self._kind.bend, self._kind.reach)
        return descent.slope(
            links.indptr,
            links.indices,
            self._alpha,
            self._rho,
            loss,
            by_cluster=self._by_cluster,
            pull_only=pull_only,
        )

    def note(self, x_before: FloatArray, x: FloatArray) -> Body:
        """What a round has come to: see :func:`unpooled.protocols.mesh.shared.rounds.compare`."""
        refuse_lost(self._block, x)
        return {
            "cost": self._costs(x) / self._rho,
            "centers": x,
            "changed": self.changed,
            "movement": farthest(x - x_before),
        }

    def _costs(self, x: FloatArray) -> FloatArray:
        return descent.costs(self._s, self._flat(x), self._slope(self._block.neighbourhood.links))

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
        longest = rest.window * max(1, _LONG // rest.window) if rest.window else _LONG
        if x is not self._seen:
            descent.follow(self._s, self._seen, x)
        book: FloatArray = np.zeros((min(rounds, longest), 5))
        bound = LARGEST - max(x.max(), -x.min())
        x, sent, rounds, at_rest = self._run(x, rest, book, bound)
        self._seen = x
        refuse_lost(block, x)
        changed, moved, cost, apart, spread = book[:rounds].T
        # What the last step has come to is found here, since no exchange follows it.
        cost = np.append(cost[1:], self._costs(x).sum())
        penalty = np.append(0.25 * apart[1:], graph.disagreement(x))
        note = {
            "cost": cost / self._rho,
            "penalty": penalty,
            "consensus": spread,
            "changed": changed.astype(np.int64),
            "movement": moved,
        }
        return x, sent, note, rounds, at_rest

    def _run(
        self,
        x: FloatArray,
        rest: descent.Rest,
        book: FloatArray,
        bound: float,
    ) -> tuple[FloatArray, FloatArray, int, bool]:
        """The rounds of `leap`; while no row is due, they are found in fewer coordinates first."""
        how = self._slope(self._block.neighbourhood.links)
        done, sent, folds = 0, x, worth_folding(x)
        while True:
            begun = done
            if folds and self._calm:
                part = fold(self._s, x, how)
                done, end = descent.leap(
                    part.state, part.z, np.empty_like(part.z), how, rest, book, begun, bound,
                    slack=part.slack,
                )  # fmt: skip
                if done > begun:
                    sent, x = descent.drift(self._s, x, how, done - begun)
            else:
                here, there = x.copy(), np.empty_like(x)
                done, end = descent.leap(
                    self._s, here, there, how, rest, book, begun, bound, may_fold=folds
                )
                x, sent = (there, here) if (done - begun) % 2 else (here, there)
            if end != descent.RAN_ON:
                self._calm = end == descent.CALM
            if end not in (descent.CALM, descent.ROWS_DUE) or done == len(book):
                return x, sent, done, end == descent.AT_REST
