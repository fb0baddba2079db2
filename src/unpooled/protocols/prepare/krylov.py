"""The top eigenvectors of Σ w z(x) z(x)' by block Krylov iteration: two or three rounds of sums.

In pass p the coordinator sends b orthonormal columns V_p (D, b), and every party answers with G_i
V_p, G_i = Σ w z(x) z(x)' over its rows. Added up over parties these are G V_p. The next block is
what G V_p adds to all blocks before. In the end the s largest eigenpairs are taken from Nyström's
approximation on all of them (:func:`unpooled.kernels.linalg.lanczos.nystrom`).

**The first block** is random, or, where γ was found from the parties' means, made of what these
tell for nothing: the mean of the features of these means, which is near the largest eigenvector,
and the largest singular vectors of the features about it. Where parties' rows are alike, their
means differ by chance, and most where the rows do; where they are not, by more.

**What the coordinator learns.** G_i V for 2 b directions of its choice; a coordinator that does not
keep to the protocol may ask for all D and has G_i. The features being known to everybody, that is
the party's rows but for their order as soon as D exceeds by far what identifies the rows: it
allows an exact test whether a given row is among fewer than D rows, and at toy sizes gives the rows
themselves. The sum over parties is all that is needed; adding it up securely is the remedy.

Sent by a party: D b numbers a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.errors import ProtocolError
from unpooled.kernels.linalg.features import Features
from unpooled.kernels.linalg.lanczos import nystrom, orthonormal, ritz_residual
from unpooled.kernels.linalg.products import matmul
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
from unpooled.protocols.star.base import Answer, Step
from unpooled.protocols.star.shared.centroids import refuse_no_replies
from unpooled.types import Body, FloatArray

MOST_FOR_GRAM = 1024
"""Features up to which a party keeps its own Gram matrix from pass to pass: 8 MiB."""


@dataclass(frozen=True)
class BlockKrylov(Solver):
    """``passes`` products with blocks of ``block`` vectors."""

    kernel: Kernel
    n_components: int
    block: int
    passes: int = 2

    @property
    def releases(self) -> tuple[Release, ...]:
        shapes = {"products": (self.kernel.n_features, AtMost(self.block, "block"))}
        why = "products of the party's Gram matrix of random features with the vectors asked about"
        return (
            Release(
                "products",
                ("products",),
                ("sums",),
                why,
                shapes=shapes,
                bounds={"products": FINITE},
                additive=("products",),
            ),
        )

    @property
    def asks(self) -> tuple[Release, ...]:
        shapes = {"vectors": (self.kernel.n_features, AtMost(self.block, "block"))}
        ask = Release("products", ("vectors",), ("model",), "vectors", shapes=shapes)
        return (about_features(ask),)

    @property
    def steps(self) -> Mapping[str, Step]:
        return {"products": self.products}

    def find(self, draw: FeatureDraw, rng: np.random.Generator) -> Solving:
        vectors = self._first(draw, rng)
        basis = products = np.empty((self.kernel.n_features, 0))
        for number in range(self.passes):
            reply = yield Ask("products", {"vectors": vectors, **draw.question}, number)
            answer = reply["products"]
            refuse_no_replies(int(answer.any()))
            basis, products = np.hstack([basis, vectors]), np.hstack([products, answer])
            values, onto = nystrom(basis, products, self.n_components)
            if not len(values):
                raise ProtocolError("What parties sent does not add up to products of features.")
            error = ritz_residual(basis, products, self.n_components)
            yield Note(number, {"rank": np.array(len(values)), "error": np.array(error)})
            vectors = orthonormal(answer, basis)
            if not vectors.shape[1]:
                break  # the features of all rows lie in what is known
        values = np.pad(values, (0, self.n_components - len(values)))
        return Solution(padded(onto, self.n_components), values)

    def _first(self, draw: FeatureDraw, rng: np.random.Generator) -> FloatArray:
        n_features = self.kernel.n_features
        known = np.empty((n_features, 0))
        if draw.means is not None:
            at_means = self.kernel.features(draw.question).transform(draw.means)
            middle = at_means.mean(axis=0)
            about = np.linalg.svd(at_means - middle, full_matrices=False)[2]
            rank = min(len(at_means) - 1, self.block - 1)
            known = np.column_stack([middle, *about[:rank]])
        missing = self.block - known.shape[1]
        return np.linalg.qr(np.hstack([known, rng.normal(size=(n_features, missing))]))[0]

    def products(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """The party's side. What it keeps of one pass for the next is its Gram matrix."""
        features, vectors = self.kernel.features(body), body["vectors"]
        if self.kernel.n_features <= MOST_FOR_GRAM:
            gram = state["gram"] if "gram" in state else features.gram(data.rows, data.weights)
            answer, known = matmul(gram, vectors), {"gram": gram}
        else:
            answer, known = _products(features, data, vectors), {}
        return {"products": finite(answer, features)}, known


def _products(features: Features, data: PartyData, vectors: FloatArray) -> FloatArray:
    scores = data.weights[:, None] * features.project(data.rows, vectors)
    return features.pulled_back(data.rows, scores)
