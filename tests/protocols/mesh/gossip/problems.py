"""Rows, losses and plain Lloyd steps that the tests of gossip k-means compare with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx
import numpy as np

from tests.protocols.mesh.parts import blobs, network
from unpooled import losses
from unpooled.data.parties import Parties
from unpooled.messages.message import Note
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.runtime.run import Run
from unpooled.simulate import Options, run_mesh
from unpooled.simulate.faults import Fault

SIZES = (25, 4, 18, 30, 9, 14, 22, 11)
M, K = len(SIZES), 3
KMEANS = losses.SquaredEuclidean()
METRIC = losses.Mahalanobis([[2.0, 0.6], [0.6, 1.0]])
FIXED = {
    "k-means": KMEANS,
    "mahalanobis": KMEANS.under(METRIC),
    "itakura-saito": losses.Bregman.itakura_saito(),
    "generalised kl": losses.Bregman.generalised_kl(),
    "bregman, mahalanobis": losses.Bregman.mahalanobis(METRIC.A),
}
ROBUST = {
    "huber": losses.Huber(0.7),
    "logistic": losses.Logistic(),
    "fair": losses.Fair(0.8),
    "huber, mahalanobis": losses.Huber(0.7).under(METRIC),
}


def problem(seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Overlapping clusters, weights, and some rows to start from."""
    rng = np.random.default_rng(seed)
    tables = blobs(SIZES, seed, apart=5.0)
    weights = [rng.uniform(0.2, 2.0, size=n) for n in SIZES]
    return tables, weights, np.concatenate(tables)[rng.permutation(sum(SIZES))[:K]]


def labelled(rows: np.ndarray, centers: np.ndarray, loss: losses.Loss) -> np.ndarray:
    each = [loss.value(np.broadcast_to(center, rows.shape), rows) for center in centers]
    return np.argmin(each, axis=0)


def lloyd(
    rows: np.ndarray, weights: np.ndarray, centers: np.ndarray, loss: losses.Loss = KMEANS
) -> np.ndarray:
    """One step on pooled rows: means of the clusters, by g = f'(t) / t where the loss has it."""
    labels = labelled(rows, centers, loss)
    if isinstance(loss, losses.DistanceLoss):
        t = np.sqrt(loss.metric.squared(centers[labels] - rows))
        weights = weights * loss.weight(t)
    new = centers.copy()
    for k in range(len(centers)):
        if weights[labels == k].sum():
            new[k] = np.average(rows[labels == k], axis=0, weights=weights[labels == k])
    return new


def run(
    protocol: GossipKMeans,
    tables: Sequence[np.ndarray],
    graph: nx.Graph | str | None = "ring",
    *,
    weights: Sequence[np.ndarray] | None = None,
    faults: Iterable[Fault] = (),
    notes: list[Note] | None = None,
    blocks: int = 1,
    seed: int = 0,
) -> Run:
    parties = Parties.of(tables, weights=weights)
    return run_mesh(
        protocol, parties, network(graph, len(parties)), seed=seed, blocks=blocks,
        options=Options(faults=tuple(faults)), observe=None if notes is None else notes.append,
    )  # fmt: skip


def at_rest(
    found: Run,
    tables: Sequence[np.ndarray],
    users: Iterable[int] | None = None,
    *,
    atol: float = 1e-8,
    weights: Sequence[np.ndarray] | None = None,
    loss: losses.Loss = KMEANS,
) -> np.ndarray:
    """Those users agree on centres that a Lloyd step on their pooled rows does not move."""
    users = list(range(len(tables)) if users is None else users)
    weights = [np.ones(len(rows)) for rows in tables] if weights is None else weights
    rows = np.concatenate([tables[i] for i in users])
    pooled = np.concatenate([weights[i] for i in users])
    centers = found.result["centers"][users]
    np.testing.assert_allclose(centers, np.broadcast_to(centers[0], centers.shape), atol=atol)
    np.testing.assert_allclose(lloyd(rows, pooled, centers[0], loss), centers[0], atol=atol)
    assert not found.result["running"][users].any()
    return centers[0]
