"""Runs a peer-to-peer protocol inside one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from unpooled.checks import whole
from unpooled.errors import InputError, ProtocolError
from unpooled.graphs.topology import Topology
from unpooled.messages.codec import decode, encode
from unpooled.messages.message import Note, Post, sealed
from unpooled.privacy.ledger import Ledger
from unpooled.privacy.traffic import Traffic
from unpooled.protocols.mesh.base import Block, Heard, MeshProtocol
from unpooled.runtime.run import Run
from unpooled.runtime.serving import serving
from unpooled.simulate.faults import Faults
from unpooled.simulate.options import Options
from unpooled.simulate.retransmission import Resending
from unpooled.types import Body, BoolArray, IntArray, Parties, in_c_order


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
    whole("blocks", blocks, 1)
    if topology.n_users != len(parties):
        raise InputError(
            f"The topology has {topology.n_users} users but there are {len(parties)} parties."
        )
    faults = Faults(options.faults, len(parties))
    resending = Resending(topology, faults.losses)
    users = np.array_split(np.arange(len(parties)), min(blocks, len(parties)))
    alone = len(users) == 1 and not options.faults and _unwatched(options, parties)
    hosts = [_Host(protocol, parties, own, topology, seed, options, alone) for own in users]
    with serving(options.threads, options.order) as serve:
        serve(_Host.begin, hosts)
        exchange = 0
        while any(host.post for host in hosts):
            _tell(hosts, observe)
            times = max(host.post.times for host in hosts if host.post)
            _exchange(hosts, faults, exchange, resending.tries(exchange, times))
            exchange += times
            serve(_Host.go_on, hosts)
        _tell(hosts, observe)
    entries = ((host.users, entry) for host in hosts for entry in host.ledger.entries)
    traffic = Traffic.of(parties.names, entries)
    return Run(_merged([host.result for host in hosts]), traffic, elapsed=resending.elapsed)


def _unwatched(options: Options, parties: Parties) -> bool:
    """Whether nobody looks at what users say in between: policies that ship look at totals only."""
    policy = options.policy_of(*parties.names)
    return options.watch is None and not options.through_codec and not policy.sees_every_release


class _Host:
    """One block's peer with its ledger, between two exchanges."""

    def __init__(
        self,
        protocol: MeshProtocol,
        parties: Parties,
        users: IntArray,
        topology: Topology,
        seed: int,
        options: Options,
        alone: bool,
    ) -> None:
        own = parties.select(users)
        policy = options.policy_of(*own.names)
        self.users = users
        self.block = Block.of(own, topology, users, seed, policy, alone=alone)
        self.ledger = Ledger(own.names, protocol.releases, policy)
        self.post: Post | None = None
        """What the peer wants to say now; None once it has returned."""
        self.words: Post | None = None
        """What left last. It is what neighbours go on with when a user has stopped."""
        self.heard: Heard | None = None
        self.notes: list[Note] = []
        self.result: Body = {}
        self._options = options
        self._peer = protocol.peer(self.block)

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
            self.result = {name: in_c_order(value) for name, value in end.value.items()}
            return
        if said.times > 1 and not self.block.alone:
            raise ProtocolError("Only a block that is alone may be through several exchanges.")
        for name, value in said.body.items():
            if value.ndim == 0 or len(value) != len(self.block):
                raise ProtocolError(
                    f"Field {name!r} of {said.kind!r} has shape {value.shape}, but the first axis "
                    f"must have one entry for each of the block's {len(self.block)} users."
                )
        self.post = said

    def speak(self, awake: BoolArray, exchange: int, tries: sp.csr_array | None) -> BoolArray:
        """Lets the post out through the ledger; on which of the block's links words are sent."""
        near = self.block.neighbourhood
        if self.post is None:
            return np.zeros(len(near.ends[0]), dtype=bool)
        spoken = np.repeat(self.running & awake[self.users], near.degrees)
        if self.post.to is not None:
            spoken &= self.post.to
        copies = near.degrees
        if tries is not None or not spoken.all():
            times = 1 if tries is None else tries[self.users].data
            copies = np.bincount(near.holder, spoken * times, len(self.block)).astype(np.int64)
        self.words = self.post
        if copies.any():
            self.words = self.ledger.send(self.post, copies, exchange)
        if self.words is None:
            return np.zeros_like(spoken)
        if copies.any() and self._options.watch is not None:
            self._options.watch(self.block.parties.names[0], self.words)
        if self._options.through_codec:
            body = decode(encode(self.words)).body
            self.words = replace(self.words, body=body)
        return spoken

    @property
    def running(self) -> BoolArray:
        """Which users have not come to their end."""
        if self.post is not None and self.post.senders is not None:
            return self.post.senders
        return np.full(len(self.block), self.post is not None)


