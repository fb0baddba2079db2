"""The rounds of :mod:`unpooled.protocols.mesh.dgc` in compiled code, for losses of the distance.

Labels are those of the plain code, and so are centres, up to rounding; rows whose label cannot have
changed are skipped (:mod:`unpooled.kernels.compiled.bounds`). Where all users are in one block and
nobody watches the messages between them, many rounds are run in one call.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unpooled.data.tables import LARGEST
from unpooled.kernels.compiled import rounds as compiled
from unpooled.kernels.compiled.clusters import MASS, empty_clusters
from unpooled.kernels.compiled.columns import advance_columns
from unpooled.kernels.compiled.costs import costs
from unpooled.kernels.compiled.loss_terms import (
    FAIR,
    HUBER,
    KMEANS,
    LOGISTIC,
    SATURATED,
    LossTerms,
)
from unpooled.kernels.compiled.reduced import reduce_coordinates, worth_reducing
from unpooled.kernels.compiled.rounds import StoppingRule
from unpooled.kernels.compiled.steps import StepRule, step_rule
from unpooled.losses import DistanceLoss, Euclidean, Fair, Huber, Logistic, Loss, SquaredEuclidean
from unpooled.protocols.mesh.base import Block, Heard
from unpooled.protocols.mesh.shared.rounds import farthest, refuse_lost
from unpooled.types import Body, FloatArray, IntArray

_TIE = 2.0**-44
"""Of the largest coordinate: more than the rounding error of a distance in other coordinates."""
_LONGEST_RUN = 1024
"""Rounds in one call, at most."""


def terms_of(loss: Loss) -> LossTerms | None:
    """The loss as compiled code knows it; None if it does not."""
    if type(loss) is SquaredEuclidean:
        return LossTerms(KMEANS, np.inf, np.inf)
    if type(loss) is Huber:
        return LossTerms(HUBER, float(loss.delta), float(loss.delta))
    if type(loss) is Logistic:
        return LossTerms(LOGISTIC, 1.0, SATURATED)
    if type(loss) is Fair:
        return LossTerms(FAIR, float(loss.c), -1.0)
    return None


def _without_sums(terms: LossTerms) -> LossTerms:
    """The loss with no row in the sums, except for k-means, which has all rows there."""
    return terms._replace(reach=np.inf if terms.kind == LOGISTIC else -1.0)


class CompiledRounds:
    """The clusters of the block's rows, and its users' steps."""

    def __init__(
        self,
        block: Block,
        loss: DistanceLoss,
        terms: LossTerms,
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
        # In the coordinates of a flattened metric, distances are Euclidean.
        self._flat = loss.metric.flattened
        # Rows are put in the sums when they are labelled, once a round. In a later step of the same
        # round a row may be where the loss is no longer a square.
        self._terms = terms if inner_steps == 1 else _without_sums(terms)
        self._alpha: FloatArray = np.ascontiguousarray(alpha[:, 0, 0])
        # Distances that are equal may differ by rounding in other coordinates.
        tie = 0.0 if self._euclidean else _TIE
        rows = self._flat(parties.rows)
        self._state = empty_clusters(rows, parties.weights, parties.offsets, x.shape[1], tie)
        self._drifted_to = np.zeros_like(x)
        """The centres up to which drifts have been counted."""
        self._unchecked = False
        """Whether no row need be checked for many rounds."""
        self._changed: FloatArray = np.zeros(len(block))
        self._one_step = inner_steps == 1

    @property
    def changed(self) -> IntArray:
        """How many rows of each user changed cluster when they were last labelled."""
        return self._changed.astype(np.int64)

    def step(self, heard: Heard, y: FloatArray, *, label: bool) -> FloatArray:
        """Where a step from ``y`` leads, given what was heard; with ``label`` rows are labelled
        first."""
        if label:
            z = self._flat(y)
            compiled.add_drift(self._state, self._drifted_to, z)
            self._drifted_to = z
        new = np.empty_like(y)
        if self._euclidean:
            rule = self._rule(heard.links)
            everyone = heard.everyone("centers")
            changed = compiled.exchange(self._state, everyone, new, rule, label)
        else:
            rule = self._rule(heard.links, pull_only=True)
            changed = compiled.exchange(self._state, self._flat(y), new, rule, label)
            pull = self._metric.unflattened(new)
            mass = self._state.sums[:, : y.shape[1], MASS]
            gradient = heard.disagreement("centers") + pull / self._rho
            new = y - rule.lengths(mass)[..., None] * gradient
        if label:
            self._changed = changed
        return new

    def _rule(self, links: sp.csr_array, *, pull_only: bool = False) -> StepRule:
        return step_rule(
            links.indptr,
            links.indices,
            self._alpha,
            self._rho,
            self._terms,
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
        return costs(self._state, self._flat(x), self._rule(self._block.neighbourhood.links))

    @property
    def may_run_many_rounds(self) -> bool:
        """Whether many rounds may be run in one call."""
        graph = self._block.graph
        connected = graph.components.max(initial=0) == 0
        return bool(self._block.alone and self._one_step and self._euclidean and connected)

    def run_rounds(
        self, x: FloatArray, rounds: int, stop: StoppingRule
    ) -> tuple[FloatArray, FloatArray, Body, int, bool]:
        """Up to so many rounds: the centres, those before the last step, what there is to note of
        the rounds, how many there were, and whether users have converged."""
        block, graph = self._block, self._block.graph
        # Whole windows, so that the next call begins with one.
        most = _LONGEST_RUN
        if stop.window:
            most = stop.window * max(1, _LONGEST_RUN // stop.window)
        if x is not self._drifted_to:
            compiled.add_drift(self._state, self._drifted_to, x)
        history: FloatArray = np.zeros((min(rounds, most), 5))
        bound = LARGEST - max(x.max(), -x.min())
        x, sent, rounds, converged = self._run(x, stop, history, bound)
        self._drifted_to = x
        refuse_lost(block, x)
        changed, moved, cost, apart, spread = history[:rounds].T
        # A round is noted with the cost and the disagreement after its step, which the history has
        # in the line of the next round. No round follows the last one, so its are found here.
        cost = np.append(cost[1:], self._costs(x).sum())
        penalty = np.append(0.25 * apart[1:], graph.disagreement(x))
        note = {
            "cost": cost / self._rho,
            "penalty": penalty,
            "consensus": spread,
            "changed": changed.astype(np.int64),
            "movement": moved,
        }
        return x, sent, note, rounds, converged

    def _run(
        self, x: FloatArray, stop: StoppingRule, history: FloatArray, bound: float
    ) -> tuple[FloatArray, FloatArray, int, bool]:
        """The rounds of `run_rounds`; while no row need be checked, in fewer coordinates first."""
        rule = self._rule(self._block.neighbourhood.links)
        done, sent, may_reduce = 0, x, worth_reducing(x)
        while True:
            begun = done
            if may_reduce and self._unchecked:
                part = reduce_coordinates(self._state, x, rule)
                done, end = compiled.run_rounds(
                    part.state, part.z, np.empty_like(part.z), rule, stop, history, begun, bound,
                    slack=part.slack,
                )  # fmt: skip
                if done > begun:
                    sent, x = advance_columns(self._state, x, rule, done - begun)
            else:
                here, there = x.copy(), np.empty_like(x)
                done, end = compiled.run_rounds(
                    self._state, here, there, rule, stop, history, begun, bound,
                    may_reduce=may_reduce,
                )  # fmt: skip
                x, sent = (there, here) if (done - begun) % 2 else (here, there)
            if end != compiled.HISTORY_FULL:
                self._unchecked = end == compiled.CAN_REDUCE
            if end not in (compiled.CAN_REDUCE, compiled.ROWS_TO_CHECK) or done == len(history):
                return x, sent, done, end == compiled.CONVERGED
