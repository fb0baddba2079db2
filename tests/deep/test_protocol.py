"""DeepFeCA as a protocol: the rules of its role, the pooled algorithm, losses, policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from tests.cells import cells_of
from tests.deep.plain import IMAGES, Dropping, one_shot, parties, protocol, tiny
from unpooled.data.parties import Parties
from unpooled.deep import vectors
from unpooled.deep.augmentation import SIGNS
from unpooled.deep.channels import channel_scale
from unpooled.deep.encoders import Network
from unpooled.deep.protocol import ROUNDS_DONE, DeepClustering, _clustered
from unpooled.deep.releases import CHANNEL_MEAN, CHANNEL_SCALE, WEIGHTS
from unpooled.deep.training import Training, train
from unpooled.errors import PolicyRefusal, ProtocolError, QuorumLost
from unpooled.messages.conform import misfit
from unpooled.messages.message import Ask, Message, Note, Reply
from unpooled.privacy.policy import Deployment
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.fuzzy import FuzzyCMeans
from unpooled.protocols.star.kfed import KFED
from unpooled.protocols.star.matched import MatchedAveraging
from unpooled.protocols.star.shared.drawn_starts import DrawnStarts
from unpooled.simulate import Options, run_star
from unpooled.simulate.faults import UserDown
from unpooled.testing import Check, conformance
from unpooled.types import Body

NETWORKS = Deployment(allow=("network-weights",), least_parties=1)
TRAIN = (2, 4)
"""The exchanges in which parties train: after the pixels' sums and a clustering each."""
FLAT: dict[str, Any] = {"image_shape": (1, 1, 2), "training": Training(batch_size=4)}
TABLE = {
    "feca": protocol(**FLAT),
    "projected": protocol(**FLAT, components=3, batch_norm="averaged"),
    "partial": protocol(**FLAT, participation=0.5),
    "fuzzy": protocol(**FLAT, inner=FuzzyCMeans(4, max_rounds=3), final=FuzzyCMeans(3)),
    "lloyd": protocol(
        **FLAT,
        inner=FederatedKMeans(DrawnStarts(4, "random", 1), 3),
        final=FederatedKMeans(DrawnStarts(3, "random", 1), 3),
    ),
}


@pytest.mark.parametrize(
    "check",
    [
        # One in the quick run; the others differ in what is trained, not in what travels.
        pytest.param(c, id=f"{name}: {c}", marks=() if name == "lloyd" else pytest.mark.long)
        for name, p in TABLE.items()
        for c in conformance(p)
    ],
)
def test_protocol_conforms(check: Check) -> None:
    check()


class Watched:
    """A run, with everything that was sent and noted."""

    def __init__(self, run: DeepClustering, data: Parties, **options: Any) -> None:
        self.messages: list[tuple[str, Message]] = []
        self.starts: dict[int, Body] = {}
        self.losses: list[float] = []
        how = Options(watch=lambda who, sent: self.messages.append((who, sent)), **options)
        self.result = run_star(run, data, seed=3, options=how, observe=self._note).result

    def _note(self, note: Note) -> None:
        self.starts[int(note.body[ROUNDS_DONE])] = note.body
        self.losses.append(float(note.body["loss"]))

    def asked(self, kind: str, number: int) -> Body:
        """The question of this name."""
        return next(
            m.body
            for _, m in self.messages
            if isinstance(m, Ask) and (m.kind, m.round) == (kind, number)
        )

    def replies(self, kind: str, number: int) -> dict[str, Body]:
        """The answers to it."""
        return {
            who: m.body
            for who, m in self.messages
            if isinstance(m, Reply) and (m.kind, m.round) == (kind, number)
        }


def same(a: Body, b: Body) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def test_one_party_is_deep_cluster() -> None:
    """A single party's run, and DeepCluster as anybody would write it."""
    options = {"inner": one_shot(6, 6), "final": one_shot(4, 4)}
    run = Watched(protocol(**options), parties(1))
    images = torch.from_numpy(IMAGES.reshape(-1, 1, 8, 8).astype(np.float32))
    mean, scale = IMAGES.mean(), IMAGES.std()
    np.testing.assert_allclose(run.result[CHANNEL_MEAN], mean)
    np.testing.assert_allclose(run.result[CHANNEL_SCALE], scale)
    scaling = tuple(
        torch.from_numpy(run.result[n].astype(np.float32)) for n in (CHANNEL_MEAN, CHANNEL_SCALE)
    )
    network = Network(tiny(), 16, 0)
    vectors.from_vector(network, run.asked("centroids", 0)[WEIGHTS])
    for number in range(2):
        asked = run.asked("train", number)
        network.eval()
        with torch.no_grad():
            points = network((images - scaling[0]) / scaling[1])
        centers = KMeans(6, init=asked["prototypes"], n_init=1).fit(points.numpy()).cluster_centers_
        centers /= np.linalg.norm(centers, axis=1, keepdims=True)
        np.testing.assert_allclose(asked["prototypes"], centers, atol=1e-3)  # a fixed point of it
        prototypes = torch.from_numpy(asked["prototypes"].astype(np.float32))
        labels = (points @ prototypes.T).argmax(dim=1)
        rng = np.random.default_rng([3, 0, *crc_of("train"), number])
        train(
            network,
            images,
            labels,
            None,
            prototypes,
            scaling,  # type: ignore[arg-type]
            Training(batch_size=16),
            SIGNS,
            (number / 2, (number + 1) / 2),
            torch.Generator().manual_seed(int(rng.integers(2**62))),
        )
        np.testing.assert_allclose(
            run.starts[number + 1][WEIGHTS], vectors.to_vector(network), rtol=1e-3, atol=1e-4
        )


