"""The network in use: built, loaded from the vector that was sent, and applied to rows of images.

A row becomes the point h(x) = g(f(x)) / |g(f(x))| of the unit sphere (see
:class:`unpooled.deep.encoders.Network`), with channels brought to mean 0 and scale 1 before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from unpooled.deep import vectors
from unpooled.deep.encoders import Network, width_of
from unpooled.deep.releases import CHANNEL_MEAN, CHANNEL_SCALE, WEIGHTS
from unpooled.deep.working import working
from unpooled.types import Body, FloatArray

_BATCH_ROWS = 256
"""Images that are turned into features at a time."""


@dataclass(frozen=True, eq=False)
class Inference:
    """Networks of one form, on one device; ``build`` makes the encoder."""

    build: Callable[[], nn.Module]
    image_shape: tuple[int, int, int]
    components: int
    device: str

    @cached_property
    def template(self) -> Network:
        """A network of the right form; its numbers are replaced by those that are sent."""
        return self.new_network(0)

    @cached_property
    def draws(self) -> bool:
        """Whether the network draws random numbers in training (dropout): seen by trying."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            before = torch.default_generator.get_state()
            copy.deepcopy(self.template).train()(torch.zeros(4, *self.image_shape))
            return not torch.equal(torch.default_generator.get_state(), before)

    def new_network(self, seed: int) -> Network:
        """A network with random weights, without touching the process's own random numbers."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            encoder = self.build()
            network = Network(encoder, width_of(encoder, self.image_shape), self.components)
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def load(self, parameters: Body) -> tuple[Network, tuple[Tensor, Tensor]]:
        """The network that was sent, set to evaluation, and the channels' mean and scale."""
        network = copy.deepcopy(self.template)
        vectors.from_vector(network, parameters[WEIGHTS])
        mean, scale = (
            torch.from_numpy(parameters[name].astype(np.float32)).to(self.device)
            for name in (CHANNEL_MEAN, CHANNEL_SCALE)
        )
        return network.to(self.device).eval(), (mean, scale)

    def images(self, rows: FloatArray) -> Tensor:
        """Rows as images, on the device."""
        shaped = rows.reshape(len(rows), *self.image_shape).astype(np.float32)
        return torch.from_numpy(shaped).to(self.device)

    def embed(self, rows: FloatArray, parameters: Body) -> FloatArray:
        """The images' places on the unit sphere."""
        with working(self.draws, 0):
            network, scaling = self.load(parameters)
            return self._in_batches(network, rows, scaling)

    def features(self, rows: FloatArray, parameters: Body) -> FloatArray:
        """The encoder's features, before any projection."""
        with working(self.draws, 0):
            network, scaling = self.load(parameters)
            return self._in_batches(network.features, rows, scaling)

    def _in_batches(
        self,
        call: Callable[[Tensor], Tensor],
        rows: FloatArray,
        scaling: tuple[Tensor, Tensor],
    ) -> FloatArray:
        """What the network makes of images as they are, some at a time."""
        mean, scale = (value.view(1, -1, 1, 1) for value in scaling)
        # No rows still make one batch, so that the result has the right number of columns.
        starts = range(0, max(len(rows), 1), _BATCH_ROWS)
        with torch.inference_mode():
            batches = [
                call((self.images(rows[start : start + _BATCH_ROWS]) - mean) / scale).cpu()
                for start in starts
            ]
            return torch.cat(batches).numpy().astype(np.float64)
