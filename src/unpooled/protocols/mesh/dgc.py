r"""Distributed gradient clustering over a graph of users (DGC-F; Armacki et al. 2024).

Users i = 1..m on a connected graph with Laplacian L hold rows y_ir with weights w_ir. Each keeps
K centres x_i(k) of its own and lowers, together with the others,

    J_rho(x, C) = 1/rho sum_i sum_k sum_{r in C_i(k)} w_ir f(x_i(k), y_ir) + 1/2 <x, (L kron I) x>

The first part makes a user's centres fit its rows, the second makes neighbours agree; the larger
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
round. For Euclidean distances, and for Bregman losses that add up over columns, each new centre
is then a convex combination of centres and rows, column by column.

**Stopping.** Centres that agree move together by about alpha W/rho of the way to where they are
going, W being a user's weight: that is the pace by which a round's movement is divided to tell how
far there is to go.

**Momentum.** For centres that agree, the plain steps above need about 1/q of them for a fixed
factor, q = alpha W/rho falling as 1/rho. With ``solver="nesterov"`` the number grows as 1/sqrt(q)
instead. The cost, its fixed points and the messages stay; a user steps from a point y_i ahead of
its centres, to which its rows are assigned and which is what it sends:

    x_i(k) <- y_i(k) - alpha g_i(k),   g_i(k) the gradient above, taken at y
    y_i(k) <- x_i(k) + (a_i(k) - 1)/a' v_i(k),   a' = (1 + sqrt(1 + 4 a_i(k)^2))/2,   a_i(k) <- a'

with v_i(k) the way that x_i(k) has just come and a_i(k) = 1 at first (Nesterov 1983). Where a
centre has not come downhill, <g_i(k), v_i(k)> >= 0, its momentum starts again from a_i(k) = 1:
the test of O'Donoghue & Candes (2015), applied by each user to each of its centres, so that
nothing about it has to be told to anybody. A user that was asleep has v = 0 and starts again too.

Such centres swing: where they turn they hardly move, and where they are fastest the gradient is
nearly nothing. How far there is to go is therefore told from both, as energy is: it is the larger
of what the gradient says, alpha |g|/q, and what the speed says, |v|/sqrt(q). The cost may rise
for a few rounds.

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
from unpooled.protocols.mesh.shared.global_bounds import BOX, Limits, find_limits, smoothness
from unpooled.protocols.mesh.shared.rounds import CentersProtocol, compare, farthest
from unpooled.protocols.mesh.shared.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray

SOLVERS = ("plain", "nesterov")
COMPILED = (SquaredEuclidean, Huber, Logistic, Fair)
"""The losses that compiled code knows."""
WORTH_COMPILING = 1 << 30
"""So many numbers to be compared, over all rounds, take the plain way some seconds; compiled code
is loaded in less than one, once it has been compiled (:mod:`unpooled.kernels.compiled.ahead`)."""
_USUAL = 100.0
"""A user's weight, where nobody asks for it."""
_OTHERS = 16.0
"""How much heavier others may well be than oneself."""


