"""Distributed coresets (Balcan, Ehrlich & Liang 2013), for k-means and k-median.

Two questions, whatever the data:

1. ``cost``: every party clusters its own rows into at most K centres B_i and says what they cost
   it, M_i = sum of w d^2 (k-means) or of w d (k-median). The coordinator adds up M, and allots the
   t = ``coreset_size`` draws in proportion to M_i.
2. ``coreset``: every party draws its t_i rows in proportion to w d^2 (or w d), and sends them and
   its k_i = |B_i| centres, each with a weight. The coordinator clusters the union.

Weights, and why the cost on the coreset is unbiased for any centres, are in
:mod:`unpooled.kernels.lloyd.coreset`. A party with at most K distinct rows pays nothing: its
centres are its rows, and it draws none. A party without rows sends none of either.

Together the parties send sum over i of 1 + (t_i + k_i)(d + 1) numbers, where the t_i add up to t
(to 0 if nobody pays anything): the number of parties multiplies K, never t.

A question is the same for all parties, so allotments are sent under a digest of the party's name.
That lets every party see the others' t_i, about t M_i / M; in the paper all M_i are public.

Every row drawn leaves as it is; where a party is its cells, these are means of cells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.errors import InputError, ProtocolError
from unpooled.kernels.lloyd import kmeans, kmedian
from unpooled.kernels.lloyd.coreset import (
    CoresetPart,
    draw_coreset,
    row_costs,
    shares,
    without_negatives,
)
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import COLUMNS, FINITE, AtMost, Release
from unpooled.protocols.star.base import Answer, Coordinator, StarProtocol, Step
from unpooled.types import Array, Body, FloatArray, PartyId, all_rows

OBJECTIVES = {"kmeans": 2, "kmedian": 1}
"""Each objective's power of the distance."""


@dataclass(frozen=True)
class CoresetKMeans(StarProtocol):
    """Clusters a weighted sample of all parties' rows that stands for the rest.

    ``coreset_size`` is how many rows are drawn in all, besides the parties' centres; ``n_init`` is
    how often each clustering, the parties' and the last one, is started.

    The result has ``centers``, and the coreset they were found on: ``rows`` with ``weights`` as in
    the paper, some of which may be negative.
    """

    n_clusters: int
    coreset_size: int
    objective: str = "kmeans"
    n_init: int = 10
    name: ClassVar[str] = "coreset"

    @property
    def releases(self) -> tuple[Release, ...]:
        drawn, found = AtMost(self.coreset_size, "drawn"), AtMost(self.n_clusters, "centers")
        return (
            Release(
                "cost",
                ("cost",),
                ("rows", "sums"),
                "what the party's own clustering costs it: with many clusters, a row's distance",
                shapes={"cost": (1,)},
                bounds={"cost": FINITE},
            ),
            Release(
                "coreset",
                ("rows", "weights", "centers", "center_weights"),
                ("rows", "sums", "counts"),
                "rows drawn at random and the centres of all the party's clusters, with weights",
                shapes={
                    "rows": (drawn, COLUMNS),
                    "weights": (drawn,),
                    "centers": (found, COLUMNS),
                    "center_weights": (found,),
                },
            ),
        )

    @property
    def asks(self) -> tuple[Release, ...]:
        parties = AtMost(inf, "parties")  # a protocol does not know how many there will be
        return (
            Release("cost", (), ("model",), "nothing"),
            Release(
                "coreset",
                ("total", "party", "share"),
                ("sums",),
                "the cost of all parties, and how many rows each is to draw",
                shapes={"total": (1,), "party": (parties,), "share": (parties,)},
                bounds={"total": FINITE},
                types={"party": "uint64", "share": "int64"},
            ),
        )

    def coordinator(self, rng: np.random.Generator) -> Coordinator:
        replies = yield Ask("cost")
        costs = np.array([_finite(name, reply["cost"]) for name, reply in replies.items()])
        allotted = allotments(replies, costs, self.coreset_size, rng)
        replies = yield Ask("coreset", {"total": np.array([costs.sum()]), **allotted})
        parts = [CoresetPart(**reply) for reply in replies.values()]
        rows, weights = _union([without_negatives(part) for part in parts])
        if not (weights > 0).any():
            raise InputError("No party has a row of positive weight; give at least one.")
        centers = self._cluster(rows, weights, rng).centers
        paid = weights * row_costs(rows, centers, self._power)[0]
        yield Note(0, {"received": np.array(len(rows)), "cost": np.array(paid.sum())})
        return {
            "centers": centers,
            "rows": rows,
            "weights": _union(parts)[1],
            "rounds": np.array(2),
        }

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"cost": self._cost, "coreset": self._coreset}

    def _cost(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        rows, weights = with_weight(data)
        if len(rows) == 0:
            centers, cost = rows, 0.0
        else:
            centers = self._cluster(rows, weights, rng).centers
            cost = float((weights * row_costs(rows, centers, self._power)[0]).sum())
        return {"cost": np.array([cost])}, {"centers": centers}

    def _coreset(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        share = own_share(data.name, body, self.coreset_size)
        rate = float(body["total"][0]) / self.coreset_size
        part = draw_coreset(
            *with_weight(data),
            state["centers"],
            self._power,
            share=share,
            rate=rate,
            rng=rng,
        )
        return vars(part), state

    @property
    def _power(self) -> int:
        return OBJECTIVES[self.objective]

    def _cluster(
        self, rows: FloatArray, weights: FloatArray, rng: np.random.Generator
    ) -> kmeans.Clustering:
        method = kmeans.cluster if self.objective == "kmeans" else kmedian.cluster
        return method(rows, weights, self.n_clusters, self.n_init, rng)


def party_digest(name: PartyId) -> int:
    """64 bits that stand for a party's name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def allotments(
    names: Iterable[PartyId], costs: FloatArray, size: int, rng: np.random.Generator
) -> dict[str, Array]:
    """How many of ``size`` rows each party is to draw, in proportion to its cost."""
    return {
        "party": np.array([party_digest(name) for name in names], dtype=np.uint64),
        "share": shares(costs, size, rng),
    }


def own_share(name: PartyId, allotted: Body, size: int) -> int:
    """How many of them are this party's; none if it is not named."""
    share = int(allotted["share"][allotted["party"] == np.uint64(party_digest(name))].sum())
    if not 0 <= share <= size:
        raise ProtocolError(
            f"Party {name} was asked for {share} rows, where all parties together send {size}."
        )
    return share


def with_weight(data: PartyData) -> tuple[FloatArray, FloatArray]:
    """The rows of positive weight: the others are as good as absent."""
    rows, there = all_rows(data.rows), data.weights > 0
    return (rows, data.weights) if there.all() else (rows[there], data.weights[there])


def _union(parts: list[CoresetPart]) -> tuple[FloatArray, FloatArray]:
    """All parts' rows and centres, and what each counts."""
    rows = [table for part in parts for table in (part.rows, part.centers)]
    weights = [column for part in parts for column in (part.weights, part.center_weights)]
    return np.concatenate(rows), np.concatenate(weights)


def _finite(name: PartyId, cost: FloatArray) -> float:
    if not np.isfinite(cost).all():
        raise InputError(
            f"Party {name} has rows or weights so large that they cost {cost[0]:g}; rescale them."
        )
    return float(cost[0])
