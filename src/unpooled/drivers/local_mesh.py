"""Runs a peer-to-peer protocol inside one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from unpooled.drivers.faults import Faults
from unpooled.drivers.options import Options, Run, serving
from unpooled.errors import ProtocolError
from unpooled.graphs import Topology
from unpooled.protocols.mesh import Block, Heard, MeshProtocol, Peer
from unpooled.types import Body, BoolArray, IntArray, Parties
from unpooled.wire.codec import decode, encode
from unpooled.wire.ledger import Ledger
from unpooled.wire.message import Note, Post, sealed
from unpooled.wire.policy import Policy
from unpooled.wire.traffic import Traffic


def run_mesh(
    protocol: MeshProtocol,
    parties: Parties,
    topology: Topology,
    *,
    seed: int = 0,
    blocks: int = 1,
    options: Options = Options(),  # noqa: B008 (frozen)
    observe: Callable[[Note], None] | None = None,
) -> Run:
    """Runs a peer-to-peer protocol, its users split evenly over ``blocks``."""
    hosts = [
        _Host.of(protocol, parties, users, topology, seed, options.policy)
        for users in np.array_split(np.arange(len(parties)), min(blocks, len(parties)))
    ]
    faults = Faults(options.faults, len(parties))
    with serving(options) as serve:
        serve(_Host.begin, hosts)
        exchange = 0
        while any(host.post for host in hosts):
            if observe is not None:
                for note in _merged_notes(hosts):
                    observe(note)
            _exchange(hosts, faults, exchange, options)
            exchange += 1
            serve(_Host.go_on, hosts)
        if observe is not None:
            for note in _merged_notes(hosts):
                observe(note)
    names = parties.names
    entries = ((host.users, entry) for host in hosts for entry in host.ledger.entries)
    return Run(_merged([host.result for host in hosts]), Traffic.of(names, entries))


class _Host:
    """One block's peer with its ledger, between two exchanges."""

    def __init__(self, block: Block, peer: Peer[Body], ledger: Ledger) -> None:
        self.block = block
        self.users = block.neighbourhood.users
        self.ledger = ledger
        self.post: Post | None = None
        self.heard: Heard | None = None
        self.notes: list[Note] = []
        self.result: Body = {}
        self._peer = peer

    @classmethod
    def of(
        cls,
        protocol: MeshProtocol,
        parties: Parties,
        users: IntArray,
        topology: Topology,
        seed: int,
        policy: Policy,
    ) -> _Host:
        own = parties.select(users)
        block = Block(own, topology.neighbourhood(users), topology.reach, seed)
        return cls(block, protocol.peer(block), Ledger(own.names, protocol.releases, policy))

    def begin(self) -> None:
        self._advance(lambda: next(self._peer))

    def go_on(self) -> None:
        if self.post is not None:
            self._advance(lambda: self._peer.send(self.heard))  # type: ignore[arg-type]

    def _advance(self, resume: Callable[[], Post | Note]) -> None:
        """Runs the peer up to its next post, or to its end."""
        self.post = None
        try:
            said = resume()
            while isinstance(said, Note):
                self.notes.append(said)
                said = next(self._peer)
        except StopIteration as end:
            self.result = end.value
            return
        for name, value in said.body.items():
            if value.ndim == 0 or len(value) != len(self.block):
                raise ProtocolError(
                    f"Field {name!r} of {said.kind!r} has shape {value.shape}, but the first axis "
                    f"must have one entry for each of the block's {len(self.block)} users."
                )
        self.post = said


def _exchange(hosts: list[_Host], faults: Faults, exchange: int, options: Options) -> None:
    """Carries the posts of one exchange: lets them out, finds who hears what, counts both."""
    awake = faults.awake(exchange)
    speaks = np.zeros_like(awake)
    talking = [host for host in hosts if host.post is not None]
    for host in talking:
        assert host.post is not None
        if host.post.senders is not None:
            speaks[host.users] = host.post.senders
        else:
            speaks[host.users] = True
    speaks &= awake
    _refuse_mixture(talking)
    for host in talking:
        assert host.post is not None
        copies = np.where(speaks[host.users], host.block.neighbourhood.degrees, 0)
        if copies.any():
            host.ledger.send(host.post, copies, exchange)
            if options.watch is not None:
                options.watch(host.block.parties.names[0], host.post)
        if options.through_codec:
            decoded = decode(encode(host.post))
            host.post = Post(host.post.kind, host.post.round, decoded.body, host.post.senders)
    spoken = _everyone(talking, len(awake)) if len(hosts) > 1 else {}
    for host in talking:
        assert host.post is not None
        host.heard = _hear(host, host.post, spoken, speaks, awake, faults, exchange)
        copies = np.where(awake[host.users], host.heard.degrees, 0)
        post = host.post
        host.ledger.receive(post.kind, post.round, post.body, copies, exchange, each_user=True)


def _hear(
    host: _Host,
    post: Post,
    spoken: Body,
    speaks: BoolArray,
    awake: BoolArray,
    faults: Faults,
    exchange: int,
) -> Heard:
    near = host.block.neighbourhood
    links = near.links
    if faults.any_at(exchange) or not speaks.all():
        own, other = near.ends
        links = near.keep(speaks[other] & awake[own] & faults.carries(exchange, own, other))
    outer = sealed({name: values[near.outer] for name, values in spoken.items()})
    return Heard(links, post.body, outer, awake[host.users])


def _everyone(talking: list[_Host], n_users: int) -> Body:
    """What every user says, by its number; zeros where it says nothing."""
    spoken = {}
    first = talking[0].post
    assert first is not None
    for name, sample in first.body.items():
        spoken[name] = np.zeros((n_users, *sample.shape[1:]), dtype=sample.dtype)
        for host in talking:
            assert host.post is not None
            spoken[name][host.users] = host.post.body[name]
    return spoken


def _refuse_mixture(talking: list[_Host]) -> None:
    """All blocks must be at the same point of the protocol."""
    said = {
        (host.post.kind, host.post.round, tuple(host.post.body)) for host in talking if host.post
    }
    if len(said) > 1:
        raise ProtocolError(f"Peers are at different points of the protocol: {sorted(said)}.")


def _merged_notes(hosts: list[_Host]) -> Iterator[Note]:
    """The notes of all blocks since the last exchange, each round's put together."""
    rounds = [note.round for host in hosts for note in host.notes]
    for number in sorted(set(rounds)):
        parts = [next((n.body for n in host.notes if n.round == number), None) for host in hosts]
        if all(part is not None for part in parts):
            yield Note(number, _merged([part for part in parts if part is not None]))
    for host in hosts:
        host.notes.clear()


def _merged(parts: list[Body]) -> Body:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
