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

with beta_f the smoothness of one term, so alpha = 1 / (beta/rho + lambda) never lets J_rho rise,
and each new centre is a convex combination of centres and rows. lambda_max(L) is at most
lambda = max over edges (deg_i + deg_j) (Anderson & Morley 1985), which a user knows for its own
edges. The two maxima over users are found by a max-consensus before the first round.

**Special cases.** One party alone: gradient clustering of pooled rows. A graph without edges:
gradient clustering of every user by itself. In both, the centre of an empty cluster stays.

**What leaves.** ``start``: see :mod:`unpooled.protocols.starts`. ``limits``: a user's total weight
and the like, passed on as maxima. ``centers``: K d numbers per neighbour and inner step (and one
for stopping if tol > 0). A neighbour that knows rho, alpha and two successive messages can solve
the step for the innovation: for k-means, that is a user's cluster sums. With ``init="random"`` or
``"k-means++"`` the first centres are rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unpooled.kernels.assignment import nearest
from unpooled.kernels.segments import ClusterSums
from unpooled.losses import Loss, SquaredEuclidean
from unpooled.protocols.limits import Limits, find_limits, limits_releases
from unpooled.protocols.mesh import Block, MeshProtocol, Peer
from unpooled.protocols.rounds import centers_release, compare
from unpooled.protocols.starts import Start
from unpooled.protocols.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray
from unpooled.wire.message import Note, Post
from unpooled.wire.policy import Release


@dataclass(frozen=True)
class DGC(MeshProtocol):
    """The parameters, as in the module's text; ``step_size=None`` is the bound derived there."""

    name = "dgc"

    start: Start
    loss: Loss = field(default_factory=SquaredEuclidean)
    rho: float = 10.0
    inner_steps: int = 1
    step_size: float | None = None
    max_rounds: int = 1000
    tol: float = 1e-6

    @property
    def releases(self) -> tuple[Release, ...]:
        return (
            *self.start.releases,
            *limits_releases(self.loss, ask=self.asks_limits),
            centers_release(self.start),
        )

    def peer(self, block: Block) -> Peer[Body]:
        """One block's part of the algorithm."""
        parties = block.parties
        x = yield from self.start.centers(block, self.loss)
        limits = yield from find_limits(block, self.loss, x, ask=self.asks_limits)
        alpha = self._step_sizes(limits)
        stopping = Stopping(block, self.tol, limits.spread)
        labels: IntArray = np.full(len(parties.rows), -1)

        for t in range(self.max_rounds):
            x_before, labels_before = x, labels

            # (a) assignment to the nearest own centre
            labels = nearest(parties.rows, parties.owner, x, self.loss.dissimilarity)
            clusters = ClusterSums(parties.owner, labels, parties.weights, x.shape[:2])

            # (b) consensus + innovation
            for _ in range(self.inner_steps):
                body = {"centers": x, **stopping.field()}
                heard = yield Post("centers", t, body, senders=stopping.running)
                stopping.hear(heard)
                innovation = clusters(self.loss.gradient(x[parties.owner, labels], parties.rows))
                gradient = heard.disagreement("centers") + innovation / self.rho
                step = stay_inside(self.loss, x, x - alpha * gradient)
                x = stopping.step(heard, x, step)

            note = compare(block, self.loss, (x_before, labels_before), (x, labels), self.rho)
            yield Note(t, note)
            if stopping.end_round(note):
                break

        return {"centers": x, "rounds": stopping.rounds}

    @property
    def asks_limits(self) -> bool:
        """Whether anything that users have to ask each other for is needed."""
        return self.step_size is None or self.tol > 0

    def _step_sizes(self, limits: Limits) -> FloatArray:
        """alpha for each user; the same for all, since all have heard the same maxima."""
        if self.step_size is not None:
            return np.full((len(limits.weight), 1, 1), self.step_size)
        bound = limits.smoothness(self.loss) * limits.weight / self.rho + limits.edge_degree
        # Without links and weight there is nothing to move, by any step.
        return np.divide(1.0, bound, out=np.zeros_like(bound), where=bound > 0)[:, None, None]


def stay_inside(loss: Loss, x: FloatArray, step: FloatArray) -> FloatArray:
    """``step``, halved towards ``x`` as often as a centre needs to stay in the loss's domain.

    With the step size derived above no centre ever needs it.
    """
    if loss.domain == (-np.inf, np.inf):
        return step
    for _ in range(64):
        outside = ~loss.inside(step)
        if not outside.any():
            return step
        step = np.where(outside[..., None], 0.5 * (x + step), step)
    return np.where(loss.inside(step)[..., None], step, x)
