"""Clusters data that cannot be pooled.

Rows stay where they are; only declared, counted, policed summaries travel.
"""

from unpooled.estimators import (
    DGC,
    KFED,
    ADMMKMeans,
    CoresetKMeans,
    FeCA,
    FederatedKMeans,
    FuzzyCMeans,
    GossipKMeans,
    KarSwenson,
    KernelKMeans,
    KernelPCAKMeans,
    MatchedAveraging,
    OneShotKMeans,
    RandomFeatureKMeans,
)
from unpooled.persistence import load, save

__all__ = [
    "DGC",
    "KFED",
    "ADMMKMeans",
    "CoresetKMeans",
    "FeCA",
    "FederatedKMeans",
    "FuzzyCMeans",
    "GossipKMeans",
    "KarSwenson",
    "KernelKMeans",
    "KernelPCAKMeans",
    "MatchedAveraging",
    "OneShotKMeans",
    "RandomFeatureKMeans",
    "__version__",
    "load",
    "save",
]

__version__ = "0.1.0"
