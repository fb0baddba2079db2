"""Runs a plan's coordinator, one of its parties or one of its peers, from files to files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.data.parties import Parties
from unpooled.data.sources import OwnRows
from unpooled.deploy import results
from unpooled.deploy.check import RunSetting, refuse_coordinator
from unpooled.deploy.connection import connected, connected_with_rows
from unpooled.deploy.events import mesh_event, star_event
from unpooled.deploy.own import Own
from unpooled.deploy.participation import attended, mesh_sentences, refuse_too_few, star_sentences
from unpooled.deploy.plan import Plan
from unpooled.kernels.assignment.nearest import nearest
from unpooled.network.mesh import MeshPeer
from unpooled.network.node import Node
from unpooled.network.star_coordinator import StarCoordinator
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.star_party import StarParty
from unpooled.network.storage.directory import StateDirectory
from unpooled.protocols.mesh.base import Block, MeshProtocol
from unpooled.protocols.star.base import StarProtocol
from unpooled.runtime.party import PartyRuntime
from unpooled.runtime.peer import PeerRuntime
from unpooled.runtime.serving import serving
from unpooled.types import Body, PartyId, all_rows


def coordinate(plan: Plan, setting: RunSetting, *, resume: bool) -> None:
    """Runs the coordinator of a plan."""
    member, protocol = refuse_coordinator(plan, setting, resume=resume), plan.protocol
    assert isinstance(protocol, StarProtocol)
    # A coordinator has no rows: the text of its errors quotes none, and may be sent.
    with connected(plan, member, setting, why=str) as (state, node):
        run = StarCoordinator(
            protocol,
            plan.names,
            node,
            state,
            plan.run_seed,
            plan.timing,
            quorum=plan.quorum,
            n_columns=len(plan.columns),
            observe=lambda progress: setting.report(star_event(progress)),
        )
        with closing(run):
            setting.report({"event": "waiting", "for": plan.names})
            result = _run_role(run)
            results.write_model(state, plan, result)
            results.write_centers(state, plan, result)
            rounds = [
                {"kind": kind, "round": number, "answered": answered}
                for (kind, number), answered in run.runtime.answerers.items()
            ]
            facts = {"questions": rounds, "quorum": plan.quorum, "refused": _refused(node)}
            sentences = star_sentences(plan.names, run.members, run.left)
            _write_manifest(
                state, plan, COORDINATOR, result, run.members, sentences, facts, setting
            )
            run.terminate()
    _done(state, plan, run.members, setting)


def take_part(
    plan: Plan, name: PartyId, own: Own, read: Callable[[], OwnRows], setting: RunSetting
) -> None:
    """Runs a party of a plan with a coordinator; ``read`` reads its rows."""
    with connected_with_rows(plan, name, own, read, setting, star=True) as opened:
        state, node, rows, data = opened
        protocol = plan.protocol
        assert isinstance(protocol, StarProtocol)
        site = PartyRuntime(protocol, data, (plan.run_seed, plan.names.index(name)), own.policy)
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
            result = _run_role(party)
            labels = results.star_labels(protocol, rows.chosen(plan.columns), result)
            results.write_labels(state, labels, rows.ids)
            results.write_model(state, plan, result, shared_only=True)
            results.write_centers(state, plan, result)
            members = tuple(n for i, n in enumerate(plan.names) if i in party.members)
            facts = {"answered": party.party.answered, "refused": _refused(node)}
            sentences = star_sentences(plan.names, members)
            _write_manifest(state, plan, name, {}, members, sentences, facts, setting)
            party.terminate()
    _done(state, plan, members, setting)


def run_peer(
    plan: Plan, name: PartyId, own: Own, read: Callable[[], OwnRows], setting: RunSetting
) -> None:
    """Runs a peer of a plan without a coordinator; ``read`` reads its rows."""
    with connected_with_rows(plan, name, own, read, setting, star=False) as opened:
        state, node, rows, data = opened
        protocol = plan.protocol
        assert isinstance(protocol, MeshProtocol)
        number = np.array([plan.names.index(name)])
        parties = Parties.of([all_rows(data.rows)], weights=[data.weights], names=[name])
        block = Block.of(
            replace(parties, admitted=True), plan.topology, number, plan.run_seed, own.policy
        )
        peer = MeshPeer(
            PeerRuntime(protocol, block, own.policy),
            plan.names,
            node,
            state,
            plan.timing,
            lambda progress: setting.report(mesh_event(progress, len(peer.neighbours))),
            min_parties=plan.min_parties,
        )
        with closing(peer):
            setting.report({"event": "waiting", "for": list(peer.neighbours)})
            result = _run_role(peer)
            mine = {key: value[0] for key, value in result.items()}
            own_rows, loss = rows.chosen(plan.columns), plan.estimator._loss()
            mine_alone = np.zeros(len(own_rows), dtype=np.int64)
            labels = nearest(own_rows, mine_alone, result["centers"], loss.dissimilarity)
            results.write_model(state, plan, mine)
            results.write_centers(state, plan, mine)
            results.write_labels(state, labels, rows.ids)
            peer.terminate()
            facts = {"participation": peer.participation, "refused": _refused(node)}
            sentences = mesh_sentences(plan.names, peer)
            _write_manifest(state, plan, name, mine, peer.members, sentences, facts, setting)
    _done(state, plan, peer.members, setting)


def _run_role(role: StarCoordinator | StarParty | MeshPeer) -> Body:
    with serving() as serve:
        result: Body = serve(lambda _: role.run(), [None])[0]
    return result


def _write_manifest(
    state: StateDirectory,
    plan: Plan,
    name: PartyId,
    result: Body,
    members: Collection[PartyId],
    sentences: list[str],
    facts: Mapping[str, Any],
    setting: RunSetting,
) -> None:
    """Who took part, on the screen and on disk."""
    for sentence in sentences:
        setting.report({"event": "warning", "text": sentence})
    facts = {**attended(plan, members), "in_words": sentences, **facts}
    results.write_manifest(state, results.manifest(plan, name, result, facts))


def _done(
    state: StateDirectory, plan: Plan, members: Collection[PartyId], setting: RunSetting
) -> None:
    files = [file for file in results.FILES if (state.path / file).exists()]
    attendance = {"took_part": len(members), "of": len(plan.names)}
    setting.report({"event": "done", "to": str(state.path), "files": files, **attendance})
    refuse_too_few(plan, members)


def _refused(node: Node) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (name, reason), times in node.refused.items():
        found.setdefault(name, {})[reason] = times
    return found