def crc_of(kind: str) -> tuple[int]:
    return (crc32(kind.encode()),)


def test_the_mean_is_that_of_fedavg() -> None:
    run = Watched(protocol(), parties())
    for number in range(2):
        replies = list(run.replies("train", number).values())
        counts = np.array([float(reply["count"]) for reply in replies])
        assert counts.sum() == len(IMAGES)
        sent = [reply["weights"][0] for reply in replies]
        expected = vectors.averaged(Network(tiny(), 16, 0), sent, counts, "pooled")
        np.testing.assert_array_equal(run.starts[number + 1][WEIGHTS], expected)
    assert len(run.losses) == 2


@pytest.mark.parametrize("away", TRAIN)
def test_a_party_that_disappears_is_missing_from_that_mean_alone(away: int) -> None:
    number = TRAIN.index(away)
    whole = Watched(protocol(), parties())
    hit = Watched(protocol(), parties(), faults=(UserDown(1, away, away + 1),), quorum=2)
    # Until then nothing is different, and those who were there reply the same.
    for before in range(number + 1):
        same(hit.asked("train", before), whole.asked("train", before))
    there = hit.replies("train", number)
    assert set(there) == {"P0", "P2"}
    for name, reply in there.items():
        same(reply, whole.replies("train", number)[name])
    counts = np.array([float(reply["count"]) for reply in there.values()])
    sent = [reply["weights"][0] for reply in there.values()]
    mean = vectors.averaged(Network(tiny(), 16, 0), sent, counts, "pooled")
    np.testing.assert_array_equal(hit.starts[number + 1][WEIGHTS], mean)
    # Afterwards the run is the one that begins with that mean, with everybody in it.
    later = Watched(protocol(start=hit.starts[number + 1]), parties())
    same(later.result, hit.result)


def test_without_a_quorum_it_ends() -> None:
    with pytest.raises(QuorumLost, match="2 of 3 parties answered 'train' in round 1"):
        Watched(protocol(), parties(), faults=(UserDown(1, TRAIN[1]),))


def test_a_party_away_while_clusters_are_found_still_trains() -> None:
    """It finds its images' places itself then, and replies what it would have replied anyway."""
    options = {"inner": one_shot(6, 6), "final": one_shot(4, 4), "build": Dropping}
    hit = Watched(protocol(**options), parties(), faults=(UserDown(1, 3, 4),), quorum=2)
    answer, asked = hit.replies("train", 1)["P1"], hit.asked("train", 1)
    assert len(answer["weights"])
    run, data = protocol(**options), parties()[1]
    points = run.embed(data.rows, asked)
    known = {"deep.points": points, "deep.clustering": asked["deep.clustering"]}
    for state in ({}, known):
        rng = np.random.default_rng([3, 1, *crc_of("train"), 1])
        reply, _ = run.train(data, state, asked, rng)
        same(reply, answer)


@pytest.mark.parametrize("inner", ["feca", "fuzzy"])
def test_going_on_from_any_round_is_the_undisturbed_run(inner: str) -> None:
    kinds: dict[str, dict[str, StarProtocol]] = {
        "feca": {},
        "fuzzy": {"inner": FuzzyCMeans(6, max_rounds=3), "final": FuzzyCMeans(4)},
    }
    whole = Watched(protocol(rounds=3, participation=0.7, **kinds[inner]), parties())
    for number in (1, 2, 3):
        again = protocol(rounds=3, participation=0.7, start=whole.starts[number], **kinds[inner])
        same(Watched(again, parties()).result, whole.result)


def test_threads_and_codec_change_nothing() -> None:
    plain = Watched(protocol(), parties()).result
    same(Watched(protocol(), parties(), threads=3).result, plain)
    same(Watched(protocol(), parties(), through_codec=True).result, plain)


