"""How users without a coordinator stop in the same round."""

from __future__ import annotations

import numpy as np

from unpooled.protocols.mesh import Block, Heard
from unpooled.types import Body, BoolArray, FloatArray, IntArray


class Stopping:
    """Stops all users in the same round once none of them has anything left to do.

    Time is cut into windows. At the start of one every user notes its *unrest*: how far its
    centres moved in the last round, relative to the largest spread of any user's rows, or infinity
    if one of its rows changed cluster. During the window the users pass on the largest unrest
    they know of, one number beside the centres they send anyway; after ``reach`` exchanges all of
    them know the same largest value, so all of them come to the same decision in the same round.
    A window cannot end before its news has travelled everywhere: there is no race to lose.

    A neighbour that falls silent or comes back during a window makes the window void. A message
    lost in the last exchanges of a window may still leave some users to stop a window later.

    With ``tol=0`` nobody stops and nothing is sent.
    """

    FIELD = "unrest"

    def __init__(self, block: Block, tol: float, spread: FloatArray) -> None:
        self.running: BoolArray = np.ones(len(block), dtype=bool)
        self.rounds: IntArray = np.zeros(len(block), dtype=np.int64)
        self._tol = tol
        self._reach = block.reach
        self._spread = spread
        self._largest: FloatArray = np.full(len(block), np.inf)
        self._exchanges = 0
        self._awake: BoolArray = np.ones(len(block), dtype=bool)
        self._heard_before: IntArray = block.neighbourhood.degrees

    def field(self) -> Body:
        """What a user adds to its post."""
        return {self.FIELD: self._largest} if self._tol > 0 and self._reach > 0 else {}

    def hear(self, heard: Heard) -> None:
        """Takes in the neighbours' unrest."""
        self._exchanges += 1
        self._awake = heard.awake
        if self._tol == 0 or self._reach == 0:
            return
        void = (heard.degrees != self._heard_before) | ~heard.awake
        self._largest = np.where(void, np.inf, heard.largest(self.FIELD))
        self._heard_before = heard.degrees

    def step(self, heard: Heard, old: FloatArray, new: FloatArray) -> FloatArray:
        """``new`` for users that run and are awake, ``old`` for the others."""
        return heard.step(old, np.where(self.running[:, None, None], new, old))

    def end_round(self, note: Body) -> bool:
        """Ends the round that ``note`` tells of; True if no user runs on."""
        self.rounds = self.rounds + (self.running & self._awake)
        if self._exchanges >= self._reach:
            if self._tol > 0:
                self.running = self.running & (self._largest > self._tol)
            self._largest = self._unrest(note["movement"], note["changed"])
            self._exchanges = 0
        return not self.running.any()

    def _unrest(self, movement: FloatArray, changed: IntArray) -> FloatArray:
        unrest = np.full_like(movement, np.inf)
        # Where rows have no spread there is no scale, and only standing still is rest.
        np.divide(movement, self._spread, out=unrest, where=self._spread > 0)
        unrest[movement == 0] = 0.0
        unrest[changed > 0] = np.inf
        return unrest
