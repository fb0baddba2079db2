"""Runs a plan's coordinator, one of its parties or one of its peers, from files to files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.data.sources import OwnRows
from unpooled.deploy import results
from unpooled.deploy.check import (
    Setting,
    identified,
    refuse_coordinator,
    refuse_place,
    refuse_rows,
)
from unpooled.deploy.own import Own
from unpooled.deploy.participation import attended, mesh_in_words, refuse_too_few, star_in_words
from unpooled.deploy.plan import Member, Plan
from unpooled.errors import StateError, UnpooledError
from unpooled.kernels.assignment.nearest import nearest
from unpooled.messages.codec import LIMITS, Limits
from unpooled.messages.conform import largest_size
from unpooled.network.mesh import MeshPeer, Progress
from unpooled.network.node import Node, telling_others
from unpooled.network.star import COORDINATOR, StarCoordinator, StarParty, StarProgress
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.zenoh import Place, ZenohTransport
from unpooled.protocols.mesh.base import Block, MeshProtocol
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.party import PartyRuntime
from unpooled.runtime.serving import serving
from unpooled.types import Body, PartyId


def coordinate(plan: Plan, setting: Setting, *, resume: bool) -> None:
    """The coordinator's part of a plan."""
    member, protocol = refuse_coordinator(plan, setting, resume=resume), plan.protocol
    assert isinstance(protocol, StarProtocol)
    # A coordinator has no rows: whatever it says of its errors quotes none.
    with _connected(plan, member, setting, why=str) as (state, node):
        run = StarCoordinator(
            protocol,
            plan.names,
            node,
            state,
            plan.run_seed,
            plan.timing,
            quorum=plan.quorum,
            n_columns=len(plan.columns),
            observe=lambda progress: setting.report(_star_line(progress)),
        )
        with closing(run):
            setting.report({"event": "waiting", "for": plan.names})
            result = _run(run)
            results.write_model(state, plan, result)
            results.write_centers(state, plan, result)
            rounds = [
                {"kind": kind, "round": number, "answered": answered}
                for (kind, number), answered in run.conductor.answerers.items()
            ]
            facts = {"questions": rounds, "quorum": plan.quorum, "refused": _refused(node)}
            said = star_in_words(plan.names, run.members, run.left)
            _write_manifest(state, plan, COORDINATOR, result, run.members, said, facts, setting)
            run.part()
    _done(state, plan, run.members, setting)


def take_part(
    plan: Plan, name: PartyId, own: Own, read: Callable[[], OwnRows], setting: Setting
) -> None:
    """A party's part of a plan with a coordinator; ``read`` reads its rows."""
    member, protocol = refuse_place(plan, name, setting, star=True), plan.protocol
    assert isinstance(protocol, StarProtocol)
    with _connected(plan, member, setting) as (state, node):
        rows = read()
        refuse_rows(plan, name, own, rows)
        parties = rows.parties
        site = PartyRuntime(
            protocol, parties[0], (plan.run_seed, plan.names.index(name)), own.policy
        )
        party = StarParty(
            protocol,
            site,
            node,
            state,
            plan.timing,
            lambda line: setting.report({"event": "answered", **line}),
        )
        with closing(party):
            setting.report({"event": "waiting", "for": [COORDINATOR]})
            result = _run(party)
            labels = results.star_labels(protocol, parties.rows, result)
            results.write_labels(state, labels, rows.ids)
            results.write_model(state, plan, result, shared_only=True)
            results.write_centers(state, plan, result)
            members = tuple(n for i, n in enumerate(plan.names) if i in party.members)
            facts = {"answered": party.clerk.answered, "refused": _refused(node)}
            said = star_in_words(plan.names, members)
            _write_manifest(state, plan, name, {}, members, said, facts, setting)
            party.part()
    _done(state, plan, members, setting)


def run_peer(
    plan: Plan, name: PartyId, own: Own, read: Callable[[], OwnRows], setting: Setting
) -> None:
    """A peer's part of a plan without a coordinator; ``read`` reads its rows."""
    member, protocol = refuse_place(plan, name, setting, star=False), plan.protocol
    assert isinstance(protocol, MeshProtocol)
    with _connected(plan, member, setting) as (state, node):
        rows = read()
        refuse_rows(plan, name, own, rows)
        parties = rows.parties
        number = np.array([plan.names.index(name)])
        block = Block.of(parties, plan.topology, number, plan.run_seed, own.policy)
        peer = MeshPeer(
            protocol,
            block,
            plan.names,
            node,
            state,
            own.policy,
            plan.timing,
            lambda progress: setting.report(_mesh_line(progress, len(peer.neighbours))),
            min_parties=plan.min_parties,
        )
        with closing(peer):
            setting.report({"event": "waiting", "for": list(peer.neighbours)})
            result = _run(peer)
            mine = {key: value[0] for key, value in result.items()}
            labels = nearest(
                parties.rows, parties.owner, result["centers"], plan.estimator._loss().dissimilarity
            )
            results.write_model(state, plan, mine)
            results.write_centers(state, plan, mine)
            results.write_labels(state, labels, rows.ids)
            peer.part()
            facts = {"participation": peer.participation, "refused": _refused(node)}
            said = mesh_in_words(plan.names, peer)
            _write_manifest(state, plan, name, mine, peer.members, said, facts, setting)
    _done(state, plan, peer.members, setting)


