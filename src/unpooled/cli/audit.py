"""``unpooled audit``: attacks a plan's method, on data that are made up, before anybody agrees."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from unpooled.cli.printing import print_lines
from unpooled.errors import InputError

if TYPE_CHECKING:
    from unpooled.deploy.own import Own
    from unpooled.deploy.plan import Plan
    from unpooled.testing.attacks import Outcome
    from unpooled.types import FloatArray

FOUND = 1
"""The status if rows were recovered under the site's policy."""
_ROWS = 200
"""Rows of a party, unless a site's data say how many it has."""
_MOST_ROWS, _LEAST_ROWS = 2000, 40
"""Rows of all parties at most, and of one at least: attacks compare every two sums."""


def add_audit(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "audit",
        help="attack a plan's method on made-up data of a site's shape",
        description="Attacks the plan's method with its parameters, on made-up data of the site's "
        "shape, and counts the rows that are recovered: under the policy study, where nothing "
        "stops it, and under the site's own. No value of the site's data is used, and nothing is "
        "sent. Ends with status 1 if rows are recovered under the site's policy.",
    )
    parser.add_argument("plan", type=Path, metavar="PLAN", help="the plan, a TOML file")
    parser.add_argument("--name", help="this party's name in the plan")
    parser.add_argument("--own", "--site", type=Path, metavar="FILE", help="the party's own file")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each attack")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from unpooled.deploy.own import read_own
    from unpooled.deploy.plan_file import read_plan

    plan, own = read_plan(options.plan), read_own(options.own)
    if options.name is not None:
        plan.member(options.name)
    tables = _made_up(plan, _site_rows(plan, own, options.name))
    if not options.json:
        print_lines(*_heading(plan, own, tables))
    found, refusal = 0, ""
    for study, strict in _attacked(plan, own, tables):
        found += strict.rows_recovered > 0
        refusal = refusal or strict.refusal
        if options.json:
            print(json.dumps(_event(study, strict)), flush=True)
        else:
            print_lines(_line(study, strict))
    if not options.json:
        print_lines(*_conclusion(found, refusal))
    return FOUND if found else 0


def _attacked(plan: Plan, own: Own, tables: list[FloatArray]) -> Iterator[tuple[Outcome, Outcome]]:
    """Every attack under study and under the site's policy, as it gets done."""
    from unpooled.deploy.method import estimator_class
    from unpooled.privacy.policy import STUDY
    from unpooled.testing.attacks import Target, suite

    make = partial(estimator_class(plan.content["method"]), **plan.content.get("parameters", {}))
    graph = "ring" if plan.coordinator is not None else plan.topology.adjacency.toarray()
    target = Target(make, plan.standardise, graph)
    with TemporaryDirectory() as folder:
        pairs = zip(
            suite(target, tables, STUDY),
            suite(target, tables, own.policy, Path(folder)),
            strict=True,
        )
        number = 1
        _progress(f"attack {number}")
        for both in pairs:
            _progress("")
            yield both
            number += 1
            _progress(f"attack {number}")
        _progress("")


def _site_rows(plan: Plan, own: Own, name: str | None) -> int:
    """How many rows the site has, which is all that is taken from its data."""
    from unpooled.data.sources import read_rows

    if own.data is None:
        return _ROWS
    columns = own.columns or plan.columns
    return len(read_rows(own.data, name or "this site", columns, own.naming).parties.rows)


def _made_up(plan: Plan, n_rows: int) -> list[FloatArray]:
    """Clusters of normal rows at every party, of positive values, which all losses take."""
    import numpy as np

    if plan.content["method"] == "DeepFeCA":
        raise InputError(
            f"{plan.source} has DeepFeCA, which sends networks trained on rows, and no attack here "
            "reads these; a site lets them out only by allow = ['network-weights']."
        )
    rng = np.random.default_rng(0)
    given, m, d = plan.content.get("parameters", {}), len(plan.names), len(plan.columns)
    k = given.get("n_clusters")
    corners = rng.uniform(2.0, 9.0, size=(k if isinstance(k, int) else 3, d))
    if isinstance(given.get("init"), list):  # rows lie where the plan looks for them
        corners = np.asarray(given["init"], dtype=np.float64).reshape(-1, d)
    spread = 0.5 if len(corners) < 2 else 0.15 * float(np.ptp(corners, axis=0).mean()) or 0.5
    n = min(n_rows, max(_LEAST_ROWS, _MOST_ROWS // m))
    noise = rng.normal(size=(m, n, d)) * spread
    tables = corners[rng.integers(len(corners), size=(m, n))] + noise
    if (corners > 0).all():
        tables = np.abs(tables) + 1e-3
    return list(tables)


def _heading(plan: Plan, own: Own, tables: list[FloatArray]) -> Iterator[str]:
    yield (
        f"{plan.source}: {plan.content['method']}, {len(tables)} parties of {len(tables[0])} "
        f"made-up rows, {len(plan.columns)} columns."
    )
    minimum = f", minimum count {own.policy.min_count}" if own.policy.min_count > 1 else ""
    yield f"The site's policy: {type(own.policy).__name__.lower()}{minimum}."
    yield ""
    yield f"{'rows recovered by':34}{'under study':>16}{'under the policy':>20}"


def _line(study: Outcome, strict: Outcome) -> str:
    if not study.applies:
        return f"{study.name:34}{study.detail}"
    counts = [f"{one.rows_recovered} of {one.of}" for one in (study, strict)]
    refused = " (refused)" if strict.refusal else ""
    return f"{study.name:34}{counts[0]:>16}{counts[1]:>20}{refused}"


def _event(study: Outcome, strict: Outcome) -> dict[str, Any]:
    return {
        "attack": study.name,
        "applies": study.applies,
        "study": study.rows_recovered,
        "policy": strict.rows_recovered,
        "of": strict.of,
        "messages": strict.messages,
        "refusal": strict.refusal,
        "detail": strict.detail,
    }


def _conclusion(found: int, refusal: str) -> Iterator[str]:
    yield ""
    if found:
        yield (
            f"{found} attacks recover rows under the site's policy: do not use it for rows that "
            "must not leave."
        )
    else:
        yield "No attack recovers a row under the site's policy."
    if refusal:
        yield f"Where (refused) stands a run was refused, and little or nothing left: {refusal}"
    yield (
        "These are attacks that are known to work on sums. They say nothing about what all persons "
        "of a cell have in common, nor about guesses at who is in the data."
    )


def _progress(text: str) -> None:
    """Shows what is being done, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" + text)
        sys.stderr.flush()
