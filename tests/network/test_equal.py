"""A run over a network gives what the in-process run gives, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unpooled
from tests.cells import in_cells
from tests.conformance.test_protocols import TABLE
from tests.network.site import (
    COLUMNS,
    STUDY,
    Authority,
    Site,
    mesh,
    star,
    tables,
)
from tests.network.tls import over_tls
from unpooled.data.parties import Parties
from unpooled.graphs.reading import topology
from unpooled.network.star_kinds import COORDINATOR
from unpooled.preprocessing import StandardScaler
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.prepare.standardise import in_units
from unpooled.protocols.star.base import StarProtocol
from unpooled.simulate import run_mesh, run_star

SEED = 7
STAR_PARTIES, PEERS = ("North", "East", "South"), ("P1", "P2", "P3", "P4")
CORNERS = [[2.0, 25.0], [6.0, 60.0], [8.0, 35.0]]
KERNEL = {"n_clusters": 3, "n_components": 4}
DSPGD = {"n_clusters": 3, "solver": "dspgd", "n_features": 30, "max_rounds": 2, "coreset_size": 40}
SAMPLED = {"n_clusters": 3, "n_features": 30, "coreset_size": 40}
TIMING = {"seed": SEED, "round_timeout": 60, "patience": 200}


def slow(*values: Any, id: str) -> Any:
    """A case that only the long run goes through."""
    return pytest.param(*values, id=id, marks=pytest.mark.long)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("keys"))


@pytest.mark.filterwarnings("ignore:FeCA goes by the distances of single rows")
@pytest.mark.parametrize(
    ("method", "parameters", "own", "standardise"),
    [
        slow("OneShotKMeans", {"n_clusters": 3}, "", True, id="one-shot, standardised"),
        slow("FederatedKMeans", {"n_clusters": 3}, "", False, id="federated k-means"),
        slow("KernelKMeans", KERNEL, "", False, id="kernel k-means"),
        slow("OneShotKMeans", {"n_clusters": "auto"}, "", False, id="one-shot, k unknown"),
        slow("OneShotKMeans", {"n_clusters": 3, "refine": True}, "", False, id="one-shot, refined"),
        slow("FederatedKMeans", {"n_clusters": 3}, STUDY, True, id="federated, standardised"),
        slow("FederatedKMeans", {"n_clusters": 3, "init": CORNERS}, "", False, id="given start"),
        slow("FeCA", {"n_clusters": 3}, "", False, id="feca"),
        slow("KFED", {"n_clusters": 3, "local_clusters": 2}, "", False, id="k-fed"),
        slow("MatchedAveraging", {"n_clusters": 3}, "", False, id="matched averaging"),
        slow("FuzzyCMeans", {"n_clusters": 3}, "", False, id="fuzzy c-means"),
        slow("CoresetKMeans", {"n_clusters": 3, "coreset_size": 40}, "", False, id="coreset"),
        slow("KernelKMeans", {**KERNEL, "gamma": 0.5}, "", True, id="kernel k-means, standardised"),
        slow("KernelKMeans", {**KERNEL, "final": "lloyd"}, "", False, id="kernel k-means, lloyd"),
        slow("KernelKMeans", DSPGD, STUDY, False, id="kernel k-means, dspgd"),
        slow("KernelKMeans", {**DSPGD, "compress": False}, STUDY, True, id="not compressed"),
        slow("RandomFeatureKMeans", SAMPLED, "", False, id="random features"),
        slow("KernelPCAKMeans", {**SAMPLED, "n_points": 30}, STUDY, False, id="kernel PCA"),
    ],
)
def test_programs_of_a_star_give_what_the_estimator_gives(
    method: str,
    parameters: dict[str, Any],
    own: str,
    standardise: bool,
    authority: Authority,
    tmp_path: Path,
) -> None:
    data = tables(STAR_PARTIES)
    plan = {"method": method, "parameters": parameters, **TIMING}
    if standardise:
        plan["standardise"] = True
    with star(tmp_path, authority, data, own, **plan) as site:
        site.start_all()
        policy = "study" if own else "deployment"
        model = getattr(unpooled, method)(**parameters, policy=policy, random_state=SEED)
        rows, scaler, weights = data, None, None
        if standardise:
            scaler = StandardScaler(policy=policy).fit(data)
            rows = scaler.transform(data)
        remarks = (scaler or model.fit(rows)).remarks_
        fitted = rows
        if standardise and not own:  # a site has cells of its rows first, and scales these
            cells, within = in_cells(list(data.values()))
            fitted = scaler.transform(dict(zip(data, cells, strict=True)))
            weights = dict(zip(data, within, strict=True))
            model.set_params(policy="study")
        expected = model.fit(fitted, sample_weight=weights)
        site.finish()
        _same_star(site, expected, scaler, expected.predict(rows), remarks)


def _same_star(
    site: Site,
    expected: Any,
    scaler: Any,
    labels: dict[str, np.ndarray],
    remarks: dict[str, list[str]],
) -> None:
    coordinator = site.programs[COORDINATOR]
    found = coordinator.model()
    np.testing.assert_array_equal(found._centers, expected.cluster_centers_)
    centers, names = expected.cluster_centers_, list(COLUMNS)
    embedded = hasattr(expected, "embedding_")
    if scaler is not None:
        (carried,) = found.preparations_
        np.testing.assert_array_equal(carried.mean_, scaler.mean_)
        np.testing.assert_array_equal(carried.scale_, scaler.scale_)
        if not embedded:
            centers = in_units(centers, scaler.mean_, scaler.scale_)
    np.testing.assert_array_equal(found.cluster_centers_, centers)
    if embedded:  # centres lie where the embedding puts rows, not among columns
        names = [f"component {i + 1}" for i in range(centers.shape[1])]
        for key, value in expected.embedding_by_.items():
            np.testing.assert_array_equal(found.embedding_by_[key], value)
    for name in site.data:
        party = site.programs[name]
        header, *_ = (party.folder / "centers.csv").read_text().split("\n")
        assert header.split(",") == ["cluster", *names]
        np.testing.assert_array_equal(party.labels(), labels[name])
        np.testing.assert_array_equal(party.centers(), centers)
        for model in (found, party.model()):  # which take rows as they are
            np.testing.assert_array_equal(model.predict(site.data[name]), labels[name])
        assert party.manifest()["refused"] == {}
    assert coordinator.manifest()["refused"] == {}
    for name, program in site.programs.items():
        assert program.events[-1]["event"] == "done"
        assert program.warnings == _warned(name, remarks)
        assert program.stderr.read_text() == ""


def _warned(name: str, remarks: dict[str, list[str]]) -> str:
    """What a party is warned of: which of its rows are in no cell."""
    return "\n".join(f"{name}: {remark}." for remark in remarks.get(name, []))


@pytest.mark.parametrize(
    ("method", "parameters", "own"),
    [
        slow("DGC", {"init": CORNERS, "max_rounds": 60}, "", id="dgc"),
        slow("DGC", {"loss": "huber", "init": CORNERS, "max_rounds": 60}, "", id="dgc, huber"),
        slow("DGC", {"loss": "logistic", "init": CORNERS, "max_rounds": 60}, "", id="logistic"),
        slow("DGC", {"loss": "fair", "init": CORNERS, "max_rounds": 60}, "", id="dgc, fair"),
        slow("DGC", {"init": "dkm+c", "max_rounds": 60}, "", id="dgc, found start"),
        slow("KarSwenson", {"init": CORNERS, "max_rounds": 60}, "", id="kar-swenson"),
        slow("ADMMKMeans", {"init": CORNERS, "max_rounds": 60}, "", id="admm"),
        slow("ADMMKMeans", {"init": "dkm+c", "max_rounds": 60}, STUDY, id="admm, found start"),
        slow("GossipKMeans", {}, "", id="gossip"),
        slow("GossipKMeans", {"averaging": "tree"}, "", id="gossip, tree"),
        slow("GossipKMeans", {"topology": "private"}, "", id="gossip, private"),
        slow("GossipKMeans", {"rho": 100.0, "max_rounds": 200}, "", id="gossip, rho"),
        slow("GossipKMeans", {"init": CORNERS}, STUDY, id="gossip, given start"),
    ],
)
def test_programs_of_a_mesh_give_what_the_estimator_gives(
    method: str, parameters: dict[str, Any], own: str, authority: Authority, tmp_path: Path
) -> None:
    data = tables(PEERS)
    parameters = {"n_clusters": 3, **parameters}
    with mesh(tmp_path, authority, data, own, method=method, parameters=parameters, **TIMING) as (
        site
    ):
        site.start_all()
        expected = getattr(unpooled, method)(
            **parameters,
            graph="ring",
            policy="study" if own else "deployment",
            random_state=SEED,
        ).fit(data)
        site.finish()
    for i, name in enumerate(PEERS):
        peer = site.programs[name]
        np.testing.assert_array_equal(peer.model().cluster_centers_, expected.peer_centers_[i])
        np.testing.assert_array_equal(peer.centers(), expected.peer_centers_[i])
        np.testing.assert_array_equal(peer.labels(), expected.labels_[name])
        manifest = peer.manifest()
        assert manifest["refused"] == {}
        assert manifest["participation"]["not_heard"] == {}
        assert peer.warnings == _warned(name, expected.remarks_)
        assert peer.stderr.read_text() == ""


@pytest.mark.bits
@pytest.mark.parametrize("protocol", TABLE.values(), ids=TABLE)
def test_every_protocol_gives_over_tls_what_it_gives_in_process(
    protocol: StarProtocol | MeshProtocol, authority: Authority, tmp_path: Path
) -> None:
    parties = _parties()
    ring = topology("ring", parties.names)
    network = over_tls(tmp_path, authority, protocol, parties)
    try:
        network.finish()
    finally:
        network.close()
    if isinstance(protocol, StarProtocol):
        expected = run_star(protocol, parties, seed=network.seed)
        shared = protocol.shown(expected.result)
        results = {COORDINATOR: expected.result, **dict.fromkeys(parties.names, shared)}
    else:
        expected = run_mesh(protocol, parties, ring, seed=network.seed)
        results = {
            name: {key: value[i : i + 1] for key, value in expected.result.items()}
            for i, name in enumerate(parties.names)
        }
    for name, result in results.items():
        assert network.results[name].keys() == result.keys()
        for key, value in result.items():
            np.testing.assert_array_equal(network.results[name][key], value, err_msg=key)
        assert network.refused(name) == {}
    np.testing.assert_array_equal(network.traffic.table, expected.traffic.table)


def _parties() -> Parties:
    rng = np.random.default_rng(0)
    corners = rng.uniform(1.0, 9.0, size=(3, 2))
    sizes = (9, 4, 14, 6)
    own = [corners[rng.integers(3, size=n)] + rng.uniform(size=(n, 2)) for n in sizes]
    weights = [rng.uniform(0.5, 2.0, size=n) for n in sizes]
    return Parties.of(own, weights=weights, names=PEERS)
