"""Models of prepared rows: they carry what rows were prepared by, so that new ones come raw.

A run on a network may standardise columns before it clusters. Its model has, beside what every
model has, ``preparations_`` (fitted, in order) and ``prepared_centers_``: the centres where
prepared rows lie, by which rows are labelled, as they were in the run, to the last bit.
``cluster_centers_`` are then the same centres in the units of the columns.

Where centres lie in a space of the method's own (kernels, networks) there are no such units:
``cluster_centers_`` stay in that space, and are the only ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from unpooled.data.tables import LARGEST, Table
from unpooled.errors import InputError
from unpooled.types import FloatArray

_CARRIED = ("preparations_", "prepared_centers_")


class FittedPreparation(Protocol):
    """What a model may carry: something fitted that maps rows."""

    def _prepared(self, rows: FloatArray) -> FloatArray:
        """The rows as the method is to see them."""


def carry(
    model: Any, preparations: Sequence[FittedPreparation], in_columns: FloatArray | None
) -> None:
    """Has a model fitted on prepared rows take raw ones; its centres in columns' units, if any."""
    model.preparations_ = tuple(preparations)
    if in_columns is not None:
        model.prepared_centers_, model.cluster_centers_ = model.cluster_centers_, in_columns


def forget(model: Any) -> None:
    """Before the model is fitted anew."""
    for name in _CARRIED:
        model.__dict__.pop(name, None)


def centers(model: Any) -> FloatArray:
    """The centres where prepared rows lie."""
    found: FloatArray = vars(model).get("prepared_centers_", model.cluster_centers_)
    return found


def rows(model: Any, table: Table) -> Table:
    """New rows, prepared."""
    for preparation in getattr(model, "preparations_", ()):
        with np.errstate(over="ignore", invalid="ignore"):
            mapped = preparation._prepared(table.parties.rows)
        if not (np.abs(mapped) <= LARGEST).all():
            raise InputError(
                f"Prepared as {type(model).__name__} needs them, rows lie beyond {LARGEST:g}, "
                "where no distance is a number; see that the columns are those of the fit."
            )
        table = replace(table, parties=replace(table.parties, rows=mapped))
    return table
