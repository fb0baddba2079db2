"""What users who only know their neighbours can find out together: a largest value, a tree.

**Flooding.** Every exchange passes on the best that was heard so far; after ``reach`` exchanges it
has come from everywhere.

**The tree** is that of the lowest number: users flood (lowest number seen, hops to it), and the
parent is the neighbour with the fewest hops to it, the lowest of equals. In one more exchange, the
*echo*, each tells its parent, so that parents know their children: ``reach`` + 1 exchanges of two
integers. It is breadth-first, so no user is farther from the root than in the graph.

A neighbour that is not heard is not there: the lowest number is the lowest of those that live.
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
class Tree:
    """A block's part of a spanning tree."""

    hops: IntArray
    """How far each user is from the root; 0 is the root, or a user that heard of nobody lower."""
    up: BoolArray
    """Marks the link to each user's parent, among all of the block's links."""
    down: BoolArray
    """Marks the links to children."""
    broken: BoolArray
    """Which users have missed a neighbour, or everything, while the tree was made."""

    def of_parent(self, block: Block, marks: BoolArray) -> BoolArray:
        """For each user, whether the link to its parent is among those marked; False without."""
        found: BoolArray = np.zeros(len(block), dtype=bool)
        found[block.neighbourhood.holder[self.up & marks]] = True
        return found


def find_tree(block: Block) -> Peer[Tree]:
    """The tree of the lowest number."""
    near = block.neighbourhood
    holder, (own, other) = near.holder, near.ends
    seen = np.stack([near.users, np.zeros_like(near.users)], axis=1)
    broken = np.zeros(len(block), dtype=bool)
    parent: IntArray = np.full(len(block), -1, dtype=np.int64)

    for step in range(block.reach):
        heard = yield Post("tree", step, {"seen": seen})
        broken |= missing(block, heard)
        offered, possible = _offers(block, heard)
        rank = np.where(possible, _rank(offered), np.iinfo(np.int64).max)
        best = _rank(seen)
        np.minimum.at(best, holder, rank)
        seen = np.stack(np.divmod(best, _HOPS), axis=1)
        # The last exchange says it all: who offered what a user has is as near as a parent can be.
        offer = np.where(rank == best[holder], other, np.iinfo(np.int64).max)
        parent = np.full(len(block), np.iinfo(np.int64).max)
        np.minimum.at(parent, holder, offer)
        parent = np.where((seen[:, 1] > 0) & (parent < np.iinfo(np.int64).max), parent, -1)

    heard = yield Post("echo", 0, {"parent": parent})
    broken |= missing(block, heard)
    children = (heard.from_neighbours(near, "parent") == own) & heard.spoken(near)
    hops = np.where(parent >= 0, seen[:, 1], 0)
    return Tree(hops, other == parent[holder], children, broken)


def missing(block: Block, heard: Heard) -> BoolArray:
    """Which users did not hear all of their neighbours, or slept.

    One that has come to its end already is missing too: whoever is left at the start is late.
    """
    lacking = ~heard.awake
    lacking[block.neighbourhood.holder[~heard.present]] = True
    return lacking


_HOPS = 2**31


def _rank(seen: IntArray) -> IntArray:
    """One number by which (lowest, hops) are ordered."""
    return seen[:, 0] * _HOPS + seen[:, 1]


def _offers(block: Block, heard: Heard) -> tuple[IntArray, BoolArray]:
    """What a user would have seen through each of its links, and where that can be true."""
    near, m = block.neighbourhood, block.graph.n_users
    offered = heard.from_neighbours(near, "seen") + np.array([0, 1])
    sane = ((offered >= [0, 1]) & (offered <= m)).all(axis=1)
    return offered, sane & heard.spoken(near)
