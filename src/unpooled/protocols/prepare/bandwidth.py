"""The scale of a kernel from sums: γ = N² / (2 Σ_ij |x_i - x_j|²), as Wang et al. (2019) choose it.

Every party sends its weight W_i = Σ w, its mean m_i and its scatter Q_i = Σ w |x - m_i|² over all
columns. With W, m and Q those of all rows, added up as in
:mod:`unpooled.protocols.prepare.moments`, Σ_ij w_i w_j |x_i - x_j|² = 2 W Q, so γ = W / (4 Q).
Kernels of other units get what is alike: see :func:`in_units`.

Where a party's rows are means of cells, Q_i has the scatter about these means too.

Sent by a party: d + 2 numbers.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.errors import InputError
from unpooled.kernels.linalg.products import dot, matmul, squared_lengths
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import COLUMNS, FINITE, Release
from unpooled.protocols.star.base import Answer
from unpooled.protocols.star.shared.centroids import refuse_no_replies
from unpooled.protocols.star.shared.weighted_sums import weighted_sum
from unpooled.types import Body, FloatArray

SPREAD_RELEASE = Release(
    "spread",
    ("weight", "mean", "scatter"),
    ("sums", "counts"),
    "number, mean and sum of squared deviations of all rows",
    shapes={"weight": (1,), "mean": (COLUMNS,), "scatter": (1,)},
    bounds={"scatter": FINITE},
)
SPREAD_ASK = Release("spread", (), ("model",), "nothing but the question")


@dataclass(frozen=True)
class Spread:
    """γ in units of squared distances, and the means of the parties that have rows."""

    gamma: float
    means: FloatArray


def find_spread() -> Generator[Ask | Note, Any, Spread]:
    """The coordinator's side."""
    replies = yield Ask("spread")
    present = [reply for reply in replies.values() if float(reply["weight"][0]) > 0]
    refuse_no_replies(len(present))
    weights = np.array([float(reply["weight"][0]) for reply in present])
    means = np.array([reply["mean"] for reply in present])
    within = sum(float(reply["scatter"][0]) for reply in present)
    center = matmul(weights, means - means[0]) / weights.sum() + means[0]
    total = within + dot(weights, squared_lengths(means - center))
    if total <= 0:
        raise InputError(
            "All rows are equal, or there is one sample only, so gamma cannot be found from them; "
            "give a number."
        )
    return Spread(float(weights.sum()) / (4 * total), means)


def in_units(kernel: str, gamma: float, n_columns: int) -> float:
    """The kernel's own parameter for rows of this spread.

    The Laplacian kernel takes Σ_j |x_j - y_j|, which for steps that are alike in all columns is d^½
    |x - y|: so it gets (γ / d)^½.
    """
    return sqrt(gamma / n_columns) if kernel == "laplacian" else gamma


def spread(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
    """The party's own weight, mean and scatter."""
    total = data.weights.sum()
    mean = scatter = np.zeros(data.rows.shape[1])
    if total > 0:
        # One of the rows as origin, so that equal rows have exactly no scatter.
        first = int(np.flatnonzero(data.weights > 0)[0])
        origin = data.rows[first : first + 1][0]
        shift = weighted_sum(data, lambda rows: rows - origin) / total
        mean = origin + shift
        scatter = weighted_sum(data, lambda rows: np.square((rows - origin) - shift))
        if data.scatter is not None:
            scatter = scatter + data.scatter
    reply = {"weight": np.array([total]), "mean": mean, "scatter": np.array([scatter.sum()])}
    return reply, {}
