"""Cells that are kept: how they follow rows that change, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.privacy.stores import (
    COLUMNS,
    M,
    chosen,
    corrected,
    joined,
    log_of,
    members,
    same,
    site,
)
from tests.sentences import refuses
from unpooled.errors import InputError, StateError
from unpooled.privacy.cell_store import CellStore, Head, SiteRows, first_cells
from unpooled.privacy.cells import make_cells

AWAY = "cells of both stores together can tell single rows apart"


@pytest.fixture
def store(tmp_path: Path) -> CellStore:
    return CellStore(tmp_path / "memory", "North")


def test_the_first_use_makes_the_cells_of_all_rows(store: CellStore) -> None:
    given = site(40)
    assert not store.exists
    assert store.head is store.columns is None
    found = store.update(given, M)
    plain = make_cells(given.rows, given.weights, M)
    assert found.means.tobytes() == plain.means.tobytes()
    assert found.scatter.tolist() == plain.scatter.tolist()
    assert found.labels.tolist() == plain.labels.tolist()
    assert (found.counts >= M).all()
    assert found.in_cells + found.waiting + found.held_back == 40
    assert found.in_cells == found.counts.sum() == (found.labels >= 0).sum()
    assert store.exists
    assert store.columns == found.columns == COLUMNS
    assert store.head == found.head
    assert found.head is not None
    assert found.head.sequence == 1
    assert same(first_cells(given, M, "North"), found)


def test_a_preview_has_the_same_answer_and_writes_nothing(store: CellStore) -> None:
    given = site(40)
    seen = store.update(given, M, write=False)
    assert not store.folder.exists()
    assert same(seen, store.update(given, M))
    before = {path: path.read_bytes() for path in store.folder.iterdir()}
    times = {path: path.stat().st_mtime_ns for path in store.folder.iterdir()}
    changed = joined(corrected(given, 3), site(60, start=40))
    seen = store.update(changed, M, write=False)
    assert {path: path.read_bytes() for path in store.folder.iterdir()} == before
    assert {path: path.stat().st_mtime_ns for path in store.folder.iterdir()} == times
    done = store.update(changed, M)
    assert same(seen, done)
    assert seen.labels.tolist() == done.labels.tolist()
    assert seen[8:11] == done[8:11]
    assert seen.head != done.head


def test_the_same_rows_in_any_order_append_nothing(store: CellStore) -> None:
    given = site(43)
    found = store.update(given, M)
    size = log_of(store).stat().st_size
    order = np.random.default_rng(1).permutation(43)
    again = store.update(chosen(given, order), M)
    assert same(found, again)
    assert again.head == found.head
    assert again[8:11] == found[8:11]
    assert again.labels.tolist() == found.labels[order].tolist()
    assert log_of(store).stat().st_size == size


def test_rows_that_are_held_back_are_not_tried_again_unless_something_changed(
    store: CellStore,
) -> None:
    """Alone they might make cells; but the same rows have the same cells."""
    far = site(40)
    rows = far.rows.copy()
    rows[:8] *= 10.0 ** np.arange(3, 11)[:, None]
    far = replace(far, rows=rows)
    first = store.update(far, M)
    assert first.held_back
    for given in (far, chosen(far, np.arange(40)[::-1]), far):
        found = store.update(given, M)
        assert found.head == first.head
        assert found[8:11] == first[8:11]


def test_new_rows_wait_until_there_are_enough(store: CellStore) -> None:
    found = store.update(site(40), M)
    for n in range(41, 40 + M):
        few = store.update(site(n), M)
        assert same(few, found)
        assert few.head == found.head
        assert few.waiting + few.held_back == n - found.in_cells
    full = site(70)
    more = store.update(full, M)
    assert len(more.counts) > len(found.counts)
    assert more.means[: len(found.means)].tobytes() == found.means.tobytes()
    assert more.head is not None
    assert more.head.sequence == 2


def test_a_removed_row_retires_its_cell_for_good(store: CellStore) -> None:
    given = site(40)
    cells = members(store.update(given, M), given)
    gone = next(i for i in range(40) if given.ids[i] in cells[0])  # type: ignore[index]
    rest = chosen(given, [i for i in range(40) if i != gone])
    after = store.update(rest, M)
    assert members(after, rest) == cells[1:]
    assert after.waiting >= len(cells[0]) - 1
    back = store.update(given, M)
    assert members(back, given) == cells[1:]
    assert back.head == after.head


@pytest.mark.parametrize("what", ["value", "weight", "missing"])
def test_a_corrected_row_retires_its_cell_and_is_not_fresh(store: CellStore, what: str) -> None:
    given = site(40)
    cells = members(store.update(given, M), given)
    place = next(i for i in range(40) if given.ids[i] in cells[0])  # type: ignore[index]
    other = corrected(given, place, np.nan if what == "missing" else 0.25)
    if what == "weight":
        other = replace(given, weights=np.where(np.arange(40) == place, 1.5, 1.0))
    after = store.update(other, M)
    assert members(after, other) == cells[1:]
    # Four new persons do not make a cell, though many rows wait.
    four = joined(other, site(40 + M - 1, start=40))
    assert members(store.update(four, M), four) == cells[1:]
    # Ten do, and rows that are not fresh may join them.
    full = joined(other, site(55, start=40))
    fresh = {f"row {i}" for i in range(40, 55)}
    added = members(store.update(full, M), full)[len(cells) - 1 :]
    assert added
    for cell in added:
        assert len(cell & fresh) >= M


def test_a_waiting_row_may_change_and_stays_fresh(store: CellStore) -> None:
    found = store.update(site(40), M)
    new = site(40 + M - 1, start=40)
    store.update(joined(site(40), new), M)
    again = joined(site(40), corrected(new, 0), site(60, start=50))
    assert len(store.update(again, M).counts) > len(found.counts)


def test_visits_of_a_person_who_was_in_a_cell_are_not_fresh(store: CellStore) -> None:
    people = tuple(f"person {i % 20}" for i in range(40))
    given = site(40, persons=people)
    found = store.update(given, M)
    assert len(found.counts)
    for cell in range(len(found.counts)):
        assert len({people[i] for i in np.flatnonzero(found.labels == cell)}) >= M
    seen = {people[i] for i in np.flatnonzero(found.labels >= 0)}
    later = tuple(f"person {i}" for i in range(40))
    visits = replace(joined(given, site(80, start=40)), persons=people + later)
    more = store.update(visits, M)
    assert len(more.counts) > len(found.counts)
    for cell in range(len(found.counts), len(more.counts)):
        inside = {visits.persons[i] for i in np.flatnonzero(more.labels == cell)}  # type: ignore[index]
        assert len(inside - seen) >= M
        seen |= inside


def test_a_person_with_rows_in_several_cells_is_fresh_in_the_first(store: CellStore) -> None:
    """What is the same in all visits of a person would cancel between two cells."""
    people = tuple(f"person {i // 3}" for i in range(240))
    found = store.update(site(240, persons=people), M)
    seen: set[str] = set()
    for cell in range(len(found.counts)):
        inside = {people[i] for i in np.flatnonzero(found.labels == cell)}
        assert len(inside - seen) >= M
        seen |= inside


def test_a_person_under_another_name_is_not_fresh(store: CellStore) -> None:
    """Also once the row under which they are known to have been in a cell is gone."""
    people = [f"person {i}" for i in range(40)]
    given = site(40, persons=people)
    found = store.update(given, M)
    inside = np.flatnonzero(found.labels >= 0)[:M]
    renamed = list(people)
    for i in inside:
        renamed[i] = f"other {i}"
    store.update(replace(given, persons=renamed), M)
    rest = [i for i in range(40) if i not in inside]
    left = store.update(chosen(replace(given, persons=renamed), rest), M)
    visits = replace(
        joined(chosen(given, rest), site(40 + M, start=40)),
        persons=[people[i] for i in rest] + [f"other {i}" for i in inside],
    )
    assert same(store.update(visits, M), left)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("coarse", [False, True])
def test_a_row_under_another_id_is_not_fresh(store: CellStore, coarse: bool, later: bool) -> None:
    """New pseudonyms for a cell's rows make no new persons of them, at once or after a while."""
    given = site(40)
    if coarse:
        given = replace(given, rows=np.round(given.rows))
    first = store.update(given, M)
    own = np.flatnonzero(first.labels == 0)
    names = [f"new {name}" if i in own else name for i, name in enumerate(given.ids or ())]
    if later:
        store.update(chosen(given, np.flatnonzero(first.labels != 0)), M)
    after = store.update(replace(given, ids=names), M)
    assert len(after.counts) == len(first.counts) - 1
    assert after.waiting >= len(own)
    # One really new row is no cell with them either; as many as the minimum are.
    more = joined(replace(given, ids=names), site(41, start=40))
    assert len(store.update(more, M).counts) == len(after.counts)
    more = joined(replace(given, ids=names), site(60, start=40))
    assert len(store.update(more, M).counts) > len(after.counts)


