"""What the methods that exchange centres every round have in common."""

from __future__ import annotations

import numpy as np

from unpooled.errors import InputError
from unpooled.kernels.segments import sum_by_user
from unpooled.losses import Loss
from unpooled.protocols.mesh import Block
from unpooled.protocols.starts import Start
from unpooled.protocols.stopping import Stopping
from unpooled.types import Body, FloatArray, IntArray
from unpooled.wire.policy import Release


def centers_release(start: Start) -> Release:
    """What every round sends: a user's centres, and one number for stopping."""
    fields = ("centers", Stopping.FIELD)
    if start.begins_with_rows:
        return Release("centers", fields, "rows", "a user's centres, which at first are its rows")
    return Release("centers", fields, "model", "a user's centres")


def compare(
    block: Block,
    loss: Loss,
    before: tuple[FloatArray, IntArray],
    after: tuple[FloatArray, IntArray],
    rho: float = 1.0,
) -> Body:
    """What a round has come to, per user, from (centres, labels) before and after it.

    ``cost`` is 1/rho sum over r of w_r f(x, y_r), ``changed`` the number of rows that changed
    cluster, ``movement`` how far the centre that moved most has moved.
    """
    parties, (centers, labels) = block.parties, after
    move = centers - before[0]
    movement = np.sqrt(np.vecdot(move, move).max(axis=1))
    if not np.isfinite(movement).all():
        lost = int(np.flatnonzero(~np.isfinite(movement))[0])
        raise InputError(
            f"The centres of party {parties.names[lost]} left all bounds; the step size is too "
            'large for these data: lower it, or use step_size="auto".'
        )
    terms = parties.weights * loss.value(centers[parties.owner, labels], parties.rows)
    changed = sum_by_user(parties.owner, (labels != before[1]).astype(float), len(block))
    return {
        "cost": sum_by_user(parties.owner, terms, len(block)) / rho,
        "centers": centers,
        "changed": changed.astype(np.int64),
        "movement": movement,
    }
