"""DSPGD as published without its compression: numbers about single rows travel.

See :mod:`unpooled.protocols.prepare.dspgd` for the iteration. Here the coordinator holds B and asks
for products with R itself, N numbers at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.errors import ProtocolError
from unpooled.kernels.linalg.lanczos import Lanczos
from unpooled.kernels.linalg.products import matmul, matmul_tn
from unpooled.messages.message import Ask
from unpooled.messages.release import FINITE, AtMost, Release
from unpooled.protocols.prepare.dspgd import (
    DRAW,
    DSPGD,
    DSPGDState,
    Eigenpairs,
    EigenpairSearch,
    about_draw,
)
from unpooled.protocols.prepare.kernel import GAMMA, SEED, finite
from unpooled.protocols.star.base import Answer, Step
from unpooled.protocols.star.coreset import party_digest
from unpooled.types import Body, FloatArray


@dataclass(frozen=True)
class UncompressedDSPGD(DSPGD):
    """Without CEM: the coordinator holds B, and numbers about single rows travel."""

    @property
    def releases(self) -> tuple[Release, ...]:
        why = "a combination of the features of every row, for rows weighted as was asked"
        return (
            Release(
                "sizes",
                ("rows",),
                ("counts",),
                "how many rows",
                shapes={"rows": (1,)},
                union=("rows",),
            ),
            Release(
                "left",
                ("sums",),
                ("rows", "sums"),
                "sums of features over rows weighted as was asked",
                shapes={"sums": (self.kernel.n_features,)},
                bounds={"sums": FINITE},
                additive=("sums",),
            ),
            Release(
                "right",
                ("scores",),
                ("rows",),
                why,
                shapes={"scores": (AtMost(inf),)},
                bounds={"scores": FINITE},
                union=("scores",),
            ),
        )

    @property
    def asks(self) -> tuple[Release, ...]:
        parties = AtMost(inf, "parties")
        left = Release(
            "left",
            ("vector", "party", "size"),
            ("model",),
            "a number for every row of every party, and how many rows each has",
            shapes={"vector": (AtMost(inf),), "party": (parties,), "size": (parties,)},
            types={"party": "uint64", "size": "int64"},
        )
        right = Release(
            "right",
            ("vector",),
            ("model",),
            "a vector",
            shapes={"vector": (self.kernel.n_features,)},
            bounds={"vector": FINITE},
        )
        sizes = Release("sizes", (), ("model",), "nothing but the question")
        return (sizes, about_draw(left), about_draw(right))

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"sizes": _sizes, "left": self.left, "right": self.right}

    def _eigenpairs(self, run: DSPGDState) -> EigenpairSearch:
        if run.iteration == 1:
            reply = yield Ask("sizes")
            run.held = {
                "party": np.array([party_digest(name) for name in reply.parties], dtype=np.uint64),
                "size": reply["rows"].astype(np.int64),
            }
        addresses = {name: run.held[name] for name in ("party", "size")}
        held = self._held(run)
        lanczos = Lanczos(run.rng.normal(size=len(held)))
        lefts: list[FloatArray] = []
        while not lefts or not self._converged(lanczos, run):
            vector = lanczos.vector
            question = {"vector": vector, **addresses, **run.question}
            reply = yield Ask("left", question, run.asked)
            lefts.append(reply["sums"])
            reply = yield Ask("right", {"vector": lefts[-1], **run.question}, run.asked)
            scores = reply["scores"]
            run.asked += 1
            by_held = matmul(held, matmul_tn(held, vector))
            lanczos.take((1 - run.eta) * by_held + run.eta * scores)
        ritz = lanczos.ritz()
        positive = ritz.values > 0
        values, coordinates = ritz.values[positive], ritz.coordinates[:, positive]
        own = matmul(lanczos.basis, coordinates)
        # V = W' u / λ^½, of which Lanczos has asked for all that is needed.
        by_draw = sqrt(run.eta) * matmul_tn(np.stack(lefts), coordinates)
        by_held = sqrt(1 - run.eta) * matmul_tn(held, own)
        run.held = {**addresses, "vectors": own, "values": values, "eta": np.array(run.eta)}
        return Eigenpairs(values, np.vstack([by_draw, by_held]) / np.sqrt(values), len(lefts))

    def _held(self, run: DSPGDState) -> FloatArray:
        """B (N, r), from the last iteration's eigenpairs."""
        if run.iteration == 1:
            return np.empty((int(run.held["size"].sum()), 0))
        assert run.threshold is not None
        lowered = run.held["values"][: run.rank] - float(run.held["eta"]) * run.threshold
        return np.asarray(run.held["vectors"][:, : run.rank] * np.sqrt(lowered))

    def left(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Z' c over the party's own stretch of c."""
        ends = np.cumsum(body["size"])
        mine = np.flatnonzero(body["party"] == np.uint64(party_digest(data.name)))
        if len(mine) != 1 or body["size"][mine[0]] != len(data.rows):
            raise ProtocolError(f"Party {data.name} was not sent which numbers are for its rows.")
        end = int(ends[mine[0]])
        own = body["vector"][end - len(data.rows) : end]
        if len(own) != len(data.rows):
            raise ProtocolError(f"Party {data.name} was sent too few numbers for its rows.")
        known = self._known(data, state, body)
        return {"sums": matmul_tn(known["features"], np.sqrt(data.weights) * own)}, known

    def right(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Z g for the party's rows."""
        known = self._known(data, state, body)
        return {"scores": np.sqrt(data.weights) * matmul(known["features"], body["vector"])}, known

    def _known(self, data: PartyData, state: Body, body: Body) -> Body:
        """Z (n, D) of this draw: made once, since Lanczos asks for dozens of products with it."""
        about = np.array([float(body[name][0]) for name in (GAMMA, SEED, DRAW)])
        if "about" in state and np.array_equal(state["about"], about):
            return state
        features = self.kernel.features(body, int(body[DRAW][0]))
        rows = finite(features.transform(data.rows), features)
        return {"about": about, "features": rows}


def _sizes(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
    return {"rows": np.array([float(len(data.rows))])}, {}
