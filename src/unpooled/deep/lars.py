"""Layer-wise adaptive learning rates (You, Gitman & Ginsburg 2017), which torch does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


class LARS(torch.optim.Optimizer):
    """Gradient descent with momentum, in which every layer steps in proportion to its own size.

    For a weight matrix w with gradient g and decay λ:

        v ← μ v + γ |w| / |g + λ w| (g + λ w),    w ← w - η v,

    with γ = ``trust``. Biases and normalisations (one-dimensional) are neither scaled nor decayed.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step of all parameters that have a gradient."""
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is None:
                    continue
                step = w.grad
                if w.ndim > 1:
                    step = step + group["weight_decay"] * w
                    size, slope = w.norm(), step.norm()
                    step = step * torch.where(
                        (size > 0) & (slope > 0), group["trust"] * size / slope, 1.0
                    )
                if "velocity" not in self.state[w]:
                    self.state[w]["velocity"] = torch.zeros_like(w)
                velocity = self.state[w]["velocity"]
                velocity.mul_(group["momentum"]).add_(step)
                w.sub_(group["lr"] * velocity)
