"""Rows that are no array: mapped on the fly, or some of another source's.

A :class:`unpooled.types.RowSource` has a ``shape``, gives slices, and takes rows by their numbers;
both come as arrays. Steps of parties go through rows in chunks, so that a table which does not fit
into the memory, or is made as it is read, costs no more than a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unpooled.parallel import in_chunks
from unpooled.types import FloatArray, IntArray, Rows, take_rows


@dataclass(frozen=True)
class MappedRows:
    """Another source's rows, each mapped when it is asked for.

    ``n_columns`` is how many columns mapped rows have; None if they are as many as before.
    """

    source: Rows
    map: Callable[[FloatArray], FloatArray]
    n_columns: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, d = self.source.shape
        return n, d if self.n_columns is None else self.n_columns

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, span: slice) -> FloatArray:
        return self.map(self.source[span])

    def take(self, indices: IntArray) -> FloatArray:
        """These rows, in this order."""
        return self.map(take_rows(self.source, indices))

    def all(self) -> FloatArray:
        """All of them, mapped chunk by chunk."""
        whole: FloatArray = np.empty(self.shape)

        def put(span: slice) -> None:
            whole[span] = self[span]

        in_chunks(put, (self.shape[0], max(self.shape[1], self.source.shape[1])))
        return whole


@dataclass(frozen=True)
class SelectedRows:
    """Some rows of another source."""

    source: Rows
    indices: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.indices), self.source.shape[1]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, span: slice) -> FloatArray:
        return take_rows(self.source, self.indices[span])

    def take(self, indices: IntArray) -> FloatArray:
        """These rows, in this order."""
        return take_rows(self.source, self.indices[indices])
