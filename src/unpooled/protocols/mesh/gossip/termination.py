"""How users of gossip k-means terminate: with a last post that carries their final centres.

A user that has converged, or has run out of rounds, sends one more post. Its epoch is negative,
which marks it as the last one, and in the place of sums it has the user's centres, with weights 1.
A neighbour that still runs, or returns later, takes these centres and terminates too.
"""

from __future__ import annotations

import numpy as np

from unpooled.data.tables import LARGEST
from unpooled.losses import Loss
from unpooled.protocols.mesh.base import Block, Heard, only
from unpooled.types import BoolArray, FloatArray, IntArray

CONVERGED = -1
"""The epoch of the last post of a user that has converged."""
OUT_OF_ROUNDS = -2
"""The same of a user that has run out of rounds."""


class Termination:
    """Which users still run, and which of them have converged."""

    def __init__(self, block: Block, loss: Loss) -> None:
        n = len(block)
        self._near, self._loss = block.neighbourhood, loss
        self.running: BoolArray = np.ones(n, dtype=bool)
        self.leaving: BoolArray = np.zeros(n, dtype=bool)
        """Whose next post is the last one."""
        self.unconverged: BoolArray = np.ones(n, dtype=bool)

    def outgoing(
        self, sums: FloatArray, epoch: IntArray, centers: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """Sums and epochs as they are sent: for users that leave, those of a last post."""
        if self.leaving.any():
            last = np.concatenate([centers, np.ones((*centers.shape[:2], 1))], axis=2)
            sums = only(self.leaving, last, sums)
        last_epoch = np.where(self.unconverged, OUT_OF_ROUNDS, CONVERGED)
        return sums, np.where(self.leaving, last_epoch, epoch)

    def leave(self) -> bool:
        """Last posts have been sent; False if no user runs on."""
        self.running = self.running & ~self.leaving
        return bool(self.running.any())

    def adopt(
        self, heard: Heard, last_posts: BoolArray, centers: FloatArray
    ) -> tuple[FloatArray, BoolArray]:
        """Users that hear a last post take its centres, and leave.

        ``last_posts`` marks the links over which one came. Returns the centres, and the links whose
        last post no honest neighbour can have sent.
        """
        near, nonsense = self._near, np.zeros_like(last_posts)
        if not last_posts.any():
            return centers, nonsense
        posts = heard.from_neighbours(near, "sums")[last_posts]
        x = posts[..., :-1]
        sane = (posts[..., -1] == 1).all(axis=1) & (np.abs(x) <= LARGEST).all(axis=(1, 2))
        sane &= self._loss.inside(x).all(axis=1)
        nonsense[np.flatnonzero(last_posts)[~sane]] = True
        may = self.running & heard.awake & ~self.leaving
        sane &= may[near.holder[last_posts]]
        links = np.flatnonzero(last_posts)[sane]
        users, first = np.unique(near.holder[links], return_index=True)
        centers = centers.copy()
        centers[users] = x[sane][first]
        self.leaving[users] = True
        epochs = heard.from_neighbours(near, "epoch")[links[first]]
        self.unconverged[users] &= epochs == OUT_OF_ROUNDS
        return centers, nonsense
