"""``history_``: what a run notes of its rounds, and the lines that ``verbose`` prints of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.checks import whole
from unpooled.messages.message import Note
from unpooled.types import Array


class History:
    """Collects one value per name and round; with ``verbose`` prints them as they come.

    The lines are those of scikit-learn's k-means, on standard output.
    """

    _cost = "inertia"
    """How the cost is called in print."""

    def __init__(self, verbose: Any = 0) -> None:
        level = int(verbose) if isinstance(verbose, bool | np.bool_) else verbose
        self._verbose = whole("verbose", level, 0) > 0
        self._begun = False
        self._rounds: dict[str, list[float]] = defaultdict(list)

    def record(self, note: Note) -> None:
        """Adds what was noted of a round."""
        self._add(note.round, {name: value.item() for name, value in note.body.items()})

    def _add(self, number: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._rounds[name].append(value)
        self._say(number, values)

    def _say(self, number: int, values: Mapping[str, float]) -> None:
        if not self._verbose:
            return
        line = ", ".join(
            f"{self._cost if name == 'cost' else name} {value:.9g}"
            for name, value in values.items()
        )
        if "movement" not in values:  # what came before the first iteration, or of one round only
            print(line)
            return
        if not self._begun:
            print("Initialization complete")
        self._begun = True
        print(f"Iteration {number}, {line}.")

    def converged(self, iterations: int, movement: float) -> None:
        """Prints that the last iteration moved centres by no more than the tolerance."""
        if self._verbose:
            how = f"center shift {movement:.9g} within tolerance"
            print(
                f"Converged at iteration {iterations - 1}: "
                f"{how if movement > 0 else 'strict convergence'}."
            )

    def arrays(self) -> dict[str, Array]:
        """The rounds as arrays."""
        return {name: np.asarray(values) for name, values in self._rounds.items()}
