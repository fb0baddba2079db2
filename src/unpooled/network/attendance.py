"""Who took part in a run without a coordinator: every peer's own account, passed on to all.

A peer that has come to its end says, with its good-bye, until when it heard each of its neighbours.
Accounts are passed on from neighbour to neighbour, so in the end everybody has those of all whom
it can reach. The *result's members* are then all who are joined to a peer by links whose two ends
heard each other to the end: their rows count in its result. An account is a line of four numbers
for each neighbour: the peer, the last exchange it took part in, the neighbour, and the exchange
from which on that neighbour was not heard (:data:`HEARD` if it was heard to the end).

Numbers of peers are those of the plan. Accounts are believed, as all that neighbours say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from unpooled.types import IntArray

HEARD = -1
_NONE = -1
"""In place of a neighbour, in the account of a peer that has none."""


@dataclass(frozen=True)
class Account:
    """What one peer says of its own run."""

    last: int
    """The last exchange it took part in."""
    since: Mapping[int, int]
    """By neighbour, from which exchange on it was not heard; HEARD if it was to the end."""


class Attendance:
    """All accounts that a peer knows of, of ``n_peers``."""

    def __init__(self, n_peers: int) -> None:
        self._n = n_peers
        self._accounts: dict[int, Account] = {}

    @property
    def peers(self) -> frozenset[int]:
        """Those whose accounts are known."""
        return frozenset(self._accounts)

    def add(self, peer: int, account: Account) -> None:
        """Notes an account; a peer's first one stands."""
        self._accounts.setdefault(peer, account)

    def add_lines(self, lines: IntArray) -> bool:
        """Notes what a neighbour passed on; whether there was anything new, or ValueError."""
        if lines.ndim != 2 or lines.shape[1] != 4 or lines.dtype != np.int64:
            raise ValueError("accounts have four whole numbers a line")
        if len(lines) > self._n**2 or (lines < -1).any() or (lines[:, [0, 2]] >= self._n).any():
            raise ValueError("accounts of peers that nobody knows")
        if (lines[:, 0] < 0).any():
            raise ValueError("accounts of nobody")
        before = len(self._accounts)
        for peer in np.unique(lines[:, 0]).tolist():
            own = lines[lines[:, 0] == peer]
            since = {int(other): int(end) for _, _, other, end in own if other != _NONE}
            self.add(peer, Account(int(own[0, 1]), since))
        return len(self._accounts) > before

    @property
    def lines(self) -> IntArray:
        """All accounts, as they are passed on."""
        lines = [
            (peer, account.last, other, since)
            for peer, account in sorted(self._accounts.items())
            for other, since in (account.since or {_NONE: HEARD}).items()
        ]
        return np.array(lines, dtype=np.int64).reshape(-1, 4)

    @property
    def complete(self) -> bool:
        """Whether nobody who was heard to the end has yet to give its account."""
        return all(
            other in self._accounts
            for account in self._accounts.values()
            for other, since in account.since.items()
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
        reported = [a.since[peer] for a in self._accounts.values() if peer in a.since]
        return None if not reported or HEARD in reported else max(reported)

    def _heard(self, peer: int) -> Iterable[int]:
        account = self._accounts.get(peer)
        return () if account is None else [o for o, s in account.since.items() if s == HEARD]
