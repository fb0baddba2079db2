"""What an attack comes to: how many rows it found, of how many, and what there is to say about it.

A row counts as recovered if a guess lies within a tolerance of it. Whoever attacks for real cannot
check guesses against the rows; here it is what tells how much the numbers that left give away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.types import BoolArray, FloatArray

EXACT = 1e-6
"""How near a guess must be, in units of the rows' spread, to count as the row itself."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one attack on one method."""

    name: str
    """Of the attack."""
    rows_recovered: int
    of: int
    """How many rows there were to recover."""
    detail: str = ""
    applies: bool = True
    """Whether there is anything in the method for the attack to act on."""
    messages: int = 0
    """How many messages of the attacked parties were read. If there were none, that nothing was
    recovered says nothing about the attack."""
    refusal: str = ""
    """Why a run ended early, if one did: then rows were safe because it was refused."""


def does_not_apply(name: str, why: str) -> Outcome:
    """The outcome of an attack that has nothing to act on; ``why`` is a sentence."""
    return Outcome(name, 0, 0, f"does not apply: {why}", applies=False)


def spread_of(rows: FloatArray) -> float:
    """The unit of tolerances: the root mean square deviation of a value from its column's mean."""
    spread = float(np.sqrt(rows.var(axis=0).mean())) if len(rows) else 0.0
    return spread or 1.0


def matched(rows: FloatArray, guesses: FloatArray, tolerance: float) -> BoolArray:
    """Which rows some guess lies within the tolerance of.

    Both are projected on one random direction, along which they can be sorted: what is not near
    there is not near at all.
    """
    found = np.zeros(len(rows), dtype=bool)
    if not len(guesses):
        return found
    direction = unit(rows.shape[1])
    along = guesses @ direction
    order = np.argsort(along, kind="stable")
    along, at = along[order], rows @ direction
    first = np.searchsorted(along, at - tolerance)
    last = np.searchsorted(along, at + tolerance)
    for i in np.flatnonzero(last > first):
        near = guesses[order[first[i] : last[i]]] - rows[i]
        found[i] = np.linalg.norm(near, axis=1).min() <= tolerance
    return found


def unit(n_columns: int) -> FloatArray:
    """A direction in which no two things coincide but by being the same."""
    direction = np.random.default_rng(7).normal(size=n_columns)
    return np.asarray(direction / np.linalg.norm(direction))


def count_in(tables: Sequence[FloatArray]) -> int:
    """Rows of all tables."""
    return sum(map(len, tables))
