"""Maxima over all users that step sizes and stopping depend on, found by one max-consensus.

A method names the bounds that it needs. Each user computes its own value of each, and all users
then know the largest. Where a minimum is needed, users send the value with its sign changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from unpooled.errors import InputError
from unpooled.kernels.linalg.segments import scatter_by_user
from unpooled.losses import Loss
from unpooled.messages.release import FINITE, Columns, Disclosure, Release
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.shared.max_consensus import max_consensus
from unpooled.types import FloatArray

GlobalBounds: TypeAlias = Mapping[str, FloatArray]
"""The maxima by name, each (users, n) as the block's users know them."""


def find_bounds(block: Block, centers: FloatArray, needed: Sequence[str]) -> Peer[GlobalBounds]:
    """The largest over all users of each needed entry of ``OWN_VALUES``."""
    if not needed:
        return {}
    own = [OWN_VALUES[name](block, centers) for name in needed]
    largest = yield from max_consensus(block, "limits", np.concatenate(own, axis=1))
    ends = np.cumsum([values.shape[1] for values in own])
    return dict(zip(needed, np.split(largest, ends[:-1], axis=1), strict=True))


def bounds_releases(needed: Sequence[str]) -> tuple[Release, ...]:
    """What `find_bounds` sends."""
    if not needed:
        return ()
    discloses = tuple(dict.fromkeys(DISCLOSES[name] for name in needed))
    wide = sum(name in BOX for name in needed)  # these have a value for every column
    return (
        Release(
            "limits",
            ("largest",),
            discloses,
            f"largest over users: {', '.join(needed)}",
            shapes={"largest": (Columns(wide, len(needed) - wide),)},
            bounds={"largest": FINITE},
        ),
    )


def _weight(block: Block, centers: FloatArray) -> FloatArray:
    """sum_r w_ir"""
    return block.parties.total_weights[:, None]


def _edge_degree(block: Block, centers: FloatArray) -> FloatArray:
    """deg_i + deg_j, the largest over a user's edges; over all edges it bounds lambda_max(L)."""
    return block.neighbourhood.edge_degrees[:, None].astype(np.float64)


def _minus_degree(block: Block, centers: FloatArray) -> FloatArray:
    """-|N_i|"""
    return -block.neighbourhood.degrees[:, None].astype(np.float64)


def _spread(block: Block, centers: FloatArray) -> FloatArray:
    """The root mean square deviation of a user's rows from their mean."""
    p = block.parties
    _, squares, weight = scatter_by_user(p.rows, p.owner, p.weights, len(block))
    return np.sqrt(squares / weight)[:, None]


def _high(block: Block, centers: FloatArray) -> FloatArray:
    """The largest value of each column among rows and starting centres."""
    high: FloatArray = centers.max(axis=1)
    np.maximum.at(high, block.parties.owner, block.parties.rows)
    return high


def _minus_low(block: Block, centers: FloatArray) -> FloatArray:
    """Minus the smallest value of each column among rows and starting centres."""
    low: FloatArray = centers.min(axis=1)
    np.minimum.at(low, block.parties.owner, block.parties.rows)
    return -low


OWN_VALUES: dict[str, Callable[[Block, FloatArray], FloatArray]] = {
    "weight": _weight,
    "edge degree": _edge_degree,
    "minus degree": _minus_degree,
    "spread": _spread,
    "high": _high,
    "minus low": _minus_low,
}
DISCLOSES: dict[str, Disclosure] = {
    "weight": "counts",
    "edge degree": "model",
    "minus degree": "model",
    "spread": "sums",
    "high": "rows",
    "minus low": "rows",
}
BOX = ("high", "minus low")
"""The corners of the smallest box that holds all rows and starting centres."""


def smoothness(loss: Loss, bounds: GlobalBounds) -> FloatArray:
    """beta_f as each user knows it, (users, 1); refused where no finite bound is known."""
    known = np.empty((1, 0))
    if loss.needs_box:
        known = np.concatenate([-bounds["minus low"], bounds["high"]], axis=1)
    # Connected users know the same box; users without links each have their own.
    boxes, place = np.unique(known, axis=0, return_inverse=True)
    constants = np.array([loss.smoothness(*np.split(box, 2)) for box in boxes])
    if not np.isfinite(constants).all():
        reason = "none is known"
        if loss.needs_box:
            low = boxes[np.argmax(~np.isfinite(constants)), : boxes.shape[1] // 2]
            column = int(np.argmin(low))
            reason = f"column {column} of the data reaches down to {low[column]:.6g}"
        raise InputError(
            f'step_size="auto" needs a finite smoothness bound on the data\'s box, but '
            f"{loss.name} has none there ({reason}); give "
            "step_size as a number or keep the data off the boundary."
        )
    return constants[place][:, None]
