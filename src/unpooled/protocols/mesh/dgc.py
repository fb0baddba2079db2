r"""Distributed gradient clustering (DGC-F; Armacki et al. 2024) over a graph of users.

Users i = 1..m on a connected graph with Laplacian L hold rows y_ir with weights w_ir. Each keeps K
centres x_i(k) of its own and lowers, together with the others,

    J_rho(x, C) = 1/rho sum_i sum_k sum_{r in C_i(k)} w_ir f(x_i(k), y_ir) + 1/2 <x, (L kron I) x>

The first term makes a user's centres fit its rows, the second makes neighbours agree. The larger
rho, the closer the agreement: users' centres differ by O(1/rho), and as rho grows they approach a
stationary point of clustering the pooled rows (for Bregman losses a Lloyd point).

One round:

  (a) each user assigns each of its rows to the nearest of its own centres;
  (b) B times: each user sends its centres to its neighbours, then steps

          x_i(k) <- x_i(k) - alpha (  sum_{j in N_i} (x_i(k) - x_j(k))                 consensus
                                    + 1/rho sum_{r in C_i(k)} w_ir grad f(x_i(k), y_ir) ) innovation

**Step size.** For fixed clusters J_rho is smooth with constant at most

    beta / rho + lambda_max(L),   beta = beta_f max_i sum_r w_ir,

with beta_f the smoothness of one term, so alpha = 1 / (beta/rho + lambda) never lets J_rho rise.
lambda_max(L) is at most lambda = max over edges (deg_i + deg_j) (Anderson & Morley 1985), which a
user knows for its own edges. The maxima over users are found by a max-consensus before the first
round. For Euclidean distances, and for Bregman losses that add up over columns, each new centre is
then a convex combination of centres and rows, column by column.

**Stopping.** Centres that agree move together. A round takes them about the share alpha W/rho of
the remaining distance, W being a user's weight: the *pace*. A round's movement over the pace
therefore estimates the remaining distance.

**Momentum.** For centres that agree, the plain steps above need about 1/q of them to shrink the
remaining distance by a fixed factor, with q = alpha W/rho falling as 1/rho. With
``solver="nesterov"`` the number grows as 1/sqrt(q) instead. The cost, its fixed points and the
messages stay the same. A user steps from a point y_i ahead of its centres; its rows are assigned to
y_i, and y_i is what it sends:

    x_i(k) <- y_i(k) - alpha g_i(k),   g_i(k) the gradient above, taken at y
    y_i(k) <- x_i(k) + (a_i(k) - 1)/a' v_i(k),   a' = (1 + sqrt(1 + 4 a_i(k)^2))/2,   a_i(k) <- a'

with v_i(k) the last move of x_i(k), and a_i(k) = 1 at first (Nesterov 1983). Where a centre has not
moved downhill, <g_i(k), v_i(k)> >= 0, its momentum restarts from a_i(k) = 1. This is the test of
O'Donoghue & Candes (2015), applied by each user to each of its centres, so that no message is
needed for it. A user that was down has v = 0 and restarts too.

Such centres oscillate: at the turning points they hardly move, and where they are fastest the
gradient nearly vanishes. The remaining distance is therefore estimated by both, as the energy of an
oscillator is: by the larger of alpha |g|/q and |v|/sqrt(q). The cost may rise for a few rounds.

**Special cases.** One party alone: gradient clustering of pooled rows. A graph without edges:
gradient clustering of every user by itself. In both, the centre of an empty cluster stays.

What leaves a user, and what can be read from it: see
:class:`unpooled.protocols.mesh.shared.rounds.CentersProtocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from unpooled.kernels.assignment.nearest import nearest
from unpooled.kernels.linalg.products import dots
from unpooled.kernels.linalg.segments import ClusterSums
from unpooled.losses import (
    DistanceLoss,
    Fair,
    Huber,
    Logistic,
    Loss,
    SquaredEuclidean,
)
from unpooled.messages.message import Note
from unpooled.protocols.mesh.base import Block, Heard, Peer
from unpooled.protocols.mesh.shared.domain import stay_inside
from unpooled.protocols.mesh.shared.global_bounds import (
    BOX,
    GlobalBounds,
    find_bounds,
    smoothness,
)
from unpooled.protocols.mesh.shared.rounds import CentersProtocol, farthest, round_summary
from unpooled.protocols.mesh.shared.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray

SOLVERS = ("plain", "nesterov")
COMPILED = (SquaredEuclidean, Huber, Logistic, Fair)
"""The losses that compiled code knows."""
WORTH_COMPILING = 1 << 30
"""Comparing so many numbers, over all rounds, takes NumPy some seconds. Compiled code is loaded in
less than one, once it has been compiled (:mod:`unpooled.kernels.compiled.ahead`)."""
_TYPICAL_WEIGHT = 100.0
"""A user's weight, where nobody asks for it."""
_HEAVIER = 16.0
"""How much heavier than itself a user takes the heaviest to be, before it knows."""


