r"""k-means between neighbours by gossiped sums: the clustering of pooled rows, nobody in charge.

Users i = 1..m hold rows y_ir with weights w_ir. Instead of moving centres towards each other, as
DGC does, they average what centres are made of. A *cycle* is a Lloyd step of the pooled rows:

  (a) every user labels its rows by its centres x(k) and adds up
          Q_i(k) = ( sum_{r in C_i(k)} w_ir g_ir y_ir,  sum_{r in C_i(k)} w_ir g_ir ),
      with g_ir = 1 for k-means and Bregman losses, and for other losses of the distance
      g_ir = f'(t) / t (Huber: min(1, delta/t)), by which the step never raises the cost either;
  (b) users find the mean of the Q_i, by S exchanges with their neighbours;
  (c) x(k) = (mean of sums) / (mean of weights).

**The start** is merged along a tree (:mod:`unpooled.protocols.merging`), so all users have the same
centres in the same order, made from everybody's rows.

**Averaging** is one replaceable step. By *gossip*: a polynomial in the mixing matrix
(:mod:`unpooled.kernels.polynomials`) of S exchanges. It is a *running* mean: z_i starts as 0, every
cycle adds what is new, z_i += Q_i - (Q_i of the cycle before), and the polynomial leaves the sum
over users as it is and shrinks their differences by theta or more. So sum_i z_i = sum_i Q_i always,
averages need not be exact in any one cycle, and become so as rows stop changing. By *tree*: sums go
up the tree and their total comes down, exactly and to the same bits for all, in twice its height of
exchanges; far fewer numbers travel.

**Momentum.** From a merged start (from given centres every cycle is Lloyd's own step), while rows
change cluster, centres go on beyond the means, by half of the way that the means took since the
cycle before: it takes fewer steps to where they stay. As soon as they stay everywhere, which all
users know at the same time, centres go to the means themselves; and after 30 cycles always. Lloyd's
steps end after finitely many, so the end is a Lloyd point in any case.

**Stopping.** A user is calm in a cycle if none of its rows changed cluster, its centres moved by
no more than tol times the spread of the data, and no cluster is in doubt. The largest unrest
travels with the sums; a *window* is as many cycles as take a word from anybody to everybody, and at
its end all users know whether all were calm at the window's beginning (and since the one before):
so all decide alike, in the same exchange, also where a cycle is shorter than the way across the
graph. They part with one more exchange, in which they tell their centres.

**Faults.** A user that misses a neighbour, or hears one that was missing, opens a new *epoch*: it
forgets its running mean and starts again from its own sums, and whoever hears of a later epoch
does the same. Users mix with those of their own epoch only, so within an epoch the z_i add up to
the Q_i of the users in it, whatever happened before. What is guaranteed, while links carry both
ways or neither:

  * the rows of a user that is gone leave the mean, and those who remain and can reach each other
    end at one Lloyd point of their own rows; when it returns its rows count again;
  * a user that was not there at the start, or has lost its centres, adds nothing in its first
    cycle, takes centres from the mean, and counts from then on;
  * if the root of the tree dies during the start, another one's centres are taken;
  * a user who comes back after the others have parted takes the centres they parted with;
  * lost messages cost time only, as drivers repeat them.

After a fault the polynomial is one that needs no knowledge of the graph, and windows are as long as
the way through all users one after the other, or 4 times the graph's reach in a network of more
than 64 users: there a network that faults have made longer than that may stop in parts.

**What neighbours can read.** In the first exchange of a run, and of an epoch, a user sends its own
exact sums and weights of every cluster to all of its neighbours, and its innovations later can be
solved for by whoever hears it and all of its neighbours, in most cases by its neighbours alone.
Where a single row changes cluster, that is a row. By tree, the parent reads the sums of a whole
branch: exactly those of a user that has no children. No minimum count can be kept here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from math import inf

import numpy as np

from unpooled.losses import Loss, SquaredEuclidean
from unpooled.protocols.averaging import Averaging, Gossip, TreeSums
from unpooled.protocols.flooding import TREE_RELEASES, Tree, find_tree
from unpooled.protocols.labelling import Labelling
from unpooled.protocols.limits import OWN
from unpooled.protocols.merging import Merged, merge, merge_releases
from unpooled.protocols.mesh import Block, Heard, MeshProtocol, Peer, only
from unpooled.protocols.rounds import farthest
from unpooled.protocols.spectrum import PROBE_RELEASE, probe
from unpooled.protocols.stopping import UNREST, Windows
from unpooled.types import Body, BoolArray, FloatArray, IntArray
from unpooled.wire.message import Note, Post
from unpooled.wire.policy import FINITE, Columns, Release

_PARTED = -1
"""The epoch of a user's last words."""
_NONE = 1e-12
"""A share of all weight that is nothing but rounding."""
_SETTLED = 1e-9
_MOMENTUM = 0.5
_BY_ROTE = 30
_NOT_YET = 1e300
"""Unrest of users whose rows stay but whose centres are not the means yet."""


