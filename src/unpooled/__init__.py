"""Clusters data that cannot be pooled.

Rows stay where they are; only declared, counted, policed summaries travel.
"""

from unpooled.estimators import DGC, ADMMKMeans, KarSwenson

__all__ = ["DGC", "ADMMKMeans", "KarSwenson", "__version__"]

__version__ = "0.1.0"
