r"""A second-order method for DGC's cost: as few rounds for a large rho as for a small one.

The cost is J_rho of :mod:`unpooled.protocols.mesh.dgc`. Gradient steps on it are slow where rho is
large: the pull of a user's rows on its centres is divided by rho, while the pull towards neighbours
bounds the step. Here a user's step size is that of its own rows, and the disagreement with its
neighbours is replaced by a running mean p of it. Rounds n = 0, 1, ... exchange centres once and do,
for every user i and cluster k,

    a = sum_{j in N_i} (x_i - x_j) - p_i,      p_i <- p_i + tau a

    x_i <- x_i - 1/D_i ( p_i + nu (1 - tau) a + 1/rho sum_{r in C_i} w_ir grad f(x_i, y_ir) ).

Rows are assigned to the nearest own centre in round 0 and then again 1 + floor(n/10) rounds after
each assignment in round n.

At rest a = 0, so p_i is the disagreement and J_rho is stationary. The p_i start at 0 and always sum
to zero over users. So they do not slow down the common movement of all centres, which converges at
a rate that hardly depends on rho. Differences between users oscillate like weights on springs:
eliminating p shows heavy-ball momentum on the graph's Laplacian L.

**Stability.** Let W be the matrix of c W_i/rho, W_i = sum_{r in C_i} w_ir and c the loss's
smoothness, D that of the D_i. For fixed clusters and a quadratic loss an error z^n v has

    D (z - 1) (z - t) + (W + nu L) (z - t) + (1 - nu) tau L z = 0,        t = 1 - tau,

which is a quadratic in z once multiplied by v' from the left. Both roots are inside the unit circle
if D > W/2 + nu L/2 + (1 - nu) tau L / (2 (1 + t)). As L <= 2 diag |N_i|, this holds for every graph
if

    D_i = mu ( c W_i / (2 rho) + (nu + (1 - nu) tau / (2 - tau)) |N_i| ),        mu > 1.

**Rate.** Suppose that all users have w = c W_i/rho and deg links, and that the non-zero eigenvalues
of L/deg lie between 2 sigma^2 and 2. With nu = 0, R = deg / w and

    Q = 1 + R (1 + sigma^2) + sqrt((1 + 2 R) (1 + 2 R sigma^2)),
    b = R (1 - sigma)^2 / Q,      t = R (1 + sigma)^2 / Q,      D = w / (1 - b),

the common movement converges like b^n, and all differences between users like q^n, q = sqrt(b t) =
R (1 - sigma^2) / Q. For rho to infinity q is (1 - sigma) / (1 + sigma): the best rate of any method
that makes one exchange per step and knows the bounds of the eigenvalues only. The factor mu = 2 /
(1 - b + 4 R / (Q (1 + t))) gives that D. So tau = 1 - t and mu are taken from here, with

  * deg the graph's mean degree,
  * w the largest weight of a user over K, the weight of one of its clusters, times c/rho,
  * 2 sigma^2 = 1 - cos(pi / reach), which is exact for paths and even rings. A reach below 4 counts
    as 4: otherwise a user would almost jump to the means of its own rows.

A graph with narrow passages has a smaller eigenvalue; it takes longer, but is as stable.

**Rows that change cluster** pull the centre that they join further in the direction it moved, and
so may keep users oscillating. Two things end this: nu = tau / 10 acts as friction between
neighbours, and the growing time between assignments lets centres settle. Once they have settled, an
assignment lowers J_rho or changes nothing, as in Lloyd's method.

**Stopping.** The larger movement of the last two rounds (centres that oscillate hardly move where
they turn) is divided by (1 - q) / 2. The factor 1/2 is for clusters and users that are smaller than
supposed. A user has not converged while one of its rows has changed cluster, or would if it were
assigned now.

**Lost messages.** A message lost one way makes the sum of the p_i differ from zero. The share tau
of that error is forgotten in every exchange.

**Special cases.** One party alone, or a graph without edges: tau = 1 and D_i = c W_i/rho, which
for k-means is Lloyd's method; the centre of an empty cluster stays.

What leaves a user, and what can be read from it: see
:class:`unpooled.protocols.mesh.shared.rounds.CentersProtocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unpooled.kernels.assignment.nearest import nearest
from unpooled.kernels.linalg.segments import ClusterSums, sum_by_user
from unpooled.losses import Loss, SquaredEuclidean
from unpooled.messages.message import Note
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.shared.domain import stay_inside
from unpooled.protocols.mesh.shared.global_bounds import (
    BOX,
    GlobalBounds,
    find_bounds,
    smoothness,
)
from unpooled.protocols.mesh.shared.rounds import CentersProtocol, round_summary
from unpooled.protocols.mesh.shared.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray

FRICTION = 0.1
"""nu / tau"""
ASSIGNMENT_GROWTH = 10
"""The time between assignments grows by one round in so many."""
MIN_REACH = 4
"""A graph's reach below this counts as this."""
SAFETY = 2.0
"""How much slower than derived a user may converge."""