@dataclass(frozen=True)
class GossipKMeans(MeshProtocol):
    """The parameters; ``init`` are centres (K, d) that all users know, None for the merged ones."""

    name = "gossip"

    n_clusters: int
    init: FloatArray | None = None
    _: KW_ONLY
    loss: Loss = field(default_factory=SquaredEuclidean)
    topology: str = "shared"
    averaging: str = "gossip"
    n_init: int = 10
    max_rounds: int = 1000
    tol: float = 1e-6

    @property
    def releases(self) -> tuple[Release, ...]:
        start: tuple[Release, ...] = ()
        if self._probes:
            start = (PROBE_RELEASE, *merge_releases(self.n_clusters, added=True, n_made=1))
        elif self.init is None:
            start = merge_releases(self.n_clusters)
        return (
            *(TREE_RELEASES if self._needs_tree else ()),
            *start,
            Release(
                "sums",
                ("sums", UNREST, "epoch"),
                ("sums", "counts"),
                "weighted sums and weights of the rows of every cluster, mixed with neighbours'",
                shapes={"sums": (self.n_clusters, Columns(plus=1)), UNREST: (), "epoch": ()},
                bounds={"sums": FINITE, UNREST: inf},
                types={"epoch": "int64"},
            ),
        )

    @property
    def _needs_tree(self) -> bool:
        return self.init is None or self.averaging == "tree"

    @property
    def _probes(self) -> bool:
        """Whether users find out together how fast their graph averages."""
        return self.init is None and self.topology == "private" and self.averaging == "gossip"

    def peer(self, block: Block) -> Peer[Body]:
        """One block's part of the algorithm."""
        tree = (yield from find_tree(block)) if self._needs_tree else None
        beside = (yield from probe(block)) if self._probes else None
        if self.init is None:
            assert tree is not None
            start = yield from merge(block, tree, self.n_clusters, self.n_init, self.loss, beside)
        else:
            start = _given(block, self.init, tree)
        return (yield from _Cycles(self, block, start, self._averaging(block, tree, start)).run())

    def _averaging(self, block: Block, tree: Tree | None, start: Merged) -> Averaging:
        if self.averaging == "tree" and block.reach:
            assert tree is not None
            return TreeSums(block, tree, int(start.height.max()), "sums")
        if self.topology == "shared":
            return Gossip.planned(block, "sums")
        if not self._probes:
            return Gossip.after_faults(block, "sums")  # nothing is known of the graph
        return Gossip.between(block, float(start.made.max(initial=0.0)) or 2.0, 2.0, "sums")


