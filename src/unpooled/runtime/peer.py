"""One block's peer as every driver runs it: from post to post, each through the block's ledger.

A driver lets out what :attr:`PeerRuntime.post` holds (:meth:`PeerRuntime.release`), works out what
the block's users heard in the same exchange, hands that to :meth:`PeerRuntime.resume`, and so on
until ``post`` is None: then there is a :attr:`PeerRuntime.result`. How messages travel, and who is
waited for, is the driver's.
"""

from __future__ import annotations

import numpy as np

from unpooled.errors import ProtocolError
from unpooled.messages.message import Message, Note, Post
from unpooled.privacy.ledger import Ledger
from unpooled.privacy.policy import Policy
from unpooled.protocols.mesh.base import Block, Heard, MeshProtocol
from unpooled.protocols.pump import Pump
from unpooled.types import Body, BoolArray, IntArray


class PeerRuntime:
    """A peer over the users of one block, between two exchanges."""

    def __init__(self, protocol: MeshProtocol, block: Block, policy: Policy) -> None:
        self.block = block
        self.ledger = Ledger(block.parties.names, protocol.releases, policy)
        self.releases = {release.kind: release for release in protocol.releases}
        self.post: Post | None = None
        """What is to be sent in this exchange; None once the peer has returned."""
        self.last_post: Post | None = None
        """What left last: neighbours go on with it once the peer has terminated."""
        self.notes: list[Note] = []
        """What the peer noted since a driver last took these."""
        self._pump: Pump[Post] = Pump(protocol.peer(block), self.notes.append)

    @property
    def result(self) -> Body:
        """What the peer returned; nothing before that."""
        return self._pump.result or {}

    @property
    def running(self) -> BoolArray:
        """Which users have not terminated."""
        if self.post is not None and self.post.senders is not None:
            return self.post.senders
        return np.full(len(self.block), self.post is not None)

    def begin(self) -> None:
        """Runs the peer up to its first post."""
        self._advance(None)

    def resume(self, heard: Heard) -> None:
        """Runs the peer up to its next post, or to its end."""
        self._advance(heard)

    def release(self, copies: IntArray, exchange: int) -> Post | None:
        """Lets the post out, ``copies[i]`` times at user i; None if the policy withholds it.

        A post that goes to nobody is no release: it is neither reviewed nor counted.
        """
        assert self.post is not None  # there is nothing to release after the end
        addressed = self.post if not copies.any() else None
        self.last_post = addressed or self.ledger.send(self.post, copies, exchange)
        return self.last_post

    def _advance(self, heard: Heard | None) -> None:
        self.post = None
        post = self._pump.send(heard)
        if post is None:
            return
        if post.times > 1 and not self.block.alone:
            raise ProtocolError("Only a block that is alone may be through several exchanges.")
        for name, value in post.body.items():
            if value.ndim == 0 or len(value) != len(self.block):
                raise ProtocolError(
                    f"Field {name!r} of {post.kind!r} has shape {value.shape}, but the first axis "
                    f"must have one entry for each of the block's {len(self.block)} users."
                )
        self.post = post


def stands(last_post: Message | None, post: Post) -> bool:
    """Whether the last post of a peer that has terminated counts in the exchange of ``post``.

    It does as long as the others are in the phase in which the peer terminated: posts are of one
    kind then. What it sent in another phase means nothing here.
    """
    return last_post is not None and last_post.kind == post.kind
