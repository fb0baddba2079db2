"""``DeepFeCA`` as people use it: images in, features and clusters out."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import rc_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from tests.cells import cells_of
from tests.deep.plain import CLASSES, DIGITS, IMAGES, Dropping, tiny
from tests.sentences import refuses
from unpooled import FeCA, KernelKMeans, OneShotKMeans, load, partition, save
from unpooled.deep import (
    Augmentation,
    ConvNet,
    DeepCluster,
    DeepFeCA,
    draw_page,
    knn_accuracy,
    linear_accuracy,
)
from unpooled.deep.options import AGGREGATIONS
from unpooled.deep.releases import WEIGHTS
from unpooled.errors import PolicyRefusal
from unpooled.experiments.deep import digits
from unpooled.privacy.policy import Deployment, ReleaseRequest
from unpooled.testing import EXPECTED_FAILURES

SQUARES = IMAGES.reshape(-1, 8, 8)
OWNERS = np.arange(len(IMAGES)) % 3


NETWORKS = Deployment(allow=("network-weights",))
warning_of_cells = pytest.mark.filterwarnings("ignore:FeCA goes by the distances of single rows")


def test_feca_on_cells_is_warned_of_here_too() -> None:
    with pytest.warns(UserWarning, match="FeCA goes by the distances of single rows"):
        model(rounds=0, policy=NETWORKS).fit(IMAGES, groups=OWNERS)


def model(**options: Any) -> DeepFeCA:
    given: dict[str, Any] = {
        "n_clusters": 4,
        "encoder": tiny,
        "rounds": 2,
        "augmentation": "signs",
        "random_state": 0,
    }
    return DeepFeCA(**{**given, **options})


@pytest.mark.long
@parametrize_with_checks(
    [DeepFeCA(2, rounds=1, aggregation="one-shot")],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES["DeepFeCA"],
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_forms_of_images() -> None:
    """Rows, squares, channels last or first, with owners or party by party: all the same."""
    found = model().fit(IMAGES, groups=OWNERS)
    assert found.n_iter_ == found.n_rounds_
    assert found.score(IMAGES, groups=OWNERS) == pytest.approx(-found.inertia_)
    forms: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (SQUARES, {"groups": OWNERS}, {}),
        (SQUARES[..., None], {"groups": OWNERS}, {}),
        (SQUARES[:, None], {"groups": OWNERS}, {"channels": "first"}),
        (IMAGES, {"groups": OWNERS}, {"image_shape": [1, 8, 8]}),
        ([SQUARES[i == OWNERS] for i in range(3)], {}, {}),
        ({f"P{i}": SQUARES[i == OWNERS] for i in range(3)}, {}, {}),
    ]
    for X, fit, options in forms:
        again = model(**options).fit(X, **fit)
        np.testing.assert_array_equal(again.cluster_centers_, found.cluster_centers_)
        np.testing.assert_array_equal(again.network_[WEIGHTS], found.network_[WEIGHTS])
        assert again.image_shape_ == (1, 8, 8)
        labels = again.labels_
        if isinstance(X, np.ndarray):
            np.testing.assert_array_equal(labels, found.labels_)
            np.testing.assert_array_equal(again.predict(X), found.labels_)
        elif isinstance(X, list):
            np.testing.assert_array_equal(labels[1], found.labels_[OWNERS == 1])
        else:
            np.testing.assert_array_equal(labels["P2"], found.labels_[OWNERS == 2])


def test_colour_images_and_what_comes_of_them() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 6, 5, 3), dtype=np.uint8)
    found = DeepFeCA(3, encoder=lambda: ConvNet(3, 2), rounds=1, random_state=0).fit(images)
    assert found.image_shape_ == (3, 6, 5)
    points, features = found.embed(images), found.features(images)
    assert points.shape == features.shape == (40, 16)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal((points @ found.cluster_centers_.T).argmax(axis=1), found.labels_)
    assert found.transform(images).shape == (40, 3)
    assert found.history_["loss"].shape == (1,)
    assert found.n_rounds_ == 1
    scaled = images.transpose(0, 3, 1, 2).astype(np.float32)
    mean, scale = (found.network_[name].reshape(3, 1, 1) for name in ("deep.mean", "deep.scale"))
    with torch.no_grad():
        by_hand = found.encoder_(torch.from_numpy(((scaled - mean) / scale).astype(np.float32)))
    np.testing.assert_allclose(by_hand.numpy(), features, rtol=1e-4, atol=1e-5)


def test_the_same_seed_gives_the_same_and_leaves_torch_alone() -> None:
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    one, two = (model().fit(SQUARES, groups=OWNERS) for _ in range(2))
    np.testing.assert_array_equal(one.network_[WEIGHTS], two.network_[WEIGHTS])
    other = model(random_state=1).fit(SQUARES, groups=OWNERS)
    assert not np.array_equal(one.network_[WEIGHTS], other.network_[WEIGHTS])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("aggregation", [*AGGREGATIONS, FeCA(merge=False, n_init=2)], ids=str)
def test_aggregations(aggregation: Any) -> None:
    found = model(aggregation=aggregation, n_prototypes=8).fit(SQUARES, groups=OWNERS)
    assert found.cluster_centers_.shape == (4, 16)
    assert len(np.unique(found.labels_)) > 1


def test_a_network_of_ones_own() -> None:
    """A function that makes one, or one that has been trained before: it starts where it stands."""
    torch.manual_seed(5)
    own = Dropping()
    still = model(encoder=own, rounds=0).fit(SQUARES, groups=OWNERS)
    for a, b in zip(own.parameters(), still.encoder_.parameters(), strict=True):
        assert torch.equal(a, b)
    moved = model(encoder=own, projection=3).fit(SQUARES, groups=OWNERS)
    assert moved.cluster_centers_.shape == (4, 3)
    assert not torch.equal(own.layers[1].weight, moved.encoder_.layers[1].weight)


def test_the_pooled_reference() -> None:
    one = DeepCluster(4, encoder=tiny, rounds=1, random_state=0).fit(SQUARES)
    parts = [SQUARES[:50], SQUARES[50:]]
    two = DeepCluster(4, encoder=tiny, rounds=1, random_state=0).fit(parts)
    np.testing.assert_array_equal(one.network_[WEIGHTS], two.network_[WEIGHTS])
    ones = {"a": np.ones(50), "b": np.ones(70)}
    named = {"a": parts[0], "b": parts[1]}
    three = DeepCluster(4, encoder=tiny, rounds=1, random_state=0).fit(named, sample_weight=ones)
    np.testing.assert_array_equal(one.network_[WEIGHTS], three.network_[WEIGHTS])


def test_saved_and_loaded(tmp_path: Path) -> None:
    found = model(encoder="convnet", rounds=1, augmentation=Augmentation(large=1)).fit(SQUARES)
    save(found, tmp_path / "model.unpooled")
    again = load(tmp_path / "model.unpooled")
    np.testing.assert_array_equal(again.predict(SQUARES), found.labels_)
    np.testing.assert_array_equal(again.features(SQUARES), found.features(SQUARES))
    assert clone(again).get_params()["augmentation"] == Augmentation(large=1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(SQUARES), found.labels_)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "encoder": ({"encoder": "vgg"}, "encoder='vgg' is not known"),
    "a number": ({"encoder": 3}, "encoder=3 is not known"),
    "no features": ({"encoder": nn.Identity()}, r"does not work with images of shape \(1, 8, 8\)"),
    "wrong channels": ({"encoder": lambda: ConvNet(3, 2)}, "does not work with images"),
    "aggregation": ({"aggregation": "mean"}, "aggregation='mean' is not known"),
    "no estimator": ({"aggregation": 3}, "aggregation=3 is not known"),
    "itself": ({"aggregation": DeepFeCA()}, "is not known; give one of feca"),
    "prototypes": ({"n_prototypes": 2}, "n_prototypes=2 is less than n_clusters=4"),
    "rounds": ({"rounds": -1}, "rounds=-1"),
    "batch": ({"batch_size": 1}, "batch_size=1"),
    "rate": ({"learning_rate": 0}, "learning_rate=0"),
    "optimizer": ({"optimizer": "adam"}, "optimizer='adam'"),
    "head": ({"head": "mlp"}, "head='mlp'"),
    "views": ({"augmentation": "wild"}, "augmentation='wild'"),
    "view": ({"augmentation": {"large": 0}}, "large=0"),
    "statistics": ({"batch_norm": "local"}, "batch_norm='local'"),
    "nobody": ({"participation": 0.0}, "participation=0.0"),
    "device": ({"device": "tpu9"}, "device='tpu9' is not here"),
    "shape": ({"image_shape": (1, 4, 4)}, "makes 16 values of an image, but rows have 64"),
    "uneven": ({"image_shape": (1, 8.9, 8)}, "image_shape=8.9"),
    "another space": ({"aggregation": KernelKMeans(4)}, "in a space of its own"),
    "no seed": ({"checkpoint": "x.npz", "random_state": None}, "random_state is not"),
    "flat": ({"image_shape": 64}, "image_shape=64 must be"),
    "channels": ({"channels": "middle"}, "channels='middle'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options(case: str) -> None:
    options, words = BAD[case]
    refused = model(**options)
    before = dict(vars(refused))
    refuses(lambda: refused.fit(IMAGES, groups=OWNERS), words)
    assert vars(refused) == before


@warning_of_cells
def test_bad_images() -> None:
    refuses(lambda: model().fit(np.zeros((3, 2, 2, 1, 1))), r"have the shape \(3, 2, 2, 1, 1\)")
    unlike = {"a": np.zeros((9, 4, 4)), "b": np.zeros((9, 5, 5))}
    refuses(lambda: model().fit(unlike), "unlike shapes")
    fitted = model(rounds=0).fit(SQUARES)
    refuses(lambda: fitted.predict(np.zeros((2, 4, 16))), r"The images are \(1, 4, 16\)")
    refuses(lambda: model().fit([np.zeros((0, 8, 8)), SQUARES]), "Party 0 has no rows")
    refuses(lambda: model().fit(SQUARES * 1e40), "images take values up to")
    few = Deployment(max_floats=1000, allow=("network-weights",), least_parties=1)
    refuses(lambda: model(policy=few).fit(SQUARES), "Party 0 sends 1000 numbers", PolicyRefusal)
    alone = model(n_clusters=2)
    with pytest.warns(ConvergenceWarning, match="has trained nothing"):
        alone.fit(list(SQUARES[:4, None]))
    closed = model(policy=Closed())
    refuses(lambda: closed.fit(SQUARES), "Party 0 does not send 'pixels'", PolicyRefusal)


class Closed:
    """Lets nothing out."""

    def review(self, request: ReleaseRequest) -> None:
        """No."""
        raise PolicyRefusal(f"Party {request.party} does not send {request.release.kind!r}.")


KILLED = """
import sys
import numpy as np
from tests.deep.test_estimator import model, SQUARES, OWNERS
from unpooled.deep import checkpoint

