"""Small images and networks, and DeepCluster written down plainly, for tests to compare with."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from unpooled.data.parties import Parties
from unpooled.deep.augmentation import SIGNS
from unpooled.deep.encoders import ConvNet
from unpooled.deep.protocol import DeepClustering
from unpooled.deep.training import Training
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.one_shot import OneShotKMeans

DIGITS, CLASSES = load_digits(return_X_y=True)
IMAGES = DIGITS[:120]


def tiny() -> nn.Module:
    """A network that trains in no time."""
    return ConvNet(1, width=2)


def parties(n: int = 3, images: np.ndarray = IMAGES) -> Parties:
    """The images dealt out."""
    return Parties.of([images[i::n] for i in range(n)], names=[f"P{i}" for i in range(n)])


def protocol(**options: Any) -> DeepClustering:
    """Two rounds on digits."""
    given: dict[str, Any] = {
        "inner": FeCA(6, 6, n_init=1),
        "final": FeCA(4, 4, n_init=1),
        "build": tiny,
        "image_shape": (1, 8, 8),
        "rounds": 2,
        "components": 0,
        "training": Training(batch_size=16),
        "augmentation": SIGNS,
    }
    return DeepClustering(**{**given, **options})


one_shot = partial(OneShotKMeans, n_init=1)


class Dropping(nn.Module):
    """An encoder with dropout, which draws from the random numbers of the process."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 8)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, 1, 8, 8) to (n, 8)."""
        found: torch.Tensor = self.layers(images)
        return found
