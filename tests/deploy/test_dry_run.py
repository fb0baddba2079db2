"""A dry run reads everything, refuses what the run would, and changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.network.site import STUDY, Authority, admitted, ring_of, write_plan
from unpooled.cli import main
from unpooled.data.sources import read_rows
from unpooled.deploy.admission import site_policy, site_rows
from unpooled.deploy.own import read_own
from unpooled.deploy.plan_file import read_plan
from unpooled.network.star_kinds import COORDINATOR
from unpooled.network.storage.journal import JOURNAL

NAMES = ("North", "South", "West")
Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def site(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plan for a coordinator, one for peers, and North's rows."""
    monkeypatch.chdir(tmp_path)
    prints = {name: {"fingerprint": admitted(authority, name)} for name in NAMES}
    place = {"endpoint": "127.0.0.1:7447"}
    coordinator = {**place, "fingerprint": admitted(authority, COORDINATOR)}
    star = {"method": "OneShotKMeans", "parameters": {"n_clusters": 3}, "standardise": True}
    write_plan(tmp_path / "star.toml", {**star, "coordinator": coordinator, "parties": prints})
    peers = {name: {**prints[name], **place} for name in NAMES}
    mesh = {"method": "GossipKMeans", "parameters": {"n_clusters": 3}}
    write_plan(tmp_path / "mesh.toml", {**mesh, "edges": ring_of(NAMES), "peers": peers})
    rows = np.random.default_rng(0).uniform(1, 9, size=(30, 2))
    np.savetxt("north.csv", rows, delimiter=",", header="x,y", comments="", fmt="%.3f")
    return tmp_path


def dry(authority: Authority, *words: str, plan: str = "star.toml", role: str = "party") -> int:
    name = () if role == "coordinator" else ("--name", "North")
    return main([role, plan, *name, "--keys", str(authority.folder), "--dry-run", *words])


def test_what_a_run_would_take_is_listed(site: Path, authority: Authority, capsys: Said) -> None:
    before = sorted(site.rglob("*"))
    for words in (
        ("--data", "north.csv"),
        ("--data", "north.csv", "--plain"),
    ):
        assert dry(authority, *words) == 0
        said = capsys.readouterr()
        assert re.search(
            r"North has 30 rows for this: \d\d in [23] cells of at least 10 persons, 0 waiting, "
            r"\d held back\.",
            said.out,
        )
        assert "where it says rows above, read cells" in said.out
        assert "can tell which are the site" in said.out
        assert (
            "The policy of North is deployment: about at least 10 persons, to runs of" in said.out
        )
        assert said.out.endswith("Nothing was sent.\n")
        assert said.err == ""
    assert dry(authority, "--data", "north.csv", plan="mesh.toml", role="peer") == 0
    assert dry(authority, role="coordinator") == 0
    assert capsys.readouterr().out.count("Nothing was sent.") == 2
    Path("study.toml").write_text(STUDY)
    assert dry(authority, "--data", "north.csv", "--own", "study.toml") == 0
    said = capsys.readouterr()
    assert "North has 30 rows for this, and hands them to the method as they are." in said.out
    Path("study.toml").unlink()
    assert sorted(site.rglob("*")) == before


def test_what_a_run_would_refuse_ends_a_dry_one(
    site: Path, authority: Authority, capsys: Said
) -> None:
    def refused(*words: str, **how: str) -> str:
        assert dry(authority, *words, **how) == 2
        said = capsys.readouterr()
        assert "Nothing was sent" not in said.out
        assert said.err.startswith("unpooled: ")
        assert said.err.count("\n") == 1
        return said.err

    assert "North gives no data; add --data" in refused()
    assert "North has no file nosuch.csv" in refused("--data", "nosuch.csv")
    Path("bad.csv").write_text("x,y\n1,2\n3,NA\n")
    assert "has 'NA' in line 3" in refused("--data", "bad.csv")
    Path("z.csv").write_text("x,z\n1,2\n")
    assert "no column 'y' in z.csv" in refused("--data", "z.csv")
    Path("far.csv").write_text("x,y\n9e149,2\n-9e149,3\n")
    assert "overflow when squared" in refused("--data", "far.csv")
    Path("site.toml").write_text('data = "north.csv"\nid = "x"\n')
    assert "names its rows by 'x'" in refused("--site", "site.toml")
    Path("site.toml").write_text('data = "north.csv"\nweights = "w"\n')
    assert "no column 'w' in north.csv" in refused("--own", "site.toml")
    Path("site.toml").write_text('data = "north.csv"\n[policy]\nkinds = ["moments"]\n')
    assert "'centroids'" in refused("--own", "site.toml")
    Path("site.toml").write_text('data = "north.csv"\n[policy]\nleast_parties = 4\n')
    few = "North takes no part in a run of 3, fewer than its least of 4 parties"
    assert few in refused("--own", "site.toml")
    Path("site.toml").write_text('data = "north.csv"\nperson = "y"\n')
    assert "names its persons by 'y'" in refused("--own", "site.toml")
    Path("site.toml").write_text('data = "north.csv"\ncolumns = ["x"]\n')
    assert "the column 'y', which is not among those" in refused("--own", "site.toml")
    assert "has a coordinator; run 'unpooled party'" in refused("--data", "north.csv", role="peer")
    mesh = {"plan": "mesh.toml"}
    assert "no coordinator; run 'unpooled peer'" in refused("--data", "north.csv", **mesh)
    assert "no coordinator; run 'unpooled peer'" in refused(role="coordinator", **mesh)
    assert "North has no nowhere/North.key" in refused("--data", "north.csv", "--keys", "nowhere")
    assert "coordinator has no" in refused("--keys", "nowhere", role="coordinator")
    far = Path("star.toml").read_text().replace("127.0.0.1", "10.0.0.1")
    Path("far.toml").write_text(far)
    assert "for one machine only" in refused("--data", "north.csv", "--plain", plan="far.toml")
    Path("used").mkdir()
    Path("used/owner").write_text(json.dumps({"plan": "another", "name": "North"}))
    assert "in another plan" in refused("--data", "north.csv", "--to", "used")
    plan = read_plan(Path("star.toml"))
    Path("used/owner").write_text(json.dumps({"plan": plan.hash.hex(), "name": COORDINATOR}))
    Path("used", JOURNAL).touch()
    assert "by --resume" in refused("--to", "used", role="coordinator")
    assert dry(authority, "--to", "used", "--resume", role="coordinator") == 0


