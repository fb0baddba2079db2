"""The entrance of a site: one store of cells for all of its runs, which no run goes without."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cells import cells_of
from tests.network.site import write_plan
from tests.sentences import refuses
from unpooled.data.parties import PartyData
from unpooled.data.sources import OwnRows, read_rows
from unpooled.deploy import admission
from unpooled.deploy.own import Own, read_own, refuse_beyond
from unpooled.deploy.plan import Plan
from unpooled.deploy.plan_file import read_plan
from unpooled.errors import InputError, PolicyRefusal, StateError
from unpooled.network.storage.directory import StateDirectory
from unpooled.network.storage.ledger_file import LEDGER
from unpooled.privacy.cell_store import GIVES_AWAY, Stored
from unpooled.privacy.policy import Deployment, Study

COLUMNS = ("x", "y", "z")
NAMES = ("North", "South", "West")
NORTH = np.random.default_rng(4).normal(size=(60, 3))


@dataclass(frozen=True)
class Site:
    """North's folder: its own file, its data, and directories of runs."""

    folder: Path

    def write(self, rows: np.ndarray = NORTH, **naming: list[Any]) -> None:
        """The data, with further columns."""
        table = [*zip(*naming.values(), strict=True)] if naming else [()] * len(rows)
        lines = [",".join((*COLUMNS, *naming))]
        lines += [
            ",".join([*map(repr, row.tolist()), *map(str, names)])
            for row, names in zip(rows, table, strict=True)
        ]
        (self.folder / "north.csv").write_text("\n".join(lines) + "\n")

    def own(self, text: str = "") -> Own:
        """The site's own file."""
        path = self.folder / "north.toml"
        path.write_text('data = "north.csv"\nmemory = "memory"\n' + text)
        return read_own(path)

    def plan(self, *columns: str, **content: Any) -> Plan:
        """A plan of three parties that uses these columns."""
        given = {
            "method": "OneShotKMeans",
            "parameters": {"n_clusters": 2},
            "columns": list(columns or COLUMNS[:2]),
            "coordinator": {"endpoint": "127.0.0.1:7447"},
            "parties": {name: {} for name in NAMES},
            **content,
        }
        return read_plan(write_plan(self.folder / "plan.toml", given))

    def read(self, plan: Plan, own: Own) -> OwnRows:
        """North's rows, as the program reads them."""
        assert own.data is not None
        columns = admission.site_columns(plan, "North", own)
        return read_rows(own.data, "North", columns, own.naming)

    def admitted(self, plan: Plan, own: Own, to: str = "run-1", sent: bool = True) -> PartyData:
        """What the protocol is given in the run of this directory, in which something leaves."""
        rows = self.read(plan, own)
        state = StateDirectory(self.folder / to, plan.hash.hex(), "North")
        try:
            data = admission.admitted(plan, "North", own, rows, state)
        finally:
            state.close()
        if sent:
            (self.folder / to / LEDGER).write_text("{}\n")
        return data

    def previewed(self, plan: Plan, own: Own, to: str = "run-1") -> Stored | None:
        """What a dry run says of it."""
        rows = self.read(plan, own)
        return admission.previewed("North", own, rows, self.folder / to)

    def rows(self, plan: Plan, own: Own) -> OwnRows:
        """North's rows, in the plan's columns, whatever is stored."""
        assert own.data is not None
        return read_rows(own.data, "North", plan.columns, own.naming)

    @property
    def store(self) -> Path:
        """North's memory."""
        return self.folder / "memory"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.write()
    return made


def test_the_protocol_is_given_the_cells_of_the_store(site: Site) -> None:
    data = site.admitted(site.plan(), site.own())
    cells = cells_of(NORTH[:, :2])
    assert np.array_equal(data.rows, cells.means)
    assert np.array_equal(data.weights, cells.weights)
    assert data.scatter is not None
    assert np.array_equal(data.scatter, cells.scatter)
    assert data.admitted
    assert (site.store.stat().st_mode & 0o777) == 0o700


