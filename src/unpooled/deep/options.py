"""Options of DeepFeCA as users give them, read into the objects that the protocol takes.

What cannot be used is refused here, with what can be given instead.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from sklearn.base import clone
from torch import nn

from unpooled.checks import one_of
from unpooled.data.parties import Parties
from unpooled.deep.augmentation import AUGMENTATIONS, Augmentation
from unpooled.deep.encoders import ENCODERS
from unpooled.deep.image_model import ImageModel
from unpooled.errors import InputError
from unpooled.estimators.feca import FeCA
from unpooled.estimators.fuzzy import FuzzyCMeans
from unpooled.estimators.kfed import KFED
from unpooled.estimators.matched import MatchedAveraging
from unpooled.estimators.one_shot import OneShotKMeans
from unpooled.estimators.star import StarEstimator
from unpooled.protocols.prepare.then import Prepared
from unpooled.protocols.star.base import StarProtocol

AGGREGATIONS: dict[str, StarEstimator] = {
    "feca": FeCA(n_init=3),
    "one-shot": OneShotKMeans(n_init=3),
    "matched": MatchedAveraging(n_init=3),
    "k-fed": KFED(n_init=3),
    "fuzzy-average": FuzzyCMeans(merge="average", max_rounds=1),
    "fuzzy-kmeans": FuzzyCMeans(merge="kmeans", max_rounds=1),
}
"""The paper's rows, and ours. Fewer starts than elsewhere, since there are many clusterings."""
BATCH_NORMS = ("pooled", "averaged")


def aggregation_protocol(given: Any, n_clusters: int, parties: Parties) -> StarProtocol:
    """The protocol by which parties' centroids become ``n_clusters`` common ones."""
    if isinstance(given, str):
        given = clone(AGGREGATIONS[one_of("aggregation", given, tuple(AGGREGATIONS))])
        if isinstance(given, OneShotKMeans):
            # As many local prototypes as common ones, as the paper's methods have.
            given.set_params(local_clusters=n_clusters)
    if not isinstance(given, StarEstimator) or isinstance(given, ImageModel):
        raise InputError(
            f"aggregation={given!r} is not known; give one of {', '.join(AGGREGATIONS)} or an "
            "estimator with a coordinator, such as FeCA()."
        )
    model: StarEstimator = clone(given).set_params(n_clusters=n_clusters)
    protocol = model._protocol(n_clusters, parties)
    if isinstance(protocol, Prepared):
        raise InputError(
            f"aggregation={given!r} finds centres in a space of its own, which the network "
            "cannot be trained for; give one that clusters rows as they are."
        )
    return protocol


def encoder_builder(given: Any, channels: int) -> Callable[[], nn.Module]:
    """A function that makes an encoder for images of so many channels."""
    if isinstance(given, nn.Module):
        return partial(copy.deepcopy, given)  # the user's own module is not trained in place
    if isinstance(given, str):
        return partial(ENCODERS[one_of("encoder", given, tuple(ENCODERS))], channels)
    if callable(given):
        return given  # type: ignore[no-any-return]
    raise InputError(
        f"encoder={given!r} is not known; give {' or '.join(map(repr, ENCODERS))}, a torch "
        "module, or a function that makes one."
    )


def augmentation_of(given: Any) -> Augmentation:
    """By name, as options, or as it is."""
    if isinstance(given, Augmentation):
        return given
    if isinstance(given, Mapping):
        return Augmentation.of(given)
    return AUGMENTATIONS[one_of("augmentation", given, tuple(AUGMENTATIONS))]


def device_name(given: Any) -> str:
    """The device, if torch has it here; "auto" is a GPU where there is one."""
    if isinstance(given, str) and given == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(given)
        torch.empty(0, device=found)  # torch knows names of devices that this machine lacks
    except Exception as error:
        raise InputError(
            f"device={given!r} is not here ({type(error).__name__}); give 'cpu', or 'cuda' where "
            "torch sees one."
        ) from None
    return str(found)
