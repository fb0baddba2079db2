"""Runs a protocol with a coordinator inside one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from zlib import crc32

import numpy as np

from unpooled.drivers.faults import Faults, LinkLost
from unpooled.drivers.options import Options, Run, serving
from unpooled.drivers.relay import Link, Relay, Route
from unpooled.errors import InputError, PolicyRefusal, ProtocolError, QuorumLost, UnpooledError
from unpooled.protocols.star import Answer, StarProtocol
from unpooled.trees import SpanningTree
from unpooled.types import Body, Parties, PartyData, PartyId
from unpooled.wire.codec import decode, decode_state, encode, encode_state
from unpooled.wire.ledger import Ledger
from unpooled.wire.message import Ask, Note, Reply, Summary, sealed
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
        _Site(protocol, parties[i], (seed, i), options, route.link(i)) for i in range(len(parties))
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
            answers = serve(partial(_Site.answer, ask=said, exchange=exchange), present)
            replies = _answered(said, present, answers, len(sites))
            route.carry(said, replies, reached, exchange)
            exchange += 1
    own = ((np.array([i]), e) for i, site in enumerate(sites) for e in site.ledger.entries)
    remarks = {site.data.name: tuple(site.ledger.remarks) for site in sites if site.ledger.remarks}
    return Run(result, Traffic.of(parties.names, [*own, *route.entries]), remarks)


class _Site:
    """One party: its data, its state between questions, its ledger."""

    def __init__(
        self,
        protocol: StarProtocol,
        data: PartyData,
        seed: tuple[int, int],
        options: Options,
        link: Link,
    ) -> None:
        policy = options.policy_of(data.name)
        self.data = replace(data, min_count=getattr(policy, "min_count", 1))
        self.ledger = Ledger((data.name,), protocol.releases, policy, data.weights)
        self._steps = protocol.steps
        self._state: Body = {}
        self._seed = seed
        self._options = options
        self._link = link

    def answer(self, ask: Ask, exchange: int) -> Body | PolicyRefusal | None:
        """The party's answer as it arrives at the coordinator, its refusal, or nothing."""
        if ask.kind not in self._steps:
            raise ProtocolError(f"Parties have no step for the question {ask.kind!r}.")
        question = decode(encode(ask)) if self._options.through_codec else ask
        copies, exchange = self._link.copies, self._link.exchange(exchange)
        self.ledger.receive(ask, copies, exchange)
        rng = np.random.default_rng([*self._seed, crc32(ask.kind.encode()), ask.round])
        said, state = self._step(ask, question.body, rng)
        summary = said if isinstance(said, Summary) else Summary(said, None)
        try:
            reply = self.ledger.send(
                Reply(ask.kind, summary.body, ask.round), copies, exchange, summary.behind
            )
        except PolicyRefusal as refusal:
            return refusal
        if reply is None:
            return None
        self.ledger.remark(ask.kind, ask.round, summary.remark)
        # Only now: a party remembers having said what really left.
        kept = decode_state(encode_state(state)) if self._options.through_codec else state
        self._state = sealed(kept)
        if self._options.watch is not None:
            self._options.watch(self.data.name, reply)
        return decode(encode(reply)).body if self._options.through_codec else reply.body

    def _step(self, ask: Ask, body: Body, rng: np.random.Generator) -> Answer:
        """The party's own part, whatever it was asked."""
        try:
            return self._steps[ask.kind](self.data, self._state, body, rng)
        except UnpooledError:
            raise
        except Exception as error:
            # In words of ours: those of a library may quote the party's values.
            raise ProtocolError(
                f"Party {self.data.name} cannot answer {ask.kind!r} of round {ask.round}: the "
                f"question does not fit its rows or what was asked before ({type(error).__name__})."
            ) from error


def _answered(
    ask: Ask, present: list[_Site], answers: list[Body | PolicyRefusal | None], parties: int
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
