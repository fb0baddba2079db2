"""Who took part in a run without a coordinator: every peer's own report, passed on to all.

A peer that has terminated reports until when it heard each of its neighbours. Reports are passed on
from neighbour to neighbour, so in the end everybody has those of all whom it can reach. The
*members* of a result are then all who are joined to a peer by links whose two ends heard each other
to the end: their rows count in its result. A report is a line of four numbers for each neighbour:
the peer, the last exchange it took part in, the neighbour, and the exchange from which on that
neighbour was not heard (:data:`HEARD` if it was heard to the end).

Numbers of peers are those of the plan. Reports are believed, as all that neighbours send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from unpooled.types import IntArray

HEARD = -1
_NONE = -1
"""In place of a neighbour, in the report of a peer that has none."""


@dataclass(frozen=True)
class PeerReport:
    """What one peer reports of its own run."""

    last: int
    """The last exchange it took part in."""
    since: Mapping[int, int]
    """By neighbour, from which exchange on it was not heard; HEARD if it was to the end."""


class Membership:
    """All reports that a peer knows of, of ``n_peers``."""

    def __init__(self, n_peers: int) -> None:
        self._n = n_peers
        self._reports: dict[int, PeerReport] = {}

    @property
    def peers(self) -> frozenset[int]:
        """Those whose reports are known."""
        return frozenset(self._reports)

    def add(self, peer: int, report: PeerReport) -> None:
        """Adds a report; a peer's first one stands."""
        self._reports.setdefault(peer, report)

    def add_lines(self, lines: IntArray) -> bool:
        """Adds what a neighbour passed on; whether there was anything new, or ValueError."""
        if lines.ndim != 2 or lines.shape[1] != 4 or lines.dtype != np.int64:
            raise ValueError("accounts have four whole numbers a line")
        if len(lines) > self._n**2 or (lines < -1).any() or (lines[:, [0, 2]] >= self._n).any():
            raise ValueError("accounts of peers that nobody knows")
        if (lines[:, 0] < 0).any():
            raise ValueError("accounts of nobody")
        before = len(self._reports)
        for peer in np.unique(lines[:, 0]).tolist():
            own = lines[lines[:, 0] == peer]
            since = {int(other): int(end) for _, _, other, end in own if other != _NONE}
            self.add(peer, PeerReport(int(own[0, 1]), since))
        return len(self._reports) > before

    @property
    def lines(self) -> IntArray:
        """All reports, as they are passed on."""
        lines = [
            (peer, report.last, other, since)
            for peer, report in sorted(self._reports.items())
            for other, since in (report.since or {_NONE: HEARD}).items()
        ]
        return np.array(lines, dtype=np.int64).reshape(-1, 4)

    @property
    def complete(self) -> bool:
        """Whether nobody who was heard to the end has yet to report."""
        return all(
            other in self._reports
            for report in self._reports.values()
            for other, since in report.since.items()
            if since == HEARD
        )

    def members(self, peer: int) -> set[int]:
        """Whose rows count in this peer's result, its own included."""
        found, fresh = {peer}, [peer]
        while fresh:
            one = fresh.pop()
            for other in self._heard(one):
                if other not in found and one in self._heard(other):
                    found.add(other)
                    fresh.append(other)
        return found

    def missing_since(self, peer: int) -> int | None:
        """From which exchange on no neighbour heard this peer; None if nobody can tell."""
        reported = [own.since[peer] for own in self._reports.values() if peer in own.since]
        return None if not reported or HEARD in reported else max(reported)

    def _heard(self, peer: int) -> Iterable[int]:
        report = self._reports.get(peer)
        return () if report is None else [o for o, s in report.since.items() if s == HEARD]
