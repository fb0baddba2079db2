r"""DGC's cost by a second-order method: users agree on a large rho as fast as on a small one.

The cost is J_rho of :mod:`unpooled.protocols.mesh.dgc`. A gradient step on it is slow where rho is
large: centres that agree feel 1/rho of their rows' pull, while the pull towards neighbours bounds
the step. Here each user follows its own rows by steps of their own size, and in place of its
disagreement with its neighbours feels a running mean p of it. Rounds n = 0, 1, ... exchange
centres once and do, for every user i and cluster k,

    a = sum_{j in N_i} (x_i - x_j) - p_i,      p_i <- p_i + tau a

    x_i <- x_i - 1/D_i ( p_i + nu (1 - tau) a + 1/rho sum_{r in C_i} w_ir grad f(x_i, y_ir) ).

Rows are assigned to the nearest own centre in round 0 and then again 1 + floor(n/10) rounds after
each assignment in round n.

At rest a = 0, so p_i is the disagreement and J_rho is stationary. The p_i start at 0 and sum to
zero over users ever after: nothing of them holds back what all centres do together, and that goes
to its end at a pace that hardly depends on rho. Differences between users swing like weights on
springs: eliminating p shows heavy-ball momentum on the graph's Laplacian L.

**Never unstable.** Let W be the matrix of c W_i/rho, W_i = sum_{r in C_i} w_ir and c the loss's
smoothness, D that of the D_i. For fixed clusters and a quadratic loss an error z^n v has

    D (z - 1) (z - t) + (W + nu L) (z - t) + (1 - nu) tau L z = 0,        t = 1 - tau,

a quadratic in z if multiplied by v' from the left, with both roots inside the unit circle if
D > W/2 + nu L/2 + (1 - nu) tau L / (2 (1 + t)). As L <= 2 diag |N_i|, it is so for every graph if

    D_i = mu ( c W_i / (2 rho) + (nu + (1 - nu) tau / (2 - tau)) |N_i| ),        mu > 1.

**Fast.** Suppose that all users have w = c W_i/rho and deg links, and that the eigenvalues of
L/deg but 0 lie between 2 sigma^2 and 2. With nu = 0, R = deg / w and

    Q = 1 + R (1 + sigma^2) + sqrt((1 + 2 R) (1 + 2 R sigma^2)),
    b = R (1 - sigma)^2 / Q,      t = R (1 + sigma)^2 / Q,      D = w / (1 - b),

what centres do together ends like b^n, and all differences between users like q^n,
q = sqrt(b t) = R (1 - sigma^2) / Q. For rho to infinity q is (1 - sigma) / (1 + sigma), the best
that any method with one exchange per step can have by knowing the eigenvalues' bounds alone, and
mu = 2 / (1 - b + 4 R / (Q (1 + t))) gives that D. So tau = 1 - t and mu are taken from here, deg
being the graph's mean degree, w what the largest weight of a user comes to in one of K clusters,
and 2 sigma^2 = 1 - cos(pi / reach), which is exact for paths and even rings; reach counts as 4 if
it is less, so that a user does not all but jump to its own rows' means. A graph with narrow
passages has a smaller eigenvalue; it takes longer, but is as stable.

**Rows that change cluster** pull along the centre that they join, the way it went, and so may keep
users swinging. Two things end it: nu = tau / 10 is friction between neighbours, and the growing
time between assignments lets centres settle. Once they do, an assignment lowers J_rho or changes
nothing, as in Lloyd's method.

**Stopping.** A round's movement, or that of the round before if larger, as who swings stands still
for a moment, is divided by (1 - q) / 2: a half, for clusters and users smaller than supposed.
Nobody is at rest with a row that has changed cluster or will.

**Lost messages.** A message lost one way leaves the p_i with a sum that is forgotten by tau per
exchange, so in time nothing is left of it.

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
from unpooled.protocols.mesh.shared.global_bounds import BOX, Limits, find_limits, smoothness
from unpooled.protocols.mesh.shared.rounds import CentersProtocol, compare
from unpooled.protocols.mesh.shared.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray

FRICTION = 0.1
"""nu / tau"""
PATIENCE = 10
"""The time between assignments grows by one round in so many."""
SHORTEST = 4
"""The least that a graph's diameter is taken for."""
CAUTION = 2.0
"""How much slower than supposed a user thinks that it may be."""


