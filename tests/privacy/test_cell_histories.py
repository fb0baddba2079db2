"""No linear combination of all that was ever released is about fewer than ``min_count`` persons.

Random histories of a site: rows are added, removed and corrected, persons have several rows, values
are missing, weights differ. After each change the cells in use are released. They are kept here as
sets of row versions (a corrected row is another version of the same person's), checked against the
released numbers, and then attacked: a vector in the span of the cells with few persons in it is a
word of low weight in a linear code, for which one searches by information sets. The search is made
modulo a prime, where each combination with rational coefficients has its image.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from unpooled.privacy.cell_store import CellStore, SiteRows, Stored, first_cells
from unpooled.types import IntArray

PRIME = 2**31 - 1
COLUMNS = ("x", "y", "z")


@dataclass
class Row:
    """A row of a site in its present version."""

    id: str
    person: str
    version: int
    values: np.ndarray
    weight: float


@dataclass
class Site:
    """A site whose rows change, and all that it has released."""

    rng: np.random.Generator
    min_count: int
    several: bool
    weighted: bool
    gaps: bool
    rows: list[Row] = field(default_factory=list)
    versions: dict[tuple[str, int], str] = field(default_factory=dict)
    """Every version of a row there ever was, and its person."""
    empty: set[tuple[str, int, int]] = field(default_factory=set)
    """Versions and columns without a value."""
    released: dict[frozenset[tuple[str, int]], np.ndarray] = field(default_factory=dict)
    """Every cell ever released, in order, and which columns it had a mean of."""
    made: int = 0

    def values(self, name: str, version: int) -> np.ndarray:
        """A new version's values."""
        found = self.rng.normal(size=len(COLUMNS))
        for column in range(1, len(COLUMNS)):
            if self.gaps and self.rng.random() < 0.4:
                found[column] = np.nan
                self.empty.add((name, version, column))
        return found

    def add(self, number: int) -> None:
        """New rows, some of persons there are."""
        for _ in range(number):
            self.made += 1
            name = person = f"r{self.made}"
            if self.several and self.rows and self.rng.random() < 0.5:
                person = self.rng.choice([row.person for row in self.rows])
            weight = float(self.rng.choice([1.0, 1.5])) if self.weighted else 1.0
            self.rows.append(Row(name, str(person), 0, self.values(name, 0), weight))
            self.versions[name, 0] = str(person)

    def remove(self, number: int) -> None:
        """Fewer rows."""
        for _ in range(min(number, len(self.rows))):
            self.rows.pop(int(self.rng.integers(len(self.rows))))

    def correct(self, number: int) -> None:
        """Other values, or only another weight."""
        for _ in range(min(number, len(self.rows))):
            row = self.rows[int(self.rng.integers(len(self.rows)))]
            row.version += 1
            row.values = self.values(row.id, row.version)
            self.versions[row.id, row.version] = row.person

    def rename(self, number: int) -> None:
        """The same values under another id: whose they are does not change.

        Who has other values too is nobody that a store could know again.
        """
        first = [row for row in self.rows if row.version == 0]
        for row in self.rng.permutation(np.array(first, dtype=object))[:number]:
            self.made += 1
            old, row.id = (row.id, row.version), f"r{self.made}"
            self.versions[row.id, row.version] = row.person
            self.empty |= {(row.id, row.version, at) for *of, at in self.empty if (*of,) == old}

    def shuffle(self, number: int) -> None:
        """The same rows in another order."""
        self.rng.shuffle(self.rows)  # type: ignore[arg-type]

    def table(self) -> SiteRows:
        """What the store is given."""
        return SiteRows(
            COLUMNS,
            np.array([row.values for row in self.rows]).reshape(-1, len(COLUMNS)),
            np.array([row.weight for row in self.rows]),
            [row.id for row in self.rows],
            [row.person for row in self.rows] if self.several else None,
            mostly_changed=True,
        )

    def release(self, found: Stored) -> None:
        """Keeps the cells, once the numbers are seen to be those of their rows."""
        values = self.table().rows
        weights = np.array([row.weight for row in self.rows])
        for cell in range(len(found.counts)):
            own = np.flatnonzero(found.labels == cell)
            assert len(own) == found.counts[cell]
            assert weights[own].sum() == pytest.approx(found.weights[cell])
            there = ~np.isnan(values[own])
            for column in np.flatnonzero(found.observed[cell]):
                seen = own[there[:, column]]
                assert len(seen) == found.observed[cell, column]
                mean = np.average(values[seen, column], weights=weights[seen])
                assert mean == pytest.approx(found.means[cell, column], abs=1e-9)
            assert np.array_equal(np.isnan(found.means[cell]), found.observed[cell] == 0)
            key = frozenset((self.rows[i].id, self.rows[i].version) for i in own)
            self.released.setdefault(key, found.observed[cell] > 0)
        assert (found.labels < 0).sum() == found.waiting + found.held_back

    def spans(self) -> list[tuple[IntArray, IntArray]]:
        """Per column, and of counts: cells by versions, and the person of each version."""
        persons = {name: i for i, name in enumerate(sorted(set(self.versions.values())))}
        names = list(self.versions)
        whose = np.array([persons[self.versions[name]] for name in names])
        place = {name: i for i, name in enumerate(names)}
        found = []
        for column in (None, *range(len(COLUMNS))):
            cells = []
            for members, columns in self.released.items():
                if column is None or columns[column]:
                    valued = [m for m in members if (*m, column) not in self.empty]
                    cells.append(np.zeros(len(names), dtype=np.int64))
                    cells[-1][[place[member] for member in valued]] = 1
            found.append((np.array(cells, np.int64).reshape(-1, len(names)), whose))
        return found