def _given(block: Block, centers: FloatArray, tree: Tree | None) -> Merged:
    n = len(block)
    return Merged(
        np.broadcast_to(centers, (n, *centers.shape)).copy(),
        np.ones(n, dtype=bool),
        np.zeros(n),
        np.full(n, block.reach),
        np.zeros(n, dtype=bool) if tree is None else tree.broken,
        np.empty((n, 0)),
    )


class _Cycles:
    """The users' cycles, from the start to the end.

    Users in epoch 0 average as the plan says (``whole``), those in later ones as after a fault.
    """

    def __init__(
        self, protocol: GossipKMeans, block: Block, start: Merged, whole: Averaging
    ) -> None:
        n, k, d = start.centers.shape
        self._protocol, self._block, self._loss = protocol, block, protocol.loss
        self._whole, self._faulty = whole, Gossip.after_faults(block, "sums")
        self._x, self._known = start.centers, start.known
        own = OWN["spread"](block, start.centers)[:, 0]
        self._scale = np.where(start.spread > 0, start.spread, own)
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
        longest = max(self._whole.length, self._faulty.length)
        for t in range(self._protocol.max_rounds * longest + 1):
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
        users that have been at it for 20 cycles change labels every second cycle, after 30 every
        fourth and so on, while means become as exact as it takes.
        """
        return np.asarray(2 ** np.clip(self._age // 10 - 1, 0, 6))

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
        epoch = np.where(self._leaving, _PARTED, self._epoch)
        return {"sums": sums, UNREST: self._windows.largest, "epoch": epoch}, links

    def _hear(self, heard: Heard, t: int) -> None:
        near = self._block.neighbourhood
        epochs, spoken = heard.from_neighbours(near, "epoch"), heard.spoken(near)
        self._follow(heard, spoken & (heard.ended | (epochs == _PARTED)))
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
        follows = np.zeros_like(self._running)
        users, first = np.unique(near.holder[parted], return_index=True)
        follows[users] = True
        follows &= self._running & heard.awake & ~self._leaving
        if not follows.any():
            return
        links = np.flatnonzero(parted)[first][follows[users]]
        told = heard.from_neighbours(near, "sums")[links]
        weight = np.where(told[..., -1:] > 0, told[..., -1:], 1.0)
        x = self._x.copy()
        x[follows] = told[..., :-1] / weight
        self._x, self._leaving = x, self._leaving | follows
        self._unfinished &= ~follows

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
            x = self._means(users, averaging.left if averaging.running else 0.0)
            x = self._beyond(users, x)
            self._movement = np.where(users, farthest(x - self._x), self._movement)
            self._x = x
            self._rounds = self._rounds + users
            at_rest = users & ((t + 1) % averaging.window == 0)
            at_rest &= self._windows.largest <= self._protocol.tol
            if self._protocol.tol > 0:
                self._unfinished &= ~at_rest
                self._leaving |= at_rest
            self._leaving |= users & (self._rounds >= self._protocol.max_rounds)
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
        few = self._rounds < min(_BY_ROTE, self._protocol.max_rounds - 1)
        further = users & self._stirred & self._known & few & (self._protocol.init is None)
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
        nothing = _NONE * np.maximum(weights.sum(axis=1, keepdims=True), 0.0)
        way = np.abs(weights - self._before[..., -1])
        filled = weights > np.maximum(nothing, 2 * left * way)
        means = self._z[..., :-1] / np.where(filled, weights, 1.0)[..., None]
        filled &= self._loss.inside(means)
        in_doubt = (~filled & (left * way > _SETTLED / _NONE * nothing)).any(axis=1)
        self._doubt = np.where(users, in_doubt, self._doubt)
        # A user without centres takes them all at once; what is empty repeats another and stays so.
        lost = users & ~self._known & filled.any(axis=1)
        spare = means[np.arange(len(means)), filled.argmax(axis=1)]
        old = np.where(lost[:, None, None], spare[:, None, :], self._x)
        self._known = self._known | lost
        new = np.where((filled & self._known[:, None])[..., None], means, old)
        return only(users, new, self._x)
