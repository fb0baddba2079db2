"""``unpooled reproduce``: tables and figures of papers, made again."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Collection
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from unpooled.errors import InputError
from unpooled.experiments.reproduction.registry import ALIASES, ENTRIES, OWN, Entry, chosen

DEFAULT_RUNS_OF_OWN = 10
MOST_RUNS = 10_000


def add_reproduce(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "reproduce",
        help="make tables and figures of papers again",
        description="Makes tables and figures of papers again, beside the papers' numbers. "
        "Without a name: lists them.",
    )
    parser.add_argument(
        "experiment",
        nargs="?",
        metavar="NAME",
        help="which one, or all",
    )
    parser.add_argument("--quick", action="store_true", help="few runs of little: does it work?")
    parser.add_argument("--runs", type=_positive, metavar="N", help="runs (default: see the list)")
    parser.add_argument(
        "--to", type=_folder, metavar="DIR", help="where to (default: reproduction, or quick)"
    )
    parser.add_argument("--fresh", action="store_true", help="forget what is there already")
    parser.add_argument("--jobs", type=_positive, metavar="N", help="cores (default: all)")
    parser.add_argument(
        "--plan", type=Path, metavar="FILE", help="for deep-paper: another plan than the paper's"
    )
    parser.set_defaults(run=_run)


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_RUNS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no whole number from 1 to {MOST_RUNS}; give one"
        )
    return int(text)


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("'' is no folder; give a name")
    return Path(text)


def _run(options: argparse.Namespace) -> None:
    name = options.experiment
    known = ["all", *ENTRIES, *ALIASES, *OWN]
    if name is not None and name not in known:
        near = get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"{name!r} is no name: {meant}unpooled reproduce lists all names.")
    if options.plan is not None and name != "deep-paper":
        raise InputError(f"{name or 'the list'} has no plan; leave out --plan.")
    if name is None:
        _print_list()
    elif name in OWN:
        _print_report(name, options)
    else:
        _make_pages(chosen(name), options)


def _print_list() -> None:
    print(f"{'name':18}{'paper':9}{'minutes':>7}  {'what it shows':52}data")
    for entry in ENTRIES.values():
        data = ", ".join(entry.data).replace("s1, s2, s3, s4", "s1 to s4") or "-"
        print(f"{entry.name:18}{entry.paper.short:9}{entry.minutes:7g}  {entry.shows:52}{data}")
    print("\nOther names:")
    for name, stands_for in ALIASES.items():
        print(f"  {name:16}{', '.join(stands_for)}")
    print("\nExperiments of our own, which print lines:")
    for name, (_, shows) in OWN.items():
        print(f"  {name:16}{shows}")
    print(
        "\nMinutes are on two cores. Data beside those of scikit-learn: NAME.npz with arrays X and "
        "y\nin the folder that the environment variable UNPOOLED_DATA names."
    )


def _print_report(name: str, options: argparse.Namespace) -> None:
    """An experiment of our own, line by line as it gets done."""
    given = {} if options.plan is None else {"plan": options.plan}
    try:
        module = import_module(f"unpooled.experiments.{OWN[name][0]}")
    except ImportError as error:  # an extra that is not installed
        raise InputError(f"{name} cannot be run: {error}") from error
    for line in module.report(options.runs or DEFAULT_RUNS_OF_OWN, **given):
        print(line, flush=True)


def _make_pages(entries: list[Entry], options: argparse.Namespace) -> None:
    from unpooled import datasets
    from unpooled.experiments.reproduction.index import write_index
    from unpooled.experiments.reproduction.running import start_again
    from unpooled.experiments.reproduction.store import alone_in

    folder = options.to or Path("quick" if options.quick else "reproduction")
    there = datasets.available()
    lacking = {entry.name: _lacking(entry, there) for entry in entries}
    ready = [entry for entry in entries if not lacking[entry.name]]
    if not ready:
        raise InputError(lacking[entries[0].name])
    with alone_in(folder):
        if options.fresh:
            start_again(ready, folder, quick=options.quick, runs=options.runs)
        for entry in ready:
            _make_page(entry, folder, options, in_full=len(entries) == 1)
        write_index(folder)
    for lacks in filter(None, lacking.values()):
        print(f"left out: {lacks}")


def _make_page(entry: Entry, folder: Path, options: argparse.Namespace, *, in_full: bool) -> None:
    from unpooled.experiments.reproduction.page import counted
    from unpooled.experiments.reproduction.running import reproduce

    live = _LiveLine(entry.name)
    page = reproduce(
        entry,
        folder,
        runs=options.runs,
        quick=options.quick,
        jobs=options.jobs,
        progress=live.show,
    )
    live.end()
    if in_full:
        print("\n".join([page.conclusion, "", *page.lines()]))
    print(f"{folder / entry.name}.md: {counted(page.counts()) or 'done'}", flush=True)


def _lacking(entry: Entry, there: Collection[str]) -> str:
    """What an experiment lacks, in a sentence; empty if nothing."""
    if missing := [name for name in entry.data if name not in there]:
        return (
            f"{entry.name} needs {', '.join(f'{name}.npz' for name in missing)} (arrays X and y): "
            "put what is missing into a folder and set UNPOOLED_DATA to it."
        )
    if entry.deep and not _importable("torch"):
        return f"{entry.name} needs PyTorch; run pip install 'unpooled[deep]'."
    return ""


def _importable(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


class _LiveLine:
    """How far an experiment is, on a terminal; nothing in a pipe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin = monotonic()
        self._live = sys.stdout.isatty()
        self._open = False

    def show(self, done: int, of: int) -> None:
        """``done`` of ``of`` tasks are done."""
        if not self._live:
            return
        left = (monotonic() - self._begin) / done * (of - done)
        text = f"{self._name}: {done} of {of}, about {left / 60:.1f} minutes left"
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write("\r\x1b[K" + text[:width])
        sys.stdout.flush()
        self._open = True

    def end(self) -> None:
        """Wipes the line."""
        if self._open:
            sys.stdout.write("\r\x1b[K")
            self._open = False
