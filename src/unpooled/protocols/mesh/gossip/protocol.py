"""The parameters of gossip k-means, its releases, and the order of its stages."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from math import inf

import numpy as np

from unpooled.losses import Loss, SquaredEuclidean
from unpooled.messages.release import FINITE, Columns, Release
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.mesh.gossip.averaging import Averaging, PolynomialGossip, TreeSums
from unpooled.protocols.mesh.gossip.cycles import CycleOptions, LloydCycles
from unpooled.protocols.mesh.gossip.spectral_gap import MIN_GAP, PROBE_RELEASE, probe_spectrum
from unpooled.protocols.mesh.shared.common_start import (
    CommonStart,
    common_start_releases,
    find_common_start,
)
from unpooled.protocols.mesh.shared.domain import refuse_outside
from unpooled.protocols.mesh.shared.spanning_tree import TREE_RELEASES, BreadthFirstTree, find_tree
from unpooled.protocols.mesh.shared.stopping import RESIDUAL
from unpooled.types import Body, FloatArray


@dataclass(frozen=True)
class GossipKMeans(MeshProtocol):
    """The parameters; ``init`` are centres (K, d) that all users know, None for a common start."""

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
        if self._estimates_gap:
            start = (
                PROBE_RELEASE,
                *common_start_releases(self.n_clusters, extra=True, n_results=1),
            )
        elif self.init is None:
            start = common_start_releases(self.n_clusters)
        return (
            *(TREE_RELEASES if self._needs_tree else ()),
            *start,
            Release(
                "sums",
                ("sums", RESIDUAL, "epoch"),
                ("sums", "counts"),
                "weighted sums and weights of the rows of every cluster, mixed with neighbours'",
                shapes={"sums": (self.n_clusters, Columns(plus=1)), RESIDUAL: (), "epoch": ()},
                bounds={"sums": FINITE, RESIDUAL: inf},
                types={"epoch": "int64"},
            ),
        )

    @property
    def _needs_tree(self) -> bool:
        return self.init is None or self.averaging == "tree"

    @property
    def _estimates_gap(self) -> bool:
        """Whether users estimate together how fast their graph averages."""
        return self.init is None and self.topology == "private" and self.averaging == "gossip"

    def peer(self, block: Block) -> Peer[Body]:
        """The algorithm as the users of one block run it."""
        tree = (yield from find_tree(block)) if self._needs_tree else None
        extra = (yield from probe_spectrum(block)) if self._estimates_gap else None
        if self.init is None:
            assert tree is not None
            start = yield from find_common_start(
                block,
                tree,
                self.n_clusters,
                self.n_init,
                self.loss,
                extra,
                private=self.topology == "private",
            )
        else:
            start = _given(block, self.init, tree)
        refuse_outside(block, start.centers, self.loss, start.known)
        averaging = self._averaging(block, tree, start)
        options = CycleOptions(self.max_rounds, self.tol, momentum=self.init is None)
        return (yield from LloydCycles(block, self.loss, start, averaging, options).run())

    def _averaging(
        self, block: Block, tree: BreadthFirstTree | None, start: CommonStart
    ) -> Averaging:
        """How users in epoch 0 average. Users with a broken start are never in it: they open an
        epoch at once, so what they know does not count here."""
        if self.averaging == "tree" and block.reach:
            assert tree is not None
            height = start.height[~start.broken].max(initial=0)
            return TreeSums(block, tree, int(height) or block.reach, "sums")
        if self.topology == "shared":
            return PolynomialGossip.planned(block, "sums")
        if not self._estimates_gap:
            return PolynomialGossip.after_faults(block, "sums")  # nothing is known of the graph
        low = start.root_results[~start.broken].max(initial=0.0)
        return PolynomialGossip.between(block, float(np.clip(low, MIN_GAP, 2.0)), 2.0, "sums")


def _given(block: Block, centers: FloatArray, tree: BreadthFirstTree | None) -> CommonStart:
    """Given centres, in the form of a common start that everybody knows."""
    n = len(block)
    return CommonStart(
        np.broadcast_to(centers, (n, *centers.shape)).copy(),
        np.ones(n, dtype=bool),
        np.zeros(n),
        np.full(n, block.reach),
        np.zeros(n, dtype=bool) if tree is None else tree.broken,
        np.empty((n, 0)),
    )
