"""How long a run on a network waits for whom."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Timeouts in seconds: of one exchange or question, and of all waiting for somebody."""

    round_timeout: float = 30.0
    patience: float = 120.0
