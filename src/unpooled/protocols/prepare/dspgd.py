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
from math import sqrt
from typing import Any, TypeAlias

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.errors import InputError, ProtocolError
from unpooled.kernels.linalg.lanczos import Lanczos, above_rounding, found, settled
from unpooled.kernels.linalg.products import matmul, matmul_tn, norm
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import FINITE, AtMost, Release
from unpooled.protocols.prepare.kernel import (
    FeatureDraw,
    Kernel,
    Solution,
    Solver,
    Solving,
    about_features,
    finite,
    padded,
)
from unpooled.protocols.prepare.krylov import MOST_FOR_GRAM
from unpooled.protocols.star.base import Answer, Step
from unpooled.protocols.star.shared.centroids import refuse_no_replies
from unpooled.types import Body, FloatArray


@dataclass(frozen=True)
class Eigenpairs:
    """The eigenvalues of R_t that were asked for, the largest first, and the vectors V."""

    values: FloatArray
    vectors: FloatArray
    products: int


EigenpairSearch: TypeAlias = Generator[Ask | Note, Any, Eigenpairs]


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
    def _eigenpairs(self, run: DSPGDState) -> EigenpairSearch:
        """Those of R_t: all above η λ, or, where λ is not known yet, the k + 2 largest."""

    def find(self, draw: FeatureDraw, rng: np.random.Generator) -> Solving:
        d = self.kernel.n_features
        run = DSPGDState(draw, rng, self.threshold, np.empty((0, 0)), np.empty((d, 0)))
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

    def _refuse_nothing_left(self, pairs: Eigenpairs, run: DSPGDState) -> None:
        refuse_no_replies(int((pairs.values > 0).any()))
        raise InputError(
            f"threshold={run.threshold:g} is not below the largest eigenvalue of iteration "
            f"{run.iteration}, {pairs.values.max() / run.eta:g}; give a smaller one or None."
        )

    def _converged(self, lanczos: Lanczos, run: DSPGDState) -> bool:
        if lanczos.exhausted:
            return True
        if run.threshold is None:
            return found(lanczos.ritz(), self.n_clusters + 2, self.tol)
        return settled(lanczos.ritz(), run.eta * run.threshold, self.tol)


@dataclass
class DSPGDState:
    """What the coordinator knows between two iterations."""

    draw: FeatureDraw
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
        return {**self.draw.question, DRAW: np.array([self.iteration], dtype=np.int64)}

    def mapped(self, step: FloatArray) -> FloatArray:
        """M after a step."""
        n_features = len(step) - self.rank
        return np.vstack([matmul(self.onto, step[n_features:]), step[:n_features]])


def _above(pairs: Eigenpairs, threshold: float) -> tuple[FloatArray, FloatArray]:
    above = above_rounding(pairs.values, len(pairs.vectors)) & (pairs.values > threshold)
    return pairs.values[above], pairs.vectors[:, above]


DRAW = "kernel.draw"


def about_draw(ask: Release) -> Release:
    ask = about_features(ask)
    return replace(
        ask,
        fields=(*ask.fields, DRAW),
        shapes={**ask.shapes, DRAW: (1,)},
        types={**ask.types, DRAW: "int64"},
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
            about_draw(
                Release(
                    "turn",
                    ("vector", "step"),
                    ("model",),
                    "how the embedding goes on, and a vector",
                    shapes={"vector": vector, "step": step},
                )
            ),
            about_draw(
                Release("product", ("vector",), ("model",), "a vector", shapes={"vector": vector})
            ),
        )

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"turn": self.turn, "product": self.product}

    def _eigenpairs(self, run: DSPGDState) -> EigenpairSearch:
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
        draw, step = int(body[DRAW][0]), body["step"]
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
        draw, vector = int(body[DRAW][0]), body["vector"]
        _refuse_gap(data, state, draw)
        features = self.kernel.features(body, draw)
        eta = 1 / max(draw, 1)
        embedded: FloatArray = state["embedded"]
        scaled = sqrt(1 - eta) * embedded
        known = dict(state)
        if len(vector) <= MOST_FOR_GRAM:
            if "gram" not in known:
                known["gram"] = features.gram(data.rows, data.weights, scaled, sqrt(eta))
            answer = matmul(known["gram"], vector)
        else:
            d = self.kernel.n_features
            scores = sqrt(eta) * features.project(data.rows, vector[:d, None])[:, 0]
            scores = data.weights * (scores + matmul(scaled, vector[d:]))
            back = sqrt(eta) * features.pulled_back(data.rows, scores[:, None])[:, 0]
            answer = np.concatenate([back, matmul_tn(scaled, scores)])
        return {"product": finite(answer, features)}, known


def _refuse_gap(data: PartyData, state: Body, draw: int) -> None:
    """A party knows its B of this draw only if it has heard every ``turn`` so far."""
    if "draw" not in state or int(state["draw"][0]) != draw:
        raise ProtocolError(
            f"Party {data.name} has missed an iteration, without which it cannot go on."
        )