def test_a_party_of_few_rows_is_told(site: Path, authority: Authority, capsys: Said) -> None:
    Path("few.csv").write_text("x,y\n1,2\n3,4\n")
    assert dry(authority, "--data", "few.csv") == 2
    assert "takes no part: its 2 rows do not make a cell of 10" in capsys.readouterr().err


def test_a_dry_run_with_a_new_store_is_refused(
    site: Path, authority: Authority, capsys: Said
) -> None:
    assert dry(authority, "--data", "north.csv", "--new-memory") == 2
    assert "a dry run changes nothing; leave one of them out." in capsys.readouterr().err


def test_a_dry_run_of_other_rows_says_how_to_go_on(
    site: Path, authority: Authority, capsys: Said
) -> None:
    """Ids are the same, values are in another unit."""
    Path("site.toml").write_text('id = "id"\nmemory = "cells"\n')
    table = np.column_stack([np.loadtxt("north.csv", delimiter=",", skiprows=1), np.arange(30)])
    for factor in (1.0, 18.0):
        lines = [f"{factor * x!r},{y!r},{i:.0f}" for x, y, i in table.tolist()]
        Path("rows.csv").write_text("\n".join(["x,y,id", *lines]) + "\n")
        if factor == 1.0:
            own = read_own(Path("site.toml"), Path("rows.csv"))
            rows = read_rows(Path("rows.csv"), "North", ("x", "y"), own.naming)
            store = site_policy(own).store("North")
            assert store is not None
            store.update(site_rows(own, rows), 10)
    words = ("--data", "rows.csv", "--own", "site.toml")
    assert dry(authority, *words) == 2
    assert "go on with --rows-changed" in capsys.readouterr().err
    assert dry(authority, *words, "--rows-changed") == 2
    assert "takes no part: its 30 rows do not make a cell" in capsys.readouterr().err


def test_what_a_method_does_badly_on_cells_is_said(
    site: Path, authority: Authority, capsys: Said
) -> None:
    feca = Path("star.toml").read_text().replace("OneShotKMeans", "FeCA")
    Path("feca.toml").write_text(feca)
    assert dry(authority, "--data", "north.csv", plan="feca.toml") == 0
    assert "Mind: FeCA goes by the distances of single rows" in capsys.readouterr().out


def test_what_cells_lose_is_worked_out(site: Path, authority: Authority, capsys: Said) -> None:
    """Two cells: in x they differ by 8 and vary by 1 each; in y one row of all has the variance."""
    x = np.repeat([0.0, 2.0, 8.0, 10.0], 5)
    table = np.column_stack([x, np.zeros(20)])
    np.savetxt("two.csv", table, delimiter=",", header="x,y", comments="")
    assert dry(authority, "--data", "two.csv") == 0
    share = 1 / (1 + 16)
    words = f"lose {share:.0%} of the rows' variance (mean over 1 of 2 columns)"
    assert words in capsys.readouterr().out


def test_a_method_that_sees_rows_is_said_to(site: Path, authority: Authority, capsys: Said) -> None:
    plan = Path("star.toml").read_text().replace('"OneShotKMeans"', '"DeepFeCA"')
    plan = plan.replace('["moments", "centroids"]', '["moments", "pixels", "train", "centroids"]')
    plan = plan.replace("n_clusters = 3", "n_clusters = 3\nrounds = 1\nimage_shape = [1, 1, 2]")
    Path("deep.toml").write_text(plan)
    Path("site.toml").write_text('[policy]\nallow = ["network-weights"]\n')
    assert dry(authority, "--data", "north.csv", "--own", "site.toml", plan="deep.toml") == 0
    said = capsys.readouterr().out
    assert "is given the rows of these cells as they are, and trains a network" in said
    assert "Mind: FeCA goes by the distances of single rows" in said
    assert "means and numbers of these cells" not in said


def test_nothing_that_a_terminal_obeys_is_printed(
    site: Path, authority: Authority, capsys: Said
) -> None:
    red = "\x1b[31mred\x07"
    Path(f"{red}.csv").write_text("x,y\n1,2\n")
    Path("mine.csv").write_text(f"x,{red}\n1,2\n")
    assert dry(authority, "--data", f"no{red}.csv") == 2
    assert dry(authority, "--data", f"{red}.csv", "--keys", f"no{red}") == 2
    assert dry(authority, "--data", "mine.csv") == 2
    toml = Path("star.toml").read_text().replace('"x"', r'"\u001b[31mred"')
    Path(f"{red}.toml").write_text(toml)
    assert dry(authority, "--data", "north.csv", plan=f"{red}.toml") == 2
    with pytest.raises(SystemExit):
        dry(authority, f"--{red}")
    said = capsys.readouterr()
    assert r"\x1b[31mred" in said.out
    assert said.err.count(r"\x1b[31mred") >= 5
    assert "\x1b" not in said.out + said.err
    assert "\x07" not in said.out + said.err
