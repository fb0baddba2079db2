"""When to log something that happens again and again: often at first, then ever more seldom."""

from __future__ import annotations

_FIRST = 3


def worth_logging(times: int) -> bool:
    """Whether to log the ``times``-th time of something: the 1st to 4th, 8th, 16th, 32nd ...

    So whoever repeats it a million times fills no disk: that makes 21 lines.
    """
    return times <= _FIRST or times & (times - 1) == 0