@dataclass(frozen=True, kw_only=True)
class SecondOrder(CentersProtocol):
    """The parameters of the module's text."""

    name = "second-order"

    loss: Loss = field(default_factory=SquaredEuclidean)
    rho: float = 10.0

    @property
    def needed_bounds(self) -> tuple[str, ...]:
        box, spread = (BOX if self.loss.needs_box else ()), (("spread",) if self.tol > 0 else ())
        return ("weight", *box, *spread)

    def peer(self, block: Block) -> Peer[Body]:
        """The algorithm as the users of one block run it."""
        parties = block.parties
        x = yield from self.start.find(block, self.loss)
        bounds = yield from find_bounds(block, x, self.needed_bounds)
        c = smoothness(self.loss, bounds)
        tuning = self.tuning(block, c, bounds)
        tau, nu = tuning.tau[..., None], tuning.nu[..., None]
        stopping = Stopping(block, self.tol, bounds.get("spread", np.zeros(len(block))))
        labels: IntArray = np.full(len(parties.rows), -1)
        next_assignment = 0
        p = np.zeros_like(x)
        movement = np.zeros(len(block))

        for n in range(self.max_rounds):
            x_before, labels_before, movement_before = x, labels, movement
            closest = nearest(parties.rows, parties.owner, x, self.loss.dissimilarity)
            if n >= next_assignment:
                labels, next_assignment = closest, n + 1 + n // ASSIGNMENT_GROWTH
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            heard = yield from stopping.exchange(n, x)
            innovation = clusters(self.loss.gradient(x[parties.owner, labels], parties.rows))
            a = heard.disagreement("centers") - p
            p = stopping.move(p, p + tau * a)
            force = p + nu * (1.0 - tau) * a + innovation / self.rho
            D = tuning.stiffness(c * clusters.weights() / self.rho, heard.degrees[:, None])
            step = np.divide(1.0, D, out=np.zeros_like(D), where=D > 0)
            x = stopping.move(x, stay_inside(self.loss, x, x - step[..., None] * force))

            note = round_summary(block, self.loss, (x_before, labels_before), (x, labels), self.rho)
            yield Note(n, note)
            movement = note["movement"]
            # Also between assignments: rows whose nearest centre is another one are not settled.
            changed = sum_by_user(parties.owner, 1.0 * (closest != labels_before), len(block))
            distance = np.maximum(movement, movement_before) / tuning.pace[:, 0]
            if stopping.end_round(distance, changed.astype(np.int64)):
                break

        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def tuning(self, block: Block, c: FloatArray, bounds: GlobalBounds) -> Tuning:
        """The constants for this graph and these weights; the same for all linked users."""
        w = c * bounds["weight"] / (self.start.n_clusters * self.rho)
        degree = block.graph.degrees.mean()
        # Without any weight users only have to agree; R = 0 makes plain steps of it.
        return Tuning.of(np.divide(degree, w, out=np.zeros_like(w), where=w > 0), block.reach)


@dataclass(frozen=True)
class Tuning:
    """The constants of the module's text, each (users, 1)."""

    tau: FloatArray
    nu: FloatArray
    mu: FloatArray
    pace: FloatArray

    @classmethod
    def of(cls, R: FloatArray, reach: int) -> Tuning:
        """For R = deg / w and a graph of this reach."""
        sigma = np.sqrt((1.0 - np.cos(np.pi / max(reach, MIN_REACH))) / 2.0)
        Q = 1.0 + R * (1.0 + sigma**2) + np.sqrt((1.0 + 2.0 * R) * (1.0 + 2.0 * R * sigma**2))
        b, t, q = (R * f / Q for f in ((1.0 - sigma) ** 2, (1.0 + sigma) ** 2, 1.0 - sigma**2))
        mu = 2.0 / (1.0 - b + 4.0 * R / (Q * (1.0 + t)))
        return cls(1.0 - t, FRICTION * (1.0 - t), mu, (1.0 - q) / SAFETY)

    def stiffness(self, w: FloatArray, degrees: IntArray) -> FloatArray:
        """D_i(k) for w = c W_i(k)/rho, (users, K)."""
        links = self.nu + (1.0 - self.nu) * self.tau / (2.0 - self.tau)
        return self.mu * (0.5 * w + links * degrees)
