"""Distributed kernel PCA (disKPCA) as published, then any method on what it embeds rows into.

Balcan, Liang, Song, Woodruff & Xie (2016), "Communication efficient distributed kernel principal
component analysis". Rows that are worth it are drawn and shown to everybody; with Y these points
and φ the kernel's own features, k(x, y) = φ(x) · φ(y), all is then done in the span of φ(Y). The
mathematics of the span, of sketches and of leverage is in :mod:`unpooled.kernels.linalg.landmarks`.

1. ``spread``, if γ is to be found: :mod:`unpooled.protocols.prepare.bandwidth`.
2. ``sketch`` (disEmbed): rows are embedded by t numbers, e(x) = S' z(x), from D random features and
   a normal matrix S (D, t) / t^½ that all parties make from one seed. Party i sends E_i T_i (t, p).
   With [E_1 T_1, E_2 T_2, ...] = B Σ A' the coordinator has F = Σ^+ B'.
3. ``leverage`` (disLS): F is sent; a row's leverage score is w |F e(x)|², which is near what it is
   for all of E, w e(x)' (E E')^+ e(x). Parties answer with the sum of their scores.
4. ``draw``, round 0 (repDisk): a fifth of the points, P, allotted to parties in proportion to their
   sums, and drawn by each in proportion to the scores.
5. ``residual``: P is sent; φ(x) has beyond the span of φ(P) a rest of squared length
   r(x) = k(x, x) - k(x, P) k(P, P)^+ k(P, x). Parties answer with the sum of w r(x).
6. ``draw``, round 1: the other points, allotted and drawn in the same way in proportion to w r(x).
   So they go where P says least, and never to a row in the span: there r is zero.
7. ``project`` (disLR): Y is sent; in coordinates of an orthonormal basis of the span of φ(Y), rows
   are π(x) = R' k(Y, x), with R = k(Y, Y)^{-½}. Party i sends Π_i T_i (|Y|, p).
   The s leading left singular vectors W of all these side by side are near those of Π, and the
   embedding is h(x) = W' R' k(Y, x): kernel PCA (not centred) within the span. Eigenvalues are the
   squared singular values.
8. ``inner`` on the embedded rows: :mod:`unpooled.protocols.prepare.then`.

**T_i** is a CountSketch of the party's own: every row goes to one of p columns at random, with a
random sign and times w^½, and what is in a column is added up. On average E_i T_i T_i' E_i' is what
it would be without T_i, and exactly so if no two rows share a column.

**Draws** are without replacement, and equal rows count once, so that points may be fewer than asked
for. Nobody draws a row of weight zero.

**What the coordinator learns, and every party with it: rows.** All of Y is shown to everybody, and
the result holds it. A column of a sketch is, up to its sign, about a single row wherever no other
fell into it: of a party's n rows about a share e^(-n/p), 37 % if n = p. With many more rows it is
about a sum of n/p of them. So all that is sent discloses rows, but for what γ is found from; where
a party is its cells, these rows are means of cells.

**Sent by party i**: d + 2 numbers for γ, t p, 1, d for each row it draws (n_points d at most for
all parties together), 1, |Y| p, and what ``inner`` says of rows of s columns.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, ClassVar

import numpy as np

from unpooled.data.parties import PartyData
from unpooled.errors import InputError, ProtocolError
from unpooled.kernels.linalg.landmarks import CountSketch, Span, leading, refuse_overflow, whitening
from unpooled.kernels.linalg.products import matmul, matmul_nt, squared_lengths
from unpooled.messages.message import Ask, Note
from unpooled.messages.release import COLUMNS, FINITE, AtMost, Release
from unpooled.protocols.prepare.kernel import GAMMA, MAP, SEED, about_features, padded
from unpooled.protocols.prepare.kernel_map import OnFeatures
from unpooled.protocols.prepare.then import Conversation, Finding
from unpooled.protocols.star.base import Answer
from unpooled.protocols.star.coreset import allotments, own_share, with_weight
from unpooled.protocols.star.shared.centroids import gathered
from unpooled.types import Body, FloatArray, PartyId

POINTS = "kernel.points"
LEVERAGE_PART = 5
"""One point of so many is drawn by leverage, the others by what these leave."""


@dataclass(frozen=True)
class KernelPCA(OnFeatures):
    """Rows on ``n_components`` directions in the span of at most ``n_points`` rows.

    ``sketch`` is t and ``width`` p; D is the kernel's number of features. The result has, besides
    that of ``inner``, what rows are embedded by and the ``eigenvalues``.
    """

    n_components: int
    n_points: int = 500
    sketch: int = 50
    width: int = 250
    name: ClassVar[str] = "distributed kernel PCA"

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """As many as there are directions."""
        return self.n_components

    @property
    def parameters(self) -> Release:
        points = AtMost(self.n_points, POINTS)
        return Release(
            "map",
            (GAMMA, POINTS, MAP),
            ("rows",),
            "rows that were drawn, and the map from what is like them to the embedding",
            shapes={GAMMA: (1,), POINTS: (points, COLUMNS), MAP: (points, self.n_components)},
            bounds={GAMMA: FINITE, MAP: FINITE},
        )

    @property
    def conversation(self) -> Conversation:
        releases, asks, steps = super().conversation
        own = {
            "sketch": self.sketched,
            "leverage": self.leverage,
            "draw": self.drawn_rows,
            "residual": self.residual,
            "project": self.projected,
        }
        return (*releases, *self._releases), (*asks, *self._asks), {**steps, **own}

    @property
    def _releases(self) -> tuple[Release, ...]:
        points = AtMost(self.n_points, POINTS)
        return (
            _numbers("sketch", (self.width, self.sketch), "random sums of features of rows"),
            _numbers("leverage", (1,), "the sum of rows' leverage scores: of one row, its score"),
            Release(
                "draw",
                ("rows",),
                ("rows",),
                "rows drawn at random",
                shapes={"rows": (AtMost(self.n_points), COLUMNS)},
            ),
            _numbers("residual", (1,), "what rows have beyond the points: of one row, its rest"),
            _numbers("project", (self.width, points), "random sums of projections of rows"),
        )

    @property
    def _asks(self) -> tuple[Release, ...]:
        points = AtMost(self.n_points, POINTS)
        parties = AtMost(inf, "parties")
        leverage = Release(
            "leverage",
            ("factor",),
            ("sums",),
            "what makes leverage scores of embedded rows",
            shapes={"factor": (AtMost(self.sketch), self.sketch)},
            bounds={"factor": FINITE},
        )
        return (
            about_features(Release("sketch", (), ("model",), "nothing but this")),
            about_features(leverage),
            Release(
                "draw",
                ("party", "share"),
                ("sums",),
                "how many rows each party is to draw",
                shapes={"party": (parties,), "share": (parties,)},
                types={"party": "uint64", "share": "int64"},
            ),
            *(
                Release(
                    kind,
                    (GAMMA, POINTS),
                    ("rows",),
                    "rows that were drawn, and the kernel's scale",
                    shapes={GAMMA: (1,), POINTS: (points, COLUMNS)},
                    bounds={GAMMA: FINITE},
                )
                for kind in ("residual", "project")
            ),
        )

    def find(self, rng: np.random.Generator) -> Finding:
        draw = yield from self._drawn(rng)
        replies = yield Ask("sketch", draw.question)
        factor = whitening(gathered(replies, "sketch"))
        replies = yield Ask("leverage", {"factor": factor, **draw.question})
        many = -(-self.n_points // LEVERAGE_PART)
        first = yield from self._ask_for_rows(replies, "leverage", many, 0, rng)
        scale = {GAMMA: draw.question[GAMMA]}
        replies = yield Ask("residual", {**scale, POINTS: first})
        left = gathered(replies, "residual").sum()
        yield Note(0, {"points": np.array(len(first)), "residual": np.array(left)})
        rest = self.n_points - len(first)
        further = yield from self._ask_for_rows(replies, "residual", rest, 1, rng)
        points = np.unique(np.concatenate([first, further]), axis=0)
        if not len(points):
            raise InputError("No party has a row of positive weight; give at least one.")
        yield Note(1, {"points": np.array(len(points))})
        replies = yield Ask("project", {**scale, POINTS: points})
        singular, right = leading(gathered(replies, "project"), self.n_components)
        onto = matmul_nt(Span(self.kernel.name, draw.gamma, points).root, right)
        values = np.pad(singular**2, (0, self.n_components - len(singular)))
        parameters = {**scale, POINTS: points, MAP: padded(onto, self.n_components)}
        return parameters, {"eigenvalues": values}

    def _ask_for_rows(
        self,
        replies: Mapping[PartyId, Body],
        field: str,
        size: int,
        number: int,
        rng: np.random.Generator,
    ) -> Generator[Ask | Note, Any, FloatArray]:
        """``size`` rows, or fewer, allotted by what the parties answered; equal ones once."""
        allotted = allotments(replies, gathered(replies, field), size, rng)
        drawn = yield Ask("draw", allotted, number)
        return np.unique(gathered(drawn, "rows"), axis=0)

    def transform(self, rows: FloatArray, parameters: Body) -> FloatArray:
        points, onto = parameters[POINTS], parameters[MAP]
        if not len(points) or len(points) != len(onto):
            raise ProtocolError(f"A map of {len(onto)} lines is not one of {len(points)} points.")
        return self._span(parameters).onto(rows, onto)

    def sketched(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """The party's E T, transposed."""
        rows, weights = with_weight(data)
        into = CountSketch.drawn(weights, self.width, rng)
        return {"sketch": into.of(self._by_sketch(rows, body), slice(None))}, {}

    def leverage(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """Scores of all rows; what leaves is their sum."""
        rows, weights = with_weight(data)
        scores = squared_lengths(matmul_nt(self._by_sketch(rows, body), body["factor"]))
        return _chances("leverage", weights * scores)

    def drawn_rows(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """As many rows as are allotted to the party, or all that have a chance."""
        share = own_share(data.name, body, self.n_points)
        if "chances" not in state:
            raise ProtocolError(
                f"Party {data.name} has missed the question that rows are drawn by, without which "
                "it cannot go on."
            )
        rows, chances = with_weight(data)[0], state["chances"]
        if chances.any():
            chances = chances / chances.sum()
        count, taken = min(share, int(np.count_nonzero(chances))), np.empty(0, dtype=np.int64)
        if count:
            taken = rng.choice(len(rows), count, replace=False, p=chances)
        return {"rows": np.unique(rows[taken], axis=0)}, {}

    def residual(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """Residuals of all rows; what leaves is their sum."""
        rows, weights = with_weight(data)
        return _chances("residual", weights * self._span(body).residuals(rows))

    def projected(
        self, data: PartyData, state: Body, body: Body, rng: np.random.Generator
    ) -> Answer:
        """The party's Π T, transposed: k(X, Y) is sketched first, and then projected."""
        rows, weights = with_weight(data)
        into = CountSketch.drawn(weights, self.width, rng)
        span = self._span(body)
        return {"project": matmul(span.sketched(rows, into), span.root)}, {}

    def _by_sketch(self, rows: FloatArray, body: Body) -> FloatArray:
        """e(x) for every row, (n, t)."""
        features = self.kernel.features(body)
        # Features are drawn from [seed, draw, block], where the draw is at least 1.
        own = np.random.default_rng([int(body[SEED][0]), 0])
        matrix = own.normal(size=(self.kernel.n_features, self.sketch)) / sqrt(self.sketch)
        return refuse_overflow(features.project(rows, matrix), self.kernel.name, features.gamma)

    def _span(self, body: Body) -> Span:
        gamma = float(body[GAMMA][0])
        if not gamma > 0:
            raise ProtocolError(f"There is no kernel of gamma={gamma:g}.")
        return Span(self.kernel.name, gamma, body[POINTS])


def _chances(kind: str, chances: FloatArray) -> Answer:
    """What rows are to be drawn by is kept, the sum of it is sent."""
    return {kind: np.array([chances.sum()])}, {"chances": chances}


def _numbers(kind: str, shape: tuple[int | AtMost, ...], why: str) -> Release:
    """A release of one field, named like its kind, of numbers that may be large."""
    return Release(
        kind, (kind,), ("rows", "sums"), why, shapes={kind: shape}, bounds={kind: FINITE}
    )
