"""Runs a plan's coordinator, one of its parties or one of its peers, from files to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from unpooled.deploy import results
from unpooled.deploy.credentials import load_credentials
from unpooled.deploy.names import check_endpoint, is_loopback
from unpooled.deploy.own import Own, refuse_beyond
from unpooled.deploy.plan import Member, Plan
from unpooled.drivers.identity import Identity
from unpooled.drivers.net_mesh import MeshPeer, Progress
from unpooled.drivers.net_star import COORDINATOR, StarCoordinator, StarParty, StarProgress
from unpooled.drivers.network import Node
from unpooled.drivers.options import Options, serving
from unpooled.drivers.site import Site
from unpooled.drivers.state import JOURNAL, StateDirectory
from unpooled.drivers.zenoh import Files, Place, ZenohTransport
from unpooled.errors import InputError, StateError
from unpooled.kernels.assignment import nearest
from unpooled.protocols.mesh import Block, MeshProtocol
from unpooled.protocols.star import StarProtocol
from unpooled.types import Parties, PartyId
from unpooled.wire.codec import LIMITS, Limits
from unpooled.wire.shapes import largest_size

Report: TypeAlias = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Setting:
    """Where a party finds its keys and puts its files; ``plain`` is TCP on one machine."""

    keys: Path
    to: Path
    plain: bool
    report: Report


def coordinate(plan: Plan, setting: Setting, *, resume: bool) -> None:
    """The coordinator's part of a plan."""
    protocol = plan.protocol
    if plan.coordinator is None or not isinstance(protocol, StarProtocol):
        raise InputError(f"{plan.source} has no coordinator; run 'unpooled peer' for each peer.")
    state = StateDirectory(setting.to, plan.hash.hex(), COORDINATOR)
    if not resume and (state.path / JOURNAL).exists():
        raise StateError(
            f"{state.path} has a run of this plan already; go on with it by --resume, or move it "
            "away to begin another."
        )
    node = _node(plan, plan.coordinator, state, setting)
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
        results.write_models(state, plan, result)
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


def take_part(plan: Plan, name: PartyId, own: Own, parties: Parties, setting: Setting) -> None:
    """A party's part of a plan with a coordinator."""
    member, protocol = plan.member(name), plan.protocol
    if not isinstance(protocol, StarProtocol):
        raise InputError(f"{plan.source} has no coordinator; run 'unpooled peer' for {name}.")
    refuse_beyond(plan, name, own.policy)
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
        results.write_labels(state, results.star_labels(protocol, parties.rows, result))
        results.write_centers(state, plan, result)
        facts = {"answered": party.clerk.answered, "refused": _refused(node)}
        results.write_manifest(state, results.manifest(plan, name, {}, facts))
        party.part()
        files = ["labels.csv", "centers.csv", "ledger.jsonl", "manifest.json"]
        setting.report({"event": "done", "to": str(state.path), "files": files})
    finally:
        party.close()
        node.close()
        state.close()


def run_peer(plan: Plan, name: PartyId, own: Own, parties: Parties, setting: Setting) -> None:
    """A peer's part of a plan without a coordinator."""
    member, protocol = plan.member(name), plan.protocol
    if not isinstance(protocol, MeshProtocol):
        raise InputError(f"{plan.source} has a coordinator; run 'unpooled party' for {name}.")
    refuse_beyond(plan, name, own.policy)
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
        results.write_models(state, plan, mine)
        results.write_centers(state, plan, mine)
        results.write_labels(state, labels)
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
    if setting.plain:
        for one in (member, *others.values()):
            if one.endpoint and not is_loopback(check_endpoint(one.endpoint, plan.source)[0]):
                raise InputError(
                    f"--plain sends everything in clear, so it is for one machine only, but "
                    f"{one.name} listens at {one.endpoint}; make keys, or use 127.0.0.1."
                )
        identity, files = Identity(member.name), None
    else:
        credentials = load_credentials(setting.keys, member, plan)
        identity = credentials.identity
        files = Files(credentials.key, credentials.certificate, credentials.ca)
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
