"""The cycles of :mod:`unpooled.protocols.mesh.gossip`: label, average, step; epochs, and the
end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from unpooled.data.tables import LARGEST
from unpooled.losses import Loss
from unpooled.messages.message import Note, Post
from unpooled.protocols.mesh.base import Block, Heard, Peer, only
from unpooled.protocols.mesh.gossip.assignment import Labelling
from unpooled.protocols.mesh.gossip.averaging import Averaging, Gossip, longest
from unpooled.protocols.mesh.gossip.windows import Windows
from unpooled.protocols.mesh.shared.common_start import Merged
from unpooled.protocols.mesh.shared.global_bounds import OWN
from unpooled.protocols.mesh.shared.rounds import farthest
from unpooled.protocols.mesh.shared.stopping import UNREST
from unpooled.types import Body, BoolArray, FloatArray, IntArray

_PARTED = -1
"""The epoch of a user's last words."""
_STOPPED = -2
"""The same of one that has run out of rounds."""
_NONE = 1e-12
"""A share of all weight that is nothing but rounding."""
_SETTLED = 1e-9
"""A share of all weight that decides about no cluster."""
_MOMENTUM = 0.5
"""How far beyond the means, over how far these came."""
_BY_ROTE = 30
"""For how many cycles at most."""
_AT_ONCE = 20
"""For how many cycles users change labels whenever rows are nearer to another centre."""
_LONGEST = 6
"""The power of two of cycles that they wait for at most later on."""
_NOT_YET = 1e300
"""Unrest of users whose rows stay but whose centres are not the means yet."""


@dataclass(frozen=True)
class Rules:
    """How long, how close, and whether centres go beyond the means on the way."""

    max_rounds: int
    tol: float
    momentum: bool


