"""Means over seeds, for every data set, split and method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unpooled.types import BoolArray, FloatArray

MEASURES = (
    *("cost", "center_cost", "nmi", "accuracy", "bytes", "party_bytes", "floats", "rounds"),
    "parties",
)
"""What a summary has: costs are over those of pooled k-means; ``party_bytes`` are per party."""


class Block(NamedTuple):
    """A case: a data set under a split."""

    file: str
    how: str


@dataclass(frozen=True)
class Summary:
    """Means over seeds: one array (blocks, methods) for each measure."""

    blocks: Sequence[Block]
    methods: Sequence[str]
    means: Mapping[str, FloatArray]
    spread: FloatArray
    """Standard deviation of the cost over seeds, (blocks, methods)."""
    pooled: Mapping[str, Mapping[str, float]]
    """NMI and accuracy of pooled k-means on each data set."""
    deployed: FloatArray | None = None
    """The cost where parties are their cells, (blocks, methods); NaN where nothing came of it."""

    def of(self, measure: str, method: str, where: BoolArray | None = None) -> FloatArray:
        """A measure of a method, in all blocks or in some."""
        column = self.means[measure][:, list(self.methods).index(method)]
        return column if where is None else column[where]

    def where(self, chosen: Callable[[Block], bool]) -> BoolArray:
        """Which blocks are meant."""
        return np.array([chosen(block) for block in self.blocks], dtype=np.bool_)

    @property
    def files(self) -> list[str]:
        """The data sets, each once."""
        return list(dict.fromkeys(block.file for block in self.blocks))

    def per_file(self, measure: str) -> FloatArray:
        """Means over splits too: (data sets, methods)."""
        owner = np.array([block.file for block in self.blocks])
        return np.array([self.means[measure][owner == file].mean(axis=0) for file in self.files])


def summarised(
    fits: Mapping[Block, Mapping[str, Sequence[Mapping[str, Any]]]],
    pooled: Mapping[str, Sequence[Mapping[str, Any]]],
    deployed: Mapping[Block, Mapping[str, Sequence[Mapping[str, Any]]]] | None = None,
) -> Summary:
    """From the fits of each block and method, one per seed, and the pooled ones of each set."""
    blocks = list(fits)
    methods = list(fits[blocks[0]])
    per_seed = {
        (block, method): [
            _relative(fit, reference)
            for fit, reference in zip(fits[block][method], pooled[block.file], strict=True)
        ]
        for block in blocks
        for method in methods
    }

    def table(reduce: Callable[[FloatArray], Any], measure: str) -> FloatArray:
        return np.array(
            [
                [reduce(np.array([run[measure] for run in per_seed[block, m]])) for m in methods]
                for block in blocks
            ],
            dtype=np.float64,
        )

    means = {measure: table(np.mean, measure) for measure in MEASURES}
    reference = {
        file: {name: float(np.mean([run[name] for run in runs])) for name in ("nmi", "accuracy")}
        for file, runs in pooled.items()
    }
    cells = None
    if deployed is not None:
        cells = np.array(
            [[_mean_cost(deployed[b][m], pooled[b.file]) for m in methods] for b in blocks]
        )
    return Summary(blocks, methods, means, table(_deviation, "cost"), reference, cells)


def _mean_cost(fits: Sequence[Mapping[str, Any]], pooled: Sequence[Mapping[str, Any]]) -> float:
    """Over pooled k-means, of the seeds in which there is a result; NaN if there is none."""
    pairs = zip(fits, pooled, strict=False)  # there are more seeds of the pooled fit
    costs = [fit["cost"] / reference["cost"] for fit, reference in pairs if "cost" in fit]
    return float(np.mean(costs)) if costs else np.nan


def _relative(fit: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, float]:
    found = {name: float(fit.get(name, np.nan)) for name in MEASURES if name != "party_bytes"}
    found["party_bytes"] = fit["bytes"] / fit["parties"]
    # Rounding makes the same clustering, its rows added up in another order, the same number.
    for name in ("cost", "center_cost"):
        found[name] = round(found[name] / reference["cost"], 9)
    return found


def _deviation(values: FloatArray) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
