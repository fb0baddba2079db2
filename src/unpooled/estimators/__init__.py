"""The scikit-learn estimators: thin layers over the protocols."""

from unpooled.estimators.admm import ADMMKMeans
from unpooled.estimators.coreset import CoresetKMeans
from unpooled.estimators.dgc import DGC
from unpooled.estimators.feca import FeCA
from unpooled.estimators.federated import FederatedKMeans
from unpooled.estimators.fuzzy import FuzzyCMeans
from unpooled.estimators.gossip import GossipKMeans
from unpooled.estimators.kar_swenson import KarSwenson
from unpooled.estimators.kernel import KernelKMeans
from unpooled.estimators.kernel_pca import KernelPCAKMeans
from unpooled.estimators.kfed import KFED
from unpooled.estimators.matched import MatchedAveraging
from unpooled.estimators.one_shot import OneShotKMeans
from unpooled.estimators.random_features import RandomFeatureKMeans

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
]
