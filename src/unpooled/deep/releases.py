"""The messages of DeepFeCA, declared: their fields, shapes and types, and what they disclose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unpooled.deep import vectors
from unpooled.messages.release import FINITE, AtMost, Release

WEIGHTS, CHANNEL_MEAN, CHANNEL_SCALE = "deep.weights", "deep.mean", "deep.scale"
CLUSTERING = "deep.clustering"


def network_release(n_weights: int, n_channels: int) -> Release:
    """What every question about clusters carries: all that a party needs to embed its images."""
    channels = (n_channels,)
    return Release(
        "model",
        (WEIGHTS, CHANNEL_MEAN, CHANNEL_SCALE, CLUSTERING),
        ("model",),
        "the network, the channels' scale, and how many clusterings came before",
        shapes={
            WEIGHTS: (n_weights,),
            CHANNEL_MEAN: channels,
            CHANNEL_SCALE: channels,
            CLUSTERING: (),
        },
        types={WEIGHTS: vectors.DTYPE, CLUSTERING: "int64"},
    )


def party_releases(n_weights: int, n_channels: int) -> tuple[Release, ...]:
    """What parties send besides what the inner protocol asks of them."""
    channels = (n_channels,)
    return (
        Release(
            "pixels",
            ("count", "sums", "squares"),
            ("sums", "counts"),
            "sums over all rows: their number, each channel's values and their squares",
            shapes={"count": (), "sums": channels, "squares": channels},
            bounds={"squares": FINITE},
        ),
        Release(
            "train",
            ("weights", "count", "loss"),
            ("network-weights", "counts"),
            "the network after training on all rows, their number, and the mean loss",
            # One network, or none from a party that does not train in this round.
            shapes={"weights": (AtMost(1), n_weights), "count": (), "loss": ()},
            types={"weights": vectors.DTYPE},
        ),
    )


def coordinator_asks(network: Release, n_components: int) -> tuple[Release, ...]:
    """What the coordinator sends along with its own two questions."""
    return (
        Release("pixels", (), ("model",), "nothing but the question"),
        replace(
            network,
            kind="train",
            fields=(*network.fields, "prototypes", "chosen", "span"),
            why="the network, the channels' scale, the prototypes, and who is to train",
            shapes={
                **network.shapes,
                "prototypes": (AtMost(np.inf, "prototypes"), n_components),
                "chosen": (AtMost(np.inf),),
                "span": (2,),
            },
            types={**network.types, "chosen": "int64"},
        ),
    )
