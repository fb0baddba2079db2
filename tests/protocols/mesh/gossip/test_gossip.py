"""Gossiped sums against Lloyd's steps on pooled rows: step by step, at the end, after faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from tests.graphs.test_topology import connected
from tests.protocols.mesh.parts import blobs, graph_of, network, run_part
from unpooled import FederatedKMeans, losses
from unpooled import GossipKMeans as Estimator
from unpooled.messages.message import Note, Post
from unpooled.messages.release import Release
from unpooled.privacy.policy import STUDY
from unpooled.protocols.mesh.base import Block, Peer
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.protocols.mesh.gossip.averaging import Gossip
from unpooled.protocols.mesh.gossip.windows import Windows
from unpooled.protocols.mesh.shared.common_start import POINTS
from unpooled.protocols.mesh.shared.stopping import UNREST
from unpooled.runtime.run import Run
from unpooled.simulate import Options, run_mesh
from unpooled.simulate.faults import Fault, LinkLost, MessagesLost, UserDown
from unpooled.types import Body, Parties

SIZES = (25, 4, 18, 30, 9, 14, 22, 11)
M, K = len(SIZES), 3
KMEANS = losses.SquaredEuclidean()
METRIC = losses.Mahalanobis([[2.0, 0.6], [0.6, 1.0]])
FIXED = {
    "k-means": KMEANS,
    "mahalanobis": KMEANS.under(METRIC),
    "itakura-saito": losses.Bregman.itakura_saito(),
    "generalised kl": losses.Bregman.generalised_kl(),
    "bregman, mahalanobis": losses.Bregman.mahalanobis(METRIC.A),
}
ROBUST = {
    "huber": losses.Huber(0.7),
    "logistic": losses.Logistic(),
    "fair": losses.Fair(0.8),
    "huber, mahalanobis": losses.Huber(0.7).under(METRIC),
}


def problem(seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Overlapping clusters, weights, and some rows to start from."""
    rng = np.random.default_rng(seed)
    tables = blobs(SIZES, seed, apart=5.0)
    weights = [rng.uniform(0.2, 2.0, size=n) for n in SIZES]
    return tables, weights, np.concatenate(tables)[rng.permutation(sum(SIZES))[:K]]


def labelled(rows: np.ndarray, centers: np.ndarray, loss: losses.Loss) -> np.ndarray:
    each = [loss.value(np.broadcast_to(center, rows.shape), rows) for center in centers]
    return np.argmin(each, axis=0)


def lloyd(
    rows: np.ndarray, weights: np.ndarray, centers: np.ndarray, loss: losses.Loss = KMEANS
) -> np.ndarray:
    """One step on pooled rows: means of the clusters, by g = f'(t) / t where the loss has it."""
    labels = labelled(rows, centers, loss)
    if isinstance(loss, losses.DistanceLoss):
        t = np.sqrt(loss.metric.squared(centers[labels] - rows))
        weights = weights * loss.weight(t)
    new = centers.copy()
    for k in range(len(centers)):
        if weights[labels == k].sum():
            new[k] = np.average(rows[labels == k], axis=0, weights=weights[labels == k])
    return new


def run(
    protocol: GossipKMeans,
    tables: Sequence[np.ndarray],
    graph: nx.Graph | str | None = "ring",
    *,
    weights: Sequence[np.ndarray] | None = None,
    faults: Iterable[Fault] = (),
    notes: list[Note] | None = None,
    blocks: int = 1,
    seed: int = 0,
) -> Run:
    parties = Parties.of(tables, weights=weights)
    return run_mesh(
        protocol, parties, network(graph, len(parties)), seed=seed, blocks=blocks,
        options=Options(faults=tuple(faults)), observe=None if notes is None else notes.append,
    )  # fmt: skip