def test_every_later_run_has_the_same_cells(site: Site) -> None:
    first = site.admitted(site.plan(), site.own())
    for i, content in enumerate(({"method": "FederatedKMeans"}, {"seed": 7}, {})):
        again = site.admitted(site.plan(**content), site.own(), f"later-{i}")
        assert np.array_equal(again.rows, first.rows)
    mesh = {
        "method": "GossipKMeans",
        "edges": [["North", "South"], ["South", "West"]],
        "peers": {name: {"endpoint": f"127.0.0.1:{7000 + i}"} for i, name in enumerate(NAMES)},
    }
    content = {"parameters": {"n_clusters": 2}, "columns": list(COLUMNS[:2]), **mesh}
    plan = read_plan(write_plan(site.folder / "mesh.toml", content))
    assert np.array_equal(site.admitted(plan, site.own(), "mesh").rows, first.rows)


def test_a_plan_may_use_some_of_the_stored_columns(site: Site) -> None:
    own = site.own('columns = ["x", "y", "z"]\n')
    first = site.admitted(site.plan("y"), own)
    cells = cells_of(NORTH)
    assert np.array_equal(first.rows, cells.means[:, [1]])
    assert first.scatter is not None
    assert np.array_equal(first.scatter, cells.scatter[[1]])
    other = site.admitted(site.plan("z", "x"), own, "run-2")
    assert np.array_equal(other.rows, cells.means[:, [2, 0]])
    # The file need not list them any longer: the store knows.
    again = site.admitted(site.plan("x", "y", "z"), site.own(), "run-3")
    assert np.array_equal(again.rows, cells.means)


def test_other_columns_than_stored_are_refused(site: Site) -> None:
    own = site.own()
    site.admitted(site.plan("x", "y"), own)
    for columns in (("x", "z"), ("z",), ("x", "y", "z")):
        refuses(
            lambda columns=columns: site.read(site.plan(*columns), own),  # type: ignore[misc]
            "uses the column 'z', but the cells of North are made of x, y; leave it out .*"
            f"which gives something away: {GIVES_AWAY}",
            StateError,
        )
    # The store has them refused too, should anybody ask it without asking the site first.
    rows = read_rows(site.folder / "north.csv", "North", ("x", "z"))
    refuses(
        lambda: admission.previewed("North", own, rows, site.folder / "run-2"),
        "have no column 'y', of which its cells are made",
        StateError,
    )
    listed = site.own('columns = ["x", "y"]\n')
    refuses(
        lambda: site.admitted(site.plan("x", "z"), listed, "run-2"),
        "uses the column 'z', which is not among those that North's own file lists .x, y.; add it",
    )


@pytest.mark.parametrize("sent", [False, True])
def test_a_store_that_is_gone_is_missed(site: Site, sent: bool) -> None:
    site.admitted(site.plan(), site.own(), sent=sent)
    shutil.rmtree(site.store)
    words = f"of North is missing, though .* released from it .*--new-memory.*{GIVES_AWAY}"
    for to in ("run-1", "run-2"):  # in the run that knew it, and in one beside it
        refuses(lambda to=to: site.admitted(site.plan(), site.own(), to), words, StateError)  # type: ignore[misc]
        refuses(lambda to=to: site.previewed(site.plan(), site.own(), to), words, StateError)  # type: ignore[misc]
    assert not site.store.exists()


def test_an_older_copy_that_is_put_back_is_noticed(site: Site) -> None:
    ids = [f"v{i}" for i in range(60)]
    site.write(id=ids)
    own = site.own('id = "id"\n')
    site.admitted(site.plan(), own)
    shutil.copytree(site.store, site.folder / "backup")
    site.write(NORTH[1:], id=ids[1:])
    site.admitted(site.plan(), own, "run-2")
    shutil.rmtree(site.store)
    shutil.copytree(site.folder / "backup", site.store)
    words = r"is older \(1 records\) than runs know \(2\)"
    for to in ("run-2", "run-3"):
        refuses(lambda to=to: site.admitted(site.plan(), own, to), words, StateError)  # type: ignore[misc]


