"""Runs a plan's coordinator, one of its parties or one of its peers, from files to files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from unpooled.deploy import results
from unpooled.deploy.credentials import load_credentials
from unpooled.deploy.names import check_endpoint, is_loopback
from unpooled.deploy.own import Own, refuse_beyond
from unpooled.deploy.participation import attended, mesh_in_words, refuse_too_few, star_in_words
from unpooled.deploy.plan import Member, Plan
from unpooled.drivers.identity import Identity
from unpooled.drivers.net_mesh import MeshPeer, Progress
from unpooled.drivers.net_star import COORDINATOR, StarCoordinator, StarParty, StarProgress
from unpooled.drivers.network import Node, telling_others
from unpooled.drivers.options import Options, serving
from unpooled.drivers.site import Site
from unpooled.drivers.state import JOURNAL, StateDirectory
from unpooled.drivers.zenoh import Files, Place, ZenohTransport
from unpooled.errors import InputError, StateError, UnpooledError
from unpooled.kernels.assignment import nearest
from unpooled.protocols.mesh import Block, MeshProtocol
from unpooled.protocols.star import StarProtocol
from unpooled.types import Body, Parties, PartyId
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
    # A coordinator has no rows: whatever it says of its errors quotes none.
    with _connected(plan, plan.coordinator, setting, resume=resume, why=str) as (state, node):
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
            results.write_models(state, plan, result)
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
    plan: Plan, name: PartyId, own: Own, read: Callable[[], Parties], setting: Setting
) -> None:
    """A party's part of a plan with a coordinator; ``read`` reads its rows."""
    member, protocol = plan.member(name), plan.protocol
    if not isinstance(protocol, StarProtocol):
        raise InputError(f"{plan.source} has no coordinator; run 'unpooled peer' for {name}.")
    with _connected(plan, member, setting) as (state, node):
        refuse_beyond(plan, name, own.policy)
        parties = read()
        site = Site(protocol, parties[0], (plan.run_seed, plan.names.index(name)), own.policy)
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
            results.write_labels(state, results.star_labels(protocol, parties.rows, result))
            results.write_centers(state, plan, result)
            members = tuple(n for i, n in enumerate(plan.names) if i in party.members)
            facts = {"answered": party.clerk.answered, "refused": _refused(node)}
            said = star_in_words(plan.names, members)
            _write_manifest(state, plan, name, {}, members, said, facts, setting)
            party.part()
    _done(state, plan, members, setting)


def run_peer(
    plan: Plan, name: PartyId, own: Own, read: Callable[[], Parties], setting: Setting
) -> None:
    """A peer's part of a plan without a coordinator; ``read`` reads its rows."""
    member, protocol = plan.member(name), plan.protocol
    if not isinstance(protocol, MeshProtocol):
        raise InputError(f"{plan.source} has a coordinator; run 'unpooled party' for {name}.")
    with _connected(plan, member, setting) as (state, node):
        refuse_beyond(plan, name, own.policy)
        parties = read()
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
            results.write_models(state, plan, mine)
            results.write_centers(state, plan, mine)
            results.write_labels(state, labels)
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
    resume: bool = True,
    why: Callable[[UnpooledError], str] | None = None,
) -> Iterator[tuple[StateDirectory, Node]]:
    """The directory and the place on the network, given back in the end, whatever happens.

    Whoever fails in between tells the others, in the words of ``why``.
    """
    with ExitStack() as stack:
        state = StateDirectory(setting.to, plan.hash.hex(), member.name)
        stack.callback(state.close)
        if not resume and (state.path / JOURNAL).exists():
            raise StateError(
                f"{state.path} has a run of this plan already; go on with it by --resume, or move "
                "it away to begin another."
            )
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
    with serving(Options()) as serve:
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
