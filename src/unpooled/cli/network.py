"""The commands ``coordinator``, ``party`` and ``peer``, which run a plan on a network."""

from __future__ import annotations

import argparse
import importlib.util
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unpooled.cli.printing import print_lines
from unpooled.cli.progress import Screen
from unpooled.errors import InputError

if TYPE_CHECKING:
    from unpooled.data.sources import OwnRows
    from unpooled.deploy.check import RunSetting
    from unpooled.deploy.own import Own

_NOTHING_SENT = "Nothing was sent."


def add_network(commands: Any) -> None:
    """Adds the three commands."""
    coordinator = commands.add_parser("coordinator", help="coordinate a plan's parties")
    coordinator.add_argument("--resume", action="store_true", help="resume a run that stopped")
    party = commands.add_parser("party", help="take part in a plan with a coordinator")
    peer = commands.add_parser("peer", help="take part in a plan without a coordinator")
    for command, run in ((coordinator, _run_coordinator), (party, _run_party), (peer, _run_peer)):
        command.add_argument("plan", type=Path, metavar="PLAN", help="the plan, a TOML file")
        if command is not coordinator:
            command.add_argument("--name", required=True, help="this party's name in the plan")
            command.add_argument("--data", type=Path, help="its rows: .npz, .csv or .parquet")
            command.add_argument(
                "--own", "--site", type=Path, metavar="FILE", help="the party's own file"
            )
            command.add_argument(
                "--new-memory",
                action="store_true",
                help="begin a new store of cells, on purpose: with the old one it gives rows away",
            )
            command.add_argument(
                "--rows-changed",
                action="store_true",
                help="go on although most rows are gone or changed, which retires their cells",
            )
        command.add_argument(
            "--keys", type=Path, metavar="DIR", help="where NAME.key, NAME.pem and ca.pem are"
        )
        command.add_argument(
            "--to", type=Path, metavar="DIR", help="for state and results (default: NAME.run)"
        )
        command.add_argument(
            "--dry-run",
            action="store_true",
            help="list what would travel, check everything, and send nothing",
        )
        command.add_argument(
            "--plain",
            action="store_true",
            help="without TLS and keys: for trials on one machine, refused anywhere else",
        )
        command.set_defaults(run=run)


def _run_coordinator(options: argparse.Namespace) -> None:
    _need_extra()
    from unpooled.deploy.check import refuse_coordinator
    from unpooled.deploy.dryrun import listed
    from unpooled.deploy.plan_file import read_plan
    from unpooled.deploy.run import coordinate
    from unpooled.network.star_kinds import COORDINATOR

    plan, setting = read_plan(options.plan), _setting(options, COORDINATOR, None, None)
    if options.dry_run:
        print_lines(*listed(plan, COORDINATOR, coordinates=True))
        refuse_coordinator(plan, setting, resume=options.resume)
        print_lines(_NOTHING_SENT)
        return
    coordinate(plan, setting, resume=options.resume)


def _run_party(options: argparse.Namespace) -> None:
    _take_part(options, star=True)


def _run_peer(options: argparse.Namespace) -> None:
    _take_part(options, star=False)


def _take_part(options: argparse.Namespace, *, star: bool) -> None:
    _need_extra()
    from unpooled.deploy import run
    from unpooled.deploy.admission import begin_anew, previewed, site_columns
    from unpooled.deploy.check import refuse_place, refuse_rows
    from unpooled.deploy.dryrun import allowed, listed
    from unpooled.deploy.own import read_own
    from unpooled.deploy.plan_file import read_plan

    plan, name = read_plan(options.plan), options.name
    own = replace(read_own(options.own, options.data), rows_changed=options.rows_changed)
    plan.member(name)
    setting = _setting(options, name, own.keys, own.to)
    if options.new_memory:
        if options.dry_run:
            raise InputError(
                "--new-memory puts cells aside, and a dry run changes nothing; leave one of "
                "them out."
            )
        refuse_place(plan, name, setting, star=star)
        columns = own.columns or plan.columns
        refuse_rows(plan, name, own, _rows(options, own, columns))  # before anything is put aside
        begin_anew(name, own, setting.to)
    if options.dry_run:
        print_lines(*listed(plan, name))
        refuse_place(plan, name, setting, star=star)
        rows = _rows(options, own, site_columns(plan, name, own))
        refuse_rows(plan, name, own, rows)
        cells = previewed(name, own, rows, setting.to)
        print_lines(*allowed(plan, name, own.policy, rows, cells), _NOTHING_SENT)
        return
    part = run.take_part if star else run.run_peer
    part(plan, name, own, lambda: _rows(options, own, site_columns(plan, name, own)), setting)


def _rows(options: argparse.Namespace, own: Own, columns: tuple[str, ...]) -> OwnRows:
    from unpooled.data.sources import read_rows

    if own.data is None:
        raise InputError(
            f"{options.name} gives no data; add --data FILE, or data = to its own file."
        )
    return read_rows(own.data, options.name, columns, own.naming)


def _setting(
    options: argparse.Namespace, name: str, keys: Path | None, to: Path | None
) -> RunSetting:
    from unpooled.deploy.check import RunSetting
    from unpooled.network.zenoh_log import log_refusals

    screen = Screen(name)
    log = logging.getLogger("unpooled.network")
    log.addHandler(screen)
    log.propagate = False
    log_refusals()
    return RunSetting(
        options.keys or keys or Path(),
        options.to or to or Path(f"{name}.run"),
        options.plain,
        screen.show,
    )


def _need_extra() -> None:
    for module in ("zenoh", "cryptography"):
        if importlib.util.find_spec(module) is None:
            raise InputError(
                f"Running on a network needs {module}; run pip install 'unpooled[network]'."
            )