def test_a_column_of_which_too_few_fresh_persons_have_a_value_is_left_out(
    store: CellStore,
) -> None:
    """Else two persons' difference in it would follow from the retired cell and the new one."""
    given = site(2 * M)
    found = store.update(given, M)
    cells = members(found, given)
    gone = next(i for i in range(2 * M) if given.ids[i] in cells[0])  # type: ignore[index]
    rest = chosen(given, [i for i in range(2 * M) if i != gone])
    fresh = site(3 * M, start=2 * M)
    rows = fresh.rows.copy()
    rows[1:, 1] = np.nan
    both = joined(rest, replace(fresh, rows=rows))
    after = store.update(both, M)
    old = {bytes(line) for line in found.means}
    for cell, mean in enumerate(after.means):
        if bytes(mean) not in old:
            assert after.observed[cell, 1] == 0
            assert np.isnan(mean[1])


def test_without_ids_rows_may_be_added_and_none_may_go(store: CellStore) -> None:
    given = site(40, ids=None)
    doubled = SiteRows(
        COLUMNS,
        np.vstack([given.rows, given.rows[:3]]),
        np.ones(43),
        None,
        None,
        given.mapping,
    )
    found = store.update(given, M)
    order = np.random.default_rng(2).permutation(40)
    assert same(store.update(chosen(given, order), M), found)
    assert store.update(doubled, M).head == found.head
    more = store.update(replace(site(60), ids=None), M)
    assert len(more.counts) > len(found.counts)
    inside = int(np.flatnonzero(found.labels >= 0)[0])
    for other in (
        corrected(replace(site(60), ids=None), inside),
        chosen(given, [i for i in range(40) if i != inside]),
    ):
        before = log_of(store).read_bytes()
        refuses(lambda rows=other: store.update(rows, M), "from a new person", StateError)  # type: ignore[misc]
        refuses(lambda rows=other: store.update(rows, M), AWAY, StateError)  # type: ignore[misc]
        assert log_of(store).read_bytes() == before


