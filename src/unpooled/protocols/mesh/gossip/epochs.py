"""Epochs: after a fault, users forget their running means and start again together.

A running mean contains what a neighbour contributed before it was lost. So a user that notices a
fault opens a new epoch: it takes the next epoch number and starts again from its own sums. Users
that hear of a later epoch join it. Epochs are opened only at exchanges that all users know by
counting. Users mix with those of their own epoch only, so within an epoch the running means add up
to the sums of the users in it.

A fault is: a neighbour that is missing or is back, having been down oneself, a message that no
honest neighbour can have sent, and a mean that is no number.
"""

from __future__ import annotations

import numpy as np

from unpooled.protocols.mesh.base import Block, Heard
from unpooled.types import BoolArray, IntArray


class Epochs:
    """The epoch of each user of a block."""

    def __init__(self, block: Block, fault: BoolArray) -> None:
        n, near = len(block), block.neighbourhood
        self._holder = near.holder
        self.number: IntArray = np.zeros(n, dtype=np.int64)
        self.age: IntArray = np.zeros(n, dtype=np.int64)
        """Cycles in this epoch."""
        self.fault = fault
        """Which users have noticed a fault in their epoch."""
        self._latest: IntArray = np.zeros(n, dtype=np.int64)
        """The latest epoch heard of."""
        self._present: BoolArray = np.ones(len(near.holder), dtype=bool)
        """Over which links a neighbour took part in the last exchange."""

    def open(self) -> BoolArray:
        """Opens new epochs where they are needed; returns the users that start again."""
        self._latest = np.maximum(self._latest, self.number + self.fault)
        opened: BoolArray = self._latest > self.number
        if opened.any():
            self.number, self.fault = self._latest.copy(), self.fault & ~opened
            self.age = np.where(opened, 0, self.age)
        return opened

    @property
    def ending(self) -> BoolArray:
        """Which users will open a new epoch at the next occasion."""
        return np.asarray(self.fault | (self._latest > self.number))

    def report(self, links: BoolArray) -> None:
        """What came over these links cannot be: their holders have noticed a fault."""
        self.fault[self._holder[links]] = True

    def receive(self, heard: Heard, epochs: IntArray, links: BoolArray) -> None:
        """Notes who was there in an exchange, and the ``epochs`` heard over these ``links``."""
        self.fault |= ~heard.awake
        self.fault[self._holder[heard.present != self._present]] = True
        self._present = heard.present
        np.maximum.at(self._latest, self._holder[links], epochs[links])
