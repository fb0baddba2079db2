"""Whole runs over Flower without a deployment: messages are handed across in process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unpooled
from tests.adapters.flower_wires import (
    NAMES,
    PARTIES,
    RUN_ID,
    Node,
    Wires,
    flower,
    load,
    nodes,
)
from unpooled import simulate
from unpooled.adapters.flower import (
    Agreement,
    Outcome,
    client_app,
    run_star,
    server_app,
)
from unpooled.messages.message import Note
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Policy
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans

# isort: split
from flwr.app import Context, RecordDict

__all__ = ["flower"]
pytestmark = pytest.mark.usefixtures("flower")


@pytest.mark.bits
@pytest.mark.parametrize("policy", [STUDY, DEPLOYMENT])
@pytest.mark.parametrize(
    "protocol",
    [
        FeCA(3, 3),
        OneShotKMeans(3, 3, refine=True),
        FederatedKMeans(OneShotKMeans(3, 3), max_rounds=4),
        FederatedKMeans(np.array([[0.0, 0.0], [3.0, 3.0]])),
    ],
    ids=lambda protocol: protocol.name,
)
def test_the_result_is_the_local_one_bit_for_bit(
    protocol: StarProtocol, policy: Policy, tmp_path: Path
) -> None:
    if policy.min_count > 1:
        policy = policy.with_own(memory=tmp_path)
    agreed = Agreement(protocol, 3, 2, 5)
    notes: list[Note] = []
    run = run_star(Wires(nodes(agreed, policy)), agreed, observe=notes.append)
    expected_notes: list[Note] = []
    expected = simulate.run_star(
        protocol,
        PARTIES,
        seed=5,
        options=simulate.Options(policy=policy),
        observe=expected_notes.append,
    )
    assert run.result.keys() == expected.result.keys()
    for name, value in expected.result.items():
        assert np.array_equal(run.result[name], value)
    assert run.traffic.by_round == expected.traffic.by_round
    assert np.array_equal(run.traffic.table, expected.traffic.table)
    assert [(n.round, dict(n.body)) for n in notes] == [
        (n.round, dict(n.body)) for n in expected_notes
    ]
    assert set(run.answerers.values()) == {NAMES}


def test_apps_are_made_from_their_contexts() -> None:
    def agreed(context: Context) -> Agreement:
        return Agreement(FeCA(int(context.run_config["k"]), 3), 3, 2)

    app = client_app(agreed, load, "study")
    own = {i: Node(app, {"partition-id": i}) for i in range(3)}
    for node in own.values():
        node.context.run_config["k"] = 2
    kept: list[Outcome] = []
    server = server_app(
        agreed,
        lambda outcome, context: kept.append(outcome),
        timeout=lambda context: float(context.run_config["timeout"]),
    )
    server(Wires(own), Context(RUN_ID, 1, {}, RecordDict(), {"k": 2, "timeout": 9}))
    assert len(kept[0].result["centers"]) == 2
    assert kept[0].answerers == {("centroids", 0): ("0", "1", "2")}


def test_importing_the_driver_turns_off_telemetry_unless_somebody_wants_it() -> None:
    program = (
        "import unpooled.adapters.flower, os, flwr.supercore.telemetry as telemetry;"
        "print(telemetry.FLWR_TELEMETRY_ENABLED, os.environ['FLWR_DISABLE_UPDATE_CHECK'])"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("FLWR_")}
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**env, "FLWR_DISABLE_UPDATE_CHECK": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["0", "0"]


def test_nothing_else_imports_flower() -> None:
    source = Path(unpooled.__file__).parent
    importing = {
        path.relative_to(source).parts[:2]
        for path in source.rglob("*.py")
        if re.search(r"^\s*(import|from) flwr\b", path.read_text(), re.MULTILINE)
    }
    assert importing == {("adapters", "flower")}