class Cycles:
    """The users' cycles, from the start to the end.

    Users in epoch 0 average as the plan says (``whole``), those in later ones as after a fault.
    """

    def __init__(
        self, block: Block, loss: Loss, start: Merged, whole: Averaging, rules: Rules
    ) -> None:
        n, k, d = start.centers.shape
        self._block, self._loss, self._rules = block, loss, rules
        self._whole, self._faulty = whole, Gossip.after_faults(block, "sums")
        self._x, self._known = start.centers, start.known
        self._scale, told = start.spread, start.spread > 0
        if not told.all():
            self._scale = np.where(told, start.spread, OWN["spread"](block, start.centers)[:, 0])
        self._running: BoolArray = np.ones(n, dtype=bool)
        self._leaving: BoolArray = np.zeros(n, dtype=bool)
        self._unfinished: BoolArray = np.ones(n, dtype=bool)
        self._rounds: IntArray = np.zeros(n, dtype=np.int64)

        self._epoch: IntArray = np.zeros(n, dtype=np.int64)
        self._latest: IntArray = np.zeros(n, dtype=np.int64)
        """The latest epoch heard of."""
        self._age: IntArray = np.zeros(n, dtype=np.int64)
        """Cycles in this epoch."""
        self._fault = start.broken | ~start.known
        """Who has noticed something in its epoch."""
        self._present: BoolArray = np.ones(len(block.neighbourhood.holder), dtype=bool)

        self._q, self._z, self._p = np.zeros((3, n, k, d + 1))
        self._before = self._z
        """z as the cycle began."""
        self._rows = Labelling(block, self._loss)
        self._patience: IntArray = np.zeros(n, dtype=np.int64)
        """How often rows went back at once to where they had come from, less how often they moved
        and did not."""
        self._movement: FloatArray = np.zeros(n)
        self._doubt: BoolArray = np.ones(n, dtype=bool)
        """Who has a cluster that may be empty or not."""
        self._windows = Windows(n)
        self._stirred: BoolArray = np.ones(n, dtype=bool)
        """Who knows no better than that rows still change cluster somewhere."""
        self._ahead: BoolArray = np.zeros(n, dtype=bool)
        """Whose centres went beyond the means."""
        self._last_means = start.centers

    def run(self) -> Peer[Body]:
        """All exchanges; the result."""
        # As long as any user's cycles may be, whatever it knows of the graph.
        most = max(self._whole.length, self._faulty.length, longest(self._block))
        for t in range(self._rules.max_rounds * most + 1):
            if t % self._faulty.length == 0:
                self._open_epochs()
            self._begin(t)
            body, to = self._words(t)
            heard = yield Post("sums", t, body, senders=self._running, to=to)
            self._running = self._running & ~self._leaving
            if not self._running.any():
                break
            self._hear(heard, t)
            ends = self._ending(t) & heard.awake
            if ends.any():
                yield Note(t, self._end(ends, t))
        return {"centers": self._x, "rounds": self._rounds, "running": self._unfinished}

    def _manners(self) -> Iterator[tuple[Averaging, BoolArray]]:
        """How users average, and which of them."""
        for averaging, users in ((self._whole, self._epoch == 0), (self._faulty, self._epoch > 0)):
            if users.any():
                yield averaging, users

    def _open_epochs(self) -> None:
        """Users that know of a fault forget their running mean, which what is lost is part of."""
        self._latest = np.maximum(self._latest, self._epoch + self._fault)
        opened = self._latest > self._epoch
        if opened.any():
            self._epoch, self._fault = self._latest.copy(), self._fault & ~opened
            self._q, self._z, self._p = (
                only(opened, np.zeros_like(old), old) for old in (self._q, self._z, self._p)
            )
            self._age = np.where(opened, 0, self._age)
            self._windows.void(opened)

    def _begin(self, t: int) -> None:
        """Where a cycle begins, users label their rows and add up what is in their clusters."""
        for averaging, users in self._manners():
            if t % averaging.length:
                continue
            looked = users & self._known
            change = averaging.exact | (t // averaging.length % self._seldom() == 0)
            self._rows.look(looked, self._x, change)
            self._learn_patience()
            self._age = self._age + users
            q = only(looked, self._rows.sums(self._x), self._q)
            z = averaging.begin(self._z, q, q - self._q)
            self._z, self._q = only(users, z, self._z), only(users, q, self._q)
            self._before = only(users, self._z, self._before)
            scale = np.where(self._scale > 0, self._scale, 1.0)
            # Where rows stay, a Lloyd step is the last one, but for what is left to agree on.
            moves = averaging.apart if self._rows.fixed else max(1.0, averaging.apart)
            unrest = np.where(self._rows.changed == 0, moves * self._movement / scale, np.inf)
            unrest = np.where(self._ahead, np.maximum(unrest, _NOT_YET), unrest)
            unrest[~looked | self._doubt] = np.inf
            self._windows.begin(users, unrest, opens=t % averaging.window == 0)

    def _seldom(self) -> IntArray:
        """Every how many cycles users change labels, where means are not exact.

        A row may then be sent to and fro for ever, each time by the means' having followed it. So
        from its 20th cycle on, a user one of whose rows went back at once waits twice as long,
        while means become as exact as it takes, and half as long again when rows move and none
        goes back. Any user waits for two cycles then, and for twice as many every hundred cycles.
        """
        patience = np.maximum(self._patience, 1 + self._age // 100)
        return np.asarray(2 ** np.where(self._age >= _AT_ONCE, np.minimum(patience, _LONGEST), 0))

    def _learn_patience(self) -> None:
        """From how rows moved when labels last changed."""
        less = self._patience - self._rows.moved
        more = np.where(self._rows.returned, self._patience + 1, less)
        self._patience = np.where(self._age >= _AT_ONCE, np.clip(more, 0, _LONGEST), 0)

    def _words(self, t: int) -> tuple[Body, BoolArray | None]:
        """What users say, and on which links."""
        holder = self._block.neighbourhood.holder
        links: BoolArray | None = None
        for averaging, users in self._manners():
            p, to = averaging.words(t % averaging.length, self._z, self._p)
            self._p = only(users, p, self._p)
            if to is not None:
                links = to | ~users[holder] | self._leaving[holder]
        sums = self._p
        if self._leaving.any():
            last = np.concatenate([self._x, np.ones((*self._x.shape[:2], 1))], axis=2)
            sums = only(self._leaving, last, sums)
        last_word = np.where(self._unfinished, _STOPPED, _PARTED)
        epoch = np.where(self._leaving, last_word, self._epoch)
        return {"sums": sums, UNREST: self._windows.largest, "epoch": epoch}, links

    def _hear(self, heard: Heard, t: int) -> None:
        near = self._block.neighbourhood
        epochs, spoken = heard.from_neighbours(near, "epoch"), heard.spoken(near)
        # Epochs are opened one at a time: a later one is no epoch, and who says so was not heard.
        sane = (epochs >= _STOPPED) & (epochs <= t // self._faulty.length + 1)
        self._fault[near.holder[spoken & ~sane]] = True
        spoken &= sane
        self._follow(heard, spoken & (epochs < 0))
        spoken &= heard.present
        used = spoken & (epochs == self._epoch[near.holder])
        for averaging, users in self._manners():
            z = averaging.hear(t % averaging.length, self._z, self._p, heard, used)
            self._z = only(users & heard.awake, z, self._z)

        self._fault |= ~heard.awake
        self._fault[near.holder[heard.present != self._present]] = True
        self._present = heard.present
        np.maximum.at(self._latest, near.holder[spoken], epochs[spoken])
        apart = self._fault | (self._latest > self._epoch)
        apart[near.holder[spoken & ~used]] = True
        self._windows.hear(heard, apart)

    def _follow(self, heard: Heard, parted: BoolArray) -> None:
        """Whoever hears that a neighbour has parted takes its centres and parts as well."""
        near = self._block.neighbourhood
        if not parted.any():
            return
        told = heard.from_neighbours(near, "sums")[parted]
        x = told[..., :-1]
        sane = (told[..., -1] == 1).all(axis=1) & (np.abs(x) <= LARGEST).all(axis=(1, 2))
        sane &= self._loss.inside(x).all(axis=1)
        may = self._running & heard.awake & ~self._leaving
        self._fault[near.holder[parted][~sane]] = True
        sane &= may[near.holder[parted]]
        links = np.flatnonzero(parted)[sane]
        users, first = np.unique(near.holder[links], return_index=True)
        self._x = self._x.copy()
        self._x[users] = x[sane][first]
        self._leaving[users] = True
        epochs = heard.from_neighbours(near, "epoch")[links[first]]
        self._unfinished[users] &= epochs == _STOPPED

    def _ending(self, t: int) -> BoolArray:
        """Whose cycle ends with this exchange."""
        ending = np.zeros_like(self._running)
        for averaging, users in self._manners():
            if (t + 1) % averaging.length == 0:
                ending |= users
        return ending & self._running & ~self._leaving

    def _end(self, ends: BoolArray, t: int) -> Body:
        """New centres, and whether that is all; what there is to say of the cycle."""
        for averaging, users in self._manners():
            users = users & ends
            if not users.any():
                continue
            if (t + 1) % averaging.window == 0:
                stirred = ~np.isfinite(self._windows.largest) & (averaging is self._whole)
                self._stirred = np.where(users, stirred, self._stirred)
            self._fault |= users & ~np.isfinite(self._z).all(axis=(1, 2))  # no honest sum is
            x = self._means(users, averaging.left)
            x = self._beyond(users, x)
            self._movement = np.where(users, farthest(x - self._x), self._movement)
            self._x = x
            self._rounds = self._rounds + users
            at_rest = users & ((t + 1) % averaging.window == 0)
            at_rest &= self._windows.largest <= self._rules.tol
            if self._rules.tol > 0:
                self._unfinished &= ~at_rest
                self._leaving |= at_rest
            self._leaving |= users & (self._rounds >= self._rules.max_rounds)
        return {
            "cost": self._rows.costs(self._x),
            "centers": self._x,
            "changed": self._rows.changed,
            "movement": self._movement,
        }

    def _beyond(self, users: BoolArray, means: FloatArray) -> FloatArray:
        """Goes on the way that the means took, while rows change cluster: fewer steps are needed.

        Of the steps that are taken by rote there are only so many, and after them come Lloyd's
        own, which always come to an end. Where rows stay, all know it and go to the means.
        """
        few = self._rounds < min(_BY_ROTE, self._rules.max_rounds - 1)
        further = users & self._stirred & self._known & few & self._rules.momentum
        beyond = means + _MOMENTUM * (means - self._last_means)
        further &= self._loss.inside(beyond).all(axis=1)
        self._last_means = only(users, means, self._last_means)
        self._ahead = np.where(users, further, self._ahead)
        return only(further, beyond, means)

    def _means(self, users: BoolArray, left: float) -> FloatArray:
        """Sums over weights, for clusters that surely have any; the others' centres stay.

        What is left of users' differences is in doubt: as much of how far a cycle has taken a
        user's weights. Sums and weights err alike, so a mean is better than either of them.
        """
        weights = self._z[..., -1]
        total = np.maximum(weights.sum(axis=1, keepdims=True), 0.0)
        way = np.abs(weights - self._before[..., -1])
        filled = weights > np.maximum(_NONE * total, 2 * left * way)
        means = self._z[..., :-1] / np.where(filled, weights, 1.0)[..., None]
        filled &= self._loss.inside(means)
        in_doubt = (~filled & (left * way > _SETTLED * total)).any(axis=1)
        self._doubt = np.where(users, in_doubt, self._doubt)
        # A user without centres takes them all at once; what is empty repeats another and stays so.
        lost = users & ~self._known & filled.any(axis=1)
        spare = means[np.arange(len(means)), filled.argmax(axis=1)]
        old = np.where(lost[:, None, None], spare[:, None, :], self._x)
        self._known = self._known | lost
        new = np.where((filled & self._known[:, None])[..., None], means, old)
        return only(users, new, self._x)