@dataclass(frozen=True, kw_only=True)
class SecondOrder(CentersProtocol):
    """The parameters."""

    name = "second-order"

    loss: Loss = field(default_factory=SquaredEuclidean)
    rho: float = 10.0

    @property
    def wanted(self) -> tuple[str, ...]:
        box, spread = (BOX if self.loss.needs_box else ()), (("spread",) if self.tol > 0 else ())
        return ("weight", *box, *spread)

    def peer(self, block: Block) -> Peer[Body]:
        """One block's part of the algorithm."""
        parties = block.parties
        x = yield from self.start.centers(block, self.loss)
        limits = yield from find_limits(block, x, self.wanted)
        c = smoothness(self.loss, limits)
        tuning = self.tuning(block, c, limits)
        tau, nu = tuning.tau[..., None], tuning.nu[..., None]
        stopping = Stopping(block, self.tol, limits.get("spread", np.zeros(len(block))))
        labels: IntArray = np.full(len(parties.rows), -1)
        due = 0
        p = np.zeros_like(x)
        movement = np.zeros(len(block))

        for n in range(self.max_rounds):
            x_before, labels_before, movement_before = x, labels, movement
            closest = nearest(parties.rows, parties.owner, x, self.loss.dissimilarity)
            if n >= due:
                labels, due = closest, n + 1 + n // PATIENCE
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            heard = yield from stopping.exchange(n, x)
            innovation = clusters(self.loss.gradient(x[parties.owner, labels], parties.rows))
            a = heard.disagreement("centers") - p
            p = stopping.move(p, p + tau * a)
            force = p + nu * (1.0 - tau) * a + innovation / self.rho
            D = tuning.stiffness(c * clusters.weights() / self.rho, heard.degrees[:, None])
            step = np.divide(1.0, D, out=np.zeros_like(D), where=D > 0)
            x = stopping.move(x, stay_inside(self.loss, x, x - step[..., None] * force))

            note = compare(block, self.loss, (x_before, labels_before), (x, labels), self.rho)
            yield Note(n, note)
            movement = note["movement"]
            changed = sum_by_user(parties.owner, 1.0 * (closest != labels_before), len(block))
            distance = np.maximum(movement, movement_before) / tuning.pace[:, 0]
            if stopping.end_round(distance, changed.astype(np.int64)):
                break

        return {"centers": x, "rounds": stopping.rounds, "running": stopping.running}

    def tuning(self, block: Block, c: FloatArray, limits: Limits) -> Tuning:
        """What follows from the graph and the weights; the same for all users that are linked."""
        w = c * limits["weight"] / (self.start.n_clusters * self.rho)
        degree = block.graph.degrees.mean()
        # Without any weight users only have to agree; they do so by plain steps, as for R = 0.
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
        """For R = deg / w and a graph of this diameter."""
        sigma = np.sqrt((1.0 - np.cos(np.pi / max(reach, SHORTEST))) / 2.0)
        Q = 1.0 + R * (1.0 + sigma**2) + np.sqrt((1.0 + 2.0 * R) * (1.0 + 2.0 * R * sigma**2))
        b, t, q = (R * f / Q for f in ((1.0 - sigma) ** 2, (1.0 + sigma) ** 2, 1.0 - sigma**2))
        mu = 2.0 / (1.0 - b + 4.0 * R / (Q * (1.0 + t)))
        return cls(1.0 - t, FRICTION * (1.0 - t), mu, (1.0 - q) / CAUTION)

    def stiffness(self, w: FloatArray, degrees: IntArray) -> FloatArray:
        """D_i(k) for w = c W_i(k)/rho, (users, K)."""
        links = self.nu + (1.0 - self.nu) * self.tau / (2.0 - self.tau)
        return self.mu * (0.5 * w + links * degrees)
