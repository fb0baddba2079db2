"""A party's cells on disk: fixed once written, and written before anything is released of them.

A folder per party, of mode 0700, with one file of records that only ever grows
(:mod:`unpooled.privacy.cell_log`), and a lock that keeps other processes out while one brings the
cells up to date. What the records mean is in :mod:`unpooled.privacy.cell_history`, how cells follow
rows that change in :mod:`unpooled.privacy.cell_change`.

The store is the protection: whoever replaces it by a new one, or puts an older one back, makes
cells of the same rows twice, and the differences between both sets can be single rows. So each run
notes the :class:`Head` of the store that it released from, and :meth:`CellStore.refuse_unlike`
compares.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from unpooled.errors import StateError
from unpooled.privacy.cell_change import Outcome, as_change, next_change
from unpooled.privacy.cell_history import Change, History, Origin, payload, read_history
from unpooled.privacy.cell_log import (
    Busy,
    Log,
    LogDamaged,
    add_record,
    begin_file,
    flush,
    locked,
    read_log,
    record,
)
from unpooled.privacy.site_rows import SiteRows, known_rows, refuse_repeated
from unpooled.privacy.stored_cells import (
    Head,
    Stored,
    answer_after,
    answer_at_first,
    cells_at_first,
    first_cells,
)
from unpooled.private_files import open_private
from unpooled.text import printable
from unpooled.types import PartyId

__all__ = ["CellStore", "Head", "SiteRows", "Stored", "first_cells"]

LOG = "cells.log"
_REPLACED = "replaced"
_LEAST_UNCHANGED = 0.5
"""Of the rows in cells: with fewer that are as they were, it is probably the wrong file."""
_PATIENCE = 30.0
"""Seconds to wait for another process of the party."""
GIVES_AWAY = "cells of both stores together can tell single rows apart"
ANEW = (
    "start a new store on purpose (--new-memory, or CellStore.start_anew), which gives something "
    f"away: {GIVES_AWAY}"
)
_RESTORE = f"restore the folder from a backup that is as new, or {ANEW}"


class CellStore:
    """The store of one party; nothing is read or made before it is used.

    ``update`` brings it up to date and answers with the cells in use. All else only reads. Raises
    :class:`StateError` where the store cannot be gone on with, and :class:`InputError` where the
    rows cannot be used.
    """

    def __init__(self, folder: Path, party: PartyId, patience: float = _PATIENCE) -> None:
        self.folder, self.party = Path(folder), party
        self._patience = patience
        self._path = self.folder / LOG

    @property
    def exists(self) -> bool:
        """Whether there are cells, in whatever state."""
        return self._path.exists()

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that cells are made of; None without a store."""
        found = self._look()
        return None if found is None else found[1].origin.columns

    @property
    def head(self) -> Head | None:
        """What a run directory should know; None without a store."""
        found = self._look()
        return None if found is None else _head(*found)

    def update(self, site: SiteRows, min_count: int, *, write: bool = True) -> Stored:
        """The cells in use once they follow these rows.

        They are on disk when this returns. Without ``write`` it is a preview: nothing is written.
        """
        site = site.checked(self.party)
        refuse_repeated(site, self.party)
        with self._locked(write=write):
            found = self._read()
            if found is None:
                return self._begin(site, min_count, write)
            log, history = found
            self._refuse_other(site, min_count, history.origin)
            given = known_rows(site, history.origin)
            outcome = next_change(history, given)
            if outcome.change is not None:
                if not site.mostly_changed:
                    self._refuse_other_rows(outcome, history.origin)
                self._refuse_unnamed(outcome.change, history.origin)
                log = self._add(log, outcome.change, write)
                history.add(outcome.change)
            if write:
                flush(self._path)
            return answer_after(history, outcome, _head(log, history))

    def start_anew(self, known: Iterable[Head] = ()) -> None:
        """Puts the store aside, as ``NAME.old-1`` and so on, so that the next use begins a new one.

        The new one remembers which it replaces: the old store's own name, and those of ``known``,
        the heads in run directories, for which an old store need not be readable.
        """
        with self._locked(write=True):
            replaced = {*self._pending(), *(head.store for head in known)}
            with suppress(StateError):
                found = self._read()
                if found is not None:
                    replaced |= {found[1].origin.store, *found[1].origin.replaces}
            if self.exists:
                self.folder.rename(self._aside())
                self.folder.mkdir(mode=0o700)
            with open_private(self.folder / _REPLACED, "wb") as stream:
                stream.write(json.dumps(sorted(replaced)).encode())
                stream.flush()
                os.fsync(stream.fileno())
            flush(self.folder / _REPLACED)

    def refuse_unlike(self, known: Iterable[Head]) -> None:
        """Refuses a store that is not the one, or older than, what run directories know."""
        heads = list(known)
        found = self._look() if heads else None
        replaced = self._pending() if found is None else found[1].origin.replaces
        for head in heads:
            if head.store in replaced:
                continue
            why = self._unlike(head, found)
            if why:
                raise StateError(
                    f"The store {self.folder} of {self._name} {why}, though this site has released "
                    f"from it before; {_RESTORE}."
                )

    def _unlike(self, head: Head, found: tuple[Log, History] | None) -> str | None:
        if found is None:
            return "is missing"
        log, history = found
        if head.store != history.origin.store:
            return "is another than the one that runs of this site know"
        if head.sequence > len(log.hashes):
            return f"is older ({len(log.hashes)} records) than runs know ({head.sequence})"
        if head.sequence < 1 or log.hashes[head.sequence - 1] != head.hash:
            return f"has another record {head.sequence} than runs of this site know"
        return None

    @property
    def _name(self) -> str:
        return printable(self.party)

    @contextmanager
    def _locked(self, *, write: bool) -> Iterator[None]:
        try:
            with locked(self.folder, self._patience, write=write):
                yield
        except Busy:
            raise StateError(
                f"Another process of {self._name} has been using {self.folder} for "
                f"{self._patience:g} seconds; wait for it to end, or stop it."
            ) from None
        except OSError as error:
            raise StateError(
                f"The store {self.folder} of {self._name} cannot be used "
                f"({error.strerror or error}), so nothing was released; see to the disk and its "
                "permissions, or choose another folder with memory in the site file."
            ) from error

    def _look(self) -> tuple[Log, History] | None:
        with self._locked(write=False):
            return self._read()

    def _read(self) -> tuple[Log, History] | None:
        try:
            log = read_log(self._path.read_bytes())
            history = read_history(log.payloads)
        except FileNotFoundError:
            return None
        except LogDamaged as error:
            raise StateError(f"{self._path} of {self._name} {error}; {_RESTORE}.") from None
        return log, history

    def _begin(self, site: SiteRows, min_count: int, write: bool) -> Stored:
        cells = cells_at_first(site, min_count)
        if not write or not len(cells.counts):
            return answer_at_first(site, min_count, cells, None)
        origin = Origin(
            secrets.token_hex(16),
            self.party,
            secrets.token_hex(32),
            site.columns,
            site.mapping,
            min_count,
            site.ids is not None,
            site.persons is not None,
            tuple(self._pending()),
        )
        none = np.empty(0, np.int64)
        given = known_rows(site, origin)
        change = as_change(cells, given, none, given.keys[:0])
        parts, own = record(payload(change, origin), None)
        begin_file(self._path, parts)
        flush(self._path)
        (self.folder / _REPLACED).unlink(missing_ok=True)  # its names are in the origin now
        return answer_at_first(site, min_count, cells, Head(origin.store, 1, own))

    def _add(self, log: Log, change: Change, write: bool) -> Log:
        """The log with a further record, on disk."""
        if not write:
            return log
        parts, own = record(payload(change, None), log)
        add_record(self._path, log, parts)
        return Log(log.payloads, (*log.hashes, own), log.size + sum(map(len, parts)))

    def _refuse_other(self, site: SiteRows, min_count: int, origin: Origin) -> None:
        """Refuses rows that were read in another way than those of the store."""
        missing = [name for name in origin.columns if name not in site.columns]
        if missing:
            raise self._other(f"have no column {missing[0]!r}, of which its cells are made")
        for key in sorted({*site.mapping, *origin.mapping}):
            was, now = origin.mapping.get(key), site.mapping.get(key)
            if was != now:
                raise self._other(f"are read with {key} = {now!r}, those of its cells with {was!r}")
        for what, was, now in (
            ("ids", origin.ids, site.ids is not None),
            ("persons", origin.persons, site.persons is not None),
        ):
            if was != now:
                raise self._other(
                    f"come {'with' if now else 'without'} {what}, those of its cells "
                    f"{'with' if was else 'without'}"
                )
        if min_count > origin.min_count:
            raise self._other(
                f"are to be released under min_count={min_count}, and its cells were made for "
                f"{origin.min_count}"
            )

    def _other(self, what: str) -> StateError:
        return StateError(
            printable(
                f"The rows of {self.party} {what} (in {self.folder}); give them as before, or "
                f"{ANEW}."
            )
        )

    def _refuse_unnamed(self, change: Change, origin: Origin) -> None:
        if len(change.retired) and not origin.ids:
            raise StateError(
                f"Rows of {self._name} that are in {len(change.retired)} of its cells are gone or "
                "have changed, and without ids a corrected value cannot be distinguished from a "
                "new person; give back the rows as they were, or name them by id in the site file "
                f"and {ANEW}."
            )

    def _refuse_other_rows(self, outcome: Outcome, origin: Origin) -> None:
        """A wrong file, another unit or another party would retire cells for good."""
        if outcome.unchanged < _LEAST_UNCHANGED:
            raise StateError(
                f"Of the rows in cells of {printable(origin.party, 80)} (in {self.folder}) only "
                f"{outcome.unchanged:.0%} are among those of {self._name} as they were; give the "
                "right file with its values in the units of before, and each party a folder of its "
                "own with memory in the site file; or, if most rows are really gone or have "
                "changed, go on with --rows-changed, which retires their cells for good."
            )

    def _pending(self) -> tuple[str, ...]:
        """The stores that are replaced by the one that begins next."""
        try:
            names: Any = json.loads((self.folder / _REPLACED).read_bytes())
        except FileNotFoundError:
            return ()
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise StateError(
                f"{self.folder / _REPLACED} of {self._name} is damaged; remove it and start the "
                "new store once more with --new-memory."
            )
        return tuple(names)

    def _aside(self) -> Path:
        number = 1
        while (place := self.folder.with_name(f"{self.folder.name}.old-{number}")).exists():
            number += 1
        return place


def _head(log: Log, history: History) -> Head:
    return Head(history.origin.store, len(log.hashes), log.hashes[-1])