def test_repeated_ids_are_refused_by_their_places(store: CellStore) -> None:
    names = [f"secret {i}" for i in range(40)]
    names[17] = names[4]
    for _ in range(2):
        with pytest.raises(InputError, match="Rows 5 and 18 of North have the same id") as caught:
            store.update(site(40, ids=names), M)
        assert "secret" not in str(caught.value)
        store.update(site(40), M)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"columns": ("x", "z")}, "have no column 'y'"),
        ({"mapping": {"id": "other"}}, "are read with id = 'other'"),
        ({"mapping": {"id": "patient", "weights": "w"}}, "are read with weights = 'w'"),
        ({"ids": None}, "come without ids"),
        ({"persons": ["p"] * 40}, "come with persons"),
    ],
)
def test_rows_read_in_another_way_are_refused(
    store: CellStore, changes: dict[str, object], words: str
) -> None:
    found = store.update(site(40), M)
    for write in (True, False):
        refuses(lambda w=write: store.update(site(40, **changes), M, write=w), words, StateError)  # type: ignore[misc]
        refuses(lambda w=write: store.update(site(40, **changes), M, write=w), AWAY, StateError)  # type: ignore[misc]
    assert store.head == found.head


def test_the_minimum_may_not_rise_and_does_not_fall(store: CellStore) -> None:
    found = store.update(site(40), M)
    refuses(lambda: store.update(site(40), M + 1), f"min_count={M + 1}", StateError)
    assert same(store.update(site(40), 2), found)
    few = store.update(joined(site(40), site(43, start=40)), 2)
    assert few.head == found.head


def test_columns_in_another_order_and_further_ones_are_fine(store: CellStore) -> None:
    given = site(40)
    found = store.update(given, M)
    wide = replace(
        given, columns=("y", "new", "x"), rows=np.column_stack([given.rows[:, ::-1], given.rows])
    )
    wide = replace(wide, rows=wide.rows[:, [0, 2, 1]])
    again = store.update(wide, M)
    assert same(again, found)
    assert again.columns == COLUMNS
    assert again.head == found.head


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"columns": ("x",)}, "one name for each column, not 1"),
        ({"columns": ("x", "x")}, "two columns of one name"),
        ({"weights": np.ones(39)}, "39 weights"),
        ({"weights": -np.ones(40)}, "no finite numbers"),
        ({"weights": np.full(40, np.nan)}, "no finite numbers"),
        ({"ids": ["a"]}, "1 ids"),
        ({"persons": ["a"]}, "1 persons"),
        ({"rows": np.full((40, 2), np.inf)}, "infinite"),
        ({"mapping": {"a": object()}}, "JSON"),
    ],
)
def test_rows_that_do_not_go_together_are_refused(
    store: CellStore, changes: dict[str, object], words: str
) -> None:
    refuses(lambda: store.update(site(40, **changes), M), f"The rows of North .*{words}")
    assert not store.folder.exists()


