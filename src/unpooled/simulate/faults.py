"""What can go wrong in a run, written down in advance.

Exchanges are counted from 0 over the whole run, the start included. ``until`` is the first exchange
in which the thing works again; None means never.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from unpooled.errors import InputError
from unpooled.types import BoolArray, IntArray


@dataclass(frozen=True)
class LinkLost:
    """Nothing gets through between users ``a`` and ``b``, either way."""

    a: int
    b: int
    since: int
    until: int | None = None


@dataclass(frozen=True)
class UserDown:
    """User (or star party) ``user`` stops: it neither sends, hears nor computes.

    When it returns it still has what it knew.
    """

    user: int
    since: int
    until: int | None = None


@dataclass(frozen=True)
class Deaf:
    """User ``user`` does not hear its neighbour, which may well hear the user."""

    user: int
    neighbour: int
    since: int
    until: int | None = None


@dataclass(frozen=True)
class AnswerLost:
    """What star party ``user`` answers does not reach the coordinator; the party has said it."""

    user: int
    since: int
    until: int | None = None


@dataclass(frozen=True)
class MessagesLost:
    """In a mesh, every message is lost with probability ``rate``, and sent again until it arrives.

    Nothing but time is lost by it: see :class:`unpooled.simulate.retransmission.Retransmission`.
    """

    rate: float
    seed: int = 0


Fault = LinkLost | UserDown | Deaf | AnswerLost | MessagesLost


class Faults:
    """The state of links and users in every exchange."""

    def __init__(self, faults: Iterable[Fault], n_users: int) -> None:
        faults = tuple(faults)
        self.losses = tuple(fault for fault in faults if isinstance(fault, MessagesLost))
        self._faults = tuple(fault for fault in faults if not isinstance(fault, MessagesLost))
        self._n_users = n_users
        for loss in self.losses:
            if not 0 <= loss.rate < 1:
                raise InputError(f"{loss} must lose a share of messages from 0 to below 1.")
        for fault in self._faults:
            users = [
                getattr(fault, end)
                for end in ("user", "neighbour", "a", "b")
                if hasattr(fault, end)
            ]
            if not all(0 <= user < n_users for user in users):
                raise InputError(f"{fault} names a user that is not among 0..{n_users - 1}.")
            if fault.since < 0 or (fault.until is not None and fault.until <= fault.since):
                raise InputError(f"{fault} is never in force; until must be after since.")

    def any_at(self, exchange: int) -> bool:
        """Whether anything is wrong in this exchange."""
        return bool(self._at(exchange))

    def awake(self, exchange: int) -> BoolArray:
        """Which users are up."""
        awake = np.ones(self._n_users, dtype=bool)
        for fault in self._at(exchange):
            if isinstance(fault, UserDown):
                awake[fault.user] = False
        return awake

    def answers_lost(self, exchange: int) -> set[int]:
        """Whose answers do not arrive."""
        return {fault.user for fault in self._at(exchange) if isinstance(fault, AnswerLost)}

    def carries(self, exchange: int, a: IntArray, b: IntArray) -> BoolArray:
        """Over which of the links does a[l] hear b[l], whatever these users do."""
        up = np.ones(len(a), dtype=bool)
        for fault in self._at(exchange):
            if isinstance(fault, LinkLost):
                up &= ~((a == fault.a) & (b == fault.b)) & ~((a == fault.b) & (b == fault.a))
            elif isinstance(fault, Deaf):
                up &= ~((a == fault.user) & (b == fault.neighbour))
        return up

    def _at(self, exchange: int) -> list[LinkLost | UserDown | Deaf | AnswerLost]:
        return [
            fault
            for fault in self._faults
            if fault.since <= exchange and (fault.until is None or exchange < fault.until)
        ]
