"""Clusters data that cannot be pooled.

Rows stay where they are; only declared, counted, policed summaries travel.

Estimators, and submodules such as ``unpooled.partition``, are there after ``import unpooled``; each
is imported when it is first used, so that commands which need none of them start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unpooled import catalog

if TYPE_CHECKING:
    from unpooled import baselines as baselines
    from unpooled import datasets as datasets
    from unpooled import deep as deep
    from unpooled import graphs as graphs
    from unpooled import image_sets as image_sets
    from unpooled import losses as losses
    from unpooled import messages as messages
    from unpooled import metrics as metrics
    from unpooled import partition as partition
    from unpooled import persistence as persistence
    from unpooled import preprocessing as preprocessing
    from unpooled import privacy as privacy
    from unpooled import protocols as protocols
    from unpooled import simulate as simulate
    from unpooled import testing as testing
    from unpooled.estimators.admm import ADMMKMeans as ADMMKMeans
    from unpooled.estimators.coreset import CoresetKMeans as CoresetKMeans
    from unpooled.estimators.dgc import DGC as DGC
    from unpooled.estimators.feca import FeCA as FeCA
    from unpooled.estimators.federated import FederatedKMeans as FederatedKMeans
    from unpooled.estimators.fuzzy import FuzzyCMeans as FuzzyCMeans
    from unpooled.estimators.gossip import GossipKMeans as GossipKMeans
    from unpooled.estimators.kar_swenson import KarSwenson as KarSwenson
    from unpooled.estimators.kernel import KernelKMeans as KernelKMeans
    from unpooled.estimators.kernel_pca import KernelPCAKMeans as KernelPCAKMeans
    from unpooled.estimators.kfed import KFED as KFED
    from unpooled.estimators.matched import MatchedAveraging as MatchedAveraging
    from unpooled.estimators.one_shot import OneShotKMeans as OneShotKMeans
    from unpooled.estimators.random_features import RandomFeatureKMeans as RandomFeatureKMeans
    from unpooled.persistence import load as load
    from unpooled.persistence import save as save

__all__ = [*catalog.names(), "__version__", "load", "save"]

__version__ = "0.1.0"

_SUBMODULES = frozenset(
    [
        *("baselines", "datasets", "deep", "graphs", "image_sets", "losses", "messages", "metrics"),
        *("partition", "persistence", "preprocessing", "privacy", "protocols", "simulate"),
        "testing",
    ]
)


def __getattr__(name: str) -> Any:
    if name in ("load", "save"):
        found = globals()[name] = getattr(import_module("unpooled.persistence"), name)
        return found
    if name in catalog.names():
        found = globals()[name] = catalog.find(name).estimator
        return found
    if name not in _SUBMODULES:
        raise AttributeError(f"module 'unpooled' has no attribute {name!r}")
    try:
        return import_module(f"unpooled.{name}")
    except ImportError as error:  # an extra that is not installed: the error says which
        raise AttributeError(str(error)) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
