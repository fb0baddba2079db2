"""Max-consensus: every user learns the largest of all users' values from its neighbours alone.

In every exchange a user sends the largest values that it knows of. After ``reach`` exchanges, the
graph's diameter or a bound on it, every value has been everywhere.
"""

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
