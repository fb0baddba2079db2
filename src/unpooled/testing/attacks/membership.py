"""Membership: who has a pool of full records can tell which of them are among a site's rows.

No cell gives a value away to somebody who does not know it; but whoever has candidates x_1 ... x_p,
the site's rows among them, can look for those that make up each cell: weights z >= 0 with

    Σ_i z_i x_i = n m,    Σ_i z_i = n

for a cell of n rows with the mean m, by non-negative least squares. With d columns these are d + 1
equations for a sparse z, and with many columns hardly anything but the members solves them. A
minimum count does not prevent this, whatever it is; only noise does. So this attack is no part of
the suite that must find nothing: it measures what is left to find.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from sklearn.metrics import roc_curve

from unpooled.privacy.cells import Cells
from unpooled.types import BoolArray, FloatArray


def membership_scores(cells: Cells, pool: FloatArray) -> FloatArray:
    """For each record of the pool, how much of it the cells are made of."""
    spread = np.maximum(pool.std(axis=0), 1e-12)
    middle = pool.mean(axis=0)
    # A column of ones is weighted like a typical column: all equations count alike.
    table = np.vstack([((pool - middle) / spread).T, np.full(len(pool), 3.0)])
    scores = np.zeros(len(pool))
    for mean, count in zip(cells.means, cells.counts, strict=True):
        sums = np.append(count * (mean - middle) / spread, 3.0 * count)
        scores += np.minimum(nnls(table, sums, maxiter=100 * len(pool))[0], 1.0)
    return scores


def advantage(scores: FloatArray, members: BoolArray) -> float:
    """The largest difference of the shares of members and of others above a threshold: 0 is
    guessing, 1 is knowing."""
    false, true, _ = roc_curve(members, scores)
    return float((true - false).max())