def _exchange(
    hosts: list[_Host], faults: Faults, exchange: int, tries: sp.csr_array | None
) -> None:
    """Carries the posts of one exchange: lets them out, finds who hears what, counts both."""
    _refuse_mixture(hosts)
    awake = faults.awake(exchange)
    running = np.concatenate([host.running for host in hosts])
    spoken = [host.speak(awake, exchange, tries) for host in hosts]
    kind = next(host.post.kind for host in hosts if host.post is not None)
    known = [host.words is not None and host.words.kind == kind for host in hosts]
    words = _everyone(hosts, known, len(awake))
    smooth = all(sent.all() for sent in spoken) and not faults.any_at(exchange)
    sent = _sent(hosts, spoken, len(awake))
    for host in hosts:
        near = host.block.neighbourhood
        links, arrived = near.links, near.degrees
        present = np.ones(len(near.holder), dtype=bool)
        ended = np.zeros_like(present)
        if not smooth:
            own, other = near.ends
            up = awake[own] & awake[other] & faults.carries(exchange, own, other)
            present, ended = up & running[other], up & ~running[other]
            fresh = up & np.isin(other * len(awake) + own, sent)
            stands = ended & np.repeat(known, [len(host.block) for host in hosts])[other]
            links = near.keep(fresh | stands)
            arrived = np.asarray(np.diff(near.keep(fresh).indptr), dtype=np.int64)
        if host.post is not None:
            own_words = host.words if host.words is not None else host.post
            outer = sealed({name: values[near.outer] for name, values in words.items()})
            up_here = awake[host.users]
            host.heard = Heard(links, own_words.body, outer, up_here, present, ended)
        if host.words is not None:
            host.ledger.receive(host.words, arrived, exchange)


def _sent(hosts: list[_Host], spoken: list[BoolArray], n_users: int) -> IntArray:
    """The links on which words are sent, each as one number made of sender and receiver."""
    numbers = []
    for host, sent in zip(hosts, spoken, strict=True):
        own, other = host.block.neighbourhood.ends
        numbers.append((own * n_users + other)[sent])
    return np.concatenate(numbers)


def _everyone(hosts: list[_Host], known: list[bool], n_users: int) -> Body:
    """What every user says or said last, by its number; nothing is needed within one block."""
    if len(hosts) == 1:
        return {}
    sample = next(host.post for host in hosts if host.post is not None)
    spoken = {
        name: np.zeros((n_users, *value.shape[1:]), dtype=value.dtype)
        for name, value in sample.body.items()
    }
    for host, speaks in zip(hosts, known, strict=True):
        if speaks and host.words is not None:
            for name, values in spoken.items():
                values[host.users] = host.words.body[name]
    return spoken


def _refuse_mixture(hosts: list[_Host]) -> None:
    """All blocks must be at the same point of the protocol."""
    said = {(host.post.kind, host.post.round, tuple(host.post.body)) for host in hosts if host.post}
    if len(said) > 1:
        raise ProtocolError(f"Peers are at different points of the protocol: {sorted(said)}.")


def _tell(hosts: list[_Host], observe: Callable[[Note], None] | None) -> None:
    """Passes on what peers noted since the last exchange."""
    if observe is not None:
        for note in _merged_notes(hosts):
            observe(note)
    for host in hosts:
        host.notes.clear()


def _merged_notes(hosts: list[_Host]) -> Iterator[Note]:
    """Each round's notes put together, where every block has one."""
    for number in sorted({note.round for host in hosts for note in host.notes}):
        notes = [note for host in hosts for note in host.notes if note.round == number]
        if len(notes) == len(hosts):
            yield Note(number, _merged([note.body for note in notes]), notes[0].times)


def _merged(parts: list[Body]) -> Body:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
