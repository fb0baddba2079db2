"""Termination by max-consensus: users without a coordinator all stop in the same round.

**Residual.** A user's residual in a round is how far its centres still have to go, as its method
estimates it, relative to the largest spread of any user's rows. It is infinite if one of the user's
rows changed cluster. Users have converged when the largest residual of all is at most ``tol``.

**Windows.** Time is cut into windows of ``reach`` exchanges. A user starts a window with the
largest residual of its own rounds in the window before, and during the window sends the largest
that it has heard of: one number beside the centres that it sends anyway. At the end of the window
all users know the same largest residual, so all decide alike, in the same round. Users therefore
run on for up to three windows after they have converged.

**Faults.** A user that has stopped sends nothing more; its neighbours go on with its last post. The
rule holds while messages arrive. A neighbour that is lost, or comes back, makes the window void for
those who notice. A loss in the last exchanges of a window, or a link lost for good that makes
``reach`` too short, may leave some users to stop later than others.
"""

from __future__ import annotations

import numpy as np

from unpooled.messages.message import Post
from unpooled.protocols.mesh.base import Block, Heard, Peer, only
from unpooled.types import Body, BoolArray, FloatArray, IntArray

RESIDUAL = "unrest"
"""The field that carries the largest residual; its name on the wire is part of the format."""


class Stopping:
    """Exchanges centres every round, and stops all users in the same round.

    With ``tol=0`` nobody stops and nothing is added to the messages.
    """

    def __init__(self, block: Block, tol: float, spread: FloatArray) -> None:
        n = len(block)
        self.running: BoolArray = np.ones(n, dtype=bool)
        self.rounds: IntArray = np.zeros(n, dtype=np.int64)
        self._tol = tol
        self._reach = block.reach
        self._scale = spread.reshape(n)
        self._largest: FloatArray = np.full(n, np.inf)
        """The largest residual heard of, of the window before."""
        self._own: FloatArray = np.zeros(n)
        """The largest of each user's own, in the present window."""
        self._exchanges = 0
        """Of the present window."""
        self._up: BoolArray = np.ones(n, dtype=bool)
        self._heard_before: IntArray = block.neighbourhood.degrees
        self._last_post: Body = {}

    def exchange(self, number: int, centers: FloatArray) -> Peer[Heard]:
        """Sends the centres of users that still run; returns what their neighbours sent."""
        decides = self._tol > 0 and self._reach > 0
        body = {"centers": centers, **({RESIDUAL: self._largest} if decides else {})}
        # Neighbours of a user that has stopped know its last post: in a block as on a network.
        self._last_post = {
            name: only(self.running, value, self._last_post.get(name, value))
            for name, value in body.items()
        }
        heard = yield Post("centers", number, self._last_post, senders=self.running)
        self._exchanges += 1
        self._up = heard.awake
        if decides:
            void = (heard.degrees != self._heard_before) | ~heard.awake
            self._largest = np.where(void, np.inf, heard.largest(RESIDUAL))
            self._heard_before = heard.degrees
        return heard

    def move(self, old: FloatArray, new: FloatArray) -> FloatArray:
        """``new`` for users that run and are up, ``old`` for the others."""
        return only(self.running & self._up, new, old)

    def end_round(self, distance: FloatArray, changed: IntArray) -> bool:
        """Ends a round; True if no user runs on.

        ``distance`` is how far each user's centres still have to go, ``changed`` how many of its
        rows changed cluster.
        """
        self.rounds = self.rounds + (self.running & self._up)
        residual = np.where(self._up, self._residual(distance, changed), np.inf)
        self._own = np.maximum(self._own, residual)
        if self._exchanges >= self._reach:
            if self._tol > 0:
                self.running = self.running & ((self._largest > self._tol) | ~self._up)
            self._largest, self._own = self._own, np.zeros_like(self._own)
            self._exchanges = 0
        return not self.running.any()

    def _residual(self, distance: FloatArray, changed: IntArray) -> FloatArray:
        # Where no user's rows have any spread, the farthest a user had to go is its scale.
        self._scale = np.where(self._scale > 0, self._scale, distance)
        residual = np.zeros_like(distance)
        np.divide(distance, self._scale, out=residual, where=self._scale > 0)
        residual[changed > 0] = np.inf
        return residual

    # Many rounds in one call, by compiled code, where all users are in one block

    @property
    def may_run_many_rounds(self) -> bool:
        """Whether all that the decision depends on is known before the rounds are run."""
        return self._exchanges == 0 and (self._tol == 0 or bool((self._scale > 0).all()))

    @property
    def window(self) -> int:
        """After how many exchanges users decide; 0 for never. A user without links does in each."""
        return max(1, self._reach) if self._tol > 0 else 0

    @property
    def scale(self) -> FloatArray:
        """What a distance is divided by."""
        return self._scale

    @property
    def largest_residuals(self) -> tuple[float, float]:
        """Those of the window before and of the present one."""
        return float(self._largest.max()), float(self._own.max())

    def post_of_many_rounds(self, number: int, centers: FloatArray, times: int) -> Post:
        """The last post of ``times`` exchanges, which stands for all of them."""
        body = {"centers": centers}
        if self._tol > 0 and self._reach > 0:
            body[RESIDUAL] = self._largest
        return Post("centers", number, body, senders=self.running, times=times)

    def end_many_rounds(self, rounds: int, converged: bool, residuals: tuple[float, float]) -> bool:
        """Ends ``rounds`` rounds of one exchange each; True if no user runs on."""
        self.rounds = self.rounds + rounds * self.running
        if converged:
            self.running = np.zeros_like(self.running)
        self._largest, self._own = (np.full_like(self._own, largest) for largest in residuals)
        self._exchanges = rounds % self.window if self.window else 0
        return converged
