"""One exact round of Lloyd's iteration with a coordinator: centres down, sums and counts up.

Every party assigns its rows to the nearest of the centres it is sent and answers, for each cluster
k, with N_k = Σ w, S_k = Σ w x and Q_k = Σ w |x - c_k|². The sums of all parties are those of the
pooled rows, so S_k / N_k are the centres that Lloyd's iteration on the pooled rows would find, and
Σ Q_k the cost of the centres that were sent.

A party whose policy has a minimum count moves rows between clusters in groups that are large enough
(:func:`unpooled.privacy.row_groups.coarsened`): successive answers then never tell fewer rows
apart. Rows that were left out once, by a start or here, stay out.

From round to round a party remembers which centre each row is nearest to, until when that is
certain, and what is in the clusters (:mod:`unpooled.kernels.assignment.bounds`): two short numbers
a row (three with a minimum count), and most rounds look at few rows. A party that remembers nothing
looks at all of them.

Sent by a party in a round: K (d + 2) numbers.
"""

from __future__ import annotations

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.errors import ProtocolError
from unpooled.kernels.assignment.bounds import CenterBounds
from unpooled.kernels.assignment.centers import label
from unpooled.kernels.linalg.products import norm
from unpooled.kernels.linalg.segments import means_or_keep, sums_by_label
from unpooled.kernels.lloyd.cluster_sums import KeptSums, updated_sums
from unpooled.messages.message import Summary
from unpooled.messages.release import COLUMNS, FINITE, Release, Size
from unpooled.parallel import in_chunks
from unpooled.privacy.row_groups import coarsened, enough_rows, split_atoms
from unpooled.protocols.star.base import Answer
from unpooled.types import Array, Body, FloatArray, IntArray

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
    labels, members = near.labels.astype(np.int64), near.labels
    remark, known = "", dict[str, Array]()
    if data.min_count > 1:
        wanted = labels
        labels, atoms = _held_together(data, state, body, wanted)
        members, known = labels.astype(np.int32), dict(atoms)
        held_back = int((labels != wanted)[data.weights > 0].sum())
        if held_back:
            remark = f"{held_back} rows counted with their group or left out: too few to move alone"
    last = KeptSums.kept(state, data.rows, centers)
    found, scatter = updated_sums(data.rows, data.weights, members, centers, last)
    if len(data.rows) <= MOST_REMEMBERED:
        known |= _kept(near, found)
    reply = {"sums": found.totals[:, :-2], "counts": found.totals[:, -1], "scatter": scatter}
    return Summary(reply, labels, remark), known


def _kept(near: CenterBounds, found: KeptSums) -> dict[str, Array]:
    """Both as arrays by name; members that are the labels are not kept twice."""
    kept = {**near._asdict(), **found._asdict()}
    if found.members is near.labels:
        del kept["members"]
    return kept


def _held_together(
    data: PartyData, state: Body, body: Body, wanted: IntArray
) -> tuple[IntArray, Body]:
    """Labels by which no atom falls apart into pieces that are too small; the atoms after that.

    An atom that cannot be split goes to the centre nearest to its mean, which is known from what it
    is a sum of. Before anything has been said, all rows are one atom.
    """
    atoms = state.get("atoms", np.zeros(len(data.rows), dtype=np.int64))
    released = state.get("released", np.full(1, enough_rows(data.weights, data.min_count)))
    if atoms.shape != data.weights.shape or not ((atoms >= 0) & (atoms < len(released))).all():
        # Compiled code follows them wherever they point.
        raise ProtocolError(f"What party {data.name} remembers of its rows does not fit them.")
    total, weight = _group_sums(data, atoms, len(released))
    means = total / np.where(weight > 0, weight, 1.0)[:, None]
    together = np.where(released & (weight > 0), label(means, body["centers"]), -1)[atoms]
    labels = coarsened(atoms, wanted, together, data.weights, data.min_count)
    return labels, atoms_of(split_atoms(atoms, labels), labels)


def _group_sums(data: PartyData, labels: IntArray, n_labels: int) -> tuple[FloatArray, FloatArray]:
    """Σ w x and Σ w of each group, chunk by chunk."""
    parts = in_chunks(
        lambda span: sums_by_label(data.rows[span], data.weights[span], labels[span], n_labels),
        data.rows.shape,
    )
    totals, weights = np.zeros((n_labels, data.rows.shape[1])), np.zeros(n_labels)
    for total, weight in parts:
        totals += total
        weights += weight
    return totals, weights


def atoms_of(atoms: IntArray, row_groups: IntArray) -> Body:
    """What a party remembers: its atoms, and which of them have been released."""
    released = np.zeros(int(atoms.max(initial=-1)) + 1, dtype=bool)
    released[atoms[row_groups >= 0]] = True
    return {"atoms": atoms, "released": released}


def atoms_after(data: PartyData, row_groups: IntArray | None) -> Body:
    """The state of a party whose first answer was about these groups of rows."""
    if row_groups is None or data.min_count <= 1:
        return {}
    return atoms_of(split_atoms(np.zeros_like(row_groups), row_groups), row_groups)


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
