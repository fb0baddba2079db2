"""Max-consensus of residuals over windows: all users decide to stop in the same exchange.

A window is as many whole cycles as a message needs from any user to all others. Where a cycle
begins, each user states its residual. A user enters a window with the largest residual that it has
stated since the window before began, the present cycle included. The largest of all users' then
spreads with the exchanges of the window. So at its end all users know the same largest residual and
decide alike, however short a cycle is.

Methods with one exchange per round have :mod:`unpooled.protocols.mesh.shared.stopping` for it.
"""

from __future__ import annotations

import numpy as np

from unpooled.protocols.mesh.base import Heard
from unpooled.protocols.mesh.shared.stopping import RESIDUAL
from unpooled.types import BoolArray, FloatArray


class ResidualWindows:
    """The largest residual that each user knows of, window by window."""

    def __init__(self, n_users: int) -> None:
        self.largest: FloatArray = np.full(n_users, np.inf)
        """What users send, and decide by at the end of a window."""
        self._stated: FloatArray = np.zeros(n_users)
        """The largest of a user's own since the last window began."""

    def begin_cycle(self, users: BoolArray, residual: FloatArray, *, opens: bool) -> None:
        """A cycle of these users begins, and with it a window if it ``opens`` one."""
        stated = np.where(users, np.maximum(self._stated, residual), self._stated)
        if opens:
            self.largest = np.where(users, stated, self.largest)
            stated = np.where(users, 0.0, stated)
        self._stated = stated

    def receive(self, heard: Heard, void: BoolArray) -> None:
        """Takes what neighbours know of; ``void`` marks users who cannot rely on it."""
        self.largest = np.where(void, np.inf, heard.largest(RESIDUAL))

    def reset(self, users: BoolArray) -> None:
        """These users do not stop in this window, nor by what they have stated in it."""
        self.largest = np.where(users, np.inf, self.largest)
        self._stated = np.where(users, np.inf, self._stated)
