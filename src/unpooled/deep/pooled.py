"""DeepCluster on pooled images: the reference that DeepFeCA is measured against."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from unpooled.data.parties import Parties
from unpooled.deep.estimator import DeepFeCA
from unpooled.estimators.one_shot import OneShotKMeans
from unpooled.protocols.star.base import StarProtocol


class DeepCluster(DeepFeCA):
    """The pooled reference: the same training where all images are in one place.

    Clusters are those of plain k-means; everything else is as in :class:`DeepFeCA`.
    """

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Learns from one array of images; parties, if there are any, are put together.

        Parameters
        ----------
        X : array, table, or list, tuple or dict of these
            Images, as :class:`DeepFeCA` takes them.
        y : None
            Ignored.
        groups : None
            Ignored.
        sample_weight : array of shape (n,), or list, tuple or dict of these, default=None
            A weight for each image, in the container of ``X``; None weighs all alike.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if sample_weight is not None:
            sample_weight = _concatenated(sample_weight, 1)
        return super().fit(_concatenated(X, 2), sample_weight=sample_weight)

    def _aggregation(self, n_clusters: int, parties: Parties) -> StarProtocol:
        return OneShotKMeans(n_clusters, local_clusters=n_clusters, n_init=3)._protocol(
            n_clusters, parties
        )


def _concatenated(tables: Any, least: int) -> Any:
    """One array of what parties have; what has fewer axes than ``least`` is no list of parties."""
    tables = list(tables.values()) if isinstance(tables, dict) else tables
    several = isinstance(tables, list | tuple) and all(np.ndim(table) >= least for table in tables)
    return np.concatenate(tables) if several else tables
