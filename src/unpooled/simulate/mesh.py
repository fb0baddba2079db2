"""Runs a peer-to-peer protocol inside one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from unpooled.checks import whole
from unpooled.data.parties import Parties
from unpooled.errors import InputError, ProtocolError
from unpooled.graphs.topology import Topology
from unpooled.messages.codec import decode, encode
from unpooled.messages.message import Note, Post, sealed
from unpooled.privacy.traffic import Traffic
from unpooled.protocols.mesh.base import Block, Heard, MeshProtocol
from unpooled.runtime.peer import PeerRuntime, stands
from unpooled.runtime.run import Run
from unpooled.runtime.serving import serving
from unpooled.simulate.faults import Faults
from unpooled.simulate.options import Options
from unpooled.simulate.retransmission import Retransmission
from unpooled.types import Body, BoolArray, IntArray


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
    retransmission = Retransmission(topology, faults.losses)
    users = np.array_split(np.arange(len(parties)), min(blocks, len(parties)))
    alone = len(users) == 1 and not options.faults and _unwatched(options, parties)
    options.refuse_too_few(parties.names)
    hosts = []
    for own in users:
        rows = parties.select(own)
        policy = options.policy_of(*rows.names)
        block = Block.of(rows, topology, own, seed, policy, alone=alone)
        hosts.append(_Host(own, PeerRuntime(protocol, block, policy), options))
    with serving(options.threads, options.order) as serve:
        serve(_Host.begin, hosts)
        exchange = 0
        while any(host.peer.post for host in hosts):
            _pass_on_notes(hosts, observe)
            times = max(host.peer.post.times for host in hosts if host.peer.post)
            _exchange(hosts, faults, exchange, retransmission.tries(exchange, times))
            exchange += times
            serve(_Host.go_on, hosts)
        _pass_on_notes(hosts, observe)
    entries = ((host.users, entry) for host in hosts for entry in host.peer.ledger.entries)
    traffic = Traffic.of(parties.names, entries)
    result = _merged([host.peer.result for host in hosts])
    remarks = {name: said for host in hosts for name, said in host.peer.block.remarks.items()}
    return Run(result, traffic, remarks, retransmission.elapsed)


def _unwatched(options: Options, parties: Parties) -> bool:
    """Whether nobody looks at what users say in between: policies that ship look at totals only."""
    policy = options.policy_of(*parties.names)
    return options.watch is None and not options.through_codec and not policy.sees_every_release


class _Host:
    """One block's peer in the simulation."""

    def __init__(self, users: IntArray, peer: PeerRuntime, options: Options) -> None:
        self.users = users
        self.peer = peer
        self.heard: Heard | None = None
        self._options = options

    def begin(self) -> None:
        self.peer.begin()

    def go_on(self) -> None:
        if self.peer.post is not None and self.heard is not None:
            self.peer.resume(self.heard)

    def send(self, up: BoolArray, exchange: int, tries: sp.csr_array | None) -> BoolArray:
        """Lets the post out through the ledger; on which of the block's links it is sent."""
        peer, near = self.peer, self.peer.block.neighbourhood
        if peer.post is None:
            return np.zeros(len(near.ends[0]), dtype=bool)
        sent = np.repeat(peer.running & up[self.users], near.degrees)
        if peer.post.to is not None:
            sent &= peer.post.to
        copies = near.degrees
        if tries is not None or not sent.all():
            times = 1 if tries is None else tries[self.users].data
            copies = np.bincount(near.holder, sent * times, len(peer.block)).astype(np.int64)
        post = peer.release(copies, exchange)
        if post is None:
            return np.zeros_like(sent)
        if copies.any() and self._options.watch is not None:
            self._options.watch(peer.block.parties.names[0], post)
        if self._options.through_codec:
            peer.last_post = replace(post, body=decode(encode(post)).body)
        return sent


def _exchange(
    hosts: list[_Host], faults: Faults, exchange: int, tries: sp.csr_array | None
) -> None:
    """Carries the posts of one exchange: lets them out, finds who hears what, counts both."""
    post = _common_post(hosts)
    up = faults.awake(exchange)
    running = np.concatenate([host.peer.running for host in hosts])
    sent_by = [host.send(up, exchange, tries) for host in hosts]
    known = [stands(host.peer.last_post, post) for host in hosts]
    values = _everyone(hosts, post, known, len(up))
    smooth = all(sent.all() for sent in sent_by) and not faults.any_at(exchange)
    sent = _sent(hosts, sent_by, len(up))
    for host in hosts:
        near = host.peer.block.neighbourhood
        links, arrived = near.links, near.degrees
        present = np.ones(len(near.holder), dtype=bool)
        ended = np.zeros_like(present)
        if not smooth:
            own, other = near.ends
            connected = up[own] & up[other] & faults.carries(exchange, own, other)
            present, ended = connected & running[other], connected & ~running[other]
            fresh = connected & np.isin(other * len(up) + own, sent)
            still = np.repeat(known, [len(host.peer.block) for host in hosts])[other]
            links = near.keep(fresh | (ended & still))
            arrived = np.asarray(np.diff(near.keep(fresh).indptr), dtype=np.int64)
        last = host.peer.last_post
        if host.peer.post is not None:
            own_body = (last or host.peer.post).body
            outer = sealed({name: entries[near.outer] for name, entries in values.items()})
            host.heard = Heard(links, own_body, outer, up[host.users], present, ended)
        if last is not None:
            host.peer.ledger.receive(last, arrived, exchange)


def _sent(hosts: list[_Host], sent_by: list[BoolArray], n_users: int) -> IntArray:
    """The links on which posts are sent, each as one number made of sender and receiver."""
    numbers = []
    for host, sent in zip(hosts, sent_by, strict=True):
        own, other = host.peer.block.neighbourhood.ends
        numbers.append((own * n_users + other)[sent])
    return np.concatenate(numbers)


def _everyone(hosts: list[_Host], post: Post, known: list[bool], n_users: int) -> Body:
    """What every user sends or sent last, by its number; nothing is needed within one block."""
    if len(hosts) == 1:
        return {}
    everyone = {
        name: np.zeros((n_users, *value.shape[1:]), dtype=value.dtype)
        for name, value in post.body.items()
    }
    for host, counts in zip(hosts, known, strict=True):
        if counts and host.peer.last_post is not None:
            for name, values in everyone.items():
                values[host.users] = host.peer.last_post.body[name]
    return everyone


def _common_post(hosts: list[_Host]) -> Post:
    """One of the posts, of which all are at the same point of the protocol."""
    posts = [host.peer.post for host in hosts if host.peer.post]
    points = {(post.kind, post.round, tuple(post.body)) for post in posts}
    if len(points) > 1:
        raise ProtocolError(f"Peers are at different points of the protocol: {sorted(points)}.")
    return posts[0]


def _pass_on_notes(hosts: list[_Host], observe: Callable[[Note], None] | None) -> None:
    """Passes on what peers noted since the last exchange."""
    if observe is not None:
        for note in _merged_notes(hosts):
            observe(note)
    for host in hosts:
        host.peer.notes.clear()


def _merged_notes(hosts: list[_Host]) -> Iterator[Note]:
    """Each round's notes put together, where every block has one."""
    for number in sorted({note.round for host in hosts for note in host.peer.notes}):
        notes = [note for host in hosts for note in host.peer.notes if note.round == number]
        if len(notes) == len(hosts):
            yield Note(number, _merged([note.body for note in notes]), notes[0].times)


def _merged(parts: list[Body]) -> Body:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