def test_another_store_in_its_place_is_noticed(site: Site) -> None:
    site.admitted(site.plan(), site.own())
    elsewhere = Site(site.folder / "elsewhere")
    elsewhere.folder.mkdir()
    elsewhere.write()
    elsewhere.admitted(elsewhere.plan(), elsewhere.own())
    shutil.rmtree(site.store)
    shutil.copytree(elsewhere.store, site.store)
    refuses(
        lambda: site.admitted(site.plan(), site.own(), "run-2"),
        "is another than the one that runs of this site know",
        StateError,
    )


def test_the_store_of_another_party_is_refused(site: Site) -> None:
    """It is known by its rows: a site may go by other names in other plans."""
    site.admitted(site.plan(), site.own())
    site.write(NORTH + 1.0)
    rows = site.read(site.plan(), site.own())
    refuses(
        lambda: admission.previewed("South", site.own(), rows, site.folder / "south.run"),
        "only 0% are among those of South as they were; .*and each party a folder of its own",
        StateError,
    )


def test_a_site_has_one_store_under_all_of_its_names(site: Site) -> None:
    """Two consortia call it by two names; its cells are the same."""
    first = site.admitted(site.plan(), site.own())
    own, plan = site.own(), site.plan()
    state = StateDirectory(site.folder / "run-2", plan.hash.hex(), "South")
    again = admission.admitted(plan, "South", own, site.read(plan, own), state)
    state.close()
    assert np.array_equal(again.rows, first.rows)
    assert again.name == "South"
    # Under either name it is noticed if the store is gone.
    shutil.rmtree(site.store)
    words = "is missing, though this site has released"
    rows = site.rows(plan, own)
    for name in NAMES[:2]:
        refuses(
            lambda name=name: admission.previewed(name, own, rows, site.folder / "run-3"),  # type: ignore[misc]
            words,
            StateError,
        )


def test_runs_of_other_parties_beside_it_say_nothing_of_this_store(site: Site) -> None:
    """Several parties of a trial may share a machine and a folder; others make folders too."""
    site.admitted(site.plan(), site.own())
    own, plan = replace(site.own(), memory=site.folder / "south.memory"), site.plan()
    (site.folder / "biology" / admission.CELLS).mkdir(parents=True)
    (site.folder / "images").mkdir()
    (site.folder / "images" / admission.CELLS).write_text("of the retina")
    state = StateDirectory(site.folder / "south.run", plan.hash.hex(), "South")
    data = admission.admitted(plan, "South", own, site.read(plan, own), state)
    state.close()
    assert len(data.rows)
    (site.folder / "run-1" / admission.CELLS).write_text("damaged")
    assert admission.previewed("South", own, site.read(plan, own), site.folder / "south.run")


def test_most_rows_have_changed_only_if_the_owner_says_so(site: Site) -> None:
    """Another unit, a wrong file or half of one would retire cells for good."""
    ids = [f"v{i}" for i in range(60)]
    site.write(id=ids)
    own = site.own('id = "id"\n')
    site.admitted(site.plan(), own)
    log = (site.store / "cells.log").read_bytes()
    kept = cells_of(NORTH[:, :2]).labels <= 1
    site.write(np.where(kept[:, None], NORTH, 18.0 * NORTH), id=ids)
    words = r"only [34]\d% are among those of North as they were; .*go on with --rows-changed"
    refuses(lambda: site.admitted(site.plan(), own, "run-2"), words, StateError)
    assert (site.store / "cells.log").read_bytes() == log
    after = site.admitted(site.plan(), replace(own, rows_changed=True), "run-2")
    assert len(after.rows) == 2
    assert "rows waiting for 10 new persons" in after.remark


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"store": 1}', b"[" * 100_000])
def test_a_damaged_note_of_the_store_is_refused(site: Site, content: bytes) -> None:
    site.admitted(site.plan(), site.own())
    (site.folder / "run-1" / admission.CELLS).write_bytes(content)
    refuses(
        lambda: site.admitted(site.plan(), site.own(), "run-2"),
        r"run-1/cells is damaged, which says how new the cells of North must be; move .*run-1 away",
        StateError,
    )


