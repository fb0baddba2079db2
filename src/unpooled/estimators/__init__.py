"""The scikit-learn front door: thin estimators over the protocols."""

from unpooled.estimators.admm import ADMMKMeans
from unpooled.estimators.dgc import DGC
from unpooled.estimators.kar_swenson import KarSwenson

__all__ = ["DGC", "ADMMKMeans", "KarSwenson"]
