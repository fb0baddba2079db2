"""Whatever a plan says, it can be used, or one sentence says what is wrong with it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import unpooled
from tests.sentences import refuses
from unpooled.deploy.connection import message_limits
from unpooled.deploy.dryrun import listed
from unpooled.deploy.own import refuse_beyond
from unpooled.deploy.plan import Plan
from unpooled.deploy.plan_file import read_plan
from unpooled.errors import InputError, PolicyRefusal
from unpooled.estimators.star import StarEstimator
from unpooled.privacy.policy import Deployment

METHODS = [
    name for name in unpooled.__all__ if hasattr(getattr(unpooled, name), "_get_param_names")
]
NOT_IN_A_PLAN = ("policy", "random_state", "graph")
WHOLE = [2**62, 2**63 - 1, -(2**63), 2**31, 2**31 - 1, 10**12, 0, -1]
ODD = [
    *("true", '"x"', '""', '"auto"', "{}", "{a = 1}", "[]", '["x"]', "[4611686018427387904]"),
    *("1e308", "-1e308", "nan", "inf", "-inf", "1e-320", "0.5"),
    *("[[]]", "[[[]]]", "[1]", "[[1, 2]]", "[[1e308, 1], [2, 3]]", "[[1, 'a']]", "[[1], [1, 2]]"),
]
STAR = '[coordinator]\nendpoint = "127.0.0.1:1"\n[parties.A]\n[parties.B]\n'
MESH = '[peers.A]\nendpoint = "127.0.0.1:1"\n[peers.B]\nendpoint = "127.0.0.1:2"\n'


def plan(path: Path, method: str, parameter: str, value: str) -> Plan:
    """A plan with the releases that the method asks for with this parameter."""
    star = issubclass(getattr(unpooled, method), StarEstimator)
    head = f'method = "{method}"\ncolumns = ["x", "y"]\n'
    head += "" if star else 'edges = [["A", "B"]]\n'
    tail = f"[parameters]\n{parameter} = {value}\n" + (STAR if star else MESH)
    path.write_text(f"releases = []\n{head}{tail}")
    with pytest.raises(InputError) as caught:
        read_plan(path)
    kinds = re.search(r"write releases = (\[.*\])\.$", str(caught.value))
    if kinds is None:
        raise caught.value
    path.write_text(f"releases = {kinds[1]}\n{head}{tail}")
    return read_plan(path)


def is_one_sentence(error: Exception) -> None:
    assert str(error).endswith(".")
    assert str(error).isprintable()


@pytest.mark.parametrize("method", METHODS)
def test_any_value_of_any_parameter_is_taken_or_refused(tmp_path: Path, method: str) -> None:
    taken = refused = 0
    for parameter in getattr(unpooled, method)._get_param_names():
        if parameter in NOT_IN_A_PLAN:
            continue
        for value in (*map(json.dumps, WHOLE), *ODD):
            try:
                found = plan(tmp_path / "plan.toml", method, parameter, value)
            except InputError as error:
                is_one_sentence(error)
                refused += 1
                continue
            taken += 1
            assert list(listed(found, "A"))
            message_limits(found)
            try:
                refuse_beyond(found, "A", Deployment(least_parties=2))
            except PolicyRefusal as error:
                is_one_sentence(error)
    assert taken
    assert refused


@pytest.mark.parametrize(
    ("method", "parameter", "value", "words"),
    [
        ("OneShotKMeans", "n_clusters", 2**62, "n_clusters=4611686018427387904 must be .* at most"),
        ("DGC", "n_clusters", 2**31 - 1, "'.*' messages of .* bytes, but one .*; lower n_clusters"),
        ("KernelKMeans", "n_features", 2**31 - 2, "268435456 at most; lower n_features"),
        ("CoresetKMeans", "coreset_size", 10**9, "lower coreset_size"),
        ("OneShotKMeans", "n_init", 2**62, "n_init=4611686018427387904"),
    ],
)
def test_too_much_of_something_is_named(
    tmp_path: Path, method: str, parameter: str, value: int, words: str
) -> None:
    refuses(lambda: plan(tmp_path / "plan.toml", method, parameter, str(value)), words)
