"""The cycles of gossip k-means, exchange by exchange: assign rows, average sums, update centres.

Users in epoch 0 average as planned, those in later epochs as after a fault; both may be in one
block. A cycle takes ``Averaging.length`` exchanges, counted from the first exchange of the run, so
all users of an epoch begin and end their cycles together without any message about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unpooled.losses import Loss
from unpooled.messages.message import Note, Post
from unpooled.protocols.mesh.base import Block, Heard, Peer, only
from unpooled.protocols.mesh.gossip.assignment import RelabelBackoff, RowAssignment
from unpooled.protocols.mesh.gossip.averaging import Averaging, PolynomialGossip, longest_cycle
from unpooled.protocols.mesh.gossip.center_update import CenterUpdate
from unpooled.protocols.mesh.gossip.epochs import Epochs
from unpooled.protocols.mesh.gossip.termination import OUT_OF_ROUNDS, Termination
from unpooled.protocols.mesh.gossip.windows import ResidualWindows
from unpooled.protocols.mesh.shared.common_start import CommonStart
from unpooled.protocols.mesh.shared.global_bounds import OWN_VALUES
from unpooled.protocols.mesh.shared.stopping import RESIDUAL
from unpooled.types import Body, BoolArray, FloatArray, IntArray

_MOMENTUM_CYCLES = 30
"""For how many cycles at most centres go beyond the means."""
_NOT_AT_MEANS = 1e300
"""The residual of users whose rows stay but whose centres are not the means yet: above every
tolerance, but finite, by which others know that rows stay."""


@dataclass(frozen=True)
class CycleOptions:
    """How long, how close, and whether centres go beyond the means on the way."""

    max_rounds: int
    tol: float
    momentum: bool


class LloydCycles:
    """All cycles of a block's users, from the common start to the end."""

    def __init__(
        self,
        block: Block,
        loss: Loss,
        start: CommonStart,
        planned: Averaging,
        options: CycleOptions,
    ) -> None:
        n, k, d = start.centers.shape
        self._block, self._options = block, options
        self._planned = planned
        self._after_faults = PolynomialGossip.after_faults(block, "sums")
        self._scale, known = start.spread, start.spread > 0
        if not known.all():
            own_spread = OWN_VALUES["spread"](block, start.centers)[:, 0]
            self._scale = np.where(known, start.spread, own_spread)
        self._rounds: IntArray = np.zeros(n, dtype=np.int64)
        self._epochs = Epochs(block, start.broken | ~start.known)
        self._rows = RowAssignment(block, loss)
        self._backoff = RelabelBackoff(n)
        self._update = CenterUpdate(start, loss)
        self._windows = ResidualWindows(n)
        self._termination = Termination(block, loss)

        self._q, self._z, self._p = np.zeros((3, n, k, d + 1))
        """The users' own sums, their running means, and what they sent last."""
        self._z_before = self._z
        """z as the cycle began."""
        self._rows_change: BoolArray = np.ones(n, dtype=bool)
        """Who must suppose that rows still change cluster somewhere."""

    def run(self) -> Peer[Body]:
        """All exchanges; the result."""
        ending = self._termination
        # No user's cycles are longer, whatever it knows of the graph.
        length = max(self._planned.length, self._after_faults.length, longest_cycle(self._block))
        for t in range(self._options.max_rounds * length + 1):
            if t % self._after_faults.length == 0:
                self._open_epochs()
            self._begin_cycles(t)
            body, to = self._outgoing(t)
            heard = yield Post("sums", t, body, senders=ending.running, to=to)
            if not ending.leave():
                break
            self._receive(heard, t)
            ends = self._ends_of_cycles(t) & heard.awake
            if ends.any():
                yield Note(t, self._end_cycles(ends, t))
        return {
            "centers": self._update.centers,
            "rounds": self._rounds,
            "running": ending.unconverged,
        }

    def _averagings(self) -> Iterator[tuple[Averaging, BoolArray]]:
        """The ways to average that are in use, and by which users."""
        first = self._epochs.number == 0
        for averaging, users in ((self._planned, first), (self._after_faults, ~first)):
            if users.any():
                yield averaging, users

    def _open_epochs(self) -> None:
        """Users that know of a fault forget their running mean, of which what was lost is part."""
        opened = self._epochs.open()
        if opened.any():
            self._q, self._z, self._p = (
                only(opened, np.zeros_like(old), old) for old in (self._q, self._z, self._p)
            )
            self._windows.reset(opened)

    def _begin_cycles(self, t: int) -> None:
        """Where a cycle begins, users assign their rows and add up their clusters."""
        epochs = self._epochs
        for averaging, users in self._averagings():
            if t % averaging.length:
                continue
            assigned, x = users & self._update.known, self._update.centers
            interval = self._backoff.interval(epochs.age)
            change = averaging.exact | (t // averaging.length % interval == 0)
            self._rows.update(assigned, x, change)
            self._backoff.learn(epochs.age, self._rows)
            epochs.age = epochs.age + users
            q = only(assigned, self._rows.sums(x), self._q)
            z = averaging.begin(self._z, q, q - self._q)
            self._z, self._q = only(users, z, self._z), only(users, q, self._q)
            self._z_before = only(users, self._z, self._z_before)
            residual = self._residual(averaging, assigned)
            self._windows.begin_cycle(users, residual, opens=t % averaging.window == 0)

    def _residual(self, averaging: Averaging, assigned: BoolArray) -> FloatArray:
        """How far users are from the end, over the spread of rows; infinite if rows change."""
        scale = np.where(self._scale > 0, self._scale, 1.0)
        # Where rows stay and sums depend on labels alone, a Lloyd step is the last one: then only
        # what users still have to agree on counts.
        per_move = averaging.residual_per_move
        per_move = per_move if self._rows.labels_fix_sums else max(1.0, per_move)
        moves = per_move * self._update.movement / scale
        residual = np.where(self._rows.changed == 0, moves, np.inf)
        at_least = np.maximum(residual, _NOT_AT_MEANS)
        residual = np.where(self._update.beyond, at_least, residual)
        residual[~assigned | self._update.in_doubt] = np.inf
        return residual

    def _outgoing(self, t: int) -> tuple[Body, BoolArray | None]:
        """What users send, and on which links."""
        holder, leaving = self._block.neighbourhood.holder, self._termination.leaving
        links: BoolArray | None = None
        for averaging, users in self._averagings():
            p, to = averaging.outgoing(t % averaging.length, self._z, self._p)
            self._p = only(users, p, self._p)
            if to is not None:  # last posts, and those of other epochs, go to all neighbours
                links = to | ~users[holder] | leaving[holder]
        sums, epoch = self._termination.outgoing(self._p, self._epochs.number, self._update.centers)
        return {"sums": sums, RESIDUAL: self._windows.largest, "epoch": epoch}, links

    def _receive(self, heard: Heard, t: int) -> None:
        """Takes last posts, mixes what came from users of the same epoch, and notices faults."""
        near, own = self._block.neighbourhood, self._epochs
        epochs, links = heard.from_neighbours(near, "epoch"), heard.received(near)
        # Epochs are opened one at a time, so a number beyond the count of occasions is no epoch.
        sane = (epochs >= OUT_OF_ROUNDS) & (epochs <= t // self._after_faults.length + 1)
        own.report(links & ~sane)
        links &= sane
        self._update.centers, nonsense = self._termination.adopt(
            heard, links & (epochs < 0), self._update.centers
        )
        own.report(nonsense)
        links &= heard.present
        used = links & (epochs == own.number[near.holder])
        for averaging, users in self._averagings():
            z = averaging.update(t % averaging.length, self._z, self._p, heard, used)
            self._z = only(users & heard.awake, z, self._z)

        own.receive(heard, epochs, links)
        void = own.ending
        void[near.holder[links & ~used]] = True  # residuals of another epoch
        self._windows.receive(heard, void)

    def _ends_of_cycles(self, t: int) -> BoolArray:
        """Whose cycle ends with this exchange."""
        ends = np.zeros(len(self._block), dtype=bool)
        for averaging, users in self._averagings():
            if (t + 1) % averaging.length == 0:
                ends |= users
        return ends & self._termination.running & ~self._termination.leaving

    def _end_cycles(self, ends: BoolArray, t: int) -> Body:
        """Updates the centres of these users and decides whether they leave; the cycle's note."""
        ending, tol = self._termination, self._options.tol
        for averaging, users in self._averagings():
            users = users & ends
            if not users.any():
                continue
            decides = (t + 1) % averaging.window == 0
            if decides:
                change = ~np.isfinite(self._windows.largest) & (averaging is self._planned)
                self._rows_change = np.where(users, change, self._rows_change)
            # No honest sum is infinite, or no number.
            self._epochs.fault |= users & ~np.isfinite(self._z).all(axis=(1, 2))
            momentum = self._rows_change & self._may_use_momentum()
            self._update.apply(users, self._z, self._z_before, averaging.contraction, momentum)
            self._rounds = self._rounds + users
            if tol > 0:
                converged = users & decides & (self._windows.largest <= tol)
                ending.unconverged &= ~converged
                ending.leaving |= converged
            ending.leaving |= users & (self._rounds >= self._options.max_rounds)
        return {
            "cost": self._rows.costs(self._update.centers),
            "centers": self._update.centers,
            "changed": self._rows.changed,
            "movement": self._update.movement,
        }

    def _may_use_momentum(self) -> BoolArray:
        """Who is in its first cycles; the last cycle of all is always Lloyd's own step."""
        cycles = min(_MOMENTUM_CYCLES, self._options.max_rounds - 1)
        return np.asarray((self._rounds < cycles) & self._options.momentum)
