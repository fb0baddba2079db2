"""The parameters of gossip k-means, its releases, and the order of its stages."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from math import inf

import numpy as np

from unpooled.losses import Loss, SquaredEuclidean
from unpooled.messages.release import FINITE, Columns, Release
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.mesh.gossip.averaging import Averaging, Gossip, TreeSums
from unpooled.protocols.mesh.gossip.cycles import Cycles, Rules
from unpooled.protocols.mesh.gossip.spectral_gap import LEAST, PROBE_RELEASE, probe
from unpooled.protocols.mesh.shared.common_start import Merged, merge, merge_releases
from unpooled.protocols.mesh.shared.domain import refuse_outside
from unpooled.protocols.mesh.shared.spanning_tree import TREE_RELEASES, Tree, find_tree
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
