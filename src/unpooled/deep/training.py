"""Local training of a round: the network learns to distinguish the clusters of a party's images.

As in DeepCluster-v2 (Caron et al. 2020), every view of an image is to be classified as the image's
cluster, by a linear head of unit prototypes over a temperature τ:

    loss = - log softmax_j(z · c_j / τ)[label],    z = g(f(view)) / |g(f(view))|.

The head is the centres themselves, and stays ("fixed", DeepCluster-v2), or is a linear classifier
that begins there in every round and is trained along ("trained", which Xu et al. 2024 describe; it
never leaves the party). Learning rates fall along a cosine over all rounds, after an optional
linear warm-up; momentum begins anew in every round, since a party keeps nothing of an optimiser.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from unpooled.deep.augmentation import Augmentation
from unpooled.deep.encoders import Network
from unpooled.deep.lars import LARS

HEADS = ("fixed", "trained")
OPTIMIZERS = ("sgd", "lars")


@dataclass(frozen=True)
class Training:
    """The choices of local training; the defaults are for small networks and images."""

    epochs: int = 1
    batch_size: int = 64
    learning_rate: float = 0.05
    optimizer: str = "sgd"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    temperature: float = 0.1
    head: str = "trained"
    warmup: float = 0.0
    """The share of all rounds in which the learning rate rises from 0."""

    def rate(self, progress: float) -> float:
        """The learning rate after this share of all training."""
        if progress < self.warmup:
            return self.learning_rate * progress / self.warmup
        left = (progress - self.warmup) / (1 - self.warmup)
        return self.learning_rate * (1 + math.cos(math.pi * min(left, 1.0))) / 2


def train(
    network: Network,
    images: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    centers: Tensor,
    scaling: tuple[Tensor, Tensor],
    training: Training,
    augmentation: Augmentation,
    span: tuple[float, float],
    rng: torch.Generator,
) -> float:
    """Trains the network in place; the mean loss of the last epoch.

    ``span`` is what of all training this is: from where to where, as shares. ``weights`` are those
    of the images, with a mean of 1; None if all count alike.
    """
    head = nn.Parameter(centers.clone(), requires_grad=training.head == "trained")
    optimizer = _optimizer([*network.parameters(), head], training)
    batches = len(_cuts(len(images), training.batch_size)) + 1
    total, done = 0.0, 0
    network.train()
    for _ in range(training.epochs):
        total = 0.0
        for rows in _batches(len(images), training.batch_size, rng):
            progress = span[0] + (span[1] - span[0]) * done / (batches * training.epochs)
            for group in optimizer.param_groups:
                group["lr"] = training.rate(progress)
            views = augmentation.views(images[rows], scaling, rng)
            logits = torch.cat([network(view) for view in views]) @ head.T / training.temperature
            times = len(logits) // len(rows)
            losses = functional.cross_entropy(logits, labels[rows].repeat(times), reduction="none")
            if weights is not None:
                losses = losses * weights[rows].repeat(times)
            loss = losses.mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss.detach()) * len(rows)
            done += 1
    return total / len(images)


def _optimizer(parameters: list[nn.Parameter], training: Training) -> torch.optim.Optimizer:
    """For the parameters that are trained: those of a fixed head, or of frozen layers, are not."""
    kind = LARS if training.optimizer == "lars" else torch.optim.SGD
    return kind(
        [p for p in parameters if p.requires_grad],
        lr=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )


def _batches(n: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """All rows once, in random order; a single one left over goes with the batch before it.

    Batch normalisation has no variance of a single image.
    """
    yield from torch.tensor_split(torch.randperm(n, generator=rng), _cuts(n, size))


def _cuts(n: int, size: int) -> list[int]:
    return list(range(size, n - 1, size))