def at_rest(
    found: Run,
    tables: Sequence[np.ndarray],
    users: Iterable[int] | None = None,
    *,
    atol: float = 1e-8,
    weights: Sequence[np.ndarray] | None = None,
    loss: losses.Loss = KMEANS,
) -> np.ndarray:
    """Those users agree on centres that a Lloyd step on their pooled rows does not move."""
    users = list(range(len(tables)) if users is None else users)
    weights = [np.ones(len(rows)) for rows in tables] if weights is None else weights
    rows = np.concatenate([tables[i] for i in users])
    pooled = np.concatenate([weights[i] for i in users])
    centers = found.result["centers"][users]
    np.testing.assert_allclose(centers, np.broadcast_to(centers[0], centers.shape), atol=atol)
    np.testing.assert_allclose(lloyd(rows, pooled, centers[0], loss), centers[0], atol=atol)
    assert not found.result["running"][users].any()
    return centers[0]


# Step by step


@pytest.mark.parametrize("name", FIXED | ROBUST)
@pytest.mark.parametrize("averaging", ["gossip", "tree"])
def test_every_cycle_is_a_lloyd_step_of_the_pooled_rows(name: str, averaging: str) -> None:
    """Where averages are exact, as on a ring and along a tree."""
    loss = (FIXED | ROBUST)[name]
    tables, weights, init = problem(1)
    notes: list[Note] = []
    protocol = GossipKMeans(K, init, loss=loss, averaging=averaging, tol=0.0, max_rounds=15)
    run(protocol, tables, weights=weights, notes=notes)
    assert len(notes) == 15
    x, moved = init, 0.0
    rows, pooled = np.concatenate(tables), np.concatenate(weights)
    for note in notes:
        new = lloyd(rows, pooled, x, loss)
        labels = labelled(rows, x, loss)
        moved = max(moved, np.abs(new - x).max())
        np.testing.assert_allclose(
            note.body["centers"], np.broadcast_to(new, (M, *new.shape)), atol=1e-9
        )
        cost = (pooled * loss.value(new[labels], rows)).sum()
        assert note.body["cost"].sum() == pytest.approx(cost)
        np.testing.assert_allclose(
            note.body["movement"], np.linalg.norm(new - x, axis=1).max(), atol=1e-9
        )
        x = new
    assert moved > 0.1  # else nothing was tested


@pytest.mark.parametrize("name", FIXED | ROBUST)
@pytest.mark.parametrize("graph", ["path", "star", "complete", "random"])
def test_the_end_is_a_fixed_point_on_any_graph(name: str, graph: str) -> None:
    loss = (FIXED | ROBUST)[name]
    tables, weights, init = problem(2)
    protocol = GossipKMeans(K, init, loss=loss, tol=1e-9)
    net = graph_of(M, 4) if graph == "random" else graph
    found = run(protocol, tables, net, weights=weights)
    at_rest(found, tables, weights=weights, loss=loss, atol=1e-7)
    assert len(set(found.result["rounds"].tolist())) == 1


@pytest.mark.parametrize("name", ROBUST)
def test_the_end_is_a_stationary_point_no_costlier_than_the_start(name: str) -> None:
    loss = ROBUST[name]
    for seed in range(2):
        tables, weights, init = problem(seed)
        rows, pooled = np.concatenate(tables), np.concatenate(weights)
        found = run(GossipKMeans(K, init, loss=loss, tol=1e-10), tables, weights=weights)
        x = found.result["centers"][0]
        labels = labelled(rows, x, loss)
        pulls = pooled[:, None] * loss.gradient(x[labels], rows)
        for k in range(K):
            assert np.abs(pulls[labels == k].sum(axis=0)).max() < 1e-6 * np.abs(pulls).sum()
        before = (pooled * loss.value(init[labelled(rows, init, loss)], rows)).sum()
        assert (pooled * loss.value(x[labels], rows)).sum() < before


@pytest.mark.parametrize("name", FIXED)
def test_the_cost_never_rises_where_averages_are_exact(name: str) -> None:
    tables, weights, init = problem(3)
    notes: list[Note] = []
    run(GossipKMeans(K, init, loss=FIXED[name]), tables, weights=weights, notes=notes)
    costs = [note.body["cost"].sum() for note in notes]
    assert np.diff(costs).max() <= 1e-9 * costs[0]


