"""What methods that exchange centres every round share: releases, and a round's summary.

DGC, Kar & Swenson, ADMM and the second-order method find starting centres, then the global bounds
they need, and from then on send their centres to their neighbours in every round.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from math import inf

import numpy as np

from unpooled.data.tables import LARGEST
from unpooled.errors import InputError
from unpooled.kernels.linalg.products import lengths
from unpooled.kernels.linalg.segments import sum_by_user
from unpooled.losses import Loss
from unpooled.messages.release import COLUMNS, Disclosure, Release, Size
from unpooled.protocols.mesh.base import Block, MeshProtocol
from unpooled.protocols.mesh.shared.global_bounds import bounds_releases
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.protocols.mesh.shared.stopping import RESIDUAL
from unpooled.types import Body, FloatArray, IntArray


@dataclass(frozen=True)
class CentersProtocol(MeshProtocol):
    """A mesh protocol whose users send their centres to their neighbours every round.

    **What leaves.** ``start``: see :mod:`unpooled.protocols.mesh.shared.initial_centers`.
    ``limits``: a user's total weight and the like, of which the maxima are passed on
    (:mod:`unpooled.protocols.mesh.shared.global_bounds`). ``centers``: K d numbers per neighbour
    and exchange, and one for stopping if tol > 0.

    **What can be read from it.** Suppose that somebody hears a user and all of its neighbours: the
    user's only neighbour does, or the other corner of a triangle. It can solve successive messages
    for the user's cluster sums and counts, and where a single row changes cluster from one round to
    the next, for that row. Centres that start as rows are sent as rows.
    """

    start: InitialCenters
    _: KW_ONLY
    max_rounds: int = 1000
    tol: float = 1e-6

    @property
    @abstractmethod
    def needed_bounds(self) -> tuple[str, ...]:
        """Which of :mod:`unpooled.protocols.mesh.shared.global_bounds` the method depends on."""

    @property
    def releases(self) -> tuple[Release, ...]:
        shapes: dict[str, tuple[Size, ...]] = {"centers": (self.start.n_clusters, COLUMNS)}
        if self.tol > 0:
            shapes[RESIDUAL] = ()
        why = "a user's centres, which follow from its cluster sums and counts"
        discloses: tuple[Disclosure, ...] = ("sums", "counts")
        if self.start.may_be_rows:
            discloses, why = ("rows", *discloses), why + "; they may start as rows"
        return (
            *self.start.releases,
            *bounds_releases(self.needed_bounds),
            Release(
                "centers",
                tuple(shapes),
                discloses,
                why,
                shapes=shapes,
                bounds={RESIDUAL: inf} if self.tol > 0 else {},
            ),
        )


def round_summary(
    block: Block,
    loss: Loss,
    before: tuple[FloatArray, IntArray],
    after: tuple[FloatArray, IntArray],
    rho: float = 1.0,
) -> Body:
    """The note on a round, per user, from (centres, labels) before and after it.

    ``cost`` is 1/rho sum over r of w_r f(x, y_r), ``changed`` the number of rows that changed
    cluster, ``movement`` how far the centre that moved most has moved.
    """
    parties, (centers, labels) = block.parties, after
    movement = farthest(centers - before[0])
    refuse_lost(block, centers)
    terms = parties.weights * loss.value(centers[parties.owner, labels], parties.rows)
    changed = sum_by_user(parties.owner, (labels != before[1]).astype(float), len(block))
    return {
        "cost": sum_by_user(parties.owner, terms, len(block)) / rho,
        "centers": centers,
        "changed": changed.astype(np.int64),
        "movement": movement,
    }


def refuse_lost(block: Block, centers: FloatArray) -> None:
    """Refuses centres that have diverged."""
    inside = (np.abs(centers) <= LARGEST).all(axis=(1, 2))
    if not inside.all():
        lost = int(np.argmin(inside))
        raise InputError(
            f"The centres of party {block.parties.names[lost]} left all bounds; a step size that "
            "was given is too large for these data: lower it or leave it to be found."
        )


def farthest(moves: FloatArray) -> FloatArray:
    """The length of the longest of each user's K vectors."""
    return np.asarray(lengths(moves).max(axis=1))
