"""Fixed groups of a party's images, so that a minimum count holds over all clusterings together.

A party whose policy has a minimum count of m puts its images, once, into groups of at least m by
their pixels. Each group then counts as one row: its mean point, with the weight of its images. So
whatever clusters are asked for, in however many rounds, sums are over whole groups.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.kernels.linalg.segments import sums_by_label
from unpooled.kernels.lloyd.kmeans import renumbered
from unpooled.messages.message import Summary
from unpooled.protocols.star.shared.centroids import groups
from unpooled.types import Body, FloatArray, IntArray


def image_groups(data: PartyData) -> IntArray:
    """For every row its group, of at least ``min_count`` rows; -1 if it is in none.

    It depends on the rows alone, so that a party that has lost its state finds the same groups.
    """
    # The seed is the number of rows, not the run's: the groups must be the same in every run.
    found, kept = groups(data, np.random.default_rng(len(data.rows)))
    return renumbered(found.labels, kept)


def group_means(data: PartyData, points: FloatArray, groups: IntArray) -> PartyData:
    """The groups' mean points as rows, their weight as weights."""
    n_groups = int(groups.max(initial=-1)) + 1
    inside = groups >= 0  # there may be no group at all
    sums, weights = sums_by_label(points[inside], data.weights[inside], groups[inside], n_groups)
    # Each group is large enough already: the minimum count must not be asked of groups again.
    return replace(data, rows=sums / weights[:, None], weights=weights, min_count=1)


def groups_to_rows(reply: Body | Summary, groups: IntArray) -> Body | Summary:
    """A reply about groups, with its row groups in terms of images, which is what is audited."""
    if not isinstance(reply, Summary) or reply.row_groups is None:
        return reply
    # Images in no group have the label -1, which takes the -1 appended at the end.
    row_groups = np.append(reply.row_groups, -1)[groups]
    return replace(reply, row_groups=row_groups.astype(np.int64))
