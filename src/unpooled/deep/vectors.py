"""A network as one vector of numbers, which is how it travels, and the mean of several.

The vector has all parameters and all buffers of floating-point type. Whole-number buffers (how many
batches a batch normalisation has seen) stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unpooled.errors import ProtocolError
from unpooled.types import FloatArray

DTYPE = "float32"
"""How the vector travels."""


def _float_tensors(network: nn.Module) -> list[tuple[str, Tensor]]:
    """What travels, in the order of the network's state."""
    return [
        (name, value)
        for name, value in network.state_dict(keep_vars=True).items()
        if value.is_floating_point()
    ]


def count(network: nn.Module) -> int:
    """How many numbers the vector has."""
    return sum(value.numel() for _, value in _float_tensors(network))


def to_vector(network: nn.Module) -> NDArray[np.float32]:
    """The network's numbers."""
    flat = [
        value.detach().cpu().to(torch.float32).reshape(-1) for _, value in _float_tensors(network)
    ]
    return torch.cat(flat).numpy()


def from_vector(network: nn.Module, vector: NDArray[np.float32]) -> None:
    """Puts the numbers in their places."""
    if len(vector) != count(network):
        raise ProtocolError(
            f"A network of {count(network)} numbers was sent {len(vector)}; use the same encoder "
            "everywhere."
        )
    values = torch.from_numpy(np.array(vector, dtype=np.float32))
    place = 0
    with torch.no_grad():
        for _, value in _float_tensors(network):
            value.copy_(values[place : place + value.numel()].view_as(value))
            place += value.numel()


def averaged(
    network: nn.Module,
    vectors: Sequence[NDArray[np.float32]],
    weights: FloatArray,
    batch_norm: str,
) -> NDArray[np.float32]:
    """Σ_m w_m θ_m / Σ_m w_m, and the statistics of batch normalisations of all rows together.

    Parties' running means μ_m and variances v_m are those of their own rows. "pooled" makes of them
    what pooled rows have: μ = Σ p_m μ_m and v = Σ p_m (v_m + μ_m²) - μ², with p_m = w_m / Σ w. The
    mean of the v_m alone ("averaged", plain FedAvg) is too small by the variance of the μ_m, and
    the more so the less alike parties are.
    """
    shares = weights / weights.sum()
    mean = np.zeros(len(vectors[0]))
    for share, vector in zip(shares, vectors, strict=True):  # one after the other: little memory
        mean += share * vector
    if batch_norm == "pooled":
        for means, variances in _statistics(network):
            own = [np.square(vector[means], dtype=np.float64) for vector in vectors]
            spread = np.average(own, axis=0, weights=shares) - np.square(mean[means])
            mean[variances] += np.maximum(spread, 0.0)
    return mean.astype(np.float32)


def _statistics(network: nn.Module) -> list[tuple[slice, slice]]:
    """Where the running means and variances of each batch normalisation are."""
    places, place = {}, 0
    for name, value in _float_tensors(network):
        places[name] = slice(place, place + value.numel())
        place += value.numel()
    return [
        (places[f"{name}.running_mean"], places[f"{name}.running_var"])
        for name, module in network.named_modules()
        if isinstance(module, _BatchNorm) and f"{name}.running_mean" in places
    ]