def test_dropout_is_drawn_from_the_partys_own_seed() -> None:
    before = torch.random.get_rng_state()
    one = Watched(protocol(build=Dropping), parties()).result
    two = Watched(protocol(build=Dropping), parties(), threads=3).result
    same(one, two)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_share_of_the_parties_trains() -> None:
    run = Watched(protocol(rounds=6, participation=0.4), parties(5))
    trained = [
        {who for who, reply in run.replies("train", number).items() if len(reply["weights"])}
        for number in range(6)
    ]
    assert all(len(own) == 2 for own in trained)
    assert len(set.union(*trained)) > 2
    for number, own in enumerate(trained):
        replies = run.replies("train", number)
        counts = np.array([float(replies[who]["count"]) for who in sorted(own)])
        sent = [replies[who]["weights"][0] for who in sorted(own)]
        mean = vectors.averaged(Network(tiny(), 16, 0), sent, counts, "pooled")
        np.testing.assert_array_equal(run.starts[number + 1][WEIGHTS], mean)


@pytest.mark.parametrize(
    "inner",
    [FeCA(6, 6), one_shot(6, 6), MatchedAveraging(6), KFED(6, 3), FuzzyCMeans(6, max_rounds=1)],
    ids=lambda p: p.name,
)
def test_under_deployment_replies_about_clusters_are_about_whole_cells(
    inner: StarProtocol,
) -> None:
    """The steps of a clustering are given the mean place of each cell, and nothing else."""
    final = replace(inner, n_clusters=3)  # type: ignore[call-overload]
    images = np.concatenate([IMAGES] * 3) + np.random.default_rng(0).normal(size=(360, 64))
    run = Watched(protocol(inner=inner, final=final), parties(2, images), policy=NETWORKS)
    assert np.isfinite(run.result["centers"]).all()
    assert len(run.starts) == 2
    rows = parties(2, images)[0].rows
    cells = cells_of(rows)
    data = NETWORKS.admitted(parties(2, images)[0], needs_rows=True)
    points = np.random.default_rng(1).normal(size=(len(rows), 5))[cells.labels >= 0]
    seen = _clustered(data, points)
    labels = cells.labels[cells.labels >= 0]
    assert seen.weights.tolist() == cells.weights.tolist()
    assert seen.weights.min() >= 10
    for k, mean in enumerate(seen.rows):
        np.testing.assert_allclose(mean, points[labels == k].mean(axis=0), atol=1e-12)


def test_networks_are_refused_unless_the_owner_allows_them() -> None:
    for policy in (Deployment(least_parties=1), Deployment(3, least_parties=1)):
        with pytest.raises(PolicyRefusal, match=r"does not hand out its rows.*allow = .'network-w"):
            Watched(protocol(), parties(), policy=policy)
    holding = [release for release in protocol().releases if "weights" in release.fields]
    assert [release.kind for release in holding] == ["train"]
    assert "network-weights" in holding[0].discloses


def test_a_party_with_few_images_keeps_to_itself() -> None:
    data = Parties.of([IMAGES, IMAGES[:5]])
    with pytest.raises(ProtocolError, match="No party has as many images"):
        Watched(protocol(), data, policy=replace(NETWORKS, min_count=3_000))
    run = Watched(protocol(), data, policy=NETWORKS)
    for number in range(2):
        assert len(run.replies("train", number)["1"]["weights"]) == 0
        assert len(run.replies("train", number)["0"]["weights"])


def test_a_run_that_diverges_says_so() -> None:
    wild = Training(batch_size=16, learning_rate=1e30)
    with pytest.raises(ProtocolError, match=r"party P\d .* not finite .* lower learning_rate"):
        Watched(protocol(training=wild), parties())


def test_answers_that_are_no_network() -> None:
    """Of another length they are refused at the door; of no rows, or fewer, they do not count."""
    run, before = protocol(), np.zeros(protocol().n_weights, np.float32)
    train = next(release for release in run.releases if release.kind == "train")
    good = {"weights": np.ones((1, run.n_weights), np.float32), "loss": np.ones(())}
    good["count"] = np.array(9.0)
    assert misfit(train, good, 64) is None
    assert misfit(train, {**good, "weights": np.ones((1, 5), np.float32)}, 64) is not None
    assert misfit(train, {**good, "weights": good["weights"] * np.inf}, 64) is not None
    for count in (0.0, -9.0):
        replies = {
            "A": good,
            "B": {**good, "weights": 5 * good["weights"], "count": np.array(count)},
        }
        np.testing.assert_array_equal(run._averaged(replies, before)[0], np.ones(run.n_weights))
    assert run._averaged({"B": {**good, "count": np.array(-1.0)}}, before)[0] is before


def test_a_channel_that_is_the_same_everywhere() -> None:
    for value in np.random.default_rng(0).uniform(-5, 5, 50):
        scale = channel_scale(
            {
                "P": {
                    "count": np.array(7.0),
                    "sums": np.full(1, 7 * value),
                    "squares": np.full(1, 7 * value**2),
                }
            }
        )
        assert scale[CHANNEL_SCALE] == 1.0


def test_everything_is_counted() -> None:
    run = run_star(protocol(inner=one_shot(6, 6), final=one_shot(4, 4)), parties(), seed=3)
    weights = vectors.count(Network(tiny(), 16, 0))
    up = 3 * (1 + 2) + 2 * 3 * (weights + 2) + 3 * (2 * 6 + 4) * 17
    assert run.traffic.floats_up == up
