"""Federated kernel k-means as published: DSPGD, with and without its compression (CEM).

Anonymous (2021), "A Communication Efficient Federated Kernel k-Means". In iteration t = 1..T all
parties draw D features afresh, Z_t (N, D) in all, ξ_t = Z_t Z_t', and with η = 1/t

    R_t = (1 - η) B_t B_t' + η ξ_t = W_t W_t',    W_t = [η^½ Z_t, (1 - η)^½ B_t],
    B_{t+1} B_{t+1}' = Σ over λ_i > η λ of (λ_i - η λ) u_i u_i',    (λ_i, u_i) eigenpairs of R_t:

a proximal gradient step towards the kernel matrix with its eigenvalues lowered by λ. The embedding
is u_i (λ_i + (1 - η_T) λ)^½ for the s largest. Theorem 1 has η = 2/t, which does not converge.

**With CEM** the eigenpairs are those of W' W = Σ_m W[m]' W[m], (D + r)², by Lanczos's iteration:
the coordinator sends c, party m answers with W[m]' W[m] c, D + r numbers. The eigenvectors v_i go
to the parties, who make B_{t+1}[m] = W[m] v_i ((λ_i - η λ) / λ_i)^½ of them.

**Without** they are those of R itself: the coordinator holds B, sends c (N), party m answers with
Z[m]' c[m], D numbers, and to the sum g of these with Z[m] g, a number for each of its rows.

**λ** is the (k+2)-th eigenvalue of the first iteration, or given. **Stopping** Lanczos: see
:func:`unpooled.kernels.linalg.lanczos.settled`. The published rule holds at once where no Ritz
value exceeds η λ yet.

**The map.** B_{t+1} is linear in the features of all draws so far: for V = (V_Z; V_B) and scales c,

    B_{t+1} = η^½ Z_t V_Z c + (1 - η)^½ B_t V_B c,    so B_t = Σ_τ Z_τ M_τ,

and the coordinator, who has every V, keeps M (T D, r). Without CEM, V_Z = η^½ Z' u / λ^½ is made of
the sums Z' c that Lanczos asked for. So new rows are embedded like those that were fitted.

**What the coordinator learns.** With CEM, W[m]' W[m] if it asks for enough products, of which
Z[m]' Z[m] is a part: see :mod:`unpooled.protocols.prepare.krylov`. Without, Z[m] g for vectors g
that it knows, which it can solve for Z[m] and that, the features being known, for the rows.

Sent by a party in iteration t: Q (D + r_t) numbers with CEM, Q (D + n_m) without, in Q and 2 Q
rounds; Q is how many products Lanczos takes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, sqrt
from typing import Any, TypeAlias

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.errors import InputError, ProtocolError
from unpooled.kernels.linalg.lanczos import Lanczos, above_rounding, found, settled
from unpooled.kernels.linalg.products import matmul, matmul_tn, norm
from unpooled.messages.message import Ask, Note, Summary
from unpooled.messages.release import FINITE, AtMost, Release
from unpooled.protocols.prepare.kernel import (
    Draw,
    Kernel,
    Solution,
    Solver,
    Solving,
    about_features,
    finite,
    padded,
)
from unpooled.protocols.prepare.krylov import MOST_FOR_GRAM
from unpooled.protocols.prepare.moments import used_weights
from unpooled.protocols.star.base import Answer, Step
from unpooled.protocols.star.coreset import digest
from unpooled.protocols.star.shared.centroids import refuse_no_replies
from unpooled.types import Body, FloatArray


@dataclass(frozen=True)
class Eigenpairs:
    """The eigenvalues of R_t that were asked for, the largest first, and the vectors V."""

    values: FloatArray
    vectors: FloatArray
    products: int


Finding: TypeAlias = Generator[Ask | Note, Any, Eigenpairs]


@dataclass(frozen=True)
class DSPGD(Solver):
    """``iterations`` is T, ``threshold`` λ, ``tol`` Lanczos's, relative to each eigenvalue."""

    kernel: Kernel
    n_clusters: int
    n_components: int
    iterations: int
    threshold: float | None = None
    tol: float = 1e-3

    @abstractmethod
    def _eigenpairs(self, run: Run) -> Finding:
        """Those of R_t: all above η λ, or, where λ is not known yet, the k + 2 largest."""

    def find(self, draw: Draw, rng: np.random.Generator) -> Solving:
        d = self.kernel.n_features
        run = Run(draw, rng, self.threshold, np.empty((0, 0)), np.empty((d, 0)))
        before = np.zeros(self.n_components)
        for run.iteration in range(1, self.iterations + 1):
            pairs = yield from self._eigenpairs(run)
            if run.threshold is None:
                last = self.n_clusters + 1
                run.threshold = float(pairs.values[last]) if len(pairs.values) > last else 0.0
            values, vectors = _above(pairs, run.eta * run.threshold)
            if not len(values):
                self._refuse_nothing_left(pairs, run)
            # W V = [Z, B] step, if the scales below are left out.
            step = vectors * np.repeat([sqrt(run.eta), sqrt(1 - run.eta)], [d, run.rank])[:, None]
            kept = values[: self.n_components] + (1 - run.eta) * run.threshold
            final = run.mapped(step[:, : len(kept)] * np.sqrt(kept / values[: len(kept)]))
            run.step = step * np.sqrt((values - run.eta * run.threshold) / values)
            run.onto = run.mapped(run.step)
            now = np.pad(kept, (0, self.n_components - len(kept)))
            change = norm(now - before) / norm(now)
            before = now
            noted = {"rank": run.rank, "products": pairs.products, "error": change}
            yield Note(run.iteration, {name: np.array(value) for name, value in noted.items()})
        return Solution(padded(final, self.n_components), before)

    def _refuse_nothing_left(self, pairs: Eigenpairs, run: Run) -> None:
        refuse_no_replies(int((pairs.values > 0).any()))
        raise InputError(
            f"threshold={run.threshold:g} is not below the largest eigenvalue of iteration "
            f"{run.iteration}, {pairs.values.max() / run.eta:g}; give a smaller one or None."
        )

    def _converged(self, lanczos: Lanczos, run: Run) -> bool:
        if lanczos.exhausted:
            return True
        if run.threshold is None:
            return found(lanczos.ritz(), self.n_clusters + 2, self.tol)
        return settled(lanczos.ritz(), run.eta * run.threshold, self.tol)


