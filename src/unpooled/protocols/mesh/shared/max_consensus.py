"""Max-consensus: every user learns the largest of all users' values from its neighbours alone."""

from __future__ import annotations

from unpooled.messages.message import Post
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.types import FloatArray


def max_consensus(block: Block, kind: str, values: FloatArray) -> Peer[FloatArray]:
    """The largest of all users' ``values`` (users, n), entry by entry, known to every user."""
    for step in range(block.reach):
        heard = yield Post(kind, step, {"largest": values})
        values = heard.step(values, heard.largest("largest"))
    return values
