"""Where centres start."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tests.protocols.mesh.parts import published_dgc
from tests.sentences import refuses
from unpooled import DGC, ADMMKMeans, KarSwenson
from unpooled.data.parties import Parties
from unpooled.errors import DomainError, InputError
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.kernels.lloyd.per_user import lloyd, plus_plus, random_rows
from unpooled.losses import Bregman, Loss, SquaredEuclidean
from unpooled.messages.message import Post
from unpooled.messages.release import Release
from unpooled.partition import dirichlet
from unpooled.privacy.policy import Deployment
from unpooled.protocols.mesh import dgc
from unpooled.protocols.mesh.base import Block, MeshProtocol, Peer
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.simulate import Options, UserDown, run_mesh
from unpooled.types import Body

RNG = np.random.default_rng(0)
ROWS = [RNG.normal(size=(n, 2)) + 5 for n in (6, 2, 9, 4)]
PARTIES = Parties.of(ROWS)
RING = topology("ring", PARTIES.names)


class OnlyStart(MeshProtocol):
    """A protocol that ends where others begin."""

    name = "start"

    def __init__(self, start: InitialCenters, loss: Loss | None = None) -> None:
        self.start = start
        self.loss = loss or SquaredEuclidean()

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.start.releases

    def peer(self, block: Block) -> Peer[Body]:
        centers = yield from self.start.find(block, self.loss)
        return {"centers": centers}


def started(start: InitialCenters, network: Topology = RING, seed: int = 0) -> np.ndarray:
    return run_mesh(OnlyStart(start), PARTIES, network, seed=seed).result["centers"]


@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_local_starts_are_own_rows_and_differ_where_they_can(init: str) -> None:
    for seed in range(20):
        for rows, own in zip(ROWS, started(InitialCenters(4, init), seed=seed), strict=True):  # type: ignore[arg-type]
            assert all(any(np.array_equal(c, row) for row in rows) for c in own)
            assert len(np.unique(own, axis=0)) == min(4, len(rows))


def test_starts_depend_on_the_seed_alone() -> None:
    assert np.array_equal(started(InitialCenters(3), seed=1), started(InitialCenters(3), seed=1))
    assert not np.array_equal(
        started(InitialCenters(3), seed=1), started(InitialCenters(3), seed=2)
    )


def test_no_rounds_of_dkmc_is_kmeans_plus_plus() -> None:
    assert np.array_equal(
        started(InitialCenters(3, "dkm+c", 0)), started(InitialCenters(3, "k-means++"))
    )


def test_dkmc_is_kmeans_of_own_and_neighbours_centres() -> None:
    """By hand: one cluster, so each round is the mean of own and neighbours' centres."""
    centers = started(InitialCenters(1, "k-means++"))[:, 0]
    mixing = (RING.adjacency.toarray() + np.eye(4)) / 3
    for rounds in range(1, 4):
        centers = mixing @ centers
        np.testing.assert_allclose(started(InitialCenters(1, "dkm+c", rounds))[:, 0], centers)


def test_dkmc_ends_in_a_lloyd_point_of_what_was_heard() -> None:
    before = started(InitialCenters(3, "k-means++"))
    after = started(InitialCenters(3, "dkm+c", 1))
    for user in range(4):
        heard = np.concatenate([before[user], *before[RING.adjacency[[user]].indices]])
        again = lloyd(heard, np.array([0, len(heard)]), np.ones(len(heard)), after[user][None], 1)
        np.testing.assert_allclose(again[0], after[user], atol=1e-12)


@pytest.mark.long
def test_rows_are_drawn_in_proportion_to_their_weights() -> None:
    rows, weights = np.arange(3.0)[:, None], np.array([1.0, 3.0, 0.0])
    noise = np.random.default_rng(0).standard_exponential((20_000, 1, 3))
    offsets = np.array([0, 3])
    for draw in (random_rows, plus_plus):
        drawn = [draw(rows, offsets, weights, part)[0, 0, 0] for part in noise]
        share = np.bincount(np.array(drawn).astype(int), minlength=3) / len(drawn)
        np.testing.assert_allclose(share, [0.25, 0.75, 0.0], atol=0.015)


