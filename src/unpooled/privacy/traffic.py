"""How much travelled: counted per party, kind and round, summed up on demand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from unpooled.types import Array, IntArray, PartyId


@dataclass(frozen=True)
class Entry:
    """Messages of one kind in one exchange: ``copies[i]`` of them at the block's user ``i``.

    All users send arrays of one shape in an exchange, so size and count tell everything, and an
    exchange of a hundred thousand users costs one line.
    """

    kind: str
    round: int
    exchange: int
    way: Literal["up", "down"]
    bytes_each: int
    floats_each: int
    copies: IntArray
    times: int = 1
    """In how many rounds and exchanges in a row, from this one on."""


_COLUMNS = ("messages", "floats_up", "floats_down", "bytes_up", "bytes_down")


@dataclass(frozen=True)
class Traffic:
    """What a fit sent.

    ``rounds`` counts exchanges in which any party sent; ``up`` is what parties send, ``down`` what
    reaches them; a number of any type counts as one float. ``by_party``, ``by_kind`` and
    ``by_round`` give ``messages floats_up floats_down bytes_up bytes_down`` for every party, kind
    of message, and (kind, round). ``table`` has the same per party as a structured array, one line
    each (``pandas.DataFrame(traffic.table)`` makes a data frame of it).
    """

    rounds: int
    messages: int
    floats_up: int
    floats_down: int
    bytes_up: int
    bytes_down: int
    table: Array
    by_kind: dict[str, dict[str, int]]
    by_round: dict[tuple[str, int], dict[str, int]]

    @cached_property
    def by_party(self) -> dict[PartyId, dict[str, int]]:
        """The counts of every party, made when first asked for: there may be a million."""
        parties = self.table["party"].tolist()
        counts = zip(*(self.table[column].tolist() for column in _COLUMNS), strict=True)
        return {
            party: dict(zip(_COLUMNS, own, strict=True))
            for party, own in zip(parties, counts, strict=True)
        }

    def __getitem__(self, name: str) -> Any:
        """``traffic["bytes_up"]``, the same as ``traffic.bytes_up``."""
        if name != "by_party" and name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __str__(self) -> str:
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        return (
            f"{rounds}, {self.messages} messages, {self.floats_up} numbers "
            f"({self.bytes_up} bytes) sent by {len(self.table)} parties"
        )

    @classmethod
    def of(cls, names: tuple[PartyId, ...], entries: Iterable[tuple[IntArray, Entry]]) -> Traffic:
        """Sums up the entries of all blocks, each with the numbers of its block's users."""
        per_party = {column: np.zeros(len(names), dtype=np.int64) for column in _COLUMNS}
        per_kind: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_COLUMNS, 0))
        per_round: dict[tuple[str, int], dict[str, int]] = defaultdict(
            lambda: dict.fromkeys(_COLUMNS, 0)
        )
        exchanges: set[int] = set()
        for users, entry in entries:
            counts = {
                f"floats_{entry.way}": entry.floats_each,
                f"bytes_{entry.way}": entry.bytes_each,
            }
            if entry.way == "up":
                counts["messages"] = 1
                exchanges.update(range(entry.exchange, entry.exchange + entry.times))
            copies = int(entry.copies.sum())
            for column, each in counts.items():
                per_party[column][users] += each * entry.times * entry.copies
                per_kind[entry.kind][column] += each * entry.times * copies
                for number in range(entry.round, entry.round + entry.times):
                    per_round[entry.kind, number][column] += each * copies
        return cls(
            rounds=len(exchanges),
            **{column: int(values.sum()) for column, values in per_party.items()},
            table=_table(names, per_party),
            by_kind=dict(per_kind),
            by_round=dict(per_round),
        )


def _table(names: tuple[PartyId, ...], columns: dict[str, IntArray]) -> Array:
    party = np.asarray(names) if names else np.empty(0, dtype="U1")
    table = np.empty(
        len(names), dtype=[("party", party.dtype), *((column, np.int64) for column in columns)]
    )
    table["party"] = party
    for column, values in columns.items():
        table[column] = values
    return table