def run(site: Site, steps: Sequence[tuple[str, int]]) -> None:
    """A store through a history, with everything it answers released."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        store = CellStore(Path(folder) / "memory", "North")
        heads = []
        for what, number in steps:
            getattr(site, what)(number)
            found = store.update(site.table(), site.min_count)
            site.release(found)
            again = store.update(site.table(), site.min_count)
            assert again.head == found.head
            assert again.means.tobytes() == found.means.tobytes()
            heads += [found.head] if found.head is not None else []
        store.refuse_unlike(heads)


def smallest(coefficients: IntArray, whose: IntArray) -> int:
    """The least number of persons in any of the combinations, of those that are not nothing."""
    least = len(whose)
    for line in coefficients % PRIME:
        persons = len(np.unique(whose[line != 0]))
        if persons:
            least = min(least, persons)
    return least


def reduced(matrix: IntArray) -> IntArray:
    """The row echelon form modulo the prime, with zeros above the leading ones too."""
    matrix, rank = matrix % PRIME, 0
    for column in range(matrix.shape[1]):
        pivots = np.flatnonzero(matrix[rank:, column]) + rank
        if not len(pivots):
            continue
        matrix[[rank, pivots[0]]] = matrix[[pivots[0], rank]]
        matrix[rank] = matrix[rank] * pow(int(matrix[rank, column]), -1, PRIME) % PRIME
        factors = matrix[:, column].copy()
        factors[rank] = 0
        touched = np.flatnonzero(factors)
        matrix[touched] = (matrix[touched] - factors[touched, None] * matrix[rank]) % PRIME
        rank += 1
        if rank == len(matrix):
            break
    return matrix[:rank]


def attacked(cells: IntArray, whose: IntArray, rng: np.random.Generator) -> int:
    """The least number of persons that any attack finds."""
    if not len(cells):
        return len(whose)
    first, second = np.triu_indices(len(cells), 1)
    pairs = (cells[first] - cells[second], cells[first] + cells[second])
    found = smallest(np.vstack([cells, *pairs]), whose)
    if len(cells) <= 25:
        triples = np.array([*combinations(range(len(cells)), 3)], np.int64).reshape(-1, 3)
        for signs in ((1, 1, -1), (1, -1, 1), (-1, 1, 1), (1, -1, -1)):
            lines = sum(s * cells[triples[:, i]] for i, s in enumerate(signs))
            found = min(found, smallest(np.asarray(lines), whose))
    mixes = rng.integers(-2, 3, size=(50, len(cells)))
    found = min(found, smallest(mixes @ cells, whose))
    for _ in range(6):
        # Persons in random order: those that come first are eliminated together.
        order = np.argsort(rng.permutation(whose.max() + 1)[whose], kind="stable")
        basis = reduced(cells[:, order])
        found = min(found, smallest(basis, whose[order]))
        first, second = np.triu_indices(min(len(basis), 12), 1)
        found = min(found, smallest(basis[first] - basis[second], whose[order]))
    return found


def check(site: Site) -> None:
    """All that is claimed of what was released."""
    for cells, whose in site.spans():
        earlier: set[int] = set()
        for line in cells:
            inside = set(whose[line > 0].tolist())
            assert len(inside - earlier) >= site.min_count
            earlier |= inside
        assert attacked(cells, whose, site.rng) >= site.min_count
        # What is the same in all rows of a person is added up by persons.
        persons = np.zeros((len(cells), int(whose.max(initial=0)) + 1), dtype=np.int64)
        np.add.at(persons.T, whose, cells.T)
        assert attacked(persons, np.arange(persons.shape[1]), site.rng) >= site.min_count


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 14)),
        st.tuples(st.sampled_from(["remove", "correct", "rename"]), st.integers(1, 3)),
        st.tuples(st.just("shuffle"), st.just(0)),
    ),
    min_size=20,
    max_size=50,
)
SITES = st.builds(
    Site,
    st.integers(0, 2**32 - 1).map(np.random.default_rng),
    st.integers(2, 4),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=6, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(SITES, STEPS)
def test_random_histories(site: Site, steps: list[tuple[str, int]]) -> None:
    run(site, [("add", 25), *steps])
    check(site)


@pytest.mark.long
@settings(max_examples=150)
@given(SITES, STEPS)
def test_many_random_histories(site: Site, steps: list[tuple[str, int]]) -> None:
    run(site, [("add", 40), *steps])
    check(site)


@pytest.mark.parametrize("several", [False, True])
def test_fifty_changes_with_a_minimum_of_ten(several: bool) -> None:
    site = Site(np.random.default_rng(7), 10, several, weighted=False, gaps=not several)
    kinds = ["add", "correct", "rename", "add", "remove", "shuffle"] * 9
    most = {"add": 25, "correct": 4, "rename": 12, "remove": 4, "shuffle": 2}
    steps = [(kind, int(site.rng.integers(1, most[kind]))) for kind in kinds]
    run(site, [("add", 120), *steps])
    check(site)
    assert len(site.released) >= 10


def test_the_attack_finds_what_there_is_to_find() -> None:
    """Cells made anew for every change give single rows away, and this is noticed."""
    rng = np.random.default_rng(0)
    cells = np.zeros((2, 21), dtype=np.int64)
    cells[0, :10] = cells[1, :11] = 1
    assert attacked(cells, np.arange(21), rng) == 1
    hidden = rng.integers(0, 2, size=(7, 60))
    hidden[6] = hidden[:3].sum(axis=0) - hidden[3:6].sum(axis=0)
    hidden[6, 40:42] += 1
    assert attacked(hidden, np.arange(60), rng) == 2
    assert attacked(hidden, np.arange(60) // 2, rng) == 1


def test_the_check_finds_a_store_that_forgets() -> None:
    """Without a memory, the same site gives rows away."""
    site = Site(np.random.default_rng(1), 5, several=False, weighted=False, gaps=False)
    for what, number in (("add", 40), ("add", 1), ("remove", 1), ("add", 2)):
        getattr(site, what)(number)
        site.release(first_cells(site.table(), site.min_count, "North"))
    with pytest.raises(AssertionError):
        check(site)
