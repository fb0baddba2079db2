"""Mean and standard deviation of each colour channel over all parties' images, from sums.

Party m sends its weight W_m, and for each channel Σ w x and Σ w x², with x an image's mean over its
pixels (of the values, and of their squares). The coordinator adds these up: the mean is μ = Σ Σ w x
/ Σ W, and the scale σ with σ² = Σ Σ w x² / Σ W - μ².
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.deep.releases import CHANNEL_MEAN, CHANNEL_SCALE
from unpooled.errors import ProtocolError
from unpooled.kernels.linalg.products import matmul
from unpooled.types import Array, Body, FloatArray, PartyId, all_rows


def channel_sums(data: PartyData, n_channels: int) -> dict[str, Array]:
    """The party's side."""
    n_images, n_values = data.rows.shape
    pixels = all_rows(data.rows).reshape(n_images, n_channels, n_values // n_channels)
    per_image = pixels.mean(axis=2, dtype=np.float64)
    squares = np.square(pixels, dtype=np.float64).mean(axis=2)
    return {
        "count": np.array(data.weights.sum()),
        "sums": matmul(data.weights, per_image),
        "squares": matmul(data.weights, squares),
    }


def channel_scale(replies: Mapping[PartyId, Body]) -> dict[str, FloatArray]:
    """The coordinator's side."""
    replies = {name: reply for name, reply in replies.items() if reply["count"] > 0}
    count = sum(float(reply["count"]) for reply in replies.values())
    if not replies:
        raise ProtocolError(
            "No party has as many images as its policy's minimum count; have the minimum lowered."
        )
    mean = np.sum([reply["sums"] for reply in replies.values()], axis=0) / count
    squares = np.sum([reply["squares"] for reply in replies.values()], axis=0) / count
    spread = np.sqrt(np.maximum(squares - np.square(mean), 0.0))
    # A spread below this is rounding: the channel is the same everywhere and cannot be scaled.
    return {
        CHANNEL_MEAN: mean,
        CHANNEL_SCALE: np.where(spread > 1e-6 * np.sqrt(squares), spread, 1.0),
    }
