"""Checks of the options that people give estimators, one clear sentence each."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unpooled.checks import flag, whole
from unpooled.data.parties import Parties
from unpooled.data.tables import LARGEST, Table
from unpooled.errors import DomainError, InputError
from unpooled.kernels.lloyd.kmeans import distinct_rows
from unpooled.losses import Loss
from unpooled.privacy.policy import POLICIES, Policy, as_policy
from unpooled.protocols.mesh.shared.initial_centers import INIT_NAMES, InitialCenters
from unpooled.types import FloatArray, PartyId

AUTO_STARTS = 10
"""Starts of a party's own k-means that n_init="auto" stands for."""


def start(
    init: Any, init_rounds: Any, n_clusters: int, parties: Parties, align: Any = False
) -> InitialCenters:
    """How centres start, checked against the data's shape."""
    rounds, align = whole("init_rounds", init_rounds, 0), flag("align", align)
    if isinstance(init, str):
        if init not in INIT_NAMES:
            raise InputError(
                f"init={init!r} is not known; give one of {', '.join(map(repr, INIT_NAMES))} or an "
                "array of starting centres."
            )
        return InitialCenters(n_clusters, init, rounds, align=align)
    centers = _centers(init, INIT_NAMES)
    shared = (n_clusters, parties.n_features)
    if centers.shape not in (shared, (len(parties), *shared)):
        raise InputError(
            f"init has shape {centers.shape}; it must be {shared} for all parties alike or "
            f"{(len(parties), *shared)}, one slice per party."
        )
    if align and centers.ndim == 2:
        raise InputError(
            "align=True has nothing to do: init is one array for all parties; leave align out."
        )
    return InitialCenters(n_clusters, centers, rounds, align=align)


def given_centers(
    init: Any, n_clusters: int, parties: Parties, name: str = "one-shot"
) -> FloatArray:
    """Starting centres for all parties alike; ``name`` is what to give instead."""
    centers = _centers(init, (name,))
    if centers.shape != (n_clusters, parties.n_features):
        raise InputError(
            f"init has shape {centers.shape}; it must be {(n_clusters, parties.n_features)}."
        )
    return centers


def _centers(init: Any, names: Sequence[str]) -> FloatArray:
    try:
        if np.iscomplexobj(init):
            raise TypeError
        centers: FloatArray = np.array(init, dtype=np.float64, order="C")
    except (OverflowError, TypeError, ValueError):
        raise InputError(
            f"init is a {type(init).__name__} that is no array of numbers; give "
            f"{' or '.join(map(repr, names))} or an array of starting centres."
        ) from None
    if not (np.abs(centers) <= LARGEST).all():
        raise InputError(
            f"init has a value that is NaN or beyond {LARGEST:g}; starting centres must be finite."
        )
    return centers


def policy(given: Any, names: Sequence[PartyId]) -> Policy | Mapping[PartyId, Policy]:
    """The policy of all parties, or each one's own."""
    if isinstance(given, Mapping):
        unknown = [name for name in given if str(name) not in names]
        if unknown:
            raise InputError(f"policy names {unknown[0]!r}, which is no party; leave it out.")
        return {str(name): _named_policy(own) for name, own in given.items()}
    return _named_policy(given)


def _named_policy(given: Any) -> Policy:
    if isinstance(given, str) and given in POLICIES:
        return POLICIES[given]
    if isinstance(given, str) or not hasattr(given, "review") or isinstance(given, type):
        raise InputError(
            f"policy={given!r} is not known; give {' or '.join(map(repr, POLICIES))}, a policy of "
            "unpooled.privacy, or a dict with one for each party."
        )
    return as_policy(given)


def starts(n_init: Any, auto: int = AUTO_STARTS) -> int:
    """How often something is started, which "auto" leaves to us."""
    return auto if isinstance(n_init, str) and n_init == "auto" else whole("n_init", n_init, 1)


def refuse_too_many_clusters(n_clusters: int, table: Table) -> int | None:
    """K centres need K distinct rows, wherever they are.

    scikit-learn's own checks fit plain tables with fewer, and its k-means warns and goes on; so for
    a plain table this goes on too, and returns how many distinct rows there are.
    """
    rows = table.parties.rows
    few = distinct_rows(rows, n_clusters - 1)
    if few is None:
        return None
    distinct = len(few[0])
    if table.plain and n_clusters <= len(rows):
        return distinct
    raise InputError(
        f"n_clusters={n_clusters} is more than the {distinct} distinct rows of all parties "
        f"together (n_samples={len(rows)}); ask for at most {distinct}."
    )


def warn_of_repeats(distinct: int, n_clusters: int) -> None:
    """Warns, as scikit-learn does, that centres repeat each other for want of distinct rows."""
    warnings.warn(
        f"Number of distinct clusters ({distinct}) found smaller than n_clusters ({n_clusters}). "
        "Possibly due to duplicate points in X.",
        ConvergenceWarning,
        stacklevel=4,
    )


def refuse_no_extent(table: Table) -> None:
    """Squares of distances must not vanish, nor their sums overflow."""
    total = float(table.parties.weights.sum())
    low, high = table.extent
    largest = float(np.maximum(-low, high).max())
    if largest > 0 and 2 * np.log10(largest) + np.log10(total) > 2 * np.log10(LARGEST):
        raise InputError(
            f"Values up to {largest:g} with weights that add up to {total:g} overflow when squared "
            "and summed; rescale either first."
        )
    extent = (high - low).max()
    if 0 < extent < 1 / LARGEST:
        raise InputError(
            f"The rows of all parties together extend over {extent:g} only, which is lost when "
            "squared; rescale the data first."
        )


def refuse_broken_loss(loss: Loss, table: Table) -> None:
    """Tries the loss on one row, so that what is wrong with it shows before anything is sent."""
    row = table.parties.rows[:1]
    try:
        with np.errstate(all="ignore"):
            shapes = np.shape(loss.dissimilarity(row, row)), np.shape(loss.gradient(row, row))
    except Exception as error:
        raise InputError(
            f"{loss.name} cannot be evaluated on rows of "
            f"{row.shape[1]} columns ({type(error).__name__}); give one made for them."
        ) from error
    if shapes != ((1,), row.shape):
        raise InputError(
            f"{loss.name} gives values and gradients of shapes "
            f"{shapes[0]} and {shapes[1]} for a row of {row.shape[1]} columns; it must give (1,) "
            f"and {row.shape}."
        )


def refuse_rows_outside(loss: Loss, table: Table) -> None:
    """Every row must be one the loss is defined for."""
    accepted = loss.accepts(table.parties.rows)
    if accepted.all():
        return
    row = int(np.flatnonzero(~accepted)[0])
    values = table.parties.rows[row]
    low, high = loss.domain
    outside = (values < low) | (values > high)
    # Where no value is outside the closed domain, the loss does not take its boundary.
    column = int(np.argmax(outside if outside.any() else (values == low) | (values == high)))
    raise DomainError(
        f"Party {table.parties.names[table.parties.owner[row]]} has the value "
        f"{values[column]:.6g} in column {table.column(column)}, where "
        f"{loss.name} is not defined; its domain is "
        f"({low:g}, {high:g}): shift the data or choose another loss."
    )
