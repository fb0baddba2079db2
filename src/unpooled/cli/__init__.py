"""The command line, ``unpooled``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from unpooled import __version__
from unpooled.cli import audit, keys, network, reproduce
from unpooled.errors import TooFewParties, UnpooledError
from unpooled.text import printable


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0, or another status with one sentence on the error stream.

    1: an audit recovered rows; 2: it was refused or could not continue; 3: there is a result, but
    with fewer parties than the plan asks for; 130: somebody stopped it.
    """
    options = _parser().parse_args(arguments)
    try:
        status = options.run(options)
    except UnpooledError as error:
        print(printable(f"unpooled: {error}"), file=sys.stderr)
        return 3 if isinstance(error, TooFewParties) else 2
    except KeyboardInterrupt:
        print("\nunpooled: stopped; what was written so far is kept.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return int(status or 0)


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
    reproduce.add_reproduce(commands)
    keys.add_keys(commands)
    network.add_network(commands)
    audit.add_audit(commands)
    return parser


# What a command needs is imported when it runs: `unpooled --help` stays quick.


def _demo(options: argparse.Namespace) -> None:
    from unpooled.cli.demo import demo

    demo(options.figure)
