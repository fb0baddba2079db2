"""Where centres start."""

from __future__ import annotations

import numpy as np
import pytest

from unpooled import DGC
from unpooled.drivers.local import run_mesh
from unpooled.errors import DomainError, InputError
from unpooled.graphs import Topology, topology
from unpooled.kernels.lloyd import lloyd, plus_plus, random_rows
from unpooled.losses import Bregman, Loss, SquaredEuclidean
from unpooled.protocols.mesh import Block, MeshProtocol, Peer
from unpooled.protocols.starts import Start
from unpooled.types import Body, Parties
from unpooled.wire import Release

RNG = np.random.default_rng(0)
ROWS = [RNG.normal(size=(n, 2)) + 5 for n in (6, 2, 9, 4)]
PARTIES = Parties.of(ROWS)
RING = topology("ring", PARTIES.names)


class OnlyStart(MeshProtocol):
    """A protocol that ends where others begin."""

    name = "start"

    def __init__(self, start: Start, loss: Loss | None = None) -> None:
        self.start = start
        self.loss = loss or SquaredEuclidean()

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.start.releases

    def peer(self, block: Block) -> Peer[Body]:
        centers = yield from self.start.centers(block, self.loss)
        return {"centers": centers}


def started(start: Start, network: Topology = RING, seed: int = 0) -> np.ndarray:
    return run_mesh(OnlyStart(start), PARTIES, network, seed=seed).result["centers"]


@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_local_starts_are_own_rows_and_differ_where_they_can(init: str) -> None:
    for seed in range(20):
        for rows, own in zip(ROWS, started(Start(4, init), seed=seed), strict=True):  # type: ignore[arg-type]
            assert all(any(np.array_equal(c, row) for row in rows) for c in own)
            assert len(np.unique(own, axis=0)) == min(4, len(rows))


def test_starts_depend_on_the_seed_alone() -> None:
    assert np.array_equal(started(Start(3), seed=1), started(Start(3), seed=1))
    assert not np.array_equal(started(Start(3), seed=1), started(Start(3), seed=2))


def test_no_rounds_of_dkmc_is_kmeans_plus_plus() -> None:
    assert np.array_equal(started(Start(3, "dkm+c", 0)), started(Start(3, "k-means++")))


def test_dkmc_is_kmeans_of_own_and_neighbours_centres() -> None:
    """By hand: one cluster, so each round is the mean of own and neighbours' centres."""
    centers = started(Start(1, "k-means++"))[:, 0]
    mixing = (RING.adjacency.toarray() + np.eye(4)) / 3
    for rounds in range(1, 4):
        centers = mixing @ centers
        np.testing.assert_allclose(started(Start(1, "dkm+c", rounds))[:, 0], centers)


def test_dkmc_ends_in_a_lloyd_point_of_what_was_heard() -> None:
    before = started(Start(3, "k-means++"))
    after = started(Start(3, "dkm+c", 1))
    for user in range(4):
        heard = np.concatenate([before[user], *before[RING.adjacency[[user]].indices]])
        again = lloyd(heard, np.array([0, len(heard)]), np.ones(len(heard)), after[user][None], 1)
        np.testing.assert_allclose(again[0], after[user], atol=1e-12)


def test_rows_are_drawn_in_proportion_to_their_weights() -> None:
    rows, weights = np.arange(3.0)[:, None], np.array([1.0, 3.0, 0.0])
    noise = np.random.default_rng(0).standard_exponential((20_000, 1, 3))
    offsets = np.array([0, 3])
    for draw in (random_rows, plus_plus):
        drawn = [draw(rows, offsets, weights, part)[0, 0, 0] for part in noise]
        share = np.bincount(np.array(drawn).astype(int), minlength=3) / len(drawn)
        np.testing.assert_allclose(share, [0.25, 0.75, 0.0], atol=0.015)


def test_plus_plus_draws_in_proportion_to_squared_distance() -> None:
    rows = np.array([[0.0], [1.0], [3.0]])
    noise = np.random.default_rng(0).standard_exponential((20_000, 2, 3))
    noise[:, 0] = [0.0, 1.0, 1.0]  # the first centre is row 0
    drawn = [plus_plus(rows, np.array([0, 3]), np.ones(3), part)[0, 1, 0] for part in noise]
    assert np.mean(np.array(drawn) == 3.0) == pytest.approx(0.9, abs=0.01)


def test_given_starts_are_for_all_or_for_each() -> None:
    shared = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(started(Start(3, shared)), np.stack([shared] * 4))
    own = np.arange(24.0).reshape(4, 3, 2)
    assert np.array_equal(started(Start(3, own)), own)


def test_starting_centres_outside_the_domain_are_refused_by_name() -> None:
    rows = {"north": np.array([[1.0, 2.0], [0.0, 1.0]]), "south": np.array([[3.0, 1.0]])}
    with pytest.raises(DomainError, match="Party north starts with a centre whose column 0 is 0"):
        DGC(2, loss=Bregman.generalised_kl(), init="k-means++", random_state=0).fit(rows)


def test_an_empty_party_is_refused_by_name() -> None:
    empty = Parties.of([ROWS[0], np.empty((0, 2))], names=["a", "b"])
    with pytest.raises(InputError, match="Party b has no rows"):
        run_mesh(OnlyStart(Start(2)), empty, topology("path", empty.names))