@dataclass
class Run:
    """What the coordinator knows between two iterations."""

    draw: Draw
    rng: np.random.Generator
    threshold: float | None
    onto: FloatArray
    """M (t D, r): how B follows from the features of all draws so far."""
    step: FloatArray
    """(D + r before, r): how B follows from the last draw and the B before it."""
    iteration: int = 0
    asked: int = 0
    """Products so far, by which questions are numbered."""
    held: Body = field(default_factory=dict)
    """What only the coordinator of the uncompressed form knows."""

    @property
    def eta(self) -> float:
        """The weight of this iteration's draw."""
        return 1 / self.iteration

    @property
    def rank(self) -> int:
        """The columns of B."""
        return int(self.onto.shape[1])

    @property
    def question(self) -> Body:
        """What goes with every question."""
        return {**self.draw.question, _DRAW: np.array([self.iteration], dtype=np.int64)}

    def mapped(self, step: FloatArray) -> FloatArray:
        """M after a step."""
        n_features = len(step) - self.rank
        return np.vstack([matmul(self.onto, step[n_features:]), step[:n_features]])


def _above(pairs: Eigenpairs, threshold: float) -> tuple[FloatArray, FloatArray]:
    above = above_rounding(pairs.values, len(pairs.vectors)) & (pairs.values > threshold)
    return pairs.values[above], pairs.vectors[:, above]


_DRAW = "kernel.draw"


def _about_draw(ask: Release) -> Release:
    ask = about_features(ask)
    return replace(
        ask,
        fields=(*ask.fields, _DRAW),
        shapes={**ask.shapes, _DRAW: (1,)},
        types={**ask.types, _DRAW: "int64"},
    )


