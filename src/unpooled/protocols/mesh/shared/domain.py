"""Centres stay inside the loss's domain: a start outside is refused, a step is shortened."""

from __future__ import annotations

import numpy as np

from unpooled.errors import DomainError
from unpooled.losses import Loss
from unpooled.protocols.mesh.base import Block
from unpooled.types import BoolArray, FloatArray


def refuse_outside(
    block: Block, centers: FloatArray, loss: Loss, known: BoolArray | None = None
) -> None:
    """Refuses starting centres outside the loss's domain; ``known`` marks users that have some."""
    outside = ~loss.inside(centers)
    if known is not None:
        outside &= known[:, None]
    if not outside.any():
        return
    user, k = np.argwhere(outside)[0]
    low, high = loss.domain
    column = int(np.argmin((centers[user, k] > low) & (centers[user, k] < high)))
    raise DomainError(
        f"Party {block.parties.names[user]} starts with a centre whose column {column} is "
        f"{centers[user, k, column]:.6g}, outside the loss's domain ({low:g}, {high:g}); shift the "
        "data or give init as an array inside it."
    )


def stay_inside(loss: Loss, x: FloatArray, moved: FloatArray) -> FloatArray:
    """``moved``; a step that leaves the loss's domain is halved until it ends inside, or not taken.

    With the step size that DGC derives, losses that add up over columns never need it.
    """
    if loss.domain == (-np.inf, np.inf):
        return moved
    for _ in range(64):
        outside = ~loss.inside(moved)
        if not outside.any():
            return moved
        moved = np.where(outside[..., None], 0.5 * (x + moved), moved)
    return np.where(loss.inside(moved)[..., None], moved, x)
