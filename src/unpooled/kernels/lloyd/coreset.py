"""Coresets: few weighted rows on which every clustering costs about what it costs on all.

Party i has rows p of weight w_p and centres B_i that are a fair clustering of them. A row costs
c_p = d(p, B_i)^2 (k-means) or d(p, B_i) (k-median), all rows M_i = sum over p of w_p c_p; M is the
sum of M_i over all parties. Of t rows drawn in all (Balcan, Ehrlich & Liang 2013, Algorithm 1),

- party i draws t_i, which is t M_i / M on average (:func:`shares`),
- each draw is row q with probability w_q c_q / M_i, and counts w_q M / (t w_q c_q) = M / (t c_q),
- centre b counts W_b - (what draws from P_b count), where P_b are the rows nearest to b and W_b is
  their weight: so draws and centre of P_b together count W_b, always.

Take any function f of a row, such as what it costs with some other centres. On average the draws of
party i add E[t_i] Σ_p (w_p c_p / M_i) (M / (t c_p)) f(p) = Σ_p w_p f(p) over rows with c_p > 0, and
a centre counts the weight of the rows at it (c_p = 0), which are never drawn. So the cost on the
coreset is unbiased, for any centres.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unpooled.kernels.assignment.centers import squared_to_own
from unpooled.kernels.assignment.nearest import nearest
from unpooled.types import FloatArray, IntArray


@dataclass(frozen=True)
class CoresetPart:
    """One party's part of a coreset: rows drawn, its centres, and what each counts."""

    rows: FloatArray
    weights: FloatArray
    centers: FloatArray
    center_weights: FloatArray


def row_costs(rows: FloatArray, centers: FloatArray, power: int) -> tuple[FloatArray, IntArray]:
    """d(p, centers)^power for every row p, and its nearest centre.

    Row by row from differences: party and coordinator must find the same centre for a row.
    """
    labels = nearest(rows, np.zeros(len(rows), dtype=np.int64), centers[None])
    squared = squared_to_own(rows, centers, labels)
    return (squared if power == 2 else np.sqrt(squared)), labels


def shares(costs: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """How many of ``size`` draws each party makes: whole numbers with exactly that sum.

    With the parties' shares t M_i / M laid end to end on [0, t], t_i is the number of whole numbers
    in party i's stretch once all are shifted by u, uniform on [0, 1) (systematic sampling). So t_i
    is the share rounded up or down, by chance, with E[t_i] = t M_i / M exactly: a fixed rule would
    favour some parties' rows, and a multinomial, as if draws were independent, spreads more.
    """
    ends = np.cumsum(costs)
    if ends[-1] == 0:
        return np.zeros(len(costs), dtype=np.int64)
    # The last end is size exactly, whatever rounding does to the others.
    passed = np.floor(size * (ends / ends[-1]) + rng.random())
    return np.asarray(np.diff(np.minimum(passed, size), prepend=0.0), dtype=np.int64)


def draw_coreset(
    rows: FloatArray,
    weights: FloatArray,
    centers: FloatArray,
    power: int,
    *,
    share: int,
    rate: float,
    rng: np.random.Generator,
) -> CoresetPart:
    """``share`` draws and the centres of one party, with what they count; ``rate`` is M / t."""
    costs, labels = row_costs(rows, centers, power)
    weighted = weights * costs
    drawn = (
        rng.choice(len(rows), size=share, p=weighted / weighted.sum())
        if share
        else np.empty(0, dtype=np.int64)
    )
    counts = rate / costs[drawn]
    total_weights = np.asarray(np.bincount(labels, weights, len(centers)), float)
    return CoresetPart(
        rows=rows[drawn],
        weights=counts,
        centers=centers,
        center_weights=total_weights - np.bincount(labels[drawn], counts, len(centers)),
    )


def without_negatives(part: CoresetPart) -> CoresetPart:
    """The part with weights that a clustering can use, and the same total in every cluster.

    A centre's weight is negative where draws happen to count more than the rows they stand for.
    Costs are right on average all the same, but a clustering cannot minimise them: centres far away
    from a negative weight would cost less and less. There the centre counts 0 and the draws of its
    cluster are scaled down to the cluster's weight W_b; this costs a bias that vanishes as t grows.
    """
    if not (part.center_weights < 0).any():
        return part
    _, labels = row_costs(part.rows, part.centers, 2)
    drawn = np.bincount(labels, part.weights, len(part.centers))
    kept = np.minimum(1.0, 1.0 + part.center_weights / np.where(drawn > 0, drawn, 1.0))
    return replace(
        part,
        weights=part.weights * np.maximum(kept, 0.0)[labels],
        center_weights=np.maximum(part.center_weights, 0.0),
    )
