"""Whatever leaves in a run of any protocol is as declared: in shape, in numbers, in size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.conformance.test_protocols import TABLE
from unpooled import losses
from unpooled.data.parties import Parties
from unpooled.errors import InputError
from unpooled.graphs.reading import topology
from unpooled.messages.codec import body_size
from unpooled.messages.conform import largest_size, lengths, misfit, most_numbers
from unpooled.messages.message import Ask, Message, Post
from unpooled.messages.release import Release
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Policy
from unpooled.protocols.mesh.admm import ADMMKMeans
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.mesh.dgc import DGC
from unpooled.protocols.mesh.kar_swenson import KarSwenson
from unpooled.protocols.mesh.shared.initial_centers import InitialCenters
from unpooled.protocols.star.base import StarProtocol
from unpooled.protocols.star.coreset import CoresetKMeans
from unpooled.protocols.star.feca import FeCA
from unpooled.protocols.star.federated import FederatedKMeans
from unpooled.protocols.star.fuzzy import FuzzyCMeans
from unpooled.protocols.star.kfed import KFED
from unpooled.protocols.star.matched import MatchedAveraging
from unpooled.protocols.star.one_shot import OneShotKMeans
from unpooled.simulate import Options, run_mesh, run_star
from unpooled.types import Body

PROTOCOLS = {
    **TABLE,
    "dgc, nobody stops": DGC(InitialCenters(3), max_rounds=5, tol=0.0),
    "dgc, given step": DGC(InitialCenters(3), max_rounds=5, step_size=0.1),
    "dgc, given step, nobody stops": DGC(InitialCenters(3), max_rounds=5, step_size=0.1, tol=0.0),
    "dgc, a start of each user's": DGC(
        InitialCenters(2, np.arange(24.0).reshape(6, 2, 2)), max_rounds=5
    ),
    "dgc, nobody stops, box": DGC(
        InitialCenters(3), loss=losses.Bregman.itakura_saito(), max_rounds=5, tol=0.0
    ),
    "kar-swenson, given step": KarSwenson(InitialCenters(3), max_rounds=5, step_size=0.1),
    "admm, given eta": ADMMKMeans(InitialCenters(3), max_rounds=5, eta=1.0, tol=0.0),
    "feca, many": FeCA(3, 40, n_init=2),
    "k-fed, many": KFED(3, 40, n_init=2),
    "matched averaging, many": MatchedAveraging(40, n_init=2),
    "fuzzy c-means, many": FuzzyCMeans(40, max_rounds=3, n_init=2),
    "fuzzy c-means, many, average": FuzzyCMeans(40, merge="average", max_rounds=3, n_init=2),
    "one-shot, one's own choice": OneShotKMeans(3, None, n_init=2),
    "one-shot, radii": OneShotKMeans(3, 3, send="radii", n_init=2),
    "one-shot, radii, one's own choice": OneShotKMeans(3, None, send="radii", n_init=2),
    "one-shot, trimmed": OneShotKMeans(3, 9, trim=0.1, n_init=2),
    "one-shot, k unknown": OneShotKMeans(None, 5, max_clusters=6, n_init=2),
    "one-shot, k unknown, refined": OneShotKMeans(
        None, None, max_clusters=6, refine=True, n_init=2
    ),
    "one-shot, many, refined": OneShotKMeans(500, 40, refine=True, n_init=2),
    "federated k-means, k unknown": FederatedKMeans(
        OneShotKMeans(None, 5, max_clusters=6, n_init=2)
    ),
    "federated k-means, many": FederatedKMeans(OneShotKMeans(500, 40, n_init=2), max_rounds=3),
    "coreset, many": CoresetKMeans(40, 300, n_init=2),
}
policies = pytest.mark.parametrize("policy", [STUDY, DEPLOYMENT], ids=["study", "deployment"])
protocols = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)


def parties(scale: float = 1.0) -> Parties:
    """Two columns, positive; sizes on both sides of a minimum count, and rows that coincide."""
    rng = np.random.default_rng(3)
    corners = rng.uniform(1.0, 30.0, size=(3, 2))
    sizes = (55, 8, 31, 100, 12, 40)
    tables = [corners[rng.integers(3, size=n)] + rng.uniform(size=(n, 2)) for n in sizes]
    tables[4][:] = tables[4][0]
    weights = [rng.uniform(0.5, 2.0, size=n) for n in sizes]
    weights[2][:5] = 0.0
    return Parties.of([scale * table for table in tables], weights=weights)


def overheard(
    protocol: MeshProtocol | StarProtocol, own: Parties, policy: Policy, n_blocks: int = 1
) -> list[Message]:
    said: list[Message] = []
    options = Options(policy=policy, watch=lambda who, message: said.append(message))
    if isinstance(protocol, StarProtocol):
        run_star(protocol, own, options=options)
        return said
    ring = np.roll(np.eye(len(own)), 1, axis=1)
    network = topology(ring + ring.T, own.names)
    run_mesh(protocol, own, network, blocks=n_blocks, options=options)
    return said


def draws_starts(protocol: MeshProtocol | StarProtocol) -> bool:
    """Whether every user draws starting centres from its rows."""
    start = getattr(protocol, "start", None)
    if not isinstance(start, InitialCenters) or not isinstance(start.init, str):
        return False
    return start.init in ("random", "k-means++", "dkm+c")


def declared(protocol: MeshProtocol | StarProtocol, message: Message) -> Release:
    of = protocol.asks if isinstance(message, Ask) else protocol.releases  # type: ignore[union-attr]
    return next(release for release in of if release.kind == message.kind)


def parts(message: Message) -> Iterator[tuple[Body, int | None]]:
    """What travels: of a post, each user's part; and the post as its host holds it."""
    if not isinstance(message, Post):
        yield message.body, None
        return
    n = len(message.body[next(iter(message.body))])
    yield message.body, n
    for i in range(n):
        yield {name: value[i : i + 1] for name, value in message.body.items()}, 1


