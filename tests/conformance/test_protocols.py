"""Every protocol keeps the rules of its role: one line each in the table below."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import numpy as np
import pytest
from _pytest.mark import ParameterSet

import unpooled.protocols
from tests.conformance import toys
from unpooled import losses, types
from unpooled.messages import message
from unpooled.messages.codec import body_size
from unpooled.privacy import ledger
from unpooled.protocols.mesh.admm import ADMMKMeans
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.protocols.mesh.kar_swenson import KarSwenson
from unpooled.protocols.mesh.second_order import SecondOrder
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.protocols.prepare.dspgd import CompressedDSPGD, UncompressedDSPGD
from unpooled.protocols.prepare.kernel import Kernel
from unpooled.protocols.prepare.kernel_kmeans import KernelKMeans, RandomFeatureKMeans
from unpooled.protocols.prepare.kernel_pca import KernelPCAKMeans
from unpooled.protocols.prepare.krylov import BlockKrylov
from unpooled.protocols.prepare.moments import Moments
from unpooled.protocols.prepare.standardised import Standardised
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.fuzzy import FuzzyCMeans
from unpooled.protocols.star.kfed import KFED
from unpooled.protocols.star.matched import MatchedAveraging
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.protocols.star.shared.drawn_starts import DrawnStarts
from unpooled.runtime import party
from unpooled.testing import Check, conformance

KERNEL, PUBLISHED = Kernel("gaussian", 16), Kernel("gaussian", 9, "independent", "phase")
ONE_SHOT = OneShotKMeans(3, 3, n_init=1)
LLOYD, CORESET = FederatedKMeans(ONE_SHOT, 5), CoresetKMeans(3, 12, n_init=1)
FAST, SLOW = BlockKrylov(KERNEL, 3, 4), CompressedDSPGD(PUBLISHED, 3, 3, 2)
TABLE = {
    "toy star": toys.Mean(),
    "toy mesh": toys.Largest(),
    "dgc": DGC(InitialCenters(3), max_rounds=40),
    "dgc, huber, B=3, random start": DGC(
        InitialCenters(3, "random"), loss=losses.Huber(0.5), inner_steps=3, max_rounds=10
    ),
    "dgc, logistic, Mahalanobis, given start": DGC(
        InitialCenters(2, np.array([[1.0, 2.0], [5.0, 6.0]])),
        loss=losses.Logistic().under(losses.Mahalanobis([[2.0, 0.5], [0.5, 1.0]])),
        max_rounds=10,
        tol=0.0,
    ),
    "dgc, fair, k-means++": DGC(
        InitialCenters(3, "k-means++"), loss=losses.Fair(0.5), max_rounds=10
    ),
    "dgc, tree start": DGC(InitialCenters(3, "tree", n_init=2), max_rounds=10),
    "dgc, dkm+c aligned": DGC(InitialCenters(3, align=True), max_rounds=10),
    "dgc, nesterov": DGC(InitialCenters(3), solver="nesterov", max_rounds=40),
    "dgc, Itakura-Saito": DGC(
        InitialCenters(3), loss=losses.Bregman.itakura_saito(), max_rounds=10
    ),
    "kar-swenson": KarSwenson(InitialCenters(3), max_rounds=20),
    "admm": ADMMKMeans(InitialCenters(3), max_rounds=20),
    "second-order": SecondOrder(InitialCenters(3), max_rounds=40),
    "gossip": GossipKMeans(3, n_init=2),
    "gossip, private, huber": GossipKMeans(
        3, loss=losses.Huber(0.5), topology="private", n_init=2, max_rounds=6
    ),
    "gossip, tree, Mahalanobis": GossipKMeans(
        3,
        loss=losses.SquaredEuclidean().under(losses.Mahalanobis([[2.0, 0.5], [0.5, 1.0]])),
        averaging="tree",
        n_init=2,
    ),
    "gossip, given start": GossipKMeans(2, np.array([[1.0, 2.0], [5.0, 6.0]])),
    "feca": FeCA(3, 3, n_init=2),
    "feca, literal, theoretical": FeCA(3, 4, radius="theoretical", merge=False, n_init=1),
    "k-fed": KFED(3, 2, n_init=2),
    "matched averaging": MatchedAveraging(3, n_init=2),
    "fuzzy c-means": FuzzyCMeans(3, n_init=2),
    "fuzzy c-means, average": FuzzyCMeans(3, merge="average", local_steps=1, n_init=2),
    "one-shot": OneShotKMeans(3, 3, n_init=2),
    "one-shot, refined": OneShotKMeans(3, 5, refine=True, n_init=2),
    "federated k-means": FederatedKMeans(ONE_SHOT),
    "federated k-means, given start": FederatedKMeans(np.array([[1.0, 2.0], [50.0, 60.0]])),
    "federated k-means, drawn starts": FederatedKMeans(DrawnStarts(3, "random", 2), max_rounds=5),
    "drawn starts": DrawnStarts(3, "k-means++"),
    "moments": Moments(),
    "standardised": Standardised(FederatedKMeans(ONE_SHOT)),
    "coreset": CoresetKMeans(3, 20, n_init=2),
    "coreset, k-median": CoresetKMeans(3, 20, "kmedian", n_init=2),
    "random features": RandomFeatureKMeans(PUBLISHED, None, CORESET),
    "kernel k-means": KernelKMeans(KERNEL, None, ONE_SHOT, FAST, 3),
    "kernel k-means, lloyd": KernelKMeans(KERNEL, 0.1, LLOYD, FAST, 3, power=0.2, normalise=True),
    "kernel k-means, dspgd": KernelKMeans(PUBLISHED, None, CORESET, SLOW, 3, draws=2),
    "kernel k-means, dspgd, not compressed": KernelKMeans(
        PUBLISHED, 0.1, CORESET, UncompressedDSPGD(PUBLISHED, 3, 3, 2), 3, draws=2
    ),
    "kernel PCA": KernelPCAKMeans(PUBLISHED, None, CORESET, 3, n_points=10, sketch=5, width=8),
    "kernel k-means, standardised": Standardised(KernelKMeans(KERNEL, None, LLOYD, FAST, 3)),
}


BITS = {
    "same_seed_same_messages",
    "arrival_order_is_irrelevant",
    "everything_survives_the_codec",
    "memory_layout_is_irrelevant",
    "rows_without_weight_are_absent",
    "split_over_hosts_is_irrelevant",
}
"""Rules of determinism, which are also tried as other processors would run them."""


def checks() -> Iterator[ParameterSet]:
    for protocol in TABLE.values():
        for check in conformance(protocol):
            marks = [pytest.mark.bits] if check.rule.__name__ in BITS else []
            yield pytest.param(check, marks=marks)


def test_the_rules_of_determinism_are_rules() -> None:
    rules = [*conformance(toys.Largest()), *conformance(toys.Mean())]
    assert {check.rule.__name__ for check in rules} >= BITS


@pytest.mark.parametrize("check", list(checks()), ids=str)
def test_protocol_conforms(check: Check) -> None:
    check()


def test_every_protocol_is_in_the_table() -> None:
    written = set()
    for module in pkgutil.walk_packages(unpooled.protocols.__path__, "unpooled.protocols."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(cls, MeshProtocol | StarProtocol) and not inspect.isabstract(cls):
                written.add(cls)
    assert written
    assert written <= {type(protocol) for protocol in TABLE.values()}


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (toys.RandomStar(), "same_seed_same_messages"),
        (toys.SharedStar(), "arrival_order_is_irrelevant"),
        (toys.ObjectState(), "everything_survives_the_codec"),
        (toys.WritesRows(), "memory_layout_is_irrelevant"),
        (toys.EmptyCrash(), "empty_party_is_handled_or_named"),
        (toys.Repeater(), "every_exchange_has_a_name_of_its_own"),
        (toys.Loner(), "one_party_is_enough"),
        (toys.Undeclared(), "undeclared_is_refused"),
        (toys.HostAware(), "split_over_hosts_is_irrelevant"),
        (toys.WideAnswer(), "everything_fits_its_declaration"),
        (toys.WideQuestion(), "everything_fits_its_declaration"),
        (toys.WidePost(), "everything_fits_its_declaration"),
        (toys.Unknown(), "everything_fits_its_declaration"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_broken_protocol_fails(broken: MeshProtocol | StarProtocol, rule: str) -> None:
    assert rule in failed_rules(broken)


def test_a_wrong_count_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "body_size", lambda kind, body: body_size(kind, body) - 1)
    assert failed_rules(toys.Mean()) == {"counted_size_is_encoded_size"}
    assert failed_rules(toys.Largest()) == {"counted_size_is_encoded_size"}


@pytest.mark.parametrize("protocol", [toys.Mean(), toys.Heaviest()], ids=["star", "mesh"])
def test_a_layout_that_is_let_in_is_noticed(
    protocol: MeshProtocol | StarProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failed_rules(protocol) == set()
    for module in (types, message):
        monkeypatch.setattr(module, "in_c_order", lambda values: values)
    assert failed_rules(protocol) == {"memory_layout_is_irrelevant"}


def test_a_row_without_weight_that_is_let_in_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party, "_counting", lambda data: data)
    assert failed_rules(toys.Mean()) == {"rows_without_weight_are_absent"}


def failed_rules(protocol: MeshProtocol | StarProtocol) -> set[str]:
    failed = set()
    for check in conformance(protocol):
        try:
            check()
        except Exception:
            failed.add(check.rule.__name__)
    return failed