# The same as others


@pytest.mark.parametrize("graph", ["ring", "path", "star", "complete"])
@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}], ids=str)
def test_from_the_same_start_it_is_federated_k_means(graph: str, options: dict[str, Any]) -> None:
    tables, weights, init = problem(0)
    star = FederatedKMeans(K, init=init, tol=1e-12).fit(tables, sample_weight=weights)
    mesh = Estimator(K, init=init, graph=graph, tol=1e-9, **options)
    mesh.fit(tables, sample_weight=weights)
    np.testing.assert_allclose(mesh.cluster_centers_, star.cluster_centers_, atol=1e-8)
    assert np.abs(mesh.peer_centers_ - mesh.cluster_centers_).max() < 1e-8
    for own, other in zip(mesh.labels_, star.labels_, strict=True):
        assert np.array_equal(own, other)
    assert mesh.inertia_ == pytest.approx(star.inertia_)


@pytest.mark.parametrize("seed", range(2))
def test_along_a_tree_it_is_the_same_where_both_are_exact(seed: int) -> None:
    tables, _, _ = problem(seed)
    gossip, tree = (
        Estimator(K, tol=1e-9, random_state=seed, averaging=averaging).fit(tables)
        for averaging in ("gossip", "tree")
    )
    for own, other in zip(gossip.labels_, tree.labels_, strict=True):
        assert np.array_equal(own, other)
    np.testing.assert_allclose(gossip.peer_centers_, tree.peer_centers_, atol=1e-8)
    assert (tree.peer_centers_ == tree.peer_centers_[0]).all()  # to the bit


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_from_a_found_start_it_ends_in_a_lloyd_point(seed: int, options: dict[str, Any]) -> None:
    """Not in the same one in every way: averages that are not exact take other steps to it."""
    tables, weights, _ = problem(seed)
    protocol = GossipKMeans(K, n_init=2, tol=1e-9, **options)
    found = run(protocol, tables, graph_of(M, seed), weights=weights, seed=seed)
    at_rest(found, tables, weights=weights)


@pytest.mark.parametrize("loss", ["kmeans", "huber"])
def test_weights_are_multiplicities(loss: str) -> None:
    tables, _, init = problem(4)
    rng = np.random.default_rng(0)
    times = [rng.integers(0, 4, size=n) for n in SIZES]
    times[0][0] = 1
    repeated = [np.repeat(rows, n, axis=0) for rows, n in zip(tables, times, strict=True)]
    for options in ({}, {"averaging": "tree"}):
        model = Estimator(K, init=init, loss=loss, tol=1e-9, **options)
        weighted = model.fit(tables, sample_weight=[n.astype(float) for n in times]).peer_centers_
        listed = model.fit(repeated).peer_centers_
        np.testing.assert_allclose(weighted, listed, atol=1e-9)


@pytest.mark.parametrize(
    "protocol",
    [
        GossipKMeans(K, n_init=1),
        GossipKMeans(K, n_init=1, topology="private", loss=losses.Huber(0.5)),
        GossipKMeans(K, n_init=1, averaging="tree"),
    ],
    ids=["gossip", "private, huber", "tree"],
)
def test_hosting_changes_nothing(protocol: GossipKMeans) -> None:
    tables, weights, _ = problem(5)
    for faults in ((), (UserDown(0, 4), LinkLost(5, 6, 20, 31))):
        cut = replace(protocol, max_rounds=5)
        one, *others = (
            run(cut, tables, graph_of(M, 3), weights=weights, faults=faults, blocks=blocks)
            for blocks in (1, 3)
        )
        for other in others:
            for name, value in one.result.items():
                assert np.array_equal(value, other.result[name])
            assert np.array_equal(one.traffic.table, other.traffic.table)


