"""A live line on a terminal: rounds done, the loss, and the time that is left."""

from __future__ import annotations

import sys
from time import monotonic


class ProgressLine:
    """Written to standard error; nothing is written where that is no terminal."""

    def __init__(self, rounds: int) -> None:
        self._rounds, self._begin, self._first = rounds, monotonic(), 0
        self._live = sys.stderr.isatty()

    def show(self, done: int, loss: float) -> None:
        """After a round."""
        if not self._live:
            return
        # A resumed fit begins at a later round: only rounds of this process are timed.
        self._first = self._first or done
        passed = monotonic() - self._begin
        left = passed / (done - self._first + 1) * (self._rounds - done)
        share = done / self._rounds
        bar = ("█" * round(20 * share)).ljust(20, "·")
        sys.stderr.write(
            f"\r\x1b[K{bar} round {done} of {self._rounds}, loss {loss:.3f}, {left:.0f} s left"
        )
        sys.stderr.flush()

    def end(self) -> None:
        """After the last one."""
        if self._live and self._first:
            sys.stderr.write("\n")