@pytest.mark.long
def test_plus_plus_draws_in_proportion_to_squared_distance() -> None:
    rows = np.array([[0.0], [1.0], [3.0]])
    noise = np.random.default_rng(0).standard_exponential((20_000, 2, 3))
    noise[:, 0] = [0.0, 1.0, 1.0]  # the first centre is row 0
    drawn = [plus_plus(rows, np.array([0, 3]), np.ones(3), part)[0, 1, 0] for part in noise]
    assert np.mean(np.array(drawn) == 3.0) == pytest.approx(0.9, abs=0.01)


def test_given_starts_are_for_all_or_for_each() -> None:
    shared = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(started(InitialCenters(3, shared)), np.stack([shared] * 4))
    own = np.arange(24.0).reshape(4, 3, 2)
    assert np.array_equal(started(InitialCenters(3, own)), own)


def test_starting_centres_outside_the_domain_are_refused_by_name() -> None:
    rows = {"north": np.array([[1.0, 2.0], [0.0, 1.0]]), "south": np.array([[3.0, 1.0]])}
    with pytest.raises(DomainError, match="Party north starts with a centre whose column 0 is 0"):
        published_dgc(2, loss=Bregman.generalised_kl(), init="k-means++", random_state=0).fit(rows)


def test_an_empty_party_is_refused_by_name() -> None:
    empty = Parties.of([ROWS[0], np.empty((0, 2))], names=["a", "b"])
    with pytest.raises(InputError, match="Party b has no rows"):
        run_mesh(OnlyStart(InitialCenters(2)), empty, topology("path", empty.names))


# Along a tree: the merged start, and starts that are numbered alike.

FAR = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0], [100.0, 100.0]])
"""Places of blobs that every user has rows of."""
NETWORK = topology(
    np.array(
        [
            [0, 1, 0, 1, 0, 0],
            [1, 0, 1, 0, 0, 0],
            [0, 1, 0, 1, 1, 0],
            [1, 0, 1, 0, 0, 0],
            [0, 0, 1, 0, 0, 1],
            [0, 0, 0, 0, 1, 0],
        ]
    ),
    [str(user) for user in range(6)],
)
PARENTS = {1: 0, 3: 0, 2: 1, 4: 2, 5: 4}
"""Breadth-first from user 0, the lowest of parents that are as near: by hand."""


def blobs(m: int = 6, n: int = 20, seed: int = 0) -> Parties:
    rng = np.random.default_rng(seed)
    return Parties.of([np.repeat(FAR, n, axis=0) + rng.normal(size=(4 * n, 2)) for _ in range(m)])


def recorded(protocol: MeshProtocol, parties: Parties, network: Topology, **options: Any) -> Any:
    """A run with a host for each user, and what was posted in it."""
    posts: list[tuple[int, Post]] = []
    how = Options(**options, watch=lambda who, post: posts.append((int(who), post)))  # type: ignore[arg-type]
    run = run_mesh(protocol, parties, network, blocks=len(parties), options=how)
    return run, posts


def test_the_tree_start_is_the_same_for_all_users_however_they_are_hosted() -> None:
    parties = blobs()
    protocol = OnlyStart(InitialCenters(4, "tree", n_init=2))
    runs = [run_mesh(protocol, parties, NETWORK, blocks=n) for n in (1, 2, 6)]
    centers = runs[0].result["centers"]
    assert (centers == centers[0]).all()
    pooled = KMeans(4, n_init=5, random_state=0).fit(parties.rows).cluster_centers_
    np.testing.assert_allclose(np.sort(centers[0], axis=0), np.sort(pooled, axis=0), atol=1e-9)
    for other in runs[1:]:
        assert np.array_equal(other.result["centers"], centers)
        assert np.array_equal(other.traffic.table, runs[0].traffic.table)


