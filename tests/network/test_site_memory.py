"""A site's store of cells, over runs of real programs: kept, followed, missed, begun anew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unpooled
from tests.cells import in_cells
from tests.network.site import Authority, Site, mesh, star, tables
from unpooled.cli import main
from unpooled.network.star_kinds import COORDINATOR
from unpooled.privacy.cells import make_cells

NAMES = ("P1", "P2", "P3")
WAITS = {"round_timeout": 60.0, "patience": 120.0}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("keys"))


def run_again(site: Site, number: int, **programs: tuple[str, ...]) -> np.ndarray:
    """Another run of the site's plan, after the last one is moved aside; the centres."""
    for program in site.programs.values():
        program.folder.rename(program.folder.with_suffix(f".before-{number}"))
    for name in (*([COORDINATOR] if site.star else []), *site.data):
        site.start(name, *programs.get(name, ()))
    site.finish()
    return site.programs["P1"].centers()


def other_plan(site: Site, **changes: Any) -> None:
    text = site.plan.read_text()
    for name, (old, new) in changes.items():
        assert f"{name} = {old}" in text
        text = text.replace(f"{name} = {old}", f"{name} = {new}")
    site.plan.write_text(text)


def test_cells_are_the_same_in_every_run_and_follow_the_rows(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tables(NAMES)
    content = {"method": "OneShotKMeans", "parameters": {"n_clusters": 3}, **WAITS}
    with star(tmp_path / "star", authority, data, **content) as site:
        first = run_again(site, 0)
        policy = "deployment"
        expected = unpooled.OneShotKMeans(3, policy=policy, random_state=0).fit(data)
        np.testing.assert_array_equal(first, expected.cluster_centers_)
        log = (site.folder / "P1.memory" / "cells.log").read_bytes()
        # Four rows more wait, and nothing that leaves has changed.
        data["P1"] = np.concatenate([data["P1"], data["P1"][:4] + 0.01])
        np.testing.assert_array_equal(run_again(site, 1), first)
        assert "P1: 4 of 64 rows waiting for 10 new persons." in site.programs["P1"].warnings
        assert len(site.programs["P1"].labels()) == 64
        # Another number of clusters is made of the same cells.
        other_plan(site, n_clusters=(3, 2))
        before = dict(data, P1=data["P1"][:60])
        expected = unpooled.OneShotKMeans(2, policy=policy, random_state=0).fit(before)
        np.testing.assert_array_equal(run_again(site, 2), expected.cluster_centers_)
        assert (site.folder / "P1.memory" / "cells.log").read_bytes()[: len(log)] == log
        # Without the store the site does not go on, unless its owner says so.
        shutil.rmtree(site.folder / "P1.memory")
        words = ["party", str(site.plan), "--name", "P1", "--keys", str(site.keys), "--dry-run"]
        words += ["--own", str(site.folder / "P1.toml"), "--data", str(site.folder / "P1.npz")]
        assert main([*words, "--to", str(site.folder / "P1.new")]) == 2
        assert "of P1 is missing, though this site has released" in capsys.readouterr().err
        anew = unpooled.OneShotKMeans(2, policy=policy, random_state=0).fit(data)
        found = run_again(site, 3, P1=("--new-memory",))
        np.testing.assert_array_equal(found, anew.cluster_centers_)


def test_persons_are_counted_in_a_mesh(authority: Authority, tmp_path: Path) -> None:
    """Each person has three rows, so a cell of ten persons has more than ten rows."""
    data = tables(NAMES, n_rows=120)
    own = 'id = "visit"\nperson = "patient"\n'
    content = {"method": "GossipKMeans", "parameters": {"n_clusters": 2, "max_rounds": 30}}
    with mesh(tmp_path / "ring", authority, data, own, **content, **WAITS) as site:
        persons = {name: np.arange(len(rows)) // 3 for name, rows in data.items()}
        site.beside = {
            name: {"visit": np.arange(len(rows)), "patient": persons[name]}
            for name, rows in data.items()
        }
        found = run_again(site, 0)
        cells = {
            name: make_cells(rows, np.ones(len(rows)), 10, persons[name])
            for name, rows in data.items()
        }
        for name, own_cells in cells.items():
            for cell in range(len(own_cells.counts)):
                assert len(np.unique(persons[name][own_cells.labels == cell])) >= 10
        expected = unpooled.GossipKMeans(2, max_rounds=30, graph="ring", random_state=0).fit(
            {name: own_cells.means for name, own_cells in cells.items()},
            sample_weight={name: own_cells.weights for name, own_cells in cells.items()},
        )
        np.testing.assert_array_equal(found, expected.peer_centers_[0])
        labels = (site.programs["P1"].folder / "labels.csv").read_text().split()
        assert labels[0] == "visit,label"
        assert len(labels) == 1 + len(data["P1"])
        by_rows = in_cells(list(data.values()))[0]
        assert sum(map(len, by_rows)) > sum(len(own_cells.counts) for own_cells in cells.values())
