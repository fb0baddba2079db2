"""How users without a coordinator exchange centres until, in the same round, all of them stop."""

from __future__ import annotations

import numpy as np

from unpooled.messages.message import Post
from unpooled.protocols.mesh.base import Block, Heard, Peer, only
from unpooled.types import Body, BoolArray, FloatArray, IntArray

UNREST = "unrest"


class Stopping:
    """Exchanges centres, and stops all users in the same round once all are at rest.

    A user's *unrest* in a round is how far its centres still have to go, as its method estimates
    it, relative to the largest spread of any user's rows; it is infinite if one of the user's rows
    changed cluster. Users are at rest when the largest unrest of all is at most ``tol``.

    Time is cut into windows of ``reach`` exchanges. A user starts a window with the largest unrest
    of its own rounds in the window before, and during the window passes on the largest it has
    heard of: one number beside the centres it sends anyway. At the end of the window all users
    know the same largest value, so all decide alike, in the same round. The price is that users
    run on for up to three windows after they have come to rest.

    A user that has stopped sends nothing more; its neighbours go on with its last words.

    This holds while messages arrive. A neighbour that falls silent or comes back makes a window
    void for those who notice; a loss in the last exchanges of a window, or a link lost for good
    that makes ``reach`` too short, may leave some users to stop later than others.

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
        self._own: FloatArray = np.zeros(n)
        self._exchanges = 0
        self._awake: BoolArray = np.ones(n, dtype=bool)
        self._heard_before: IntArray = block.neighbourhood.degrees
        self._words: Body = {}

    def exchange(self, number: int, centers: FloatArray) -> Peer[Heard]:
        """Sends the centres of users that still run, hears those of their neighbours."""
        listening = self._tol > 0 and self._reach > 0
        body = {"centers": centers, **({UNREST: self._largest} if listening else {})}
        # Who has stopped repeats nothing newer than what was last heard of it.
        self._words = {
            name: only(self.running, value, self._words.get(name, value))
            for name, value in body.items()
        }
        heard = yield Post("centers", number, self._words, senders=self.running)
        self._exchanges += 1
        self._awake = heard.awake
        if listening:
            void = (heard.degrees != self._heard_before) | ~heard.awake
            self._largest = np.where(void, np.inf, heard.largest(UNREST))
            self._heard_before = heard.degrees
        return heard

    def post(self, number: int, centers: FloatArray, times: int) -> Post:
        """What all users said last in so many exchanges, of which nobody but they know."""
        body = {"centers": centers}
        if self._tol > 0 and self._reach > 0:
            body[UNREST] = self._largest
        return Post("centers", number, body, senders=self.running, times=times)

    def move(self, old: FloatArray, new: FloatArray) -> FloatArray:
        """``new`` for users that run and are awake, ``old`` for the others."""
        return only(self.running & self._awake, new, old)

    def end_round(self, distance: FloatArray, changed: IntArray) -> bool:
        """Ends a round; True if no user runs on.

        ``distance`` is how far each user's centres still have to go, ``changed`` how many of its
        rows changed cluster.
        """
        self.rounds = self.rounds + (self.running & self._awake)
        unrest = np.where(self._awake, self._unrest(distance, changed), np.inf)
        self._own = np.maximum(self._own, unrest)
        if self._exchanges >= self._reach:
            if self._tol > 0:
                self.running = self.running & ((self._largest > self._tol) | ~self._awake)
            self._largest, self._own = self._own, np.zeros_like(self._own)
            self._exchanges = 0
        return not self.running.any()

    @property
    def may_leap(self) -> bool:
        """Whether users, all of them connected, may be through several windows at once."""
        return self._exchanges == 0 and (self._tol == 0 or bool((self._scale > 0).all()))

    @property
    def window(self) -> int:
        """After how many exchanges users decide; 0 for never. Who is alone does in each."""
        return max(1, self._reach) if self._tol > 0 else 0

    @property
    def scale(self) -> FloatArray:
        """What a distance is divided by."""
        return self._scale

    @property
    def unrest(self) -> tuple[float, float]:
        """The largest, of the window before and of the present one."""
        return float(self._largest.max()), float(self._own.max())

    def leapt(self, rounds: int, at_rest: bool, unrest: tuple[float, float]) -> bool:
        """Users have been through so many rounds of one exchange; True if no user runs on."""
        self.rounds = self.rounds + rounds * self.running
        if at_rest:
            self.running = np.zeros_like(self.running)
        self._largest, self._own = (np.full_like(self._own, largest) for largest in unrest)
        self._exchanges = rounds % self.window if self.window else 0
        return at_rest

    def _unrest(self, distance: FloatArray, changed: IntArray) -> FloatArray:
        # Where no user's rows have any spread, the farthest a user had to go is its scale.
        self._scale = np.where(self._scale > 0, self._scale, distance)
        unrest = np.zeros_like(distance)
        np.divide(distance, self._scale, out=unrest, where=self._scale > 0)
        unrest[changed > 0] = np.inf
        return unrest
