"""How long exchanges take when messages are lost and sent again.

Time is counted in slots, in which a message is sent once. A user goes on to its next exchange as
soon as it has heard all of its neighbours, so neighbours are at most one exchange apart, and there
is no clock that all of them wait for: with T_i(n) the slot in which user i has completed exchange n
and G_ji(n) how often j had to send to i,

    T_i(n) = max( T_i(n - 1) + 1, max over j in N_i of ( T_j(n - 1) + G_ji(n) ) ),

    P(G = g) = (1 - loss) loss^(g - 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from unpooled.graphs.topology import Topology
from unpooled.simulate.faults import MessagesLost
from unpooled.types import IntArray


class Retransmission:
    """The slots that have gone by at each user."""

    def __init__(self, graph: Topology, losses: Sequence[MessagesLost]) -> None:
        self._links = graph.adjacency
        self._arrives = float(np.prod([1.0 - loss.rate for loss in losses]))
        self._seeds = [loss.seed for loss in losses]
        self._times: IntArray = np.zeros(graph.n_users, dtype=np.int64)

    @property
    def elapsed(self) -> int:
        """Slots until the last user was done."""
        return int(self._times.max(initial=0))

    def tries(self, exchange: int, times: int = 1) -> sp.csr_array | None:
        """How often each user (row) sends to each neighbour (column); None if always once.

        Where nothing is lost, of ``times`` exchanges in a row.
        """
        sent = None
        if self._arrives < 1:
            rng = np.random.default_rng([exchange, *self._seeds])
            copies = rng.geometric(self._arrives, size=self._links.nnz)
            sent = sp.csr_array(
                (copies, self._links.indices, self._links.indptr), shape=self._links.shape
            )
        self._let_pass(sent, times)
        return sent

    def _let_pass(self, sent: sp.csr_array | None, times: int) -> None:
        before, after = self._times, self._times + times
        if sent is not None:
            senders = np.repeat(np.arange(len(before)), np.diff(sent.indptr))
            np.maximum.at(after, sent.indices, before[senders] + sent.data)
        self._times = after
