"""What a protocol declares of its messages in advance: fields, shapes, bounds, disclosures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from unpooled.messages.codec import DTYPES

Disclosure = Literal["rows", "sums", "counts", "model", "network-weights"]
DISCLOSURES: tuple[Disclosure, ...] = ("rows", "sums", "counts", "model", "network-weights")


@dataclass(frozen=True)
class Columns:
    """An axis of ``times`` d + ``plus`` entries, where d is how many columns the data have."""

    times: int = 1
    plus: int = 0


@dataclass(frozen=True)
class AtMost:
    """An axis of 0 to ``most`` entries; ``inf`` where no bound is known in advance.

    Axes of one name are equally long, in a message and in the answer to it.
    """

    most: float
    name: str = ""


COLUMNS = Columns()
FINITE = float(np.finfo(np.float64).max)
"""A bound that only infinity is beyond."""
Size: TypeAlias = int | Columns | AtMost


@dataclass(frozen=True)
class Release:
    """A kind of message that a protocol may send, declared in advance.

    ``fields`` names everything that may be in it; ``discloses`` says what can be read from it:
    ``rows`` (some row itself, or values of single rows), ``sums`` over rows, ``counts`` of rows,
    ``model`` (parameters from which none of these follows), or ``network-weights`` (a network that
    was trained on rows, from which they might be made out). ``why`` says it in words. Where a party
    is its cells, "rows" are cells.

    ``shapes`` has the sizes of a field's axes; a field that is in it is in every message of the
    kind. In a mesh they are those of one user's part, without the axis of users that comes first.
    ``additive`` names the fields that add up over parties, ``union`` those that are put one after
    the other: :mod:`unpooled.messages.aggregate` does both, and a release that has any of them says
    it of every field. ``optional`` are fields that may be missing although they have a shape.

    ``bounds`` says how far from 0 numbers may lie: up to :data:`unpooled.data.tables.LARGEST` if
    nothing is said, anywhere with ``FINITE``, and ``inf`` admits infinity too. ``types`` names what
    is not float64. :mod:`unpooled.messages.conform` compares messages with all this.
    """

    kind: str
    fields: tuple[str, ...]
    discloses: tuple[Disclosure, ...]
    why: str
    shapes: Mapping[str, tuple[Size, ...]] = field(default_factory=dict, kw_only=True, hash=False)
    bounds: Mapping[str, float] = field(default_factory=dict, kw_only=True, hash=False)
    types: Mapping[str, str] = field(default_factory=dict, kw_only=True, hash=False)
    additive: tuple[str, ...] = field(default=(), kw_only=True)
    union: tuple[str, ...] = field(default=(), kw_only=True)
    optional: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not self.discloses or not set(self.discloses) <= set(DISCLOSURES):
            raise ValueError(f"{self.kind!r} must disclose some of {DISCLOSURES}.")
        for name in (*self.shapes, *self.bounds, *self.types, *self.additive, *self.union):
            if name not in self.fields:
                raise ValueError(f"{self.kind!r} has no field {name!r} to say anything about.")
        if self.aggregated and {*self.additive, *self.union} != set(self.fields):
            raise ValueError(f"{self.kind!r} must say of every field how parties' add up.")
        for name, dtype in self.types.items():
            if np.dtype(dtype) not in DTYPES:
                raise ValueError(f"{name!r} of {self.kind!r} cannot travel as {dtype}.")

    @property
    def aggregated(self) -> bool:
        """Whether replies of this kind reach the coordinator as one body."""
        return bool(self.additive or self.union)
