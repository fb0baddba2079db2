"""The common start against a plain loop up the tree, what leaves, and users that go down."""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tests.cells import in_cells
from tests.protocols.mesh.parts import blobs, graph_of, network, parents_of, recorder, run_part
from tests.sentences import refuses
from unpooled import losses
from unpooled.data.parties import Parties
from unpooled.errors import ProtocolError
from unpooled.kernels.lloyd.kmeans import cluster
from unpooled.privacy.policy import STUDY, Deployment
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.shared import convergecast
from unpooled.protocols.mesh.shared.common_start import common_start_releases, find_common_start
from unpooled.protocols.mesh.shared.spanning_tree import TREE_RELEASES, find_tree
from unpooled.simulate.faults import UserDown
from unpooled.types import Body

K, N_INIT, SEED = 3, 2, 11
OWN = convergecast.most_local(K)
RELEASES = (*TREE_RELEASES, *common_start_releases(K))
SIZES = (17, 12, 5, 29, 20, 3, 18)


def start(block: Block, loss: losses.Loss | None = None, n_clusters: int = K) -> Peer[Body]:
    tree = yield from find_tree(block)
    found = yield from find_common_start(
        block, tree, n_clusters, N_INIT, loss or losses.SquaredEuclidean()
    )
    names = ("centers", "known", "spread", "height", "broken")
    return {name: getattr(found, name) for name in names}


def run(tables: list[np.ndarray], graph: Any, **options: Any) -> Any:
    return run_part(start, RELEASES, graph, tables, seed=SEED, **options)


def plain(
    tables: list[np.ndarray], weights: list[np.ndarray], graph: nx.Graph, root: int = 0
) -> np.ndarray:
    """What goes up, user after user, from the farthest; and what the root makes of it."""
    hops, parents = parents_of(graph, root)
    own = {}
    for user in sorted(hops, key=lambda user: (-hops[user], user)):
        wanted = min(OWN, max(5 * K, ceil(3 * sqrt(len(tables[user])))))
        points, counts = _best(tables[user], weights[user], wanted, N_INIT, (user, 0))
        children = sorted(child for child, parent in parents.items() if parent == user)
        points = np.concatenate([points, *(own[child][0] for child in children)])
        counts = np.concatenate([counts, *(own[child][1] for child in children)])
        room = min(width(graph, hops[user], root), convergecast.MOST_USERS * OWN)
        if user != root and len(points) > room:
            points, counts = _best(points, counts, room, 1, (user, 1))
        own[user] = points, counts
    return _best(*own[root], K, 100, (root, 2))[0]


def width(graph: nx.Graph, level: int, root: int = 0) -> int:
    """The clusters of all users in the widest branch that begins at this level."""
    hops, parents = parents_of(graph, root)
    users = dict.fromkeys(hops, 1)
    for user in sorted(parents, key=lambda user: -hops[user]):
        users[parents[user]] += users[user]
    return OWN * max(users[user] for user in hops if hops[user] == level)