@dataclass(frozen=True, kw_only=True)
class DGC(CentersProtocol):
    """The parameters of the module's text; ``step_size=None`` takes the step derived there."""

    name = "dgc"
    by_cluster: ClassVar[bool] = False
    """Whether each cluster has a step of its own, which depends on its weight."""

    loss: Loss = field(default_factory=SquaredEuclidean)
    rho: float = 10.0
    inner_steps: int = 1
    step_size: float | None = None
    solver: str = "plain"

    @property
    def needed_bounds(self) -> tuple[str, ...]:
        auto, stops = self.step_size is None, self.tol > 0
        return (
            *(("weight",) if auto or stops else ()),
            *(("edge degree",) if auto else ()),
            *(BOX if auto and self.loss.needs_box else ()),
            *(("spread",) if stops else ()),
        )

    def peer(self, block: Block) -> Peer[Body]:
        """The algorithm as the users of one block run it."""
        parties = block.parties
        self._compile_ahead(block)
        x = yield from self.start.find(block, self.loss)
        bounds = yield from find_bounds(block, x, self.needed_bounds)
        alpha = self.alpha(block, bounds)
        pace = self.pace(block, alpha, bounds)
        stopping = Stopping(block, self.tol, bounds.get("spread", np.zeros(len(block))))
        weight = float(bounds["weight"].max()) if "weight" in bounds else _TYPICAL_WEIGHT
        if self._worth_compiling(block, weight) and isinstance(self.loss, DistanceLoss):
            momentum = Momentum(self.loss, bounds, x) if self.solver == "nesterov" else None
            return (yield from self._compiled_rounds(block, x, alpha, pace, stopping, momentum))
        labels: IntArray = np.full(len(parties.rows), -1)
        y, momentum = x, Momentum(self.loss, bounds, x) if self.solver == "nesterov" else None

        for t in range(self.max_rounds):
            x_before, labels_before = x, labels

            # (a) assignment to the nearest own centre
            labels = nearest(parties.rows, parties.owner, y, self.loss.dissimilarity)
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            # (b) consensus + innovation
            for b in range(self.inner_steps):
                heard = yield from stopping.exchange(t * self.inner_steps + b, y)
                innovation = clusters(self.loss.gradient(y[parties.owner, labels], parties.rows))
                gradient = heard.disagreement("centers") + innovation / self.rho
                moved = y - self.steps(alpha, clusters, heard) * gradient
                x_old, y_old = x, y
                y = x = stopping.move(x, stay_inside(self.loss, y, moved))
                if momentum:
                    y = momentum.extrapolate(x, x - x_old, gradient)

            note = round_summary(block, self.loss, (x_before, labels_before), (x, labels), self.rho)
            yield Note(t, note)
            distance = note["movement"] / pace
            if momentum:
                distance = momentum.remaining(x - y_old, x - x_old, pace / self.inner_steps)
            if stopping.end_round(distance, note["changed"]):
                break

        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def _worth_compiling(self, block: Block, weight: float) -> bool:
        """Whether compiled code saves time.

        It depends on what all users know, the plan and the largest weight, so all decide alike.
        """
        known = isinstance(self.loss, DistanceLoss) and type(self.loss) in COMPILED
        centers = block.graph.n_users * self.start.n_clusters * block.parties.rows.shape[1]
        rounds = self.max_rounds * self.inner_steps
        return known and centers * rounds * max(weight, 1.0) >= WORTH_COMPILING

    def _compile_ahead(self, block: Block) -> None:
        """Compiles what will be needed, if it is not yet, before neighbours wait for this user."""
        own = float(block.parties.total_weights.max())
        heavier = 1.0 if len(block) == block.graph.n_users else _HEAVIER
        if self._worth_compiling(block, heavier * own):
            from unpooled.kernels.compiled.ahead import compile_rounds

            compile_rounds()

    def _compiled_rounds(
        self,
        block: Block,
        x: FloatArray,
        alpha: FloatArray,
        pace: FloatArray,
        stopping: Stopping,
        momentum: Momentum | None,
    ) -> Peer[Body]:
        """The rounds by compiled code, many in one call where all users are here and unwatched."""
        from unpooled.kernels.compiled.rounds import StoppingRule
        from unpooled.protocols.mesh.shared.compiled_rounds import CompiledRounds, terms_of

        assert isinstance(self.loss, DistanceLoss)
        terms = terms_of(self.loss)
        assert terms is not None
        compiled = CompiledRounds(
            block,
            self.loss,
            terms,
            x,
            self.rho,
            alpha,
            by_cluster=self.by_cluster,
            inner_steps=self.inner_steps,
        )
        t, y = 0, x
        while t < self.max_rounds:
            if momentum is None and compiled.may_run_many_rounds and stopping.may_run_many_rounds:
                units = pace * stopping.scale if stopping.window else np.ones(len(block))
                residuals = np.array(stopping.largest_residuals)
                rule = StoppingRule(stopping.window, self.tol, units, residuals)
                x, sent, note, rounds, converged = compiled.run_rounds(x, self.max_rounds - t, rule)
                y = x
                yield stopping.post_of_many_rounds(t, sent, times=rounds)
                yield Note(t, note, times=rounds)
                t += rounds
                if stopping.end_many_rounds(rounds, converged, (rule.largest[0], rule.largest[1])):
                    break
                continue
            x_before = x
            for b in range(self.inner_steps):
                heard = yield from stopping.exchange(t * self.inner_steps + b, y)
                x_old, y_old = x, y
                new = compiled.step(heard, y, label=b == 0)
                y = x = stopping.move(x, new)
                if momentum:
                    y = momentum.extrapolate(x, x - x_old, y_old - new)
            note = compiled.note(x_before, x)
            yield Note(t, note)
            distance = note["movement"] / pace
            if momentum:
                distance = momentum.remaining(x - y_old, x - x_old, pace / self.inner_steps)
            t += 1
            if stopping.end_round(distance, note["changed"]):
                break
        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def alpha(self, block: Block, bounds: GlobalBounds) -> FloatArray:
        """alpha for each user; the same for all users that are linked, who know the same maxima."""
        if self.step_size is not None:
            return np.full((len(block), 1, 1), self.step_size)
        beta = smoothness(self.loss, bounds) * bounds["weight"]
        bound = beta / self.rho + bounds["edge degree"]
        # Without links and weight nothing moves, whatever the step.
        alpha = np.divide(1.0, bound, out=np.zeros_like(bound), where=bound > 0)
        return alpha[..., None]

    def steps(self, alpha: FloatArray, clusters: ClusterSums, heard: Heard) -> FloatArray:
        """The step of each user and cluster: alpha for all of them."""
        return alpha

    def pace(self, block: Block, alpha: FloatArray, bounds: GlobalBounds) -> FloatArray:
        """The share of the remaining distance that a round takes: min(1, B alpha W/rho).

        It is 1 for users without any weight.
        """
        if "weight" not in bounds:
            return np.ones(len(alpha))
        pace = self.inner_steps * alpha[:, 0, 0] * bounds["weight"][:, 0] / self.rho
        return np.where(pace > 0, np.minimum(pace, 1.0), 1.0)


class Momentum:
    """Nesterov's extrapolation: the points y ahead of the centres, restarted centre by centre."""

    def __init__(self, loss: Loss, bounds: GlobalBounds, x: FloatArray) -> None:
        self._loss = loss
        self._age: FloatArray = np.ones(x.shape[:2])
        """a_i(k)"""
        # Where alpha is derived from the loss's smoothness in a box, y must not leave the box.
        unbounded = np.full((len(x), 1), np.inf)
        high, minus_low = (bounds.get(side, unbounded)[:, None] for side in BOX)
        self._box = -minus_low, high

    def extrapolate(self, x: FloatArray, move: FloatArray, gradient: FloatArray) -> FloatArray:
        """y for centres ``x`` that made this ``move``; any multiple of the gradient will do."""
        age = np.where(dots(gradient, move) < 0, self._age, 1.0)
        self._age = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * age**2))
        y = x + ((age - 1.0) / self._age)[..., None] * move
        return stay_inside(self._loss, x, np.clip(y, *self._box))

    def remaining(self, step: FloatArray, move: FloatArray, q: FloatArray) -> FloatArray:
        """How far each user's centres have to go, after a gradient step alpha g and a move v."""
        return np.maximum(farthest(step) / q, farthest(move) / np.sqrt(q))