def test_a_new_store_on_purpose_replaces_what_runs_know(site: Site) -> None:
    site.admitted(site.plan("x"), site.own())
    own = site.own()
    store = admission.site_policy(own).store("North")
    assert store is not None
    store.start_anew(admission.known_heads(site.folder / "run-2", "North", store))
    data = site.admitted(site.plan("y", "z"), own, "run-2")
    assert np.array_equal(data.rows, cells_of(NORTH[:, 1:]).means)
    site.admitted(site.plan("z"), own, "run-3")
    assert (site.folder / "memory.old-1").is_dir()
    # The old one is not taken back silently.
    shutil.rmtree(site.store)
    (site.folder / "memory.old-1").rename(site.store)
    refuses(
        lambda: site.admitted(site.plan("x"), own, "run-4"),
        "is another than the one that runs of this site know",
        StateError,
    )


def test_a_new_store_is_begun_before_a_run_only(site: Site) -> None:
    own, plan, to = site.own(), site.plan("x"), site.folder / "run-1"
    site.admitted(plan, own)
    refuses(
        lambda: admission.begin_anew("North", own, to),
        "has begun, from cells that there are; leave --new-memory out",
        InputError,
    )
    study = site.own('[policy]\nname = "study"\n')
    refuses(
        lambda: admission.begin_anew("North", study, site.folder / "run-2"),
        "keeps no cells, so there is no store to begin anew",
        InputError,
    )
    assert site.store.is_dir()
    admission.begin_anew("North", own, site.folder / "run-2")
    assert (site.folder / "memory.old-1").is_dir()


def test_names_of_rows_and_persons_are_read(site: Site) -> None:
    """Visits of one person count as one; twenty visits each of three persons are no cell."""
    visits, patients = list(range(60)), [f"p{i % 30}" for i in range(60)]
    site.write(visit=visits, patient=patients, w=[1.0 + i % 2 for i in range(60)])
    own = site.own('id = "visit"\nperson = "patient"\nweights = "w"\n')
    rows = site.read(site.plan(), own)
    assert rows.ids == ("visit", tuple(map(str, visits)))
    assert rows.persons == ("patient", tuple(patients))
    found = site.previewed(site.plan(), own)
    assert found is not None
    codes = np.arange(60) % 30
    for cell in range(len(found.counts)):
        assert len(np.unique(codes[found.labels == cell])) >= 10
    site.admitted(site.plan(), own)
    site.write(visit=visits, patient=[f"p{i // 20}" for i in range(60)], w=[1] * 60)
    other = Site(site.folder / "other")
    other.folder.mkdir()
    (site.folder / "north.csv").rename(other.folder / "north.csv")
    few = other.own('id = "visit"\nperson = "patient"\n')
    refuses(
        lambda: other.admitted(other.plan(), few),
        "Party North takes no part: its 60 rows do not make a cell of 10 persons",
        PolicyRefusal,
    )
    assert not (other.store / "cells.log").exists()


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ('id = "visit"\nperson = "patient"\n', "are read with weights = None, those .* with 'w'"),
        ('weights = "w"\nperson = "patient"\n', "are read with id = None, those .* with 'visit'"),
        ('weights = "w"\nid = "visit"\n', "are read with person = None, those .* with 'patient'"),
        ('weights = "v"\nid = "visit"\nperson = "patient"\n', "with weights = 'v', those .* 'w'"),
    ],
)
def test_rows_that_are_read_in_another_way_are_refused(site: Site, then: str, words: str) -> None:
    ones = [1.0] * 60
    site.write(visit=list(range(60)), patient=list(range(60)), w=ones, v=ones)
    whole = 'weights = "w"\nid = "visit"\nperson = "patient"\n'
    site.admitted(site.plan(), site.own(whole))
    refuses(lambda: site.admitted(site.plan(), site.own(then), "run-2"), words, StateError)