def test_without_a_graph_the_tree_start_is_everybodys_own() -> None:
    parties = blobs(2)
    nobody = topology(None, parties.names)
    run = run_mesh(OnlyStart(InitialCenters(1, "tree")), parties, nobody)
    means = [parties[i].rows.mean(axis=0) for i in range(2)]
    np.testing.assert_allclose(run.result["centers"][:, 0], means)
    assert run.traffic.messages == 0


@pytest.mark.long
def test_dgc_reaches_the_pooled_cost_from_the_tree_start_and_not_from_dkmc() -> None:
    """Fifteen blobs, most users having rows of a few."""
    places = np.stack(np.meshgrid(np.arange(5.0), np.arange(3.0)), axis=-1).reshape(-1, 2) * 20
    reached: dict[str, list[float]] = {"tree": [], "dkm+c": []}
    for seed in range(2):
        rng = np.random.default_rng(seed)
        y = np.repeat(np.arange(15), 20)
        rows = places[y] + 2.5 * rng.normal(size=(300, 2))
        groups = dirichlet(y, n_parties=8, alpha=0.3, random_state=seed)
        own = [rows[groups == user] for user in range(8)]
        pooled = KMeans(15, n_init=20, random_state=0).fit(rows).inertia_
        for init, ratios in reached.items():
            model = published_dgc(
                15, rho=100.0, init=init, solver="nesterov", max_rounds=150, random_state=seed
            ).fit(own)
            squared = ((rows[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
            ratios.append(squared.min(axis=1).sum() / pooled)
    assert max(reached["tree"]) < 1.01
    assert max(reached["dkm+c"]) > 2


@pytest.mark.parametrize("estimator", [DGC, KarSwenson, ADMMKMeans])
def test_the_tree_start_finds_the_blobs_on_cells(estimator: Any) -> None:
    model = estimator(4, init="tree", policy="deployment", max_rounds=5, random_state=0)
    model.fit([blobs()[user].rows for user in range(6)])
    assert model.inertia_ < 3 * len(blobs().rows)


def test_what_goes_up_the_tree_is_about_as_many_rows_as_the_minimum_count() -> None:
    """User 1 has three rows in a place of its own."""
    tables = [blobs()[user].rows for user in range(6)]
    tables[1] = np.concatenate([tables[1], [[500.0, 0.0], [501.0, 0.0], [500.0, 1.0]]])
    parties, protocol = Parties.of(tables), dgc.DGC(InitialCenters(5, "tree"), max_rounds=1)
    for minimum in (10, 1):
        policy = Deployment(min_count=minimum)
        _, posts = recorded(protocol, parties, NETWORK, policy=policy)
        (sent,) = [post.body for who, post in posts if (who, post.kind) == (1, "clusters")]
        weights, points = sent["weights"].reshape(-1), sent["points"].reshape(-1, 2)
        assert weights[weights > 0].min() >= minimum
        there = weights[points[:, 0] > 400].sum()
        assert there == pytest.approx(3 if minimum == 1 else 0)


@pytest.mark.parametrize("since", [0, 4, 7, 11])
def test_dgc_runs_on_if_the_root_dies_during_the_tree_start(since: int) -> None:
    """A start of 3 reach + 1 = 13 exchanges: the tree, the echo, up and down."""
    parties = blobs()
    protocol = dgc.DGC(InitialCenters(4, "tree", n_init=2), rho=100.0, max_rounds=50)
    how = Options(faults=(UserDown(0, since),))
    alive = run_mesh(protocol, parties, NETWORK, options=how).result["centers"][1:]
    assert np.abs(alive - alive[0]).max() < 0.5
    assert np.linalg.norm(alive[0][:, None] - FAR, axis=2).min(axis=0).max() < 1


@pytest.mark.parametrize("since", [2, 6])
def test_a_user_that_is_down_during_the_tree_start_is_pulled_along_later(since: int) -> None:
    """User 4 goes down while the tree is found, or when it has a parent to wait for."""
    parties, start = blobs(), InitialCenters(4, "tree", n_init=2)
    how = Options(faults=(UserDown(4, since, 15),))
    begun = run_mesh(OnlyStart(start), parties, NETWORK, options=how).result["centers"]
    if since == 6:
        np.testing.assert_allclose(begun[4], [parties[4].rows.mean(axis=0)] * 4)
    protocol = dgc.DGC(start, rho=100.0, solver="nesterov", max_rounds=100)
    x = run_mesh(protocol, parties, NETWORK, options=how).result["centers"]
    assert np.abs(x - x[0]).max() < 0.5
    assert np.linalg.norm(x[0][:, None] - FAR, axis=2).min(axis=0).max() < 1


def aligned_by_hand(centers: np.ndarray) -> np.ndarray:
    """Parents before children, every numbering tried."""
    centers = centers.copy()
    for child, parent in PARENTS.items():
        tried = [centers[child][list(order)] for order in permutations(range(len(centers[child])))]
        centers[child] = min(tried, key=lambda own: ((own - centers[parent]) ** 2).sum())
    return centers


@pytest.mark.parametrize("blocks", [1, 2, 6])
def test_alignment_is_the_best_numbering_link_by_link(blocks: int) -> None:
    for seed in range(5):
        given = np.random.default_rng(seed).normal(size=(6, 4, 2))
        protocol = OnlyStart(InitialCenters(4, given, align=True))
        run = run_mesh(protocol, blobs(), NETWORK, blocks=blocks)
        assert np.array_equal(run.result["centers"], aligned_by_hand(given))


def test_alignment_goes_down_the_tree_and_nowhere_else() -> None:
    _, posts = recorded(OnlyStart(InitialCenters(4, align=True)), blobs(), NETWORK)
    went = {}
    for who, post in posts:
        if post.kind == "aligned":
            neighbours = NETWORK.adjacency[[who]].indices
            went.update({int(child): who for child in neighbours[post.to]})
    assert went == PARENTS


@pytest.mark.parametrize("init", ["dkm+c", "k-means++", "random"])
def test_alignment_changes_numbers_and_no_centre(init: Any) -> None:
    parties = blobs()
    plain, aligned = (
        run_mesh(OnlyStart(InitialCenters(4, init, align=align)), parties, NETWORK).result[
            "centers"
        ]
        for align in (False, True)
    )
    assert not np.array_equal(plain, aligned)
    assert np.array_equal(plain[0], aligned[0])
    for before, after in zip(plain, aligned, strict=True):
        assert sorted(map(tuple, before)) == sorted(map(tuple, after))
    if init != "random":  # the others find all blobs, and then every user numbers them alike
        assert np.linalg.norm(aligned - aligned[0], axis=2).max() < 10


def test_alignment_without_a_parent_keeps_the_branch_together() -> None:
    """User 2 dies when the tree is known: 4 and 5 are cut off, and agree among themselves."""
    given = np.stack([np.roll(FAR, user, axis=0) for user in range(6)])
    protocol = OnlyStart(InitialCenters(4, given, align=True))
    x = recorded(protocol, blobs(), NETWORK, faults=(UserDown(2, 5),))[0].result["centers"]
    for user, other in enumerate((0, 0, 2, 0, 4, 4)):
        assert np.array_equal(x[user], given[other])


def test_alignment_can_be_asked_for_where_starts_differ() -> None:
    tables = [blobs()[user].rows for user in range(6)]
    plain, aligned = (
        published_dgc(4, rho=100.0, align=align, max_rounds=50, random_state=0).fit(tables)
        for align in (False, True)
    )
    assert aligned.inertia_ < 3 * len(blobs().rows) < plain.inertia_
    tree = [
        published_dgc(4, init="tree", align=a, max_rounds=2, random_state=0) for a in (False, True)
    ]
    assert np.array_equal(*[model.fit(tables).peer_centers_ for model in tree])
    refuses(
        lambda: published_dgc(4, init=FAR, align=True).fit(tables), "align=True has nothing to do"
    )
    refuses(lambda: published_dgc(4, align="yes").fit(tables), "align='yes' must be True or False")
