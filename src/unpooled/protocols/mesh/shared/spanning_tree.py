"""Users find a breadth-first spanning tree by flooding, each knowing its own links only.

**Flooding.** Every user sends the lowest user number that it has heard of, and how many hops away
that user is. After ``reach`` exchanges all know the lowest number: its user is the root. A user's
parent is the neighbour with the smallest number of hops to the root, the lowest number of equals.

**Echo.** In one more exchange each user sends the number of its parent, so that parents know their
children. All in all ``reach`` + 1 exchanges of at most two integers. The tree is breadth-first: no
user is farther from the root than in the graph.

**Faults.** A neighbour that is not heard does not take part: the root is the lowest number of those
that are up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.messages.message import Post
from unpooled.messages.release import Release
from unpooled.protocols.mesh.base import Block, Heard, Peer
from unpooled.types import BoolArray, IntArray

TREE_RELEASES = (
    Release(
        "tree",
        ("seen",),
        ("model",),
        "the lowest user number seen, and how many hops away it is",
        shapes={"seen": (2,)},
        types={"seen": "int64"},
    ),
    Release(
        "echo",
        ("parent",),
        ("model",),
        "the number of a user's parent in the tree",
        shapes={"parent": ()},
        types={"parent": "int64"},
    ),
)
"""What `find_tree` sends."""


@dataclass(frozen=True)
class BreadthFirstTree:
    """What the users of a block know of the spanning tree."""

    hops: IntArray
    """How far each user is from the root; 0 is the root, or a user that heard of nobody lower."""
    to_parent: BoolArray
    """Marks the link to each user's parent, among all of the block's links."""
    to_children: BoolArray
    """Marks the links to children."""
    broken: BoolArray
    """Which users missed a neighbour, or were down, while the tree was found."""

    def has_parent(self, block: Block) -> BoolArray:
        """Which users have a parent."""
        return self.parent_marked(block, np.ones_like(self.to_parent))

    def parent_marked(self, block: Block, links: BoolArray) -> BoolArray:
        """For each user, whether the link to its parent is marked; False for those without one."""
        found: BoolArray = np.zeros(len(block), dtype=bool)
        found[block.neighbourhood.holder[self.to_parent & links]] = True
        return found


def find_tree(block: Block) -> Peer[BreadthFirstTree]:
    """The breadth-first tree whose root is the lowest user number."""
    near = block.neighbourhood
    holder, (own, other) = near.holder, near.ends
    seen = np.stack([near.users, np.zeros_like(near.users)], axis=1)
    broken = np.zeros(len(block), dtype=bool)
    parent: IntArray = np.full(len(block), -1, dtype=np.int64)

    for step in range(block.reach):
        heard = yield Post("tree", step, {"seen": seen})
        broken |= missed_neighbours(block, heard)
        offered, possible = _offers(block, heard)
        rank = np.where(possible, _rank(offered), np.iinfo(np.int64).max)
        best = _rank(seen)
        np.minimum.at(best, holder, rank)
        seen = np.stack(np.divmod(best, _HOPS), axis=1)
        # Parents are found anew in every exchange, and those of the last one count: a neighbour
        # that then offers exactly what the user knows is one hop nearer to the root.
        offer = np.where(rank == best[holder], other, np.iinfo(np.int64).max)
        parent = np.full(len(block), np.iinfo(np.int64).max)
        np.minimum.at(parent, holder, offer)
        parent = np.where((seen[:, 1] > 0) & (parent < np.iinfo(np.int64).max), parent, -1)

    heard = yield Post("echo", 0, {"parent": parent})
    broken |= missed_neighbours(block, heard)
    children = (heard.from_neighbours(near, "parent") == own) & heard.received(near)
    hops = np.where(parent >= 0, seen[:, 1], 0)
    return BreadthFirstTree(hops, other == parent[holder], children, broken)


def missed_neighbours(block: Block, heard: Heard) -> BoolArray:
    """Which users did not hear all of their neighbours, or were down.

    A neighbour that has terminated is missing too: a user that is still at the start is late then.
    """
    missed = ~heard.awake
    missed[block.neighbourhood.holder[~heard.present]] = True
    return missed


_HOPS = 2**31


def _rank(seen: IntArray) -> IntArray:
    """One integer by which (lowest number, hops) are ordered."""
    return seen[:, 0] * _HOPS + seen[:, 1]


def _offers(block: Block, heard: Heard) -> tuple[IntArray, BoolArray]:
    """What a user would have seen through each of its links, and where that can be true."""
    near, m = block.neighbourhood, block.graph.n_users
    offered = heard.from_neighbours(near, "seen") + np.array([0, 1])
    sane = ((offered >= [0, 1]) & (offered <= m)).all(axis=1)
    return offered, sane & heard.received(near)