write, count = checkpoint.Checkpoint.write, 0
def slowly(self, body):
    global count
    write(self, body)
    count += 1
    if count == 2:
        print("two rounds", flush=True)
        sys.stdin.read()  # until it is killed
checkpoint.Checkpoint.write = slowly
model(rounds=4, checkpoint=sys.argv[1]).fit(SQUARES, groups=OWNERS)
"""


@pytest.mark.long
@warning_of_cells
def test_after_a_kill_it_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    file = tmp_path / "fit.npz"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"two rounds\n"
    process.kill()
    process.wait()
    process.stdout.close()
    if process.stdin is not None:
        process.stdin.close()
    begin = np.load(file)
    assert int(begin["rounds_done"]) == 2
    resumed = model(rounds=4, checkpoint=file).fit(SQUARES, groups=OWNERS)
    whole = model(rounds=4).fit(SQUARES, groups=OWNERS)
    np.testing.assert_array_equal(resumed.network_[WEIGHTS], whole.network_[WEIGHTS])
    np.testing.assert_array_equal(resumed.cluster_centers_, whole.cluster_centers_)
    np.testing.assert_array_equal(resumed.history_["loss"], whole.history_["loss"])
    # Of another fit, or torn, it is refused.
    other = model(rounds=4, checkpoint=file, random_state=1)
    refuses(lambda: other.fit(SQUARES, groups=OWNERS), "is of a fit with other options")
    refuses(lambda: model(rounds=4, checkpoint=file).fit(SQUARES), "is of a fit with other")
    guarded = model(rounds=4, checkpoint=file, policy=NETWORKS)
    refuses(lambda: guarded.fit(SQUARES, groups=OWNERS), "is of a fit with other")
    file.write_bytes(file.read_bytes()[:100])
    refuses(lambda: model(rounds=4, checkpoint=file).fit(SQUARES, groups=OWNERS), "cannot be read")


@pytest.mark.long
def test_a_page_is_drawn(tmp_path: Path) -> None:
    found = model(rounds=0).fit(SQUARES, groups=OWNERS)
    draw_page(found, SQUARES, tmp_path / "page.png", y=CLASSES[:120], per_cluster=3)
    assert (tmp_path / "page.png").stat().st_size > 10_000
    draw_page(found, SQUARES[:4], tmp_path / "few.png", y=["a", "b", "b", "a"])
    assert (tmp_path / "few.png").stat().st_size > 5_000
    with rc_context({"svg.fonttype": "none"}):  # text as text, so that it can be read here
        draw_page(found, SQUARES[:4], tmp_path / "few.svg", y=["zebra", "okapi", "okapi", "zebra"])
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "few.svg").read_text())
    legends = [*map(str, np.unique(found.predict(SQUARES[:4]))), "okapi", "zebra"]
    assert [text for text in drawn if text in legends] == legends


def test_evaluations() -> None:
    """Features that distinguish classes, and features that do not."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=200)
    good, bad = np.eye(4)[y] + 0.1 * rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    for accuracy in (linear_accuracy, knn_accuracy):
        assert accuracy(good[::2], y[::2], good[1::2], y[1::2]) == 1.0
        assert accuracy(bad[::2], y[::2], bad[1::2], y[1::2]) < 0.5