@dataclass(frozen=True, kw_only=True)
class DGC(CentersProtocol):
    """The parameters, as in the module's text; ``step_size=None`` is the bound derived there."""

    name = "dgc"
    by_cluster: ClassVar[bool] = False
    """Whether steps go by the weight of clusters."""

    loss: Loss = field(default_factory=SquaredEuclidean)
    rho: float = 10.0
    inner_steps: int = 1
    step_size: float | None = None
    solver: str = "plain"

    @property
    def wanted(self) -> tuple[str, ...]:
        auto, stops = self.step_size is None, self.tol > 0
        return (
            *(("weight",) if auto or stops else ()),
            *(("edge degree",) if auto else ()),
            *(BOX if auto and self.loss.needs_box else ()),
            *(("spread",) if stops else ()),
        )

    def peer(self, block: Block) -> Peer[Body]:
        """One block's part of the algorithm."""
        parties = block.parties
        self._compile_ahead(block)
        x = yield from self.start.centers(block, self.loss)
        limits = yield from find_limits(block, x, self.wanted)
        alpha = self.alpha(block, limits)
        pace = self.pace(block, alpha, limits)
        stopping = Stopping(block, self.tol, limits.get("spread", np.zeros(len(block))))
        weight = float(limits["weight"].max()) if "weight" in limits else _USUAL
        if self._worth_compiling(block, weight) and isinstance(self.loss, DistanceLoss):
            momentum = Momentum(self.loss, limits, x) if self.solver == "nesterov" else None
            return (yield from self._swiftly(block, x, alpha, pace, stopping, momentum))
        labels: IntArray = np.full(len(parties.rows), -1)
        y, momentum = x, Momentum(self.loss, limits, x) if self.solver == "nesterov" else None

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
                    y = momentum.ahead(x, x - x_old, gradient)

            note = compare(block, self.loss, (x_before, labels_before), (x, labels), self.rho)
            yield Note(t, note)
            distance = note["movement"] / pace
            if momentum:
                q = pace / self.inner_steps
                distance = np.maximum(farthest(x - y_old) / q, farthest(x - x_old) / np.sqrt(q))
            if stopping.end_round(distance, note["changed"]):
                break

        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def _worth_compiling(self, block: Block, weight: float) -> bool:
        """Whether there is so much to do that compiled code pays, by what all users know: from the
        plan, and the largest weight of a user."""
        known = isinstance(self.loss, DistanceLoss) and type(self.loss) in COMPILED
        centers = block.graph.n_users * self.start.n_clusters * block.parties.rows.shape[1]
        rounds = self.max_rounds * self.inner_steps
        return known and centers * rounds * max(weight, 1.0) >= WORTH_COMPILING

    def _compile_ahead(self, block: Block) -> None:
        """Compiles what will be needed, if it is not yet, before others wait for an answer."""
        own = float(block.parties.total_weights.max())
        others = 1.0 if len(block) == block.graph.n_users else _OTHERS
        if self._worth_compiling(block, others * own):
            from unpooled.kernels.compiled.ahead import compile_rounds

            compile_rounds()

    def _swiftly(
        self,
        block: Block,
        x: FloatArray,
        alpha: FloatArray,
        pace: FloatArray,
        stopping: Stopping,
        momentum: Momentum | None,
    ) -> Peer[Body]:
        """The rounds by compiled code."""
        from unpooled.kernels.compiled.descent import Rest
        from unpooled.protocols.mesh.shared.compiled_rounds import Swift, kind_of

        assert isinstance(self.loss, DistanceLoss)
        kind = kind_of(self.loss)
        assert kind is not None
        swift = Swift(
            block,
            self.loss,
            kind,
            x,
            self.rho,
            alpha,
            by_cluster=self.by_cluster,
            inner_steps=self.inner_steps,
        )
        t, y = 0, x
        while t < self.max_rounds:
            if momentum is None and swift.may_leap and stopping.may_leap:
                units = pace * stopping.scale if stopping.window else np.ones(len(block))
                rest = Rest(stopping.window, self.tol, units, np.array(stopping.unrest))
                x, sent, note, rounds, at_rest = swift.leap(x, self.max_rounds - t, rest)
                y = x
                yield stopping.post(t, sent, times=rounds)
                yield Note(t, note, times=rounds)
                t += rounds
                if stopping.leapt(rounds, at_rest, (rest.largest[0], rest.largest[1])):
                    break
                continue
            x_before = x
            for b in range(self.inner_steps):
                heard = yield from stopping.exchange(t * self.inner_steps + b, y)
                x_old, y_old = x, y
                new = swift.step(heard, y, label=b == 0)
                y = x = stopping.move(x, new)
                if momentum:
                    y = momentum.ahead(x, x - x_old, y_old - new)
            note = swift.note(x_before, x)
            yield Note(t, note)
            distance = note["movement"] / pace
            if momentum:
                q = pace / self.inner_steps
                distance = np.maximum(farthest(x - y_old) / q, farthest(x - x_old) / np.sqrt(q))
            t += 1
            if stopping.end_round(distance, note["changed"]):
                break
        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def alpha(self, block: Block, limits: Limits) -> FloatArray:
        """alpha for each user; the same for all, since all have heard the same maxima."""
        if self.step_size is not None:
            return np.full((len(block), 1, 1), self.step_size)
        beta = smoothness(self.loss, limits) * limits["weight"]
        bound = beta / self.rho + limits["edge degree"]
        # Without links and weight there is nothing to move, by any step.
        alpha = np.divide(1.0, bound, out=np.zeros_like(bound), where=bound > 0)
        return alpha[..., None]

    def steps(self, alpha: FloatArray, clusters: ClusterSums, heard: Heard) -> FloatArray:
        """The step of each user and cluster: alpha for all of them."""
        return alpha

    def pace(self, block: Block, alpha: FloatArray, limits: Limits) -> FloatArray:
        """min(1, B alpha W/rho), 1 where nothing is weighed."""
        if "weight" not in limits:
            return np.ones(len(alpha))
        pace = self.inner_steps * alpha[:, 0, 0] * limits["weight"][:, 0] / self.rho
        return np.where(pace > 0, np.minimum(pace, 1.0), 1.0)


class Momentum:
    """How far ahead of its centres a user steps from: y of the module's text."""

    def __init__(self, loss: Loss, limits: Limits, x: FloatArray) -> None:
        self._loss = loss
        self._age: FloatArray = np.ones(x.shape[:2])
        # Where alpha rests on the loss's smoothness in a box, steps start from within the box.
        unbounded = np.full((len(x), 1), np.inf)
        high, minus_low = (limits.get(side, unbounded)[:, None] for side in BOX)
        self._box = -minus_low, high

    def ahead(self, x: FloatArray, way: FloatArray, gradient: FloatArray) -> FloatArray:
        """y for centres ``x`` that have just come this ``way``, against this ``gradient``."""
        age = np.where(dots(gradient, way) < 0, self._age, 1.0)
        self._age = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * age**2))
        y = x + ((age - 1.0) / self._age)[..., None] * way
        return stay_inside(self._loss, x, np.clip(y, *self._box))
