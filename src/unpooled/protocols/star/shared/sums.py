"""One exact round of Lloyd's iteration with a coordinator: centres down, sums and counts up.

Every party assigns its rows to the nearest of the centres it is sent and answers, for each cluster
k, with N_k = Σ w, S_k = Σ w x and Q_k = Σ w |x - c_k|². The sums of all parties are those of the
pooled rows, so S_k / N_k are the centres that Lloyd's iteration on the pooled rows would find, and
Σ Q_k the cost of the centres that were sent.

From round to round a party remembers which centre each row is nearest to, until when that is
certain, and what is in the clusters (:mod:`unpooled.kernels.assignment.bounds`): two short numbers
a row, and most rounds look at few rows. A party that remembers nothing looks at all of them.

Sent by a party in a round: K (d + 2) numbers.
"""

from __future__ import annotations

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.kernels.assignment.bounds import CenterBounds
from unpooled.kernels.linalg.products import norm
from unpooled.kernels.linalg.segments import means_or_keep
from unpooled.kernels.lloyd.cluster_sums import KeptSums, updated_sums
from unpooled.messages.release import COLUMNS, FINITE, Release, Size
from unpooled.protocols.star.base import Answer
from unpooled.types import Array, Body, FloatArray

FIELDS = ("sums", "counts", "scatter")

MOST_REMEMBERED = 1 << 23
"""Rows of which a party remembers anything: what it does must fit into one message on disk."""


def release(n_clusters: Size) -> Release:
    """What a party sends in a round."""
    return Release(
        "sums",
        FIELDS,
        ("sums", "counts"),
        "sums, counts and sums of squares of each cluster's rows",
        shapes={"sums": (n_clusters, COLUMNS), "counts": (n_clusters,), "scatter": (n_clusters,)},
        bounds={"sums": FINITE, "scatter": FINITE},
        additive=FIELDS,
    )


def question(n_clusters: Size) -> Release:
    """What the coordinator sends in a round."""
    why, shapes = "the centres of all parties' rows", {"centers": (n_clusters, COLUMNS)}
    return Release("sums", ("centers",), ("model",), why, shapes=shapes)


def cluster_sums(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
    """The party's part of one round."""
    centers: FloatArray = body["centers"]
    near = CenterBounds.kept(state, data.rows, centers).assign(data.rows, centers)
    last = KeptSums.kept(state, data.rows, centers)
    found, scatter = updated_sums(data.rows, data.weights, near.labels, centers, last)
    reply = {"sums": found.totals[:, :-2], "counts": found.totals[:, -1], "scatter": scatter}
    return reply, _kept(near, found) if len(data.rows) <= MOST_REMEMBERED else {}


def _kept(near: CenterBounds, found: KeptSums) -> dict[str, Array]:
    """Both as arrays by name; members that are the labels are not kept twice."""
    kept = {**near._asdict(), **found._asdict()}
    if found.members is near.labels:
        del kept["members"]
    return kept


def means(
    sums: FloatArray,
    counts: FloatArray,
    scatter: FloatArray,
    centers: FloatArray,
    rng: np.random.Generator | None,
) -> FloatArray:
    """S / N; an empty cluster takes half of the one with the largest Q (without rng, it stays).

    Its centre is put a hundredth of that cluster's root mean square radius beside that cluster's
    centre, in a random direction: the plane between the two halves the cluster, and the next round
    shows where the halves' means are. No row is needed for that. If no cluster has any extent,
    there are fewer distinct rows than clusters, and the centre stays.
    """
    fresh = means_or_keep(sums, counts, centers)
    if rng is None:
        return fresh
    largest = iter(np.argsort(-scatter, kind="stable"))
    for empty in np.flatnonzero(counts == 0):
        widest = next(largest)
        if scatter[widest] > 0:
            direction: FloatArray = np.asarray(rng.normal(size=centers.shape[1]))
            radius = np.sqrt(scatter[widest] / counts[widest])
            fresh[empty] = fresh[widest] + 0.01 * radius * direction / norm(direction)
    return fresh
