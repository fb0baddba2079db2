"""How all users of gossip k-means know, in the same exchange, the largest residual."""

from __future__ import annotations

import numpy as np

from unpooled.protocols.mesh.base import Heard
from unpooled.protocols.mesh.shared.stopping import UNREST
from unpooled.types import BoolArray, FloatArray


class Windows:
    """The largest unrest of all users, for methods that go by cycles of several exchanges.

    A window is as many cycles as take a word from any user to all others. Where a cycle begins,
    users say how restless they are; what a user has said since the window before began, the
    present cycle included, is its word for the window, and the largest of all users' words goes
    round with the exchanges of the window. So at its end all users know the same largest unrest,
    and decide alike in the same exchange, however short a cycle is.
    """

    def __init__(self, n_users: int) -> None:
        self.largest: FloatArray = np.full(n_users, np.inf)
        self._since: FloatArray = np.zeros(n_users)

    def begin(self, users: BoolArray, unrest: FloatArray, *, opens: bool) -> None:
        """A cycle of these users begins, and with it a window if it ``opens`` one."""
        since = np.where(users, np.maximum(self._since, unrest), self._since)
        if opens:
            self.largest = np.where(users, since, self.largest)
            since = np.where(users, 0.0, since)
        self._since = since

    def hear(self, heard: Heard, void: BoolArray) -> None:
        """Takes what neighbours have heard of; ``void`` marks users who cannot rely on it."""
        self.largest = np.where(void, np.inf, heard.largest(UNREST))

    def void(self, users: BoolArray) -> None:
        """What these users know counts no more, nor does what they have said."""
        self.largest = np.where(users, np.inf, self.largest)
        self._since = np.where(users, np.inf, self._since)
