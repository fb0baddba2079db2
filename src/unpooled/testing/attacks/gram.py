"""Rows from products of a party's Gram matrix of random features, as kernel methods ask for them.

What a party sends are G V, with G = Σ w z(x) z(x)' over its rows and blocks V of the coordinator's.
If the party has fewer rows than there are such vectors, their span is that of the features of its
rows, and a point whose features lie in it is one of the rows. If it has more, the rows are looked
for all at once: so many points that their products are the ones that were sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import least_squares

from unpooled.data.parties import Parties
from unpooled.kernels.linalg.features import Features
from unpooled.privacy.policy import Policy
from unpooled.protocols.prepare.kernel import Kernel
from unpooled.protocols.prepare.kernel_map import OnFeatures
from unpooled.protocols.prepare.then import Then
from unpooled.testing.attacks.inversion import solutions
from unpooled.testing.attacks.outcome import Outcome, does_not_apply, matched, spread_of
from unpooled.testing.attacks.target import Said, Target
from unpooled.types import FloatArray

_NAME = "rows from sums of features"
SIZES = (12, 30)
"""Rows of the parties that are attacked."""
NEAR = 1e-3
"""How near a reconstructed row must be, in units of the rows' spread."""
_STARTS = 200
_EVALUATIONS = 200


def reconstruct(
    target: Target, tables: Sequence[FloatArray], policy: Policy, *, joint_starts: int = 0
) -> Outcome:
    """The rows of two small parties among the others.

    ``joint_starts`` is how often all rows at once are looked for, which takes minutes.
    """
    small = [table[:size] for size, table in zip(SIZES, tables, strict=False)]
    planted = [*small, *tables[len(small) :]]
    protocol = target.protocol(Parties.of(planted))
    kernel = kernel_of(protocol)
    if kernel is None or not any(release.kind == "products" for release in protocol.releases):
        return does_not_apply(_NAME, "no sums of products of features are sent")
    transcript = target.overheard(planted, policy)
    found = [
        _found(transcript.of(i), kernel, rows, tables, joint_starts) for i, rows in enumerate(small)
    ]
    parts = ", ".join(f"{n} of {len(rows)}" for n, rows in zip(found, small, strict=True))
    messages = sum(len(transcript.of(i)) for i in range(len(small)))
    return Outcome(
        _NAME,
        sum(found),
        sum(map(len, small)),
        parts,
        messages=messages,
        refusal=transcript.refusal,
    )


def kernel_of(protocol: object) -> Kernel | None:
    """The kernel whose features rows are mapped by, if they are."""
    while isinstance(protocol, Then):
        if isinstance(protocol.preparation, OnFeatures):
            return protocol.preparation.kernel
        protocol = protocol.inner
    return None


def _found(
    said: Sequence[Said],
    kernel: Kernel,
    rows: FloatArray,
    tables: Sequence[FloatArray],
    joint_starts: int,
) -> int:
    asked = [one for one in said if one.kind == "products"]
    if not asked:
        return 0
    features = kernel.features(asked[0].question)
    vectors = np.hstack([one.question["vectors"] for one in asked])
    products = np.hstack([one.body["products"] for one in asked])
    spread = spread_of(rows)
    guesses = in_range(features, products, _starts(tables, _STARTS), spread)
    for seed in range(joint_starts if len(rows) > products.shape[1] else 0):
        starts = _starts(tables, _count(said), seed)
        guesses = np.vstack([guesses, jointly(features, vectors, products, starts)])
    return int(matched(rows, guesses, NEAR * spread).sum())


def in_range(
    features: Features, products: FloatArray, starts: FloatArray, scale: float
) -> FloatArray:
    """Points whose features lie in the span of the products."""
    basis, sizes, _ = np.linalg.svd(products, full_matrices=False)
    basis = basis[:, sizes > 1e-9 * sizes[0]]

    def outside(points: FloatArray) -> FloatArray:
        z = features.transform(points)
        return np.asarray(z - (z @ basis) @ basis.T)

    return solutions(outside, starts, scale, 1e-10)


def jointly(
    features: Features, vectors: FloatArray, products: FloatArray, starts: FloatArray
) -> FloatArray:
    """As many points as there are starts, whose products are nearest to those that were sent."""
    n, d = starts.shape
    step = 1e-5 * spread_of(starts)

    def left(flat: FloatArray) -> FloatArray:
        z = features.transform(flat.reshape(n, d))
        return np.asarray((z.T @ (z @ vectors) - products).ravel())

    def slopes(flat: FloatArray) -> FloatArray:
        points = flat.reshape(n, d)
        z = features.transform(points)
        columns = []
        for shift in step * np.eye(d):
            by = features.transform(points + shift) - features.transform(points - shift)
            by /= 2 * step
            moved = np.einsum("nD,nb->nDb", by, z @ vectors)
            moved += np.einsum("nD,nb->nDb", z, by @ vectors)
            columns.append(moved.reshape(n, -1))
        return np.stack(columns, axis=1).reshape(n * d, -1).T

    end = least_squares(left, starts.ravel(), slopes, method="lm", max_nfev=_EVALUATIONS)
    return np.asarray(end.x.reshape(n, d))


def _count(said: Sequence[Said]) -> int:
    """How many rows the party has, as it said for the kernel's scale."""
    return round(next((float(one.body["weight"][0]) for one in said if "weight" in one.body), 0))


def _starts(tables: Sequence[FloatArray], count: int, seed: int = 0) -> FloatArray:
    """Points where rows plausibly lie: near the other parties' rows."""
    rng = np.random.default_rng(seed)
    elsewhere = np.concatenate(tables[len(SIZES) :] or tables)
    drawn = elsewhere[rng.integers(len(elsewhere), size=count)]
    return np.asarray(drawn + 0.5 * elsewhere.std(axis=0) * rng.normal(size=drawn.shape))
