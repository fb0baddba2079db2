r"""k-means between neighbours by gossiped sums: the clustering of pooled rows, nobody in charge.

Users i = 1..m hold rows y_ir with weights w_ir. Instead of moving centres towards each other, as
DGC does, they average what centres are made of. A *cycle* is a Lloyd step of the pooled rows:

  (a) every user labels its rows by its centres x(k) and adds up
          Q_i(k) = ( sum_{r in C_i(k)} w_ir g_ir y_ir,  sum_{r in C_i(k)} w_ir g_ir ),
      with g_ir = 1 for k-means and Bregman losses, and for other losses of the distance
      g_ir = f'(t) / t (Huber: min(1, delta/t)), by which the step never raises the cost either;
  (b) users find the mean of the Q_i, by S exchanges with their neighbours;
  (c) x(k) = (mean of sums) / (mean of weights).

**The start** is merged along a tree (:mod:`unpooled.protocols.mesh.shared.merging`), so all users
have the same centres in the same order, made from everybody's rows.

**Averaging** is one replaceable step. By *gossip*: a polynomial in the mixing matrix
(:mod:`unpooled.kernels.linalg.polynomials`) of S exchanges. It is a *running* mean: z_i starts as
0, every cycle adds what is new, z_i += Q_i - (Q_i of the cycle before), and the polynomial leaves
the sum over users as it is and shrinks their differences by theta or more. So sum_i z_i = sum_i Q_i
always, averages need not be exact in any one cycle, and become so as rows stop changing. By *tree*:
sums go up the tree and their total comes down, exactly and to the same bits for all, in twice its
height of exchanges; far fewer numbers travel.

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

from dataclasses import KW_ONLY, dataclass, field
from math import inf

import numpy as np

from unpooled.losses import Loss, SquaredEuclidean
from unpooled.messages.release import FINITE, Columns, Release
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.mesh.shared.averaging import Averaging, Gossip, TreeSums
from unpooled.protocols.mesh.shared.cycles import Cycles, Rules
from unpooled.protocols.mesh.shared.flooding import TREE_RELEASES, Tree, find_tree
from unpooled.protocols.mesh.shared.merging import Merged, merge, merge_releases
from unpooled.protocols.mesh.shared.spectrum import LEAST, PROBE_RELEASE, probe
from unpooled.protocols.mesh.shared.starts import refuse_outside
from unpooled.protocols.mesh.shared.stopping import UNREST
from unpooled.types import Body, FloatArray


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
        refuse_outside(block, start.centers, self.loss, start.known)
        averaging = self._averaging(block, tree, start)
        rules = Rules(self.max_rounds, self.tol, momentum=self.init is None)
        return (yield from Cycles(block, self.loss, start, averaging, rules).run())

    def _averaging(self, block: Block, tree: Tree | None, start: Merged) -> Averaging:
        if self.averaging == "tree" and block.reach:
            assert tree is not None
            height = start.height[~start.broken].max(initial=0)
            return TreeSums(block, tree, int(height) or block.reach, "sums")
        if self.topology == "shared":
            return Gossip.planned(block, "sums")
        if not self._probes:
            return Gossip.after_faults(block, "sums")  # nothing is known of the graph
        low = start.made[~start.broken].max(initial=0.0)
        return Gossip.between(block, float(np.clip(low, LEAST, 2.0)), 2.0, "sums")


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