@pytest.mark.long
@pytest.mark.parametrize("how", ["iid", "(0.3)"])
def test_digits_are_learnt(how: str) -> None:
    """Ten parties: clusters and features get better by training, within five CPU minutes."""
    groups = (
        partition.iid(len(DIGITS), n_parties=10, random_state=0)
        if how == "iid"
        else partition.dirichlet(CLASSES, n_parties=10, alpha=0.3, random_state=0)
    )
    begin = time.process_time()
    trained = DeepFeCA(10, random_state=0, **digits.DIGIT_OPTIONS).fit(DIGITS, groups=groups)
    assert time.process_time() - begin < 300
    before = DeepFeCA(10, random_state=0, **{**digits.DIGIT_OPTIONS, "rounds": 0})
    before.fit(DIGITS, groups=groups)
    old = digits.digit_scores(before.features(DIGITS), CLASSES, before.labels_)
    new = digits.digit_scores(trained.features(DIGITS), CLASSES, trained.labels_)
    assert new[0] >= old[0] + 0.10
    assert new[1] >= old[1]
    assert new[2] >= old[2]
    raw = FeCA(10, random_state=0).fit(DIGITS, groups=groups)
    assert new[0] > digits.digit_scores(DIGITS, CLASSES, raw.labels_)[0]


@warning_of_cells
def test_networks_leave_only_if_every_owner_allows_it() -> None:
    """Of all methods it is the one that cannot do with cells."""
    images, owners = DIGITS[:600], np.arange(600) % 3
    words = "does not (send 'train'|hand out its rows).*network.*have its owner set allow"
    for policy in ("deployment", {"0": "study", "1": NETWORKS, "2": "deployment"}):
        refuses(
            lambda policy=policy: model(policy=policy).fit(images, groups=owners),
            words,
            PolicyRefusal,
        )
    found = model(aggregation=OneShotKMeans(n_init=2), policy=NETWORKS).fit(images, groups=owners)
    assert found.cluster_centers_.shape == (4, 16)
    out = {str(i): int((cells_of(images[owners == i]).labels < 0).sum()) for i in range(3)}
    assert set(found.remarks_) == {name for name, n in out.items() if n}
    assert len(found.labels_) == 600