@pytest.mark.parametrize("options", [{"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_hosting_changes_nothing_where_the_start_was_cut_in_two(options: dict[str, Any]) -> None:
    tables = blobs((9,) * 8, 1, apart=4.0)
    cut = (LinkLost(4, 5, since=7, until=60),)
    protocol = GossipKMeans(K, n_init=1, max_rounds=40, **options)
    one, several = (
        run(protocol, tables, nx.path_graph(8), faults=cut, blocks=blocks, seed=1)
        for blocks in (1, 4)
    )
    for name, value in one.result.items():
        assert np.array_equal(value, several.result[name])


class Shouting(GossipKMeans):
    """One user claims a late epoch, and later to have parted, with sums that are none."""

    def peer(self, block: Block) -> Peer[Body]:
        peer = super().peer(block)
        said = next(peer)
        while True:
            if isinstance(said, Post) and said.kind == "sums" and said.round in (3, 12):
                body = {name: value.copy() for name, value in said.body.items()}
                liar = block.neighbourhood.users == 2
                body["epoch"][liar] = 10**15 if said.round == 3 else -1
                body["sums"][liar, :, -1] = 0.0
                said = Post(said.kind, said.round, body, said.senders, said.to)
            try:
                said = next(peer) if isinstance(said, Note) else peer.send((yield said))
            except StopIteration as end:
                result: Body = end.value
                return result


def test_words_that_make_no_sense_are_not_followed() -> None:
    tables, _, _ = problem(1)
    found = run(Shouting(K, n_init=1, max_rounds=60), tables, "ring")
    at_rest(found, tables)
    assert not found.result["running"].any()


# Corners


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_the_centre_of_an_empty_cluster_stays(options: dict[str, Any]) -> None:
    tables, _, init = problem(0)
    far = np.concatenate([init, [[1e3, 1e3]]])
    for graph in ("ring", graph_of(M, 2)):
        model = Estimator(4, init=far, graph=graph, **options).fit(tables)
        assert model.converged_
        assert (model.peer_centers_[:, 3] == far[3]).all()
        others = Estimator(3, init=init, graph=graph, **options).fit(tables)
        np.testing.assert_allclose(model.peer_centers_[:, :3], others.peer_centers_, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_one_cluster_is_the_mean_of_all_rows(options: dict[str, Any]) -> None:
    tables, weights, _ = problem(0)
    model = Estimator(1, graph=graph_of(M, 1), tol=1e-9, **options)
    mean = np.average(np.concatenate(tables), axis=0, weights=np.concatenate(weights))
    found = model.fit(tables, sample_weight=weights).peer_centers_
    np.testing.assert_allclose(found, np.broadcast_to(mean, found.shape), atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_one_party_alone(options: dict[str, Any]) -> None:
    tables, _, init = problem(0)
    rows = np.concatenate(tables)
    for start in ("tree", init):
        model = Estimator(K, init=start, random_state=0, **options).fit(rows)
        x = model.cluster_centers_
        np.testing.assert_allclose(lloyd(rows, np.ones(len(rows)), x), x, atol=1e-9)
        assert model.traffic_.messages == 0
        assert model.converged_


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_no_graph_is_everybody_alone(options: dict[str, Any]) -> None:
    tables, _, init = problem(0)
    model = Estimator(K, graph=None, init=init, tol=1e-9, **options).fit(tables)
    for own, rows in zip(model.peer_centers_, tables, strict=True):
        alone = Estimator(K, init=init, tol=1e-9, **options).fit(rows)
        np.testing.assert_allclose(own, alone.cluster_centers_, atol=1e-12)
        np.testing.assert_allclose(lloyd(rows, np.ones(len(rows)), own), own, atol=1e-9)
    assert not hasattr(model, "cluster_centers_")
    assert model.traffic_.messages == 0
    found = Estimator(2, graph=None, random_state=0, **options).fit(tables)
    assert len({center.tobytes() for center in found.peer_centers_}) == M


@pytest.mark.parametrize("options", [{}, {"averaging": "tree"}, {"topology": "private"}], ids=str)
def test_two_parties(options: dict[str, Any]) -> None:
    tables, _, _ = problem(0)
    pair = [np.concatenate(tables[:4]), np.concatenate(tables[4:])]
    found = run(GossipKMeans(K, n_init=2, tol=1e-9, **options), pair, "path")
    at_rest(found, pair)


def test_users_without_rows() -> None:
    tables, _, _ = problem(0)
    tables = [tables[0][:0], *tables[1:4], tables[4][:0], *tables[5:]]
    for options in ({}, {"averaging": "tree"}, {"topology": "private"}):
        found = run(GossipKMeans(K, n_init=1, tol=1e-9, **options), tables)
        at_rest(found, tables)


def test_rows_without_spread() -> None:
    tables = [np.full((3, 2), 4.0), np.full((2, 2), 4.0), np.full((1, 2), 4.0)]
    found = run(GossipKMeans(1), tables)
    assert (found.result["centers"] == 4.0).all()
    assert not found.result["running"].any()


# Rounds, history, traffic


def test_without_tolerance_all_rounds_are_run() -> None:
    tables, _, init = problem(0)
    for averaging in ("gossip", "tree"):
        model = Estimator(K, init=init, tol=0, max_rounds=23, averaging=averaging).fit(tables)
        assert model.n_rounds_ == 23
        assert not model.converged_
        assert {len(values) for values in model.history_.values()} == {23}
        assert (model.history_["changed"][-5:] == 0).all()


def test_one_round_is_one_lloyd_step() -> None:
    tables, _, init = problem(0)
    model = Estimator(K, init=init, max_rounds=1).fit(tables)
    rows = np.concatenate(tables)
    step = lloyd(rows, np.ones(len(rows)), init)
    np.testing.assert_allclose(model.cluster_centers_, step, atol=1e-9)
    assert not model.converged_
    assert model.n_rounds_ == 1
    assert {len(values) for values in model.history_.values()} == {1}


def test_history_is_of_rounds() -> None:
    tables, _, init = problem(6)
    model = Estimator(K, init=init, graph=graph_of(M, 1)).fit(tables)
    assert model.converged_
    assert 2 < model.n_rounds_ < 100
    assert {len(values) for values in model.history_.values()} == {model.n_rounds_}
    assert model.history_["changed"][0] == sum(SIZES)  # all rows are new
    assert model.history_["changed"][-1] == 0
    rows = np.concatenate(tables)
    cost = KMEANS.value(model.cluster_centers_[np.concatenate(model.labels_)], rows).sum()
    assert model.history_["cost"][-1] == pytest.approx(cost)
    assert model.history_["cost"][-1] == pytest.approx(model.inertia_ / 2)


@pytest.mark.parametrize("m", [3, 8, 13])
def test_traffic_on_a_ring(m: int) -> None:
    tables = blobs((12,) * m, 1)
    model = Estimator(K, random_state=0).fit(tables)
    traffic, d, reach = model.traffic_, 2, m // 2
    messages = {
        "tree": 2 * m * reach,
        "echo": 2 * m,
        "clusters": m - 1,
        "start": 2 * (m if m == 2 * reach else m - 2) - 2 * (m == 2 * reach),
        "sums": 2 * m * (model.n_rounds_ * (m // 2) + 1),
    }
    floats = {
        "tree": 2,
        "echo": 1,
        "clusters": POINTS * (K * d + K) + 2,
        "start": K * d + 3 + 1,
        "sums": K * (d + 1) + 2,
    }
    for kind, each in floats.items():
        assert traffic.by_kind[kind]["messages"] == messages[kind], kind
        assert traffic.by_kind[kind]["floats_up"] == messages[kind] * each, kind
    assert set(traffic.by_kind) == set(floats)
    # Tree and echo, up and down, m/2 exchanges a cycle, and the last words.
    assert traffic.rounds == 3 * reach + 1 + model.n_rounds_ * (m // 2) + 1


def test_traffic_along_a_tree() -> None:
    tables, _, _ = problem(0)
    graph = graph_of(M, 2)
    model = Estimator(K, graph=graph, averaging="tree", random_state=0).fit(tables)
    links = 2 * graph.number_of_edges()
    sums = model.traffic_.by_kind["sums"]
    # Up and down every link of the tree once a cycle; the last words go everywhere.
    assert sums["messages"] == model.n_rounds_ * 2 * (M - 1) + links
    gossip = Estimator(K, graph=graph, random_state=0).fit(tables)
    assert sums["floats_up"] < gossip.traffic_.by_kind["sums"]["floats_up"] / 2


def test_a_given_start_needs_no_tree() -> None:
    tables, _, init = problem(0)
    assert set(Estimator(K, init=init).fit(tables).traffic_.by_kind) == {"sums"}
    tree = Estimator(K, init=init, averaging="tree").fit(tables)
    assert set(tree.traffic_.by_kind) == {"sums", "tree", "echo"}
    private = Estimator(K, init=init, topology="private").fit(tables)
    assert set(private.traffic_.by_kind) == {"sums"}


# When to stop


@given(
    connected(),
    st.integers(1, 4),
    st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0]), min_size=1, max_size=40),
    st.integers(0, 1000),
)
@settings(max_examples=30)
def test_all_users_decide_alike_however_short_a_cycle_is(
    graph: nx.Graph, length: int, spikes: list[float], seed: int
) -> None:
    """Unrest of single users in single cycles, and windows of several cycles."""
    m, reach = graph.number_of_nodes(), nx.diameter(graph)
    per_window = max(1, -(-reach // length))
    n_cycles = 60 + 3 * per_window
    rng = np.random.default_rng(seed)
    unrest = np.zeros((n_cycles, m))
    for cycle, spike in enumerate(spikes):
        unrest[cycle, rng.integers(m)] = spike

    def does(block: Block) -> Peer[Body]:
        own, n = unrest[:, block.neighbourhood.users], len(block)
        windows, running = Windows(n), np.ones(n, dtype=bool)
        stopped = np.full(n, -1)
        for t in range(n_cycles * length):
            cycle, step = divmod(t, length)
            if step == 0:
                windows.begin(running, own[cycle], opens=cycle % per_window == 0)
            heard = yield Post("word", t, {UNREST: windows.largest}, senders=running)
            windows.hear(heard, np.zeros(n, dtype=bool))
            if step == length - 1 and (cycle + 1) % per_window == 0:
                stops = running & (windows.largest <= 0.5)
                stopped[stops] = t
                running = running & ~stops
            if not running.any():
                break
        return {"stopped": stopped}

    release = Release("word", (UNREST,), ("model",), "unrest", bounds={UNREST: np.inf})
    expected = -1
    for first in range(0, n_cycles, per_window):
        since = first - per_window + 1 if first else 0
        if unrest[max(0, since) : first + 1].max() <= 0.5 and first + per_window <= n_cycles:
            expected = (first + per_window) * length - 1
            break
    for blocks in (1, m):
        found = run_part(does, [release], graph, blocks=blocks).result["stopped"]
        assert found.tolist() == [expected] * m


@pytest.mark.parametrize(
    "graph",
    [nx.path_graph(12), nx.cycle_graph(11), nx.barbell_graph(3, 5), nx.star_graph(8)],
    ids=["path", "ring", "barbell", "star"],
)
@pytest.mark.parametrize("options", [{}, {"topology": "private"}, {"averaging": "tree"}], ids=str)
def test_all_users_stop_in_the_same_round(graph: nx.Graph, options: dict[str, Any]) -> None:
    m = graph.number_of_nodes()
    tables = blobs((6,) * m, 3, apart=4.0)
    for init in (None, np.concatenate(tables)[::20][:K]):
        found = run(GossipKMeans(K, init, n_init=1, tol=1e-7, **options), tables, graph, blocks=2)
        assert len(set(found.result["rounds"].tolist())) == 1
        at_rest(found, tables, atol=1e-6)


def test_cycles_may_be_shorter_than_the_way_across() -> None:
    """The test above has such a case: after a fault, or where nothing is known of the graph."""
    parties = Parties.of([np.zeros((1, 1))] * 11)
    block = Block.of(parties, network("ring", 11), np.arange(11), 0, STUDY)
    assert Gossip.after_faults(block, "sums").length < Gossip.after_faults(block, "sums").window


# Faults


def test_lost_messages_cost_time_only() -> None:
    tables, _, _ = problem(0)
    graph = graph_of(M, 3)
    for protocol in (GossipKMeans(K, n_init=1), GossipKMeans(K, n_init=1, averaging="tree")):
        plain = run(protocol, tables, graph)
        elapsed = [plain.elapsed]
        for rate in (0.05, 0.3):
            lossy = run(protocol, tables, graph, faults=[MessagesLost(rate, seed=1)], blocks=2)
            for name, value in plain.result.items():
                assert np.array_equal(value, lossy.result[name])
            elapsed.append(lossy.elapsed)
            # The last of a user's messages is there after a few more slots than one.
            longest = np.log(4 * len(graph.edges)) / -np.log(rate) + 2
            assert lossy.elapsed <= longest * plain.elapsed
        assert plain.elapsed < elapsed[1] < elapsed[2]


def sturdy() -> nx.Graph:
    """A ring with chords, which stays connected without any two users."""
    graph = nx.cycle_graph(M)
    graph.add_edges_from([(i, (i + 3) % M) for i in range(M)])
    return graph


SHORT = {"n_init": 1, "max_rounds": 60, "tol": 1e-8}
GIVEN = [{}, {"averaging": "tree"}, {"topology": "private"}]
FOUND = GIVEN[:2]
START = 3 * nx.diameter(sturdy()) + 1
some_seeds = pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, *range(2, 10)))]
)


class Case:
    """A run with faults at a share of how long it would have been without any."""

    def __init__(self, seed: int, *, given: bool = True, graph: nx.Graph | str | None = None):
        self.tables, _, start = problem(seed)
        ways = GIVEN if given else FOUND
        self.graph = sturdy() if graph is None else graph
        init = start if given else None
        self.protocol = GossipKMeans(K, init, **SHORT, **ways[seed % len(ways)])
        self.seed, self.start = seed, 0 if given else START
        self.length = self.run().traffic.rounds

    def run(self, *faults: Fault) -> Run:
        return run(self.protocol, self.tables, self.graph, faults=faults, seed=self.seed)

    def at(self, share: float) -> int:
        """Before all have decided: shares up to 1/2."""
        return self.start + int(share * (self.length - self.start))


@some_seeds
@pytest.mark.parametrize("given", [True, False])
def test_the_rows_of_a_user_that_is_gone_leave_the_mean(seed: int, given: bool) -> None:
    case, who = Case(seed, given=given), seed % M
    found = case.run(UserDown(who, case.at(0.05 * seed)))
    at_rest(found, case.tables, set(range(M)) - {who}, atol=1e-7)
    assert found.result["running"][who]


@some_seeds
@pytest.mark.parametrize("given", [True, False])
def test_when_it_returns_they_count_again(seed: int, given: bool) -> None:
    case, who = Case(seed, given=given), (3 * seed + 1) % M
    since = case.at(0.05 * seed)
    found = case.run(UserDown(who, since, since + 1 + seed // 2))
    at_rest(found, case.tables, atol=1e-7)


@some_seeds
@pytest.mark.parametrize("given", [True, False])
def test_a_late_joiner_counts_as_well(seed: int, given: bool) -> None:
    case, who = Case(seed, given=given), seed % M
    found = case.run(UserDown(who, 0, 1 + case.at(0.05 * seed)))
    at_rest(found, case.tables, atol=1e-7)


@some_seeds
def test_the_root_may_die_in_the_start(seed: int) -> None:
    case = Case(seed, given=False)
    found = case.run(UserDown(0, seed % START))
    at_rest(found, case.tables, range(1, M), atol=1e-7)


@some_seeds
def test_a_link_may_be_lost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = sorted(sturdy().edges)[int(rng.integers(2 * M))]
    for case in (Case(seed), Case(seed, given=False)):
        since = int(rng.integers(1 + case.at(0.5)))
        for until in (None, since + 3):
            at_rest(case.run(LinkLost(a, b, since, until)), case.tables, atol=1e-7)


@some_seeds
def test_two_may_crash(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = rng.choice(M, 2, replace=False).tolist()
    for case in (Case(seed), Case(seed, given=False)):
        first, second = rng.integers(1 + case.at(0.5), size=2).tolist()
        found = case.run(UserDown(one, first), UserDown(two, second))
        at_rest(found, case.tables, set(range(M)) - {one, two}, atol=1e-7)


@some_seeds
def test_who_returns_after_the_others_have_parted_takes_their_centres(seed: int) -> None:
    case, who = Case(seed), (seed + 2) % M
    others = [i for i in range(M) if i != who]
    since = case.at(0.05 * seed)
    gone = case.run(UserDown(who, since))
    found = case.run(UserDown(who, since, gone.traffic.rounds + 5))
    expected = at_rest(found, case.tables, others, atol=1e-7)
    np.testing.assert_array_equal(found.result["centers"][others], gone.result["centers"][others])
    np.testing.assert_allclose(found.result["centers"][who], expected, atol=1e-7)
    assert not found.result["running"].any()


@some_seeds
def test_a_ring_that_has_become_a_path(seed: int) -> None:
    """There the way between two users is longer than the plan's graph says."""
    case, who = Case(seed, given=seed % 2 == 1, graph="ring"), (5 * seed) % M
    for since in (0, case.at(0.1 * (seed % 5))):
        found = case.run(UserDown(who, since))
        at_rest(found, case.tables, set(range(M)) - {who}, atol=1e-7)


@pytest.mark.parametrize("name", ["huber", "generalised kl"])
def test_faults_with_other_losses(name: str) -> None:
    loss = (FIXED | ROBUST)[name]
    tables, _, init = problem(1)
    protocol = GossipKMeans(K, init, loss=loss, max_rounds=100, tol=1e-10)
    found = run(protocol, tables, sturdy(), faults=[UserDown(2, 5), UserDown(4, 9, 14)])
    at_rest(found, tables, set(range(M)) - {2}, loss=loss, atol=1e-7)


def test_rows_do_not_go_to_and_fro_forever() -> None:
    """While means are not exact a row may change cluster, rest, and change back, again and again;
    on a star, by a polynomial that knows nothing of it, users never came to rest."""
    for seed in (0, 1, 4, 12):
        tables, weights, init = problem(seed)
        protocol = GossipKMeans(K, init, topology="private", max_rounds=200)
        found = run(protocol, tables, "star", weights=weights)
        at_rest(found, tables, weights=weights, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_any_few_faults(seed: int) -> None:
    """Whoever is there at the end agrees, on a Lloyd point of its rows unless all was over."""
    rng = np.random.default_rng(1000 + seed)
    for case in (Case(seed), Case(seed, given=False)):
        faults: list[Fault] = []
        gone = set()
        for who in rng.choice(M, rng.integers(1, 3), replace=False).tolist():
            since = int(rng.integers(case.length))
            until = since + int(rng.integers(1, 30)) if rng.random() < 0.5 else None
            faults.append(UserDown(who, since, until))
            gone |= {who} if until is None else set()
        found = case.run(*faults)
        centers = found.result["centers"][sorted(set(range(M)) - gone)]
        np.testing.assert_allclose(centers, centers[:1].repeat(len(centers), 0), atol=1e-6)
        if max(fault.since for fault in faults) <= case.at(0.5):  # type: ignore[union-attr]
            at_rest(found, case.tables, set(range(M)) - gone, atol=1e-6)