@dataclass(frozen=True)
class CompressedDSPGD(DSPGD):
    """With CEM: ``turn`` begins an iteration, ``product`` goes on with it."""

    @property
    def _most(self) -> int:
        return (self.iterations + 1) * self.kernel.n_features

    @property
    def releases(self) -> tuple[Release, ...]:
        shapes = {"product": (AtMost(self._most, "length"),)}
        why = "the product of the party's Gram matrix of features and the vector asked about"
        bounds = {"product": FINITE}
        return tuple(
            Release(
                kind,
                ("product",),
                ("sums",),
                why,
                shapes=shapes,
                bounds=bounds,
                additive=("product",),
            )
            for kind in ("turn", "product")
        )

    @property
    def asks(self) -> tuple[Release, ...]:
        vector = (AtMost(self._most, "length"),)
        step = (AtMost(self._most), AtMost(self._most))
        return (
            _about_draw(
                Release(
                    "turn",
                    ("vector", "step"),
                    ("model",),
                    "how the embedding goes on, and a vector",
                    shapes={"vector": vector, "step": step},
                )
            ),
            _about_draw(
                Release("product", ("vector",), ("model",), "a vector", shapes={"vector": vector})
            ),
        )

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"turn": self.turn, "product": self.product}

    def _eigenpairs(self, run: Run) -> Finding:
        lanczos = Lanczos(run.rng.normal(size=self.kernel.n_features + run.rank))
        first: Ask | None = Ask(
            "turn", {"step": run.step, "vector": lanczos.vector, **run.question}, run.iteration
        )
        count = 0
        while count == 0 or not self._converged(lanczos, run):
            again = Ask("product", {"vector": lanczos.vector, **run.question}, run.asked)
            reply = yield first or again
            run.asked += first is None
            first = None
            lanczos.take(reply["product"])
            count += 1
        ritz = lanczos.ritz()
        return Eigenpairs(ritz.values, matmul(lanczos.basis, ritz.coordinates), count)

    def turn(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Works out B and the Gram matrix of the new W, and goes on as :meth:`product`."""
        draw, step = int(body[_DRAW][0]), body["step"]
        n_features = self.kernel.n_features
        if draw == 1:
            embedded = np.empty((len(data.rows), 0))
        else:
            _refuse_gap(data, state, draw - 1)
            features = self.kernel.features(body, draw - 1)
            embedded = features.project(data.rows, step[:n_features])
            embedded += matmul(state["embedded"], step[n_features:])
        return self.product(data, {"embedded": embedded, "draw": np.array([draw])}, body, rng)

    def product(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """W' W c over the party's rows; their Gram matrix W' W is kept, unless it is large."""
        weights, row_groups, remark = used_weights(data)
        draw, vector = int(body[_DRAW][0]), body["vector"]
        _refuse_gap(data, state, draw)
        features = self.kernel.features(body, draw)
        eta = 1 / max(draw, 1)
        embedded: FloatArray = state["embedded"]
        scaled = sqrt(1 - eta) * embedded
        known = dict(state)
        if len(vector) <= MOST_FOR_GRAM:
            if "gram" not in known:
                known["gram"] = features.gram(data.rows, weights, scaled, sqrt(eta))
            answer = matmul(known["gram"], vector)
        else:
            d = self.kernel.n_features
            scores = sqrt(eta) * features.project(data.rows, vector[:d, None])[:, 0]
            scores = weights * (scores + matmul(scaled, vector[d:]))
            back = sqrt(eta) * features.pulled_back(data.rows, scores[:, None])[:, 0]
            answer = np.concatenate([back, matmul_tn(scaled, scores)])
        return Summary({"product": finite(answer, features)}, row_groups, remark), known


def _refuse_gap(data: PartyData, state: Body, draw: int) -> None:
    """A party knows its B of this draw only if it has heard every ``turn`` so far."""
    if "draw" not in state or int(state["draw"][0]) != draw:
        raise ProtocolError(
            f"Party {data.name} has missed an iteration, without which it cannot go on."
        )


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
        return (sizes, _about_draw(left), _about_draw(right))

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"sizes": _sizes, "left": self.left, "right": self.right}

    def _eigenpairs(self, run: Run) -> Finding:
        if run.iteration == 1:
            reply = yield Ask("sizes")
            run.held = {
                "party": np.array([digest(name) for name in reply.parties], dtype=np.uint64),
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

    def _held(self, run: Run) -> FloatArray:
        """B (N, r), from the last iteration's eigenpairs."""
        if run.iteration == 1:
            return np.empty((int(run.held["size"].sum()), 0))
        assert run.threshold is not None
        lowered = run.held["values"][: run.rank] - float(run.held["eta"]) * run.threshold
        return np.asarray(run.held["vectors"][:, : run.rank] * np.sqrt(lowered))

    def left(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Z' c over the party's own stretch of c."""
        ends = np.cumsum(body["size"])
        mine = np.flatnonzero(body["party"] == np.uint64(digest(data.name)))
        if len(mine) != 1 or body["size"][mine[0]] != len(data.rows):
            raise ProtocolError(f"Party {data.name} was not sent which numbers are for its rows.")
        end = int(ends[mine[0]])
        own = body["vector"][end - len(data.rows) : end]
        if len(own) != len(data.rows):
            raise ProtocolError(f"Party {data.name} was sent too few numbers for its rows.")
        features = self.kernel.features(body, int(body[_DRAW][0]))
        scores = np.sqrt(data.weights) * own
        sums = features.pulled_back(data.rows, scores[:, None])[:, 0]
        return {"sums": finite(sums, features)}, {}

    def right(self, data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
        """Z g for the party's rows."""
        features = self.kernel.features(body, int(body[_DRAW][0]))
        scores = features.project(data.rows, body["vector"][:, None])[:, 0]
        return {"scores": finite(np.sqrt(data.weights) * scores, features)}, {}


def _sizes(data: PartyData, state: Body, body: Body, rng: np.random.Generator) -> Answer:
    together = np.zeros(len(data.rows), dtype=np.int64)
    return Summary({"rows": np.array([float(len(data.rows))])}, together), {}
