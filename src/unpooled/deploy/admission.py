"""The entrance of a site: its rows are put into cells, in the site's own store, before a run.

The store is the site's, not a run's: its cells are the same in every run. Each run's state
directory has the head of the store as the run found it, so that a store that is gone, or an older
copy of it that was put back, is noticed and refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from unpooled.data.parties import PartyData
from unpooled.data.sources import OwnRows
from unpooled.deploy.own import Own
from unpooled.deploy.plan import Plan
from unpooled.errors import InputError, PolicyRefusal, StateError
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.ledger_file import LEDGER
from unpooled.privacy.cell_store import ANEW, CellStore, Head, Stored
from unpooled.privacy.entrance import left_out
from unpooled.privacy.policy import Policy
from unpooled.privacy.site_rows import SiteRows
from unpooled.protocols.star.base import StarProtocol
from unpooled.types import PartyId

CELLS = "cells"
"""The file of a state directory that has the head of the site's store."""


def site_policy(own: Own) -> Policy:
    """The site's policy, with its store where it has a minimum count."""
    if own.policy.min_count <= 1:
        return own.policy
    return own.policy.with_own(memory=own.memory, one_party=True)


def site_columns(plan: Plan, name: PartyId, own: Own) -> tuple[str, ...]:
    """The columns to read: those of the store, of the site's own file, or of the plan."""
    store = site_policy(own).store(name)
    listed = own.columns or plan.columns
    columns = listed if store is None else store.columns or listed
    missing = [column for column in plan.columns if column not in columns]
    if not missing:
        return columns
    if own.columns is not None and missing[0] not in own.columns:
        raise InputError(
            f"{plan.source} uses the column {missing[0]!r}, which is not among those that {name}'s "
            f"own file lists ({', '.join(own.columns)}); add it there, or change the plan."
        )
    raise StateError(
        f"{plan.source} uses the column {missing[0]!r}, but the cells of {name} are made of "
        f"{', '.join(columns)}; leave it out of the plan, or {ANEW}."
    )


def admitted(
    plan: Plan, name: PartyId, own: Own, rows: OwnRows, state: StateDirectory
) -> PartyData:
    """What the plan's protocol is given of the site's rows; all of it is on disk then."""
    policy = site_policy(own)
    store = policy.store(name)
    if store is not None:
        store.refuse_unlike(known_heads(state.path, name, store))
    protocol = plan.protocol
    data = policy.admitted(
        PartyData(name, rows.chosen(plan.columns), rows.parties.weights),
        needs_rows=isinstance(protocol, StarProtocol) and protocol.needs_rows,
        site=site_rows(own, rows),
        columns=plan.columns,
    )
    if not len(data.rows):
        raise PolicyRefusal(f"Party {name} {data.remark}.")
    if store is not None:
        _remember(state, store, name)
    return data


def new_store(name: PartyId, own: Own) -> Path | None:
    """Where a store is to begin; None if there is one, or none is kept."""
    store = site_policy(own).store(name)
    return None if store is None or store.exists else store.folder


def begin_anew(name: PartyId, own: Own, to: Path) -> None:
    """Puts the site's store aside, as its owner asks for, before the run in ``to`` begins."""
    store = site_policy(own).store(name)
    if store is None:
        raise InputError(
            f"The policy of {name} keeps no cells, so there is no store to begin anew; leave "
            "--new-memory out."
        )
    if (to / CELLS).exists():
        raise InputError(
            f"The run in {to} has begun, from cells that there are; leave --new-memory out to go "
            "on with it, or begin another run with --to."
        )
    store.start_anew(known_heads(to, name, store))


def previewed(name: PartyId, own: Own, rows: OwnRows, to: Path) -> Stored | None:
    """The cells that a run would have, without writing any; None if the policy keeps none."""
    policy = site_policy(own)
    store = policy.store(name)
    if store is None:
        return None
    store.refuse_unlike(known_heads(to, name, store))
    found = store.update(site_rows(own, rows), policy.min_count, write=False)
    if not found.in_cells:
        raise PolicyRefusal(f"Party {name} {left_out(found)}.")
    return found


def site_rows(own: Own, rows: OwnRows) -> SiteRows:
    """The rows as the store takes them: with the names of columns, rows and persons."""
    assert rows.table.columns is not None  # they come from a file with named columns
    return SiteRows(
        columns=rows.table.columns,
        rows=rows.parties.rows,
        weights=rows.parties.weights,
        ids=None if rows.ids is None else rows.ids.values,
        persons=None if rows.persons is None else rows.persons.values,
        mapping=vars(rows.naming),
        mostly_changed=own.rows_changed,
    )


def known_heads(run: Path, name: PartyId, store: CellStore) -> Iterator[Head]:
    """What this run's directory and those beside it know of the store."""
    for owner in sorted(run.absolute().parent.glob("*/owner")):
        path = owner.with_name(CELLS)
        if not path.is_file():
            continue
        try:
            known = json.loads(path.read_bytes())
            head = Head(str(known["store"]), int(known["sequence"]), str(known["hash"]))
            folder = known["folder"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            if _named(owner) != name:
                continue  # another party's run
            raise StateError(
                f"{path} is damaged, which says how new the cells of {name} must be; move "
                f"{path.parent} away to go on without it."
            ) from None
        if folder == _place(store) or _named(owner) == name:
            yield head


def _named(owner: Path) -> object:
    """Whose a directory is."""
    try:
        found = json.loads(owner.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found.get("name") if isinstance(found, dict) else None


def _place(store: CellStore) -> str:
    return str(store.folder.resolve())


def _remember(state: StateDirectory, store: CellStore, name: PartyId) -> None:
    """Notes the store's head in the run's directory, before anything is sent."""
    head = store.head
    assert head is not None  # it has just been written
    noted = {"folder": _place(store), **head._asdict()}
    known = state.read_json(CELLS)
    ledger = state.path / LEDGER
    if known not in (None, noted) and ledger.exists() and ledger.stat().st_size:
        raise StateError(
            f"The cells of {name} have changed since the run in {state.path} began, because its "
            "data or its store have; give back what it began with, or begin another run with --to."
        )
    state.write_json(CELLS, noted)