@contextmanager
def _connected(
    plan: Plan,
    member: Member,
    setting: Setting,
    *,
    why: Callable[[UnpooledError], str] | None = None,
) -> Iterator[tuple[StateDirectory, Node]]:
    """The directory and the place on the network, given back in the end, whatever happens.

    Whoever fails in between tells the others, in the words of ``why``.
    """
    with ExitStack() as stack:
        state = StateDirectory(setting.to, plan.hash.hex(), member.name)
        stack.callback(state.close)
        node = _node(plan, member, state, setting)
        stack.callback(node.close)
        with telling_others(node, why):
            try:
                yield state, node
            except OSError as error:
                raise StateError(
                    f"{member.name} cannot write to {state.path} ({error.strerror}); make room or "
                    "give it the rights, then start it again: what it knows is kept."
                ) from error


def _run(role: StarCoordinator | StarParty | MeshPeer) -> Body:
    with serving() as serve:
        result: Body = serve(lambda _: role.run(), [None])[0]
    return result


def _write_manifest(
    state: StateDirectory,
    plan: Plan,
    name: PartyId,
    result: Body,
    members: Collection[PartyId],
    said: list[str],
    facts: Mapping[str, Any],
    setting: Setting,
) -> None:
    """Who took part, on the screen and on disk."""
    for sentence in said:
        setting.report({"event": "warning", "text": sentence})
    facts = {**attended(plan, members), "in_words": said, **facts}
    results.write_manifest(state, results.manifest(plan, name, result, facts))


def _done(
    state: StateDirectory, plan: Plan, members: Collection[PartyId], setting: Setting
) -> None:
    files = [file for file in results.FILES if (state.path / file).exists()]
    attendance = {"took_part": len(members), "of": len(plan.names)}
    setting.report({"event": "done", "to": str(state.path), "files": files, **attendance})
    refuse_too_few(plan, members)


def _node(plan: Plan, member: Member, state: StateDirectory, setting: Setting) -> Node:
    others = plan.neighbours(member.name)
    identity, files = identified(plan, member, setting)
    place = Place(member.name, member.endpoint, {n: o.endpoint for n, o in others.items()})
    limits = _limits(plan)
    transport = ZenohTransport(place, files, largest=limits.max_bytes)
    fingerprints = {name: other.fingerprint for name, other in others.items()}
    return Node(identity, fingerprints, plan.hash, state, transport, limits, plan.parts)


def _limits(plan: Plan) -> Limits:
    """Twice the largest message that the plan's protocol declares, if it can be known."""
    protocol, users = plan.protocol, None if plan.coordinator else 1
    declared = (*protocol.releases, *(protocol.asks if isinstance(protocol, StarProtocol) else ()))
    sizes = [largest_size(release, len(plan.columns), users) for release in declared]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return LIMITS
    return replace(LIMITS, max_bytes=min(LIMITS.max_bytes, max(2**20, 2 * max(known))))


def _refused(node: Node) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (name, reason), times in node.refused.items():
        found.setdefault(name, {})[reason] = times
    return found


def _star_line(progress: StarProgress) -> dict[str, Any]:
    note = {} if progress.note is None else _small(progress.note.body)
    return {
        "event": "round",
        "kind": progress.asked,
        "round": progress.round,
        "present": progress.answered,
        "missing": progress.missing,
        "sent": progress.bytes_out,
        "received": progress.bytes_in,
        "note": note,
    }


def _mesh_line(progress: Progress, neighbours: int) -> dict[str, Any]:
    note = {} if progress.note is None else _small(progress.note.body)
    return {
        "event": "round",
        "exchange": progress.exchange,
        "present": progress.present,
        "missing": neighbours - len(progress.present),
        "sent": progress.bytes_out,
        "note": note,
    }


def _small(body: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value.sum()) for key, value in body.items() if value.size == 1}
