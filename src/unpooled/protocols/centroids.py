"""What one-shot methods share: parties that send centroids of their own clusters, once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unpooled.errors import ProtocolError
from unpooled.kernels.kmeans import Clustering
from unpooled.types import Array, Body, FloatArray, IntArray, PartyData, PartyId
from unpooled.wire.disclosure import sendable
from unpooled.wire.message import Summary


def presentable(clustering: Clustering, data: PartyData, least: int | None = None) -> IntArray:
    """The numbers of the clusters that a minimum count, by default the party's, lets it send."""
    least = data.min_count if least is None else least
    return sendable(clustering.labels, data.weights, len(clustering.centers), least)


def summary(body: Mapping[str, Array], clustering: Clustering, kept: IntArray) -> Summary:
    """The answer about the clusters ``kept``, and the rows behind it."""
    place = np.full(len(clustering.centers) + 1, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    behind = place[clustering.labels]  # -1 is the last place
    held_back = len(clustering.centers) - len(kept)
    remark = f"{held_back} of {len(clustering.centers)} clusters held back: too few rows"
    return Summary(dict(body), behind, remark if held_back else "")


def gathered(replies: Mapping[PartyId, Body], field: str) -> FloatArray:
    """The parties' arrays, one below the other in party order."""
    return np.concatenate([reply[field] for reply in replies.values()])


def refuse_silence(received: int) -> None:
    """Nothing comes of nothing."""
    if received == 0:
        raise ProtocolError(
            "No party sent anything about its rows: each has fewer of them in every cluster than "
            "its policy's minimum count; ask for fewer local clusters or have the minimum lowered."
        )
