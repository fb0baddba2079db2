"""Runs a protocol with a coordinator inside one process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from unpooled.drivers.faults import Faults, LinkLost
from unpooled.drivers.options import Options, Run, serving
from unpooled.drivers.relay import Relay, Route
from unpooled.drivers.site import Site
from unpooled.errors import InputError, PolicyRefusal, ProtocolError, QuorumLost
from unpooled.protocols.star import StarProtocol
from unpooled.trees import SpanningTree
from unpooled.types import Body, Parties, PartyId
from unpooled.wire.codec import decode, decode_state, encode, encode_state
from unpooled.wire.ledger import Ledger
from unpooled.wire.message import Ask, Note
from unpooled.wire.policy import STUDY
from unpooled.wire.traffic import Traffic

_ONCE = np.ones(1, dtype=np.int64)


def run_star(
    protocol: StarProtocol,
    parties: Parties,
    *,
    seed: int = 0,
    options: Options = Options(),  # noqa: B008 (frozen)
    observe: Callable[[Note], None] | None = None,
    tree: SpanningTree | None = None,
) -> Run:
    """Runs a protocol with a coordinator, which with a ``tree`` is the party at its root.

    Along a tree the result is the same and the traffic is not; see :mod:`unpooled.drivers.relay`.
    """
    if tree is None and any(isinstance(fault, LinkLost) for fault in options.faults):
        raise InputError("A star has no links between parties to lose; use UserDown.")
    faults = Faults(options.faults, len(parties))
    route = Route() if tree is None else Relay(tree, parties.names)
    sites = [
        Site(protocol, parties[i], (seed, i), options.policy_of(name), route.link(i))
        for i, name in enumerate(parties.names)
    ]
    center = Ledger(("coordinator",), protocol.asks, STUDY)
    coordinator = protocol.coordinator(np.random.default_rng([seed, len(parties)]))
    replies: dict[PartyId, Body] | None = None
    exchange = 0
    asked: set[tuple[str, int]] = set()
    with serving(options) as serve:
        while True:
            try:
                said = coordinator.send(replies)  # type: ignore[arg-type]
            except StopIteration as end:
                result = end.value
                break
            replies = None
            if isinstance(said, Note):
                if observe is not None:
                    observe(said)
                continue
            if said.round < 0 or (said.kind, said.round) in asked:
                raise ProtocolError(
                    f"The question {said.kind!r} of round {said.round} was asked before, or its "
                    "round is negative; kind and round must name one exchange."
                )
            asked.add((said.kind, said.round))
            center.send(said, _ONCE, exchange)
            if options.watch is not None:
                options.watch("coordinator", said)
            reached = route.reached(faults, exchange)
            present = [sites[int(i)] for i in np.flatnonzero(reached)]
            answers = serve(partial(_answer, ask=said, exchange=exchange, options=options), present)
            replies = _answered(said, present, answers, len(sites))
            route.carry(said, replies, reached, exchange)
            exchange += 1
    own = ((np.array([i]), e) for i, site in enumerate(sites) for e in site.ledger.entries)
    remarks = {site.data.name: tuple(site.ledger.remarks) for site in sites if site.ledger.remarks}
    return Run(result, Traffic.of(parties.names, [*own, *route.entries]), remarks)


def _answer(site: Site, ask: Ask, exchange: int, options: Options) -> Body | PolicyRefusal | None:
    """The party's answer as it arrives at the coordinator, its refusal, or nothing."""
    if options.through_codec:
        ask = decode(encode(ask))  # type: ignore[assignment]
        site.remember(decode_state(encode_state(site.memory)))
    try:
        reply = site.answer(ask, exchange)
    except PolicyRefusal as refusal:
        return refusal
    if reply is None:
        return None
    if options.watch is not None:
        options.watch(site.data.name, reply)
    return decode(encode(reply)).body if options.through_codec else reply.body


def _answered(
    ask: Ask, present: list[Site], answers: list[Body | PolicyRefusal | None], parties: int
) -> dict[PartyId, Body]:
    """The answers that came, if they are enough."""
    replies: dict[PartyId, Body] = {}
    for site, answer in zip(present, answers, strict=True):
        if answer is not None and not isinstance(answer, PolicyRefusal):
            replies[site.data.name] = answer
    needed = parties if ask.quorum is None else ask.quorum
    if len(replies) < needed:
        for answer in answers:
            if isinstance(answer, PolicyRefusal):
                raise answer
        raise QuorumLost(
            f"{len(replies)} of {parties} parties answered {ask.kind!r} in round {ask.round}, but "
            f"{needed} are needed; wait for them or lower the quorum."
        )
    return replies