def all_fit(protocol: MeshProtocol | StarProtocol, said: list[Message], n_columns: int) -> None:
    known: dict[str, int] = {}
    for message in said:
        release = declared(protocol, message)
        for body, users in parts(message):
            question = None if isinstance(message, Ask) else known
            assert misfit(release, body, n_columns, users, question) is None
            most, numbers = (f(release, n_columns, users) for f in (largest_size, most_numbers))
            assert most is None or body_size(message.kind, body) <= most
            assert numbers is None or sum(value.size for value in body.values()) <= numbers
        if isinstance(message, Ask):
            known = lengths(release, message.body)


@protocols
def test_every_field_has_a_shape(protocol: MeshProtocol | StarProtocol) -> None:
    asks = protocol.asks if isinstance(protocol, StarProtocol) else ()
    for release in (*protocol.releases, *asks):
        assert set(release.shapes) == set(release.fields)


@policies
@protocols
def test_what_leaves_is_as_declared(protocol: MeshProtocol | StarProtocol, policy: Policy) -> None:
    own = parties()
    if policy is DEPLOYMENT and draws_starts(protocol):
        # A user whose rows make no cell has none to draw starts from.
        with pytest.raises(InputError, match="Party 1 has no rows"):
            overheard(protocol, own, policy)
        own = own.select(np.array([0, 2, 3, 4, 5]))
    for n_blocks in (1,) if isinstance(protocol, StarProtocol) else (1, 6):
        said = overheard(protocol, own, policy, n_blocks)
        all_fit(protocol, said, own.n_features)
        kinds = {message.kind for message in said if not isinstance(message, Ask)}
        assert kinds == {release.kind for release in protocol.releases}


@pytest.mark.parametrize("scale", [1e-120, 1e120])
@pytest.mark.parametrize("name", ["feca", "federated k-means", "moments", "coreset", "admm"])
def test_huge_and_tiny_rows_are_as_declared(name: str, scale: float) -> None:
    own = parties(scale)
    said = overheard(TABLE[name], own, STUDY)
    assert said
    all_fit(TABLE[name], said, own.n_features)


def test_sizes_by_hand() -> None:
    federated = FederatedKMeans(OneShotKMeans(8, 12))
    start, rounds = federated.releases
    assert [most_numbers(release, 5) for release in (start, rounds)] == [12 * 6, 8 * 7]
    assert [most_numbers(release, 5) for release in federated.asks] == [0, 8 * 5]
    limits = DGC(InitialCenters(3), loss=losses.Bregman.itakura_saito()).releases[1]
    assert most_numbers(limits, 5) == 2 * 5 + 3
    assert most_numbers(OneShotKMeans(8, None).releases[0], 5) is None
