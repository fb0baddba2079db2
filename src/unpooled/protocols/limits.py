"""What users must know of each other before they can step: a few maxima over all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.errors import InputError
from unpooled.kernels.segments import ClusterSums, sum_by_user
from unpooled.losses import Loss
from unpooled.protocols.mesh import Block, Peer, max_consensus
from unpooled.types import FloatArray
from unpooled.wire.policy import Release


@dataclass(frozen=True)
class Limits:
    """Maxima over all users as each user of the block knows them, one entry per user."""

    weight: FloatArray
    """max_i sum_r w_ir"""
    edge_degree: FloatArray
    """max over edges (deg_i + deg_j), at least lambda_max(L)"""
    fewest_links: FloatArray
    """min_i |N_i|"""
    spread: FloatArray
    """The largest root mean square deviation of a user's rows from their mean."""
    low: FloatArray
    high: FloatArray
    """The box that holds all rows and starting centres, (users, d); empty unless the loss asks."""

    def smoothness(self, loss: Loss) -> float:
        """The loss's smoothness on the box, or a refusal where there is none."""
        bound = loss.smoothness(self.low.min(axis=0), self.high.max(axis=0))
        if np.isfinite(bound):
            return bound
        reason = "none is known"
        if loss.needs_box:
            low = self.low.min(axis=0)
            column = int(np.argmin(low))
            reason = f"column {column} of the data reaches down to {low[column]:.6g}"
        raise InputError(
            f'step_size="auto" needs a finite smoothness bound on the data\'s box, but '
            f"{getattr(loss, 'name', type(loss).__name__)} has none there ({reason}); give "
            "step_size as a number or keep the data off the boundary."
        )


def limits_releases(loss: Loss, *, ask: bool) -> tuple[Release, ...]:
    """What `find_limits` sends."""
    if not ask:
        return ()
    why = "largest total weight, edge degree and spread, smallest degree"
    if loss.needs_box:
        return (Release("limits", ("largest",), "rows", why + "; extremes of each column"),)
    return (Release("limits", ("largest",), "sums", why),)


def find_limits(block: Block, loss: Loss, centers: FloatArray, *, ask: bool) -> Peer[Limits]:
    """The maxima, by max-consensus; without ``ask`` only what each user knows by itself."""
    parties, links = block.parties, block.neighbourhood
    low, high = _box(block, centers) if loss.needs_box else (np.empty((len(block), 0)),) * 2
    columns = [parties.total_weights, links.edge_degrees, -links.degrees, _spread(block)]
    values = np.column_stack([*columns, -low, high]).astype(np.float64)
    if ask:
        values = yield from max_consensus(block, "limits", values)
    low, high = np.split(values[:, len(columns) :], 2, axis=1)
    return Limits(values[:, 0], values[:, 1], -values[:, 2], values[:, 3], -low, high)


def _spread(block: Block) -> FloatArray:
    parties, n = block.parties, len(block)
    sums = ClusterSums(parties.owner, np.zeros_like(parties.owner), parties.weights, (n, 1))
    weight = np.maximum(sums.weights(), np.finfo(float).tiny)
    deviation = parties.rows - (sums(parties.rows)[:, 0] / weight)[parties.owner]
    squares = parties.weights * np.vecdot(deviation, deviation)
    return np.sqrt(sum_by_user(parties.owner, squares, n) / weight[:, 0])


def _box(block: Block, centers: FloatArray) -> tuple[FloatArray, FloatArray]:
    low, high = centers.min(axis=1), centers.max(axis=1)
    np.minimum.at(low, block.parties.owner, block.parties.rows)
    np.maximum.at(high, block.parties.owner, block.parties.rows)
    return low, high