def _best(
    points: np.ndarray, weights: np.ndarray, n_clusters: int, n_init: int, stream: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    found = cluster(points, weights, n_clusters, n_init, np.random.default_rng([SEED, *stream]))
    return found.centers, found.counts


def spread(rows: np.ndarray, weights: np.ndarray) -> float:
    if not weights.sum():
        return 0.0
    middle = np.average(rows, axis=0, weights=weights)
    return float(np.sqrt(np.average(((rows - middle) ** 2).sum(axis=1), weights=weights)))


@pytest.mark.parametrize("most", [6, 1])
@pytest.mark.parametrize("seed", range(2))
def test_equals_the_plain_loop_up_the_tree(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for all clusters, and with so little that they are merged on the way."""
    monkeypatch.setattr(convergecast, "MOST_USERS", most)
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(SIZES)
    tables, graph = blobs(sizes, seed), graph_of(7, seed)
    weights = [rng.uniform(0.2, 3.0, size=n) for n in sizes]
    weights[3][0] = 0.0
    expected = plain(tables, weights, graph)
    for blocks in (1, 7):
        found = run(tables, graph, weights=weights, blocks=blocks)
        np.testing.assert_allclose(found.result["centers"][0], expected, atol=1e-9)
        assert (found.result["centers"] == found.result["centers"][0]).all()
        assert found.result["known"].all()
        assert not found.result["broken"].any()
        largest = max(spread(rows, own) for rows, own in zip(tables, weights, strict=True))
        np.testing.assert_allclose(found.result["spread"], largest)
        height = max(nx.single_source_shortest_path_length(graph, 0).values())
        assert (found.result["height"] == height).all()


def test_weight_and_sums_of_all_rows_reach_the_root() -> None:
    """Merged clusters are weighted means, so nothing is lost on the way."""
    tables, graph = blobs(SIZES), graph_of(7, 3)
    messages: list[tuple[str, Any]] = []
    run(tables, graph, blocks=7, watch=recorder(messages))
    hops, parents = parents_of(graph, 0)
    branches = {user: [user] for user in graph}
    for user in sorted(parents, key=lambda user: -hops[user]):
        branches[parents[user]] += branches[user]
    sent = {int(who): post.body for who, post in messages if post.kind == "clusters"}
    assert set(sent) == set(parents)
    for user, body in sent.items():
        rows = np.concatenate([tables[i] for i in branches[user]])
        assert body["weights"].sum() == pytest.approx(len(rows))
        total = (body["weights"][0][:, None] * body["points"][0]).sum(axis=0)
        np.testing.assert_allclose(total, rows.sum(axis=0))


@pytest.mark.parametrize("seed", range(3))
def test_a_metric_is_that_of_flattened_rows(seed: int) -> None:
    metric = losses.Mahalanobis([[2.0, 0.9], [0.9, 1.0]])
    tables, graph = blobs(SIZES, seed), graph_of(7, seed)
    loss = losses.Huber(0.5).under(metric)
    there = run_part(lambda b: start(b, loss), RELEASES, graph, tables, seed=SEED)
    flat = run([metric.flattened(rows) for rows in tables], graph)
    moved = metric.flattened(there.result["centers"][0])
    np.testing.assert_allclose(np.sort(moved, axis=0), np.sort(flat.result["centers"][0], axis=0))


def test_users_with_few_rows_or_none() -> None:
    for sizes in ((0, 1, 2, 0, 5, 1, 0), (0, 0, 0, 0, 0, 0, 9), (1,) * 7):
        tables = blobs(sizes)
        found = run(tables, graph_of(7, 1), blocks=7).result["centers"]
        expected = plain(tables, [np.ones(n) for n in sizes], graph_of(7, 1))
        np.testing.assert_allclose(found[0], np.resize(expected, found[0].shape), atol=1e-9)
        assert (found == found[0]).all()


def test_fewer_distinct_rows_than_clusters_repeat() -> None:
    tables = [np.array([[1.0, 2.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])]
    found = run(tables, nx.path_graph(2)).result["centers"][0]
    assert {tuple(row) for row in found.tolist()} == {(1.0, 2.0), (3.0, 4.0)}


def test_one_user_and_no_links() -> None:
    tables = blobs((20,))
    found = run(tables, nx.empty_graph(1))
    np.testing.assert_allclose(
        found.result["centers"][0], plain(tables, [np.ones(20)], nx.empty_graph(1))
    )
    assert found.traffic.messages == 0


# What leaves


@pytest.mark.parametrize("least", [3, 5, 10])
def test_what_leaves_is_made_of_whole_cells(least: int) -> None:
    sizes = (30, 4, 25, 9, 60, 1, 12)
    tables, graph = blobs(sizes, 2), graph_of(7, 2)
    messages: list[tuple[str, Any]] = []
    policy = Deployment(min_count=least)
    found = run(tables, graph, blocks=7, policy=policy, watch=recorder(messages))
    sent = {int(who): post.body for who, post in messages if post.kind == "clusters"}
    _, parents = parents_of(graph, 0)
    for user, body in sent.items():
        weights = body["weights"][0]
        assert (weights[weights > 0] >= least).all()
        assert (body["points"][0][weights == 0] == 0).all()
        if sizes[user] < least and user not in parents.values():
            assert not weights.any()
    assert any(body["weights"].any() for body in sent.values())
    assert (found.result["centers"] == found.result["centers"][0]).all()
    # Everything that was posted is what users post whose rows are the means of these cells.
    cells, within = in_cells(tables, least)
    alike: list[tuple[str, Any]] = []
    run(cells, graph, weights=within, blocks=7, watch=recorder(alike))
    for (who, post), (whose, other) in zip(messages, alike, strict=True):
        assert (who, post.kind) == (whose, other.kind)
        assert all(np.array_equal(post.body[name], other.body[name]) for name in post.body)


def test_everyone_too_small_is_one_clear_sentence() -> None:
    for blocks in (1, 4):
        refuses(
            lambda blocks=blocks: run(
                blobs((4, 4, 4, 4)), "ring", blocks=blocks, policy=Deployment(min_count=5)
            ),
            "No user sent anything about its rows",
            ProtocolError,
        )


def test_one_who_is_large_enough_is_enough() -> None:
    found = run(blobs((4, 4, 30, 4)), "ring", policy=Deployment(min_count=5))
    assert found.result["known"].all()
    assert (found.result["centers"] == found.result["centers"][0]).all()


def test_clusters_go_along_the_tree_and_nowhere_else() -> None:
    for seed in range(4):
        tables, graph = blobs(SIZES, seed), graph_of(7, seed)
        messages: list[tuple[str, Any]] = []
        traffic = run(tables, graph, blocks=7, watch=recorder(messages)).traffic
        hops, parents = parents_of(graph, 0)
        reach = nx.diameter(graph)
        sent = []
        for who, post in messages:
            if post.kind == "clusters":
                _, other = network(graph).neighbourhood(np.array([int(who)])).ends
                sent += [(int(who), int(to)) for to in other[post.to]]
        assert sorted(sent) == sorted(parents.items())
        floats = sum(3 * width(graph, hops[user]) + 2 for user in parents)
        assert traffic.by_kind["clusters"]["floats_up"] == floats
        # Each user sends once, to all of its neighbours; those who receive last need not.
        links = sum(graph.degree[user] for user, far in hops.items() if far < reach)
        assert traffic.by_kind["start"]["messages"] == links
        assert traffic.by_kind["start"]["floats_up"] == links * (K * 2 + 3 + 1)
        kinds = {kind for kind, _ in traffic.by_round}
        assert kinds == {"tree", "echo", "clusters", "start"}
        assert traffic.rounds <= 3 * reach + 1


def test_messages_have_room_for_the_widest_branch_up_to_a_bound() -> None:
    def widths(m: int, n_features: int = 2, **options: bool) -> list[int]:
        rows = [np.zeros((1, n_features))] * m
        everybody = np.arange(m)
        block = Block.of(Parties.of(rows), network("ring", m), everybody, 0, STUDY)
        return convergecast.message_widths(block, K, **options).tolist()

    # A ring of 7: the root, then two branches of three users each.
    own = OWN
    assert widths(7) == [6 * own, 3 * own, 2 * own, own]
    assert widths(7, private=True) == [6 * own, 6 * own, 5 * own, 4 * own]
    # Never for more than 6 users; and not so many that messages of all users outgrow memory.
    assert max(widths(40)) == 6 * own
    assert set(widths(40, 2**17)) == {own}


# Deaths


@pytest.mark.parametrize("who", [0, 3])
def test_whoever_is_up_has_centres_whenever_one_goes_down(who: int) -> None:
    graph = nx.cycle_graph(6)
    graph.add_edges_from([(0, 3), (1, 4)])
    tables = blobs((9, 8, 12, 7, 10, 9), 4)
    box = np.concatenate(tables).min(axis=0), np.concatenate(tables).max(axis=0)
    others = np.arange(6) != who
    whole = run(tables, graph).result["centers"][0]
    same = 0
    for since in range(3 * nx.diameter(graph) + 1):
        one, many = (
            run(tables, graph, faults=[UserDown(who, since)], blocks=blocks).result
            for blocks in (1, 3)
        )
        assert one["known"][others].all()
        centers = one["centers"][others]
        assert (centers >= box[0]).all()
        assert (centers <= box[1]).all()
        for name, value in one.items():
            assert np.array_equal(value, many[name])
        assert one["broken"][list(graph[who])].all()  # those next to it know
        same += bool((centers == whole).all())
    assert same > 0  # a user that goes down late has sent its clusters


@pytest.mark.parametrize(
    ("graph", "who"), [(nx.path_graph(4), 0), (nx.path_graph(4), 1), (nx.star_graph(3), 0)], ids=str
)
def test_also_where_the_graph_falls_apart(graph: nx.Graph, who: int) -> None:
    tables = blobs((9,) * 4, 5)
    for since in range(3 * nx.diameter(graph) + 1):
        found = run(tables, graph, faults=[UserDown(who, since)]).result
        assert found["known"][np.arange(4) != who].all()
        assert np.isfinite(found["centers"]).all()


def test_without_the_root_it_is_the_next_lowests() -> None:
    """Down from the beginning, user 0 is as good as not there."""
    graph = nx.complete_graph(5)
    tables = blobs((9, 8, 12, 7, 10), 4)
    found = run(tables, graph, faults=[UserDown(0, 0)]).result
    living = graph.subgraph(range(1, 5))
    expected = plain(tables, [np.ones(len(rows)) for rows in tables], living, root=1)
    for user in range(1, 5):
        np.testing.assert_allclose(found["centers"][user], expected, atol=1e-9)
