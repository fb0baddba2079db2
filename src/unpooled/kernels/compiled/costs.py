"""The cost of users' rows with given centres, compiled where it does not follow from sums."""

from __future__ import annotations

import numpy as np

from unpooled.kernels.compiled._jit import inner, on_all_cores, one_at_a_time, prange
from unpooled.kernels.compiled.assign import cost_of_rows
from unpooled.kernels.compiled.clusters import MASS, SCATTER, Clusters, Index, clusters_of
from unpooled.kernels.compiled.loss_terms import KMEANS, LossTerms
from unpooled.kernels.compiled.steps import ONE_CORE, StepRule
from unpooled.kernels.linalg.products import squared_lengths
from unpooled.types import FloatArray


@inner
def _cost_of(u: Index, state: Clusters, x: FloatArray, loss: LossTerms, out: FloatArray) -> None:
    out[u] = cost_of_rows(clusters_of(state, u), x[u], loss)


@on_all_cores
def _costs(state: Clusters, x: FloatArray, loss: LossTerms, out: FloatArray) -> None:
    if state.rows.size <= ONE_CORE:
        for u in range(len(x)):
            _cost_of(u, state, x, loss, out)
    else:
        for u in prange(len(x)):
            _cost_of(np.int64(u), state, x, loss, out)


@one_at_a_time
def costs(state: Clusters, x: FloatArray, rule: StepRule) -> FloatArray:
    """(m,) What users' rows cost with centres ``x``, in the clusters they are in."""
    _, n_clusters, d = x.shape
    if rule.kind != KMEANS:
        out = np.empty(len(x))
        _costs(state, x, LossTerms(rule.kind, rule.bend, rule.reach), out)
        return out
    sums, mass = state.sums[:, :n_clusters], state.sums[:, :n_clusters, MASS]
    error = mass[..., None] * (x - state.sums[:, -1:, :d]) - sums[..., :d]
    about = np.divide(squared_lengths(error), mass, out=np.zeros_like(mass), where=mass > 0)
    return np.asarray(0.5 * (sums[..., SCATTER] + about).sum(axis=1))
