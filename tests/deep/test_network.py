"""DeepFeCA by programs on a network: the networks that in-process parties train, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.deep.plain import IMAGES
from tests.network.site import STUDY, Authority, Site, star, until
from unpooled.deep import DeepFeCA
from unpooled.network.star_kinds import COORDINATOR

NAMES = ("North", "East", "South")
DATA = {name: IMAGES[i::3] for i, name in enumerate(NAMES)}
PARAMETERS = {
    "n_clusters": 4,
    "n_prototypes": 6,
    "rounds": 3,
    "image_shape": [1, 8, 8],
    "augmentation": "signs",
    "participation": 0.67,
}
PLAN = {
    "method": "DeepFeCA",
    "columns": ["pixel[0:64]"],
    "releases": ["pixels", "train", "centroids"],
    "parameters": PARAMETERS,
    "seed": 7,
    "round_timeout": 60,
    "patience": 200,
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("keys"))


def expected(policy: str) -> DeepFeCA:
    return DeepFeCA(**PARAMETERS, policy=policy, random_state=7).fit(DATA)


def same(site: Site, model: DeepFeCA) -> None:
    found = site.programs[COORDINATOR].model()
    for name, value in model.network_.items():
        np.testing.assert_array_equal(found.network_[name], value)
    np.testing.assert_array_equal(found.cluster_centers_, model.cluster_centers_)
    np.testing.assert_array_equal(found.features(IMAGES), model.features(IMAGES))
    for name in NAMES:
        np.testing.assert_array_equal(site.programs[name].labels(), model.labels_[name])
    for program in site.programs.values():
        assert program.stderr.read_text() == ""


@pytest.mark.long
def test_over_tls_it_is_the_same(authority: Authority, tmp_path: Path) -> None:
    with star(tmp_path, authority, DATA, STUDY, **PLAN) as site:
        site.start_all()
        model = expected("study")
        site.finish()
        same(site, model)


@pytest.mark.long
def test_after_kills_it_is_the_same(authority: Authority, tmp_path: Path) -> None:
    """Coordinator and a party are killed while they are at it, and begin again."""
    with star(tmp_path, authority, DATA, STUDY, **PLAN) as site:
        site.start_all()
        coordinator = site.programs[COORDINATOR]
        assert until(lambda: any(e.get("kind") == "train" for e in coordinator.events), 120)
        for name in (COORDINATOR, "East"):
            site.programs[name].process.kill()
            site.programs[name].process.wait()
        site.start(COORDINATOR, "--resume")
        site.start("East")
        model = expected("study")
        site.finish()
        same(site, model)