def test_a_dry_run_says_how_many_rows_are_where_and_writes_nothing(site: Site) -> None:
    ids = [f"v{i}" for i in range(70)]
    far = np.concatenate([NORTH[:59], [[900.0, 900.0, 900.0]]])
    more = np.concatenate([far, NORTH[:4] + 0.01])
    site.write(far, id=ids[:60])
    own, plan = site.own('id = "id"\n'), site.plan()
    before = sorted(site.folder.rglob("*"))
    found = site.previewed(plan, own)
    assert found is not None
    assert found.held_back >= 1
    assert (found.in_cells + found.held_back, found.waiting) == (60, 0)
    assert sorted(site.folder.rglob("*")) == before
    first = site.admitted(plan, own)
    assert f"{found.held_back} of 60 rows held back" in first.remark
    site.write(more, id=ids[:64])
    before = sorted((path, path.stat().st_mtime_ns) for path in site.folder.rglob("*"))
    later = site.previewed(plan, own, "run-2")
    assert later is not None
    assert later.in_cells == found.in_cells  # those held back are tried again, with the new ones
    assert later.waiting + later.held_back == found.held_back + 4
    assert sorted((path, path.stat().st_mtime_ns) for path in site.folder.rglob("*")) == before
    second = site.admitted(plan, own, "run-2")
    assert f"{later.waiting} of" in second.remark
    assert "rows waiting for 10 new persons" in second.remark
    assert np.array_equal(second.rows, first.rows)


def test_a_party_of_too_few_persons_takes_no_part_and_leaves_no_store(site: Site) -> None:
    site.write(NORTH[:9])
    for ask in (site.admitted, site.previewed):
        refuses(
            lambda ask=ask: ask(site.plan(), site.own()),  # type: ignore[misc]
            "Party North takes no part: its 9 rows do not make a cell of 10 persons, its minimum",
            PolicyRefusal,
        )
    assert not (site.store / "cells.log").exists()
    assert not (site.folder / "run-1" / admission.CELLS).exists()
    lower = site.own('[policy]\nname = "deployment-datashield"\n')
    assert len(site.admitted(site.plan(), lower).rows) <= 3


def test_data_that_change_during_a_run_end_it(site: Site) -> None:
    ids = [f"v{i}" for i in range(60)]
    site.write(id=ids)
    own, plan = site.own('id = "id"\n'), site.plan()
    first = site.admitted(plan, own)
    assert np.array_equal(site.admitted(plan, own).rows, first.rows)  # started again
    site.write(NORTH[::-1], id=ids[::-1])
    assert np.array_equal(site.admitted(plan, own).rows, first.rows)  # in another order
    site.write(NORTH[1:], id=ids[1:])
    refuses(
        lambda: site.admitted(plan, own),
        "The cells of North have changed since the run in .*run-1 began, because its data or its "
        "store have",
        StateError,
    )
    site.admitted(plan, own, "run-2")


def test_data_may_change_before_anything_has_left(site: Site) -> None:
    ids = [f"v{i}" for i in range(60)]
    site.write(id=ids)
    own, plan = site.own('id = "id"\n'), site.plan()
    site.admitted(plan, own, sent=False)
    site.write(NORTH[1:], id=ids[1:])
    site.admitted(plan, own)
    noted = json.loads((site.folder / "run-1" / admission.CELLS).read_text())
    assert noted["sequence"] == 2


def test_a_plan_of_too_few_parties_is_refused(site: Site) -> None:
    two = site.plan(parties={name: {} for name in NAMES[:2]})
    words = "Party North takes no part in a run of 2, fewer than its least of 3 parties"
    refuses(lambda: refuse_beyond(two, "North", site.own().policy), words, PolicyRefusal)
    refuse_beyond(site.plan(), "North", site.own().policy)
    refuse_beyond(two, "North", site.own("[policy]\nleast_parties = 2\n").policy)
    more = site.own("[policy]\nleast_parties = 4\n").policy
    refuses(lambda: refuse_beyond(site.plan(), "North", more), "least of 4", PolicyRefusal)


