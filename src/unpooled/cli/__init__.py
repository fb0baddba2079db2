"""The command line, ``unpooled``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from unpooled import __version__
from unpooled.cli import keys, network
from unpooled.errors import InputError, TooFewParties, UnpooledError
from unpooled.text import printable

EXPERIMENTS = {
    "deep-digits": "unpooled.experiments.deep.digits",
    "deep-paper": "unpooled.experiments.deep.paper",
    "deep-table": "unpooled.experiments.deep.table",
    "dgc-iris": "unpooled.experiments.dgc.iris",
    "feca-ssets": "unpooled.experiments.feca.ssets",
    "gossip-faults": "unpooled.experiments.gossip.faults",
    "gossip-pictures": "unpooled.experiments.gossip.pictures",
    "gossip-quality": "unpooled.experiments.gossip.quality",
    "gossip-rho": "unpooled.experiments.gossip.rho",
    "gossip-table": "unpooled.experiments.gossip.table",
    "kernel-compare": "unpooled.experiments.kernel.compare",
    "kernel-paper": "unpooled.experiments.kernel.paper",
    "kernel-shapes": "unpooled.experiments.kernel.shapes",
    "oneshot-costs": "unpooled.experiments.feca.costs",
}
"""Names and the modules whose ``report(runs)`` yields lines."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0, or another status with one sentence on the error stream.

    2: it was refused or could not continue; 3: there is a result, but with fewer parties than the
    plan asks for; 130: somebody stopped it.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except UnpooledError as error:
        print(printable(f"unpooled: {error}"), file=sys.stderr)
        return 3 if isinstance(error, TooFewParties) else 2
    except KeyboardInterrupt:
        print("\nunpooled: stopped; what was written so far is kept.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class _Parser(argparse.ArgumentParser):
    """Quotes arguments, which may come from anywhere, without what a terminal would obey."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="unpooled", description="Clusters data that cannot be pooled."
    )
    parser.add_argument("--version", action="version", version=f"unpooled {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="cluster digits held by ten parties, and draw it")
    demo.add_argument(
        "--figure",
        type=Path,
        default=Path("unpooled-demo.png"),
        metavar="FILE",
        help="where to draw (default: %(default)s)",
    )
    demo.set_defaults(run=_demo)
    reproduce = commands.add_parser("reproduce", help="repeat a paper's experiment")
    reproduce.add_argument("experiment", choices=EXPERIMENTS, help="which one")
    reproduce.add_argument(
        "--runs", type=_positive_number, default=10, metavar="N", help="runs (default: %(default)s)"
    )
    reproduce.add_argument(
        "--plan", type=Path, metavar="FILE", help="for deep-paper: another plan than the paper's"
    )
    reproduce.set_defaults(run=_reproduce)
    keys.add_keys(commands)
    network.add_network(commands)
    return parser


def _positive_number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


# What a command needs is imported when it runs: `unpooled --help` stays quick.


def _demo(options: argparse.Namespace) -> None:
    from unpooled.cli.demo import demo

    demo(options.figure)


def _reproduce(options: argparse.Namespace) -> None:
    given = {}
    if options.plan is not None:
        if options.experiment != "deep-paper":
            raise InputError(f"{options.experiment} has no plan; leave out --plan.")
        given["plan"] = options.plan
    try:
        experiment = import_module(EXPERIMENTS[options.experiment])
    except ImportError as error:  # an extra that is not installed
        raise InputError(f"{options.experiment} cannot be run: {error}") from error
    for line in experiment.report(options.runs, **given):
        print(line, flush=True)
