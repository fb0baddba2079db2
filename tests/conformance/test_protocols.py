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
from tests import tables
from tests.conformance import toys
from unpooled import losses
from unpooled.data import parties
from unpooled.messages import message
from unpooled.messages.codec import body_size
from unpooled.privacy import ledger
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.gossip import GossipKMeans
from unpooled.protocols.mesh.second_order import SecondOrder
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.protocols.prepare.kernel import Kernel
from unpooled.protocols.prepare.kernel_map import KernelMap
from unpooled.protocols.prepare.krylov import BlockKrylov
from unpooled.protocols.prepare.moments import Moments
from unpooled.protocols.prepare.standardise import Standardise
from unpooled.protocols.prepare.then import Preparation, Then
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.protocols.star.shared.drawn_starts import DrawnStarts
from unpooled.runtime import party
from unpooled.testing import Check, conformance

KERNEL, ONE_SHOT = Kernel("gaussian", 16), OneShotKMeans(3, 3, n_init=1)
LLOYD = FederatedKMeans(ONE_SHOT, 5)
MAHALANOBIS = losses.Mahalanobis([[2.0, 0.5], [0.5, 1.0]])
BESIDE = {
    "toy star": toys.Mean(),
    "toy mesh": toys.Largest(),
    "dgc, logistic, Mahalanobis": DGC(
        InitialCenters(2, np.array([[1.0, 2.0], [5.0, 6.0]])),
        loss=losses.Logistic().under(MAHALANOBIS),
        max_rounds=10,
        tol=0.0,
    ),
    "dgc, Itakura-Saito": DGC(
        InitialCenters(3), loss=losses.Bregman.itakura_saito(), max_rounds=10
    ),
    "second-order": SecondOrder(InitialCenters(3), max_rounds=40),
    "gossip, tree, Mahalanobis": GossipKMeans(
        3, loss=losses.SquaredEuclidean().under(MAHALANOBIS), averaging="tree", n_init=2
    ),
    "drawn starts": DrawnStarts(3, "k-means++"),
    "moments": Moments(),
    "standardised": Then(Standardise(), FederatedKMeans(ONE_SHOT)),
    "kernel k-means, standardised": Then(
        Standardise(), Then(KernelMap(KERNEL, None, BlockKrylov(KERNEL, 3, 4), 3), LLOYD)
    ),
}
"""Beside the samples of the catalog: toys, parts of methods, and what only objects can say."""


def table() -> dict[str, MeshProtocol | StarProtocol]:
    """All protocols that are checked."""
    return {**BESIDE, **tables.protocols()}


TABLE = table()


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
    written: set[type] = set()
    for module in pkgutil.walk_packages(unpooled.protocols.__path__, "unpooled.protocols."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            known = (MeshProtocol, StarProtocol, Preparation)
            if issubclass(cls, known) and not inspect.isabstract(cls):
                written.add(cls)
    there = list(TABLE.values())
    for protocol in there:  # which grows by what is inside of a protocol
        inside = (getattr(protocol, name, None) for name in ("preparation", "inner", "start"))
        there += [own for own in inside if own is not None]
    assert written
    assert written <= {type(own) for own in there}


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (toys.RandomStar(), "same_seed_same_messages"),
        (toys.Unweighted(), "a_row_of_weight_two_is_two_rows"),
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
    for module in (parties, message):
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
