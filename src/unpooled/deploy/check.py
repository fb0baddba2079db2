"""Everything that a program refuses before anything is sent, in a run and in a dry run.

What it needs to open a connection (:func:`refuse_place`) comes first. Once it is connected, it can
send the others notice that its data or its policy are against the run (:func:`refuse_rows`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from unpooled.data.sources import OwnRows
from unpooled.deploy.credentials import load_credentials
from unpooled.deploy.members import Member
from unpooled.deploy.names import check_endpoint, is_loopback
from unpooled.deploy.own import Own, refuse_beyond
from unpooled.deploy.plan import Plan
from unpooled.errors import InputError, StateError
from unpooled.estimators import options
from unpooled.network.identity import Identity
from unpooled.network.storage.directory import refuse_other_owner
from unpooled.network.storage.journal import JOURNAL
from unpooled.network.zenoh_config import TlsFiles
from unpooled.types import PartyId

Report: TypeAlias = Callable[[Mapping[str, Any]], None]
"""What is called with the events of a run, for the screen."""


@dataclass(frozen=True)
class RunSetting:
    """Where a party finds its keys and puts its files; ``plain`` is TCP on one machine."""

    keys: Path
    to: Path
    plain: bool
    report: Report


def refuse_coordinator(plan: Plan, setting: RunSetting, *, resume: bool) -> Member:
    """Refuses a coordinator that cannot run; returns it otherwise."""
    if plan.coordinator is None:
        raise InputError(f"{plan.source} has no coordinator; run 'unpooled peer' for each peer.")
    _refuse_directory(plan, plan.coordinator.name, setting)
    if not resume and (setting.to / JOURNAL).exists():
        raise StateError(
            f"{setting.to} has a run of this plan already; go on with it by --resume, or move it "
            "away to begin another."
        )
    identified(plan, plan.coordinator, setting)
    return plan.coordinator


def refuse_place(plan: Plan, name: PartyId, setting: RunSetting, *, star: bool) -> Member:
    """Refuses a party or peer that cannot even connect; returns it otherwise."""
    member = plan.member(name)
    if star != (plan.coordinator is not None):
        has, command = ("no", "peer") if star else ("a", "party")
        raise InputError(
            f"{plan.source} has {has} coordinator; run 'unpooled {command}' for {name}."
        )
    _refuse_directory(plan, name, setting)
    identified(plan, member, setting)
    return member


def refuse_rows(plan: Plan, name: PartyId, own: Own, rows: OwnRows) -> None:
    """Refuses what a party's policy does not allow or its rows are not good for."""
    refuse_beyond(plan, name, own.policy)
    options.refuse_no_extent(rows.table)


def identified(plan: Plan, member: Member, setting: RunSetting) -> tuple[Identity, TlsFiles | None]:
    """Who a party is by its keys, and the files that the transport reads."""
    if not setting.plain:
        return load_credentials(setting.keys, member, plan)
    for one in (member, *plan.neighbours(member.name).values()):
        if one.endpoint and not is_loopback(check_endpoint(one.endpoint, plan.source)[0]):
            raise InputError(
                f"--plain sends everything in clear, so it is for one machine only, but "
                f"{one.name} listens at {one.endpoint}; make keys, or use 127.0.0.1."
            )
    return Identity(member.name), None


def _refuse_directory(plan: Plan, name: PartyId, setting: RunSetting) -> None:
    """Refuses a directory of another run; it is only looked at, not locked or changed."""
    try:
        owner = json.loads((setting.to / "owner").read_bytes())
    except (OSError, ValueError, RecursionError):
        return  # there is none, or StateDirectory, which opens it, refuses it
    if isinstance(owner, dict):
        refuse_other_owner(setting.to, owner, {"plan": plan.hash.hex(), "name": name})
