"""``unpooled audit``: attacks on a plan's method with made-up data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.network.site import write_plan
from unpooled.cli import main
from unpooled.testing.attacks import all_attacks
from unpooled.testing.attacks.outcome import does_not_apply

FINGERPRINT = "sha256:" + "0" * 64
NAMES = ("North", "East", "South")
SMALL: dict[str, Any] = {"n_clusters": 3, "local_clusters": 3, "n_init": 1}


def star_plan(folder: Path, method: str = "OneShotKMeans", **parameters: Any) -> Path:
    """A plan with a coordinator."""
    return write_plan(
        folder / "plan.toml",
        {
            "method": method,
            "parameters": parameters or SMALL,
            "coordinator": {"endpoint": "127.0.0.1:7447", "fingerprint": FINGERPRINT},
            "parties": {
                name: {"fingerprint": FINGERPRINT[:-1] + str(i)} for i, name in enumerate(NAMES)
            },
        },
    )


def site_file(folder: Path, policy: str = "") -> Path:
    """A site's own file, with data whose values nobody may see."""
    np.savez(folder / "north.npz", X=np.full((45, 2), 123456.5) + np.arange(45)[:, None])
    path = folder / "north.toml"
    path.write_text(f'data = "north.npz"\n{policy}')
    return path


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some of the attacks, which all have tests of their own."""
    chosen = ("one run", "rerun", "neighbour")
    monkeypatch.setattr(
        all_attacks, "ATTACKS", {name: all_attacks.ATTACKS[name] for name in chosen}
    )


@pytest.mark.usefixtures("few")
def test_a_table_of_attacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, own = star_plan(tmp_path), site_file(tmp_path)
    assert main(["audit", str(plan), "--name", "North", "--site", str(own)]) == 0
    said = capsys.readouterr()
    assert "OneShotKMeans, 3 parties of 45 made-up rows, 2 columns." in said.out
    assert "The site's policy: deployment, minimum count 10." in said.out
    (line,) = [line for line in said.out.splitlines() if line.startswith("rerun")]
    assert line.split()[4:] == ["3", "of", "3", "0", "of", "3"]
    assert "does not apply: there is a coordinator" in said.out
    assert "No attack recovers a row under the site's policy." in said.out
    assert "123" not in said.out
    assert not said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "north.npz",
        "north.toml",
        "plan.toml",
    ]


@pytest.mark.usefixtures("few")
def test_rows_recovered_under_the_policy_are_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = site_file(tmp_path, '[policy]\nname = "study"\n')
    assert main(["audit", str(star_plan(tmp_path)), "--site", str(own)]) == 1
    assert "do not use it for rows that must not leave" in capsys.readouterr().out


@pytest.mark.usefixtures("few")
def test_lines_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(star_plan(tmp_path)), "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["applies"] for event in events] == [True, True, False]
    assert events[1]["study"] == 3
    assert all(event["policy"] == 0 for event in events)
    assert all(event["messages"] and not event["refusal"] for event in events[:2])


@pytest.mark.usefixtures("few")
def test_what_a_policy_refuses_is_no_proof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = site_file(tmp_path, "[policy]\nleast_parties = 4\n")
    assert main(["audit", str(star_plan(tmp_path)), "--site", str(own)]) == 0
    said = capsys.readouterr().out
    assert "(refused)" in said
    assert "fewer than its least of 4 parties" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--name", "West"], "has no 'West'"),
        (["--site", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_refusals(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(star_plan(tmp_path)), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_rows_are_made_up_near_given_centres(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made-up rows lie where the plan looks for them."""
    seen = []

    def look(target: Any, tables: Any, policy: Any) -> Any:
        seen.append(np.concatenate(tables))
        assert target.overheard(tables, policy).messages
        return does_not_apply("look", "it only looks")

    monkeypatch.setattr(all_attacks, "ATTACKS", {"look": look})
    plan = star_plan(tmp_path, "FederatedKMeans", n_clusters=2, init=[[-900.0, 5.0], [-100.0, 8.0]])
    assert main(["audit", str(plan)]) == 0
    assert "look" in capsys.readouterr().out
    assert -1500 < seen[0][:, 0].min() < -800


@pytest.mark.long
def test_every_attack_on_a_mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peers = {
        name: {"endpoint": f"127.0.0.1:{7000 + i}", "fingerprint": FINGERPRINT[:-1] + str(i)}
        for i, name in enumerate(NAMES)
    }
    edges = [["North", "East"], ["East", "South"]]
    content = {"method": "GossipKMeans", "parameters": {"n_clusters": 3, "n_init": 1}}
    plan = write_plan(tmp_path / "plan.toml", {**content, "edges": edges, "peers": peers})
    assert main(["audit", str(plan), "--site", str(site_file(tmp_path)), "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(events) == len(all_attacks.ATTACKS)
    assert sum(event["study"] for event in events) > 20
