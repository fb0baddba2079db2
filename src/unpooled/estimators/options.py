"""Checks of the options that people give estimators, one clear sentence each."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from unpooled.checks import whole
from unpooled.errors import DomainError, InputError
from unpooled.losses import Loss
from unpooled.protocols.starts import NAMES, Start
from unpooled.tables import Table
from unpooled.types import FloatArray

_LOG = logging.getLogger("unpooled")


def start(init: Any, init_rounds: Any, n_clusters: int, table: Table) -> Start:
    """How centres start, checked against the data's shape."""
    rounds = whole("init_rounds", init_rounds, 0)
    if isinstance(init, str):
        if init not in NAMES:
            raise InputError(
                f"init={init!r} is not known; give one of {', '.join(map(repr, NAMES))} or an "
                "array of starting centres."
            )
        return Start(n_clusters, init, rounds)
    centers = _centers(init)
    shared = (n_clusters, table.parties.n_features)
    if centers.shape not in (shared, (len(table.parties), *shared)):
        raise InputError(
            f"init has shape {centers.shape}; it must be {shared} for all parties alike or "
            f"{(len(table.parties), *shared)}, one slice per party."
        )
    if not np.isfinite(centers).all():
        raise InputError("init has a NaN or infinite value; starting centres must be finite.")
    return Start(n_clusters, centers, rounds)


def _centers(init: Any) -> FloatArray:
    try:
        return np.array(init, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"init is a {type(init).__name__} that is no array of numbers; give one of "
            f"{', '.join(map(repr, NAMES))} or an array of starting centres."
        ) from None


def refuse_too_many_clusters(n_clusters: int, table: Table) -> None:
    """K centres need K distinct rows, wherever they are.

    scikit-learn's own checks fit plain tables with fewer, and its k-means warns and goes on; so
    for a plain table this does too.
    """
    rows = table.parties.rows
    if len(np.unique(rows[: 4 * n_clusters], axis=0)) >= n_clusters:
        return  # almost always settled by a few rows
    distinct = len(np.unique(rows, axis=0))
    if table.plain and distinct < n_clusters <= len(rows):
        _LOG.warning(
            "n_clusters=%d but only %d rows are distinct: some centres will repeat others.",
            n_clusters,
            distinct,
        )
    elif distinct < n_clusters:
        raise InputError(
            f"n_clusters={n_clusters} is more than the {distinct} distinct rows of all parties "
            f"together (n_samples={len(rows)}); ask for at most {distinct}."
        )


def refuse_rows_outside(loss: Loss, table: Table) -> None:
    """Every row must be one the loss is defined for."""
    accepted = loss.accepts(table.parties.rows)
    if accepted.all():
        return
    row = int(np.flatnonzero(~accepted)[0])
    values = table.parties.rows[row]
    low, high = loss.domain
    # Where no single value is outside the closed domain, it is one on the boundary.
    column = int(np.argmax((values < low) | (values > high) | (values == low) | (values == high)))
    raise DomainError(
        f"Party {table.parties.names[table.parties.owner[row]]} has the value "
        f"{values[column]:.6g} in column {table.column(column)}, where "
        f"{getattr(loss, 'name', type(loss).__name__)} is not defined; its domain is "
        f"({low:g}, {high:g}): shift the data or choose another loss."
    )
