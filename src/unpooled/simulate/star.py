"""Runs a protocol with a coordinator inside one process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from unpooled.data.parties import Parties
from unpooled.errors import InputError, PolicyRefusal
from unpooled.graphs.trees import SpanningTree
from unpooled.messages.codec import decode, decode_state, encode, encode_state
from unpooled.messages.message import Ask, Note
from unpooled.privacy.traffic import Traffic
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.coordinator import CoordinatorRuntime
from unpooled.runtime.party import DIRECT, PartyRuntime
from unpooled.runtime.run import Run
from unpooled.runtime.serving import serving
from unpooled.simulate.faults import Deaf, Faults, LinkLost
from unpooled.simulate.options import Options
from unpooled.simulate.relay import Relay
from unpooled.types import Body, PartyId


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

    Along a tree the result is the same and the traffic is not; see :mod:`unpooled.simulate.relay`.
    """
    if tree is None and any(isinstance(fault, LinkLost | Deaf) for fault in options.faults):
        raise InputError("A star has no links between parties to lose; use UserDown.")
    faults = Faults(options.faults, len(parties))
    if faults.losses:
        raise InputError(f"{faults.losses[0]} is for a mesh; a star has AnswerLost.")
    relay = None if tree is None else Relay(tree, parties.names)
    options.refuse_too_few(parties.names)
    routes = [DIRECT if relay is None else relay.route(i) for i in range(len(parties))]
    hosts = [
        PartyRuntime(protocol, parties[i], (seed, i), options.policy_of(name), routes[i])
        for i, name in enumerate(parties.names)
    ]
    coordinator = CoordinatorRuntime(protocol, len(hosts), seed, observe, options.quorum)
    with serving(options.threads, options.order) as serve:
        ask = coordinator.begin()
        while ask is not None:
            if options.watch is not None:
                options.watch("coordinator", ask)
            exchange = coordinator.exchange
            reached = faults.awake(exchange) if relay is None else relay.reached(faults, exchange)
            present = [hosts[int(i)] for i in np.flatnonzero(reached)]
            answers = serve(partial(_answer, ask=ask, exchange=exchange, options=options), present)
            replies, refusals = _sorted(present, answers)
            for lost in faults.answers_lost(exchange):
                replies.pop(parties.names[lost], None)
            if relay is not None:
                relay.carry(ask, replies, reached, exchange)
            ask = coordinator.answered(replies, refusals)
    own = ((np.array([i]), e) for i, party in enumerate(hosts) for e in party.ledger.entries)
    remarks = {party.data.name: [party.data.remark] for party in hosts if party.data.remark}
    passed_on = [] if relay is None else relay.entries
    return Run(coordinator.result, Traffic.of(parties.names, [*own, *passed_on]), remarks)


def _answer(
    party: PartyRuntime, ask: Ask, exchange: int, options: Options
) -> Body | PolicyRefusal | None:
    """The party's answer as it arrives at the coordinator, its refusal, or nothing."""
    if options.through_codec:
        ask = decode(encode(ask))  # type: ignore[assignment]
        party.remember(decode_state(encode_state(party.memory)))
    try:
        reply = party.answer(ask, exchange)
    except PolicyRefusal as refusal:
        return refusal
    if reply is None:
        return None
    if options.watch is not None:
        options.watch(party.data.name, reply)
    return decode(encode(reply)).body if options.through_codec else reply.body


def _sorted(
    present: list[PartyRuntime], answers: list[Body | PolicyRefusal | None]
) -> tuple[dict[PartyId, Body], list[PolicyRefusal]]:
    """The answers that came, and the refusals."""
    replies: dict[PartyId, Body] = {}
    refusals: list[PolicyRefusal] = []
    for party, answer in zip(present, answers, strict=True):
        if isinstance(answer, PolicyRefusal):
            refusals.append(answer)
        elif answer is not None:
            replies[party.data.name] = answer
    return replies, refusals
