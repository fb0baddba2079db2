"""Networks that turn images into features, and the projection in whose space they are clustered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from unpooled.checks import one_of

Normaliser: TypeAlias = Callable[[int], nn.Module]


def _normaliser(norm: str) -> Normaliser:
    """ "batch", or "group": which has no statistics that parties would have to agree on."""
    if one_of("norm", norm, ("batch", "group")) == "batch":
        return nn.BatchNorm2d
    return lambda width: nn.GroupNorm(math.gcd(8, width), width)


class ConvNet(nn.Module):
    """Four convolutions, each with a normalisation, ReLU and (but the last) a pooling.

    Has ``8 * width`` features: the mean of the last map. Images may be of any size from 1 pixel on.

    Parameters
    ----------
    channels : int, default=3
        Of the images.
    width : int, default=24
        Maps of the first layer.
    norm : {"batch", "group"}, default="batch"
        How layers are normalised.
    """

    def __init__(self, channels: int = 3, width: int = 24, norm: str = "batch") -> None:
        super().__init__()
        normalise = _normaliser(norm)
        layers: list[nn.Module] = []
        for i in range(4):
            before, after = channels if i == 0 else width * 2 ** (i - 1), width * 2**i
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), normalise(after)]
            layers += [nn.ReLU(inplace=True)]
            if i < 3:  # an odd pixel at the border is pooled alone
                layers += [nn.MaxPool2d(2, ceil_mode=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) to (n, features)."""
        maps: Tensor = self.layers(images)
        return maps.mean(dim=(2, 3))


class _Block(nn.Module):
    """Two convolutions beside a shortcut (He et al. 2016)."""

    def __init__(self, before: int, after: int, stride: int, normalise: Normaliser) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            normalise(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            normalise(after),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), normalise(after)
            )

    def forward(self, maps: Tensor) -> Tensor:
        both: Tensor = self.layers(maps) + self.shortcut(maps)
        return functional.relu(both)


class ResNet18(nn.Module):
    """ResNet-18 with the stem for small images: a 3 x 3 convolution, no pooling (He et al. 2016).

    Has ``8 * width`` features, 512 as in the paper.

    Parameters
    ----------
    channels : int, default=3
        Of the images.
    width : int, default=64
        Maps of the first layer.
    norm : {"batch", "group"}, default="batch"
        How layers are normalised.
    """

    def __init__(self, channels: int = 3, width: int = 64, norm: str = "batch") -> None:
        super().__init__()
        normalise = _normaliser(norm)
        layers: list[nn.Module] = [
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            normalise(width),
            nn.ReLU(inplace=True),
        ]
        before = width
        for stage in range(4):
            after = width * 2**stage
            layers += [_Block(before, after, 1 if stage == 0 else 2, normalise)]
            layers += [_Block(after, after, 1, normalise)]
            before = after
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """(n, channels, height, width) to (n, features)."""
        maps: Tensor = self.layers(images)
        return maps.mean(dim=(2, 3))


ENCODERS: dict[str, Callable[[int], nn.Module]] = {"convnet": ConvNet, "resnet18": ResNet18}
"""By name, from the number of channels."""


class Network(nn.Module):
    """An encoder f and the projection g after it; images are clustered as g(f(x)) / |g(f(x))|.

    As in DeepCluster-v2 the projection has one hidden layer as wide as the features, and what is
    used in the end are the features before it. With ``components=0`` there is no projection.
    """

    def __init__(self, encoder: nn.Module, n_features: int, components: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection: nn.Module = nn.Identity()
        if components:
            self.projection = nn.Sequential(
                nn.Linear(n_features, n_features, bias=False),
                nn.BatchNorm1d(n_features),
                nn.ReLU(inplace=True),
                nn.Linear(n_features, components),
            )
        self.components = components or n_features
        self.centre = nn.BatchNorm1d(self.components, affine=False)

    def features(self, images: Tensor) -> Tensor:
        """f(x)."""
        found: Tensor = self.encoder(images)
        return found

    def forward(self, images: Tensor) -> Tensor:
        """The points on the unit sphere that are clustered."""
        return functional.normalize(self.centre(self.projection(self.features(images))))


def width_of(encoder: nn.Module, image_shape: tuple[int, ...]) -> int:
    """How many features the encoder has, tried on one black image."""
    was = encoder.training
    with torch.no_grad():
        features = encoder.eval()(torch.zeros(1, *image_shape))
    encoder.train(was)
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 1:
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"it makes {shape} of one image instead of (1, features)")
    return int(features.shape[1])
