"""Names that every part shares: aliases of arrays, their one layout, and sources of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

PartyId: TypeAlias = str
Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

A = TypeVar("A", bound=Array)
PerRow: TypeAlias = A | list[A] | tuple[A, ...] | dict[Any, A]
"""One value or line for each row, in the container of X: an array for one table, else a list,
tuple or dict with an array for each party."""

Body: TypeAlias = Mapping[str, Array]
"""What a message carries, what a star party keeps between messages, what a protocol returns."""


class RowSource(Protocol):
    """Rows that need not be in memory: anything with a shape, slices, and rows by their numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> FloatArray: ...

    def take(self, indices: IntArray, /) -> FloatArray:
        """These rows, in this order."""


Rows: TypeAlias = FloatArray | RowSource
"""A table of rows as steps see it: slices of it are arrays."""


def take_rows(rows: Rows, indices: IntArray) -> FloatArray:
    """Rows by their numbers, in this order."""
    return rows[indices] if isinstance(rows, np.ndarray) else rows.take(indices)


def all_rows(rows: Rows) -> FloatArray:
    """All rows as one array, for what cannot do with less."""
    return rows if isinstance(rows, np.ndarray) else rows[0 : len(rows)]


AnyArray = TypeVar("AnyArray", bound=Array)


def in_c_order(values: AnyArray) -> AnyArray:
    """The same numbers in C order, aligned, in the processor's own byte order.

    How numbers lie in memory decides in which order they are added up, and so the last digit of a
    sum: whatever enters a step, a coordinator or a peer is brought into this one layout first. An
    array that has it is handed back as it is.
    """
    if not (values.flags.c_contiguous and values.flags.aligned and values.dtype.isnative):
        return np.array(values, dtype=values.dtype.newbyteorder("="), order="C")  # type: ignore[return-value]
    if values.ndim > 1 and 1 in values.shape:
        # The stride of an axis of one may be anything, and BLAS is chosen by it.
        return values.reshape(-1).reshape(values.shape)  # type: ignore[return-value]
    return values
