"""Multi-crop augmentation: several random views of every image, made for a whole batch at once.

A view is a random rectangle of the image, turned, mirrored and resized to a fixed size, with its
colours changed. All of the first is one affine map of coordinates, all of the second one affine map
of colours per image,

    y = A x + t,    A = S^-1 b H (c I) D,    t so that grey stays where contrast puts it,

where D mixes colours with their grey value (saturation, or grey altogether), c is contrast, H a
rotation of hue about the grey axis, b brightness, and S^-1 brings every channel to unit scale. So a
batch costs one sampling and one small matrix product, whatever is switched on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from unpooled.checks import flag, number, whole
from unpooled.errors import InputError

_GREY = torch.tensor([0.299, 0.587, 0.114]).expand(3, 3)
"""How bright the eye finds red, green and blue, for every colour."""
_AXIS = torch.full((3, 3), 1 / 3)
_ACROSS = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]) / math.sqrt(3)
"""The projection onto the grey axis of colour space, and the product with it."""


@dataclass(frozen=True)
class Augmentation:
    """How views are made. Sizes are shares of the image's side, scales shares of its area.

    Parameters
    ----------
    large : int, default=2
        Views of the first kind (DeepCluster-v2: 2).
    small : int, default=0
        Views of the second kind (DeepCluster-v2: 6, a quarter of the pixels of a large one).
    large_size : float, default=1.0
        Side of a large view.
    small_size : float, default=0.5
        Side of a small view.
    large_scale : (float, float), default=(0.25, 1.0)
        The share of the image that a large view shows, least and most.
    small_scale : (float, float), default=(0.08, 0.25)
        The same of a small view.
    aspect : float, default=4/3
        Width to height lies between this and its inverse.
    rotation : float, default=0.0
        Degrees to either side.
    flip : bool, default=True
        Whether half of the views are mirrored.
    colour : float, default=0.5
        How far brightness, contrast and saturation go from 1; hue goes a quarter as far.
    grey : float, default=0.2
        The share of views without colour.
    """

    large: int = 2
    small: int = 0
    large_size: float = 1.0
    small_size: float = 0.5
    large_scale: tuple[float, float] = (0.25, 1.0)
    small_scale: tuple[float, float] = (0.08, 0.25)
    aspect: float = 4 / 3
    rotation: float = 0.0
    flip: bool = True
    colour: float = 0.5
    grey: float = 0.2

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Augmentation:
        """From a table of options, as a plan has it."""
        for name in options:
            if name not in cls.__dataclass_fields__:
                raise InputError(
                    f"An augmentation has no option {name!r}; it has "
                    f"{', '.join(cls.__dataclass_fields__)}."
                )
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in options.items()
        }
        return cls(**given)

    def __post_init__(self) -> None:
        whole("large", self.large, 1)
        whole("small", self.small, 0)
        flag("flip", self.flip)
        number("aspect", self.aspect, least=1.0, most=100.0)
        number("rotation", self.rotation, most=180.0)
        for name in ("large_size", "small_size"):
            number(name, getattr(self, name), above=0.0, most=4.0)
        for name in ("colour", "grey"):
            number(name, getattr(self, name), most=1.0)
        for name in ("large_scale", "small_scale"):
            given = getattr(self, name)
            if not isinstance(given, tuple) or len(given) != 2 or not 0 < given[0] <= given[1] <= 1:
                raise InputError(f"{name}={given!r} must be two rising shares of the area.")

    def views(self, images: Tensor, scaling: tuple[Tensor, Tensor], rng: torch.Generator) -> Views:
        """All views of a batch, large ones first; those of one size are in one tensor."""
        found = []
        for count, size, scale in (
            (self.large, self.large_size, self.large_scale),
            (self.small, self.small_size, self.small_scale),
        ):
            if count:
                several = images.repeat(count, 1, 1, 1) if count > 1 else images
                cropped = self._cropped(several, size, scale, rng)
                found.append(self._coloured(cropped, scaling, rng))
        return found

    def _cropped(
        self, images: Tensor, size: float, scale: tuple[float, float], rng: torch.Generator
    ) -> Tensor:
        n, _, height, width = images.shape
        area, ratio, x, y, angle, side = torch.rand(6, n, generator=rng)
        area = scale[0] + (scale[1] - scale[0]) * area
        ratio = torch.exp(math.log(self.aspect) * _around(ratio))
        w, h = (area * ratio).sqrt().clamp(max=1.0), (area / ratio).sqrt().clamp(max=1.0)
        x, y = (1 - w) * _around(x), (1 - h) * _around(y)
        mirror = torch.where(side < 0.5, -1.0, 1.0) if self.flip else 1.0
        angle = math.radians(self.rotation) * _around(angle)
        cos, sin = torch.cos(angle), torch.sin(angle)
        theta = torch.stack([mirror * w * cos, -h * sin, x, mirror * w * sin, h * cos, y])
        grid = _grid(theta.to(images), max(1, round(size * height)), max(1, round(size * width)))
        return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)

    def _coloured(
        self, images: Tensor, scaling: tuple[Tensor, Tensor], rng: torch.Generator
    ) -> Tensor:
        """The colours changed, and every channel at zero mean and unit scale."""
        mean, scale = scaling
        n, channels = images.shape[:2]
        if not self.colour and not (self.grey and channels == 3):
            return (images - mean.view(1, -1, 1, 1)) / scale.view(1, -1, 1, 1)
        drawn = torch.rand(5, n, 1, 1, generator=rng)
        brightness, contrast, saturation = 1 + self.colour * _around(drawn[:3])
        mix = torch.eye(channels).expand(n, channels, channels)
        if channels == 3:
            saturation = torch.where(drawn[3] < self.grey, 0.0, saturation)
            mix = saturation * mix + (1 - saturation) * _GREY
            mix = _hue(math.pi / 4 * self.colour * _around(drawn[4])) @ mix
        middle = images.mean(dim=(1, 2, 3)).view(n, 1, 1)
        a = (brightness * contrast * mix).to(images)
        t = (brightness * (1 - contrast)).to(images) * middle
        a, t = a / scale.view(1, -1, 1), (t - mean.view(1, -1, 1)) / scale.view(1, -1, 1)
        coloured = torch.baddbmm(t, a, images.flatten(2)).view_as(images)
        return coloured.contiguous(memory_format=torch.channels_last)


Views = list[Tensor]

NATURAL = Augmentation()
"""For photographs."""
SIGNS = Augmentation(large_scale=(0.5, 1.0), aspect=1.25, rotation=15.0, flip=False, grey=0.0)
"""For digits and letters, which are other ones when mirrored or turned far."""
AUGMENTATIONS = {"natural": NATURAL, "signs": SIGNS}


def _around(share: Tensor) -> Tensor:
    """Between -1 and 1 what was drawn between 0 and 1."""
    return 2 * share - 1


def _grid(theta: Tensor, height: int, width: int) -> Tensor:
    """Where each pixel of a view lies in its image: (n, height, width, 2).

    ``theta`` has six numbers per view, the rows of its 2 x 3 matrix. What hangs on the column and
    what on the row are found apart, and only their sum is as large as the view; torch's own
    affine_grid multiplies matrices of two columns and takes ten times as long.
    """
    n = theta.shape[1]
    along_x, along_y, shift = theta.view(2, 3, n, 1, 1).permute(1, 2, 0, 3, 4)
    columns = torch.arange(1 - width, width, 2).to(theta) / width
    rows = torch.arange(1 - height, height, 2).to(theta) / height
    places: Tensor = along_x * columns + (along_y * rows[:, None] + shift)
    return places.permute(0, 2, 3, 1)


def _hue(angle: Tensor) -> Tensor:
    """The rotations of colour space about the grey axis (Rodrigues)."""
    cos = torch.cos(angle)
    return cos * torch.eye(3) + torch.sin(angle) * _ACROSS + (1 - cos) * _AXIS
