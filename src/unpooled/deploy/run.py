"""Runs a plan's coordinator, one of its parties or one of its peers, from files to files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.deploy import results
from unpooled.deploy.check import Setting, identified, refuse_coordinator, refuse_part
from unpooled.deploy.data import OwnRows
from unpooled.deploy.own import Own
from unpooled.deploy.plan import Member, Plan
from unpooled.drivers.net_mesh import MeshPeer, Progress
from unpooled.drivers.net_star import COORDINATOR, StarCoordinator, StarParty, StarProgress
from unpooled.drivers.network import Node
from unpooled.drivers.options import Options, serving
from unpooled.drivers.site import Site
from unpooled.drivers.state import StateDirectory
from unpooled.drivers.zenoh import Place, ZenohTransport
from unpooled.kernels.assignment import nearest
from unpooled.protocols.mesh import Block, MeshProtocol
from unpooled.protocols.star import StarProtocol
from unpooled.types import PartyId
from unpooled.wire.codec import LIMITS, Limits
from unpooled.wire.shapes import largest_size


def coordinate(plan: Plan, setting: Setting, *, resume: bool) -> None:
    """The coordinator's part of a plan."""
    member, protocol = refuse_coordinator(plan, setting, resume=resume), plan.protocol
    assert isinstance(protocol, StarProtocol)
    state = StateDirectory(setting.to, plan.hash.hex(), COORDINATOR)
    node = _node(plan, member, state, setting)
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
    try:
        setting.report({"event": "waiting", "for": plan.names})
        with serving(Options()) as serve:
            (result,) = serve(lambda _: run.run(), [None])
        results.write_model(state, plan, result)
        results.write_centers(state, plan, result)
        rounds = [
            {"kind": kind, "round": number, "answered": answered}
            for (kind, number), answered in run.conductor.answerers.items()
        ]
        facts = {"questions": rounds, "quorum": plan.quorum, "refused": _refused(node)}
        results.write_manifest(state, results.manifest(plan, COORDINATOR, result, facts))
        run.part()
        files = ["model.unpooled", "centers.csv", "manifest.json"]
        setting.report({"event": "done", "to": str(state.path), "files": files})
    finally:
        run.close()
        node.close()
        state.close()


def take_part(plan: Plan, name: PartyId, own: Own, rows: OwnRows, setting: Setting) -> None:
    """A party's part of a plan with a coordinator."""
    member = refuse_part(plan, name, own, rows, setting, star=True)
    protocol, parties = plan.protocol, rows.parties
    assert isinstance(protocol, StarProtocol)
    state = StateDirectory(setting.to, plan.hash.hex(), name)
    node = _node(plan, member, state, setting)
    site = Site(protocol, parties[0], (plan.run_seed, plan.names.index(name)), own.policy)
    party = StarParty(
        protocol,
        site,
        node,
        state,
        plan.timing,
        lambda line: setting.report({"event": "answered", **line}),
    )
    try:
        setting.report({"event": "waiting", "for": [COORDINATOR]})
        with serving(Options()) as serve:
            (result,) = serve(lambda _: party.run(), [None])
        labels = results.star_labels(protocol, parties.rows, result)
        results.write_labels(state, labels, rows.ids)
        results.write_model(state, plan, result, shared_only=True)
        results.write_centers(state, plan, result)
        facts = {"answered": party.clerk.answered, "refused": _refused(node)}
        results.write_manifest(state, results.manifest(plan, name, {}, facts))
        party.part()
        files = ["model.unpooled", "labels.csv", "centers.csv", "ledger.jsonl", "manifest.json"]
        setting.report({"event": "done", "to": str(state.path), "files": files})
    finally:
        party.close()
        node.close()
        state.close()


def run_peer(plan: Plan, name: PartyId, own: Own, rows: OwnRows, setting: Setting) -> None:
    """A peer's part of a plan without a coordinator."""
    member = refuse_part(plan, name, own, rows, setting, star=False)
    protocol, parties = plan.protocol, rows.parties
    assert isinstance(protocol, MeshProtocol)
    state = StateDirectory(setting.to, plan.hash.hex(), name)
    node = _node(plan, member, state, setting)
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
    )
    try:
        setting.report({"event": "waiting", "for": list(peer.neighbours)})
        with serving(Options()) as serve:
            (result,) = serve(lambda _: peer.run(), [None])
        mine = {key: value[0] for key, value in result.items()}
        labels = nearest(
            parties.rows, parties.owner, result["centers"], plan.estimator._loss().dissimilarity
        )
        results.write_model(state, plan, mine)
        results.write_centers(state, plan, mine)
        results.write_labels(state, labels, rows.ids)
        facts = {
            "participation": peer.participation,
            "in_words": in_words(name, peer.participation),
            "refused": _refused(node),
        }
        results.write_manifest(state, results.manifest(plan, name, mine, facts))
        for sentence in facts["in_words"]:
            setting.report({"event": "warning", "text": sentence})
        peer.part()
        files = ["model.unpooled", "labels.csv", "centers.csv", "ledger.jsonl", "manifest.json"]
        setting.report({"event": "done", "to": str(state.path), "files": files})
    finally:
        peer.close()
        node.close()
        state.close()


def in_words(name: PartyId, participation: Mapping[str, Any]) -> list[str]:
    """What it means for the result that somebody was missing."""
    last = participation["exchanges"] - 1
    said = []
    for other, spans in participation["not_heard"].items():
        missed = sum(end - first + 1 for first, end in spans)
        if spans[-1][1] == last:
            said.append(
                f"{other} was not heard from exchange {spans[-1][0]} to the end ({last}): its rows "
                "count only as far as its centres had spread before, and this is not the "
                "clustering of all rows; run again once it is back."
            )
        else:
            said.append(
                f"{other} was not heard in {missed} of {last + 1} exchanges, the last of them "
                f"{spans[-1][1]}; it was there at the end, so its rows count in full if the run "
                "came to rest after that."
            )
    if participation["asleep"]:
        said.append(
            f"{name} itself missed {sum(b - a + 1 for a, b in participation['asleep'])} exchanges."
        )
    return said


def _node(plan: Plan, member: Member, state: StateDirectory, setting: Setting) -> Node:
    others = plan.neighbours(member.name)
    identity, files = identified(plan, member, setting)
    place = Place(member.name, member.endpoint, {n: o.endpoint for n, o in others.items()})
    limits = _limits(plan)
    transport = ZenohTransport(place, files, largest=limits.max_bytes)
    fingerprints = {name: other.fingerprint for name, other in others.items()}
    return Node(identity, fingerprints, plan.hash, state, transport, limits)


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
        **note,
    }


def _mesh_line(progress: Progress, neighbours: int) -> dict[str, Any]:
    note = {} if progress.note is None else _small(progress.note.body)
    return {
        "event": "round",
        "exchange": progress.exchange,
        "present": progress.present,
        "missing": neighbours - len(progress.present),
        "sent": progress.bytes_out,
        **note,
    }


def _small(body: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value.sum()) for key, value in body.items() if value.size == 1}