@pytest.mark.parametrize(
    ("name", "least"), [("deployment", 10), ("deployment-datashield", 3), ("deployment-cms", 11)]
)
def test_policies_by_name(site: Site, name: str, least: int) -> None:
    own = site.own(f'[policy]\nname = "{name}"\n')
    assert own.policy == Deployment(min_count=least)
    data = site.admitted(site.plan(), own)
    assert np.array_equal(data.rows, cells_of(NORTH[:, :2], least).means)
    assert data.weights.min() >= least
    raised = site.own(f'[policy]\nname = "{name}"\nmin_count = 20\nmax_rounds = 9\n').policy
    assert raised == Deployment(min_count=20, max_rounds=9)


def test_a_minimum_that_rises_is_refused_and_one_that_falls_changes_nothing(site: Site) -> None:
    first = site.admitted(site.plan(), site.own())
    cms = site.own('[policy]\nname = "deployment-cms"\n')
    refuses(
        lambda: site.admitted(site.plan(), cms, "run-2"),
        "are to be released under min_count=11, and its cells were made for 10",
        StateError,
    )
    lower = site.own("[policy]\nmin_count = 3\n")
    site.write(np.concatenate([NORTH, NORTH[:3] + 0.01]))
    after = site.admitted(site.plan(), lower, "run-2")
    assert np.array_equal(after.rows, first.rows)
    assert "rows waiting for 10 new persons" in after.remark  # as the store was begun


def test_cells_are_kept_beside_the_data_where_there_is_no_file(tmp_path: Path) -> None:
    """Not in the folder that the program is started in, which may be another one every time."""
    data = tmp_path / "north.csv"
    assert read_own(None, data).memory == tmp_path / "north.memory"
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "site.toml"
    file.write_text("")
    own = read_own(file, data)
    assert (own.data, own.memory) == (data, tmp_path / "sub" / "site.memory")
    file.write_text('memory = "~/cells"\n')
    assert read_own(file).memory == Path.home() / "cells"


def test_a_study_keeps_no_store(site: Site) -> None:
    own = site.own('[policy]\nname = "study"\n')
    assert isinstance(admission.site_policy(own), Study)
    data = site.admitted(site.plan(), own)
    assert np.array_equal(data.rows, NORTH[:, :2])
    assert site.previewed(site.plan(), own) is None
    assert not (site.folder / "memory").exists()


def test_what_a_sites_file_says(site: Site) -> None:
    own = site.own(
        'person = "p"\nid = "i"\nweights = "w"\ncolumns = ["a", "b"]\n[policy]\n'
        'allow = ["network-weights"]\nkinds = ["sums"]\n'
    )
    assert own.memory == site.folder / "memory"
    assert vars(own.naming) == {"weights": "w", "id": "i", "person": "p"}
    assert own.columns == ("a", "b")
    assert own.policy == Deployment(allow=("network-weights",), kinds=("sums",))
    assert read_own(None) == Own()
    for text, words in (
        ("columns = 3\n", "has columns = 3; give a list of names"),
        ('columns = ["a", 3]\n', "give a list of names"),
        ("person = 3\n", "has person = 3; give text in quotes"),
        ("[policy]\nmemory = 'm'\n", "has 'memory' in .policy."),
        ('[policy]\nallow = "network-weights"\n', "has allow = 'network-weights'; give a list"),
        ('[policy]\nallow = ["rows"]\n', "allow=.'rows',. is not known; give a list of any of"),
        ("[policy]\nleast_parties = 0\n", "least_parties=0 must be a whole number of at least 1"),
        ("[policy]\nmin_count = 2\n", "min_count=2 hides nothing"),
        ('[policy]\nname = "strict"\n', "has the policy 'strict'; give study or deployment"),
        ('[policy]\nname = "study"\nmin_count = 3\n', "the policy study has no limits"),
    ):
        refuses(lambda text=text: site.own(text), words, InputError)  # type: ignore[misc]