def test_too_few_rows_make_no_store(store: CellStore) -> None:
    """Nothing is bound while nothing can leave."""
    for n in (0, 1, M - 1):
        found = store.update(site(n), M)
        assert found.head is None
        assert not store.exists
        assert found.means.shape == (0, 2)
        assert found.labels.tolist() == [-1] * n
    one_person = store.update(site(40, persons=["same"] * 40), M)
    assert one_person.head is None
    assert one_person.in_cells == 0


def test_rows_of_which_none_is_as_it_was_are_a_wrong_file(store: CellStore) -> None:
    before = store.update(site(40), M)
    given = site(40)
    for other in (site(0), replace(given, rows=2.54 * given.rows)):
        words = "only 0% are among those of North as they were"
        refuses(lambda rows=other: store.update(rows, M), words, StateError)  # type: ignore[misc]
    assert store.update(given, M).head == before.head


def test_all_rows_but_one_may_go(store: CellStore) -> None:
    store.update(site(40), M)
    refuses(lambda: store.update(site(1), M), "go on with --rows-changed", StateError)
    none = store.update(site(1, mostly_changed=True), M)
    assert none.means.shape == (0, 2)
    assert none.scatter.tolist() == [0.0, 0.0]
    assert store.update(site(40), M).in_cells == 0  # they come back, and nobody is fresh
    assert store.update(site(80), M).in_cells > 0


def test_a_cell_that_retires_leaves_no_scatter_of_its_own(store: CellStore) -> None:
    """The difference of two totals would be one cell's, of which one row may be nearly all."""
    before = store.update(site(200), M)
    after = store.update(corrected(site(200), 3), M)
    share = after.weights.sum() / before.weights.sum()
    assert 0.9 < share < 1
    np.testing.assert_allclose(after.scatter, share * before.scatter, rtol=1e-12)


def test_zeros_and_missing_values_have_one_form(store: CellStore) -> None:
    given = site(40)
    rows = given.rows.copy()
    rows[0, 0], rows[1, 0] = 0.0, np.nan
    found = store.update(replace(given, rows=rows), M)
    rows[0, 0] = -0.0
    rows[1, 0] = np.frombuffer(b"\1\0\0\0\0\0\xf8\xff")[0]
    assert store.update(replace(given, rows=rows), M).head == found.head


def test_rows_and_names_are_not_in_the_store(store: CellStore) -> None:
    given = site(40, persons=[f"somebody {i}" for i in range(40)])
    given = replace(given, rows=given.rows * 1e-3 + 0.1)
    store.update(given, M)
    data = log_of(store).read_bytes()
    for name in (*given.ids, *given.persons):  # type: ignore[misc]
        assert name.encode() not in data
    for value in given.rows.ravel():
        assert value.tobytes() not in data


def test_a_new_store_on_purpose(store: CellStore) -> None:
    first, second = store.update(site(40), M).head, store.update(site(60), M).head
    assert first is not None
    assert second is not None
    store.start_anew()
    assert not store.exists
    old = CellStore(store.folder.with_name("memory.old-1"), "North")
    assert old.head == second
    store.refuse_unlike([first, second])  # though nothing is there yet
    third = store.update(site(40, mapping={"id": "other"}), M).head
    assert third is not None
    assert third.store != first.store
    store.refuse_unlike([first, second, third])
    store.start_anew()
    fourth = store.update(site(40), M).head
    assert store.folder.with_name("memory.old-2").exists()
    store.refuse_unlike([first, second, third, fourth])  # type: ignore[list-item]
    lost = Head("lost", 3, "00")
    refuses(lambda: store.refuse_unlike([lost]), "another than the one", StateError)
    store.start_anew([lost])
    store.update(site(40), M)
    store.refuse_unlike([lost, first])


def test_a_new_store_in_place_of_a_damaged_or_missing_one(store: CellStore) -> None:
    head = store.update(site(40), M).head
    assert head is not None
    log_of(store).write_bytes(b"nothing")
    refuses(lambda: store.refuse_unlike([head]), "begin like", StateError)
    store.start_anew([head])
    store.refuse_unlike([head])
    store.update(site(40), M)
    store.refuse_unlike([head])
    elsewhere = CellStore(store.folder.with_name("elsewhere"), "North")
    elsewhere.start_anew([head])
    elsewhere.refuse_unlike([head])
    (elsewhere.folder / "replaced").write_bytes(b"{")
    refuses(lambda: elsewhere.refuse_unlike([head]), "damaged", StateError)
    refuses(lambda: elsewhere.update(site(40), M), "damaged", StateError)
