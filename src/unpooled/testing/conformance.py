"""The rules that every protocol of a role keeps, each as a check that raises if it is broken.

::

    @pytest.mark.parametrize("check", conformance(MyProtocol(...)), ids=str)
    def test_my_protocol(check):
        check()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from unpooled.data.parties import Parties
from unpooled.errors import UndeclaredRelease, UnpooledError
from unpooled.graphs.reading import topology
from unpooled.graphs.topology import Topology
from unpooled.messages.codec import body_size, encode
from unpooled.messages.conform import largest_size, lengths, misfit
from unpooled.messages.message import Ask, Message, Post
from unpooled.messages.release import Release
from unpooled.privacy.policy import DEPLOYMENT, STUDY
from unpooled.protocols.mesh.base import MeshProtocol
from unpooled.protocols.star.base import StarProtocol
from unpooled.simulate import Options, Run, run_mesh, run_star
from unpooled.testing.layouts import LAYOUTS, fortran_order, handing_on, laid_out
from unpooled.testing.wrapping import MeshAround, StarAround
from unpooled.types import Body, all_rows


@dataclass(frozen=True)
class Check:
    """One rule, ready to be called; it raises if the protocol breaks it."""

    rule: Callable[[Any], None]
    world: _World

    def __call__(self) -> None:
        self.rule(self.world)

    def __str__(self) -> str:
        return f"{self.world.protocol.name}: {self.rule.__name__}"


def conformance(protocol: MeshProtocol | StarProtocol) -> list[Check]:
    """Every rule of the protocol's role, as checks."""
    rules = [
        same_seed_same_messages,
        arrival_order_is_irrelevant,
        everything_survives_the_codec,
        memory_layout_is_irrelevant,
        one_party_is_enough,
        empty_party_is_handled_or_named,
        undeclared_is_refused,
        everything_fits_its_declaration,
        counted_size_is_encoded_size,
        every_exchange_has_a_name_of_its_own,
        a_row_of_weight_two_is_two_rows,
    ]
    if isinstance(protocol, MeshProtocol):
        rules.append(split_over_hosts_is_irrelevant)
    else:
        rules.append(rows_without_weight_are_absent)
    world = _World(protocol)
    return [Check(rule, world) for rule in rules]


Transcript = list[tuple[str, Message]]


@dataclass(frozen=True)
class _World:
    """Five unequal parties on a ring with a chord, and the driver for the protocol's role."""

    protocol: MeshProtocol | StarProtocol
    seed: int = 5

    @cached_property
    def plain(self) -> tuple[Run, Transcript]:
        """What every rule compares with, run once for all of them."""
        return self.run()

    def parties(self, sizes: tuple[int, ...] = (9, 4, 14, 6, 2)) -> Parties:
        rng = np.random.default_rng(0)
        corners = rng.uniform(1.0, 9.0, size=(3, 2))
        tables = [corners[rng.integers(3, size=n)] + rng.uniform(size=(n, 2)) for n in sizes]
        return Parties.of(tables, weights=[rng.uniform(0.5, 2.0, size=n) for n in sizes])

    def network(self, m: int) -> Topology:
        adjacency = np.roll(np.eye(m), 1, axis=1) if m > 1 else np.zeros((1, 1))
        adjacency[0, m // 2] = m > 1
        return topology(np.maximum(adjacency, adjacency.T), [str(i) for i in range(m)])

    def run(
        self,
        parties: Parties | None = None,
        *,
        blocks: int = 2,
        said: Transcript | None = None,
        **options: Any,
    ) -> tuple[Run, Transcript]:
        parties = parties if parties is not None else self.parties()
        transcript: Transcript = said if said is not None else []
        how = Options(**options, watch=lambda who, said: transcript.append((who, said)))
        if isinstance(self.protocol, StarProtocol):
            return run_star(self.protocol, parties, seed=self.seed, options=how), transcript
        network = self.network(len(parties))
        run = run_mesh(self.protocol, parties, network, seed=self.seed, blocks=blocks, options=how)
        return run, transcript


def same_seed_same_messages(world: _World) -> None:
    """Two runs with one seed say the same, to the byte."""
    (first, said_first), (second, said_second) = world.plain, world.run()
    assert _bytes(said_first) == _bytes(said_second), "two runs with one seed differ"
    _assert_same(first, second)


def arrival_order_is_irrelevant(world: _World) -> None:
    """Parties may be served in any order, and at the same time."""
    plain, said = world.plain
    for options in ({"order": lambda n: range(n)[::-1]}, {"threads": 3}):
        other, said_other = world.run(**options)
        assert sorted(_bytes(said)) == sorted(_bytes(said_other)), "order changed a message"
        _assert_same(plain, other)


def everything_survives_the_codec(world: _World) -> None:
    """Messages and, in a star, parties' states can be turned into bytes and back at each step."""
    plain, _ = world.plain
    encoded, _ = world.run(through_codec=True)
    _assert_same(plain, encoded)


def memory_layout_is_irrelevant(world: _World) -> None:
    """However rows, weights, messages and states lie in memory, the bits are the same."""
    plain, said = world.plain
    for layout in LAYOUTS:
        laid = replace(world, protocol=handing_on(world.protocol, layout))
        encoded = layout is fortran_order  # which the codec turns into C order
        other, said_other = laid.run(laid_out(world.parties(), layout), through_codec=encoded)
        where = f"with arrays that are {layout.__name__}"
        assert _bytes(said) == _bytes(said_other), f"a message differs {where}"
        _assert_same(plain, other)
        for name, value in plain.result.items():
            assert value.tobytes() == other.result[name].tobytes(), f"{name!r} differs {where}"


def rows_without_weight_are_absent(world: _World) -> None:
    """In a star, rows of weight zero change no bit of what is said and found."""
    plain, said = world.plain
    parties = world.parties()
    tables = [
        np.vstack([all_rows(parties[i].rows), np.full((3, 2), 77.0)]) for i in range(len(parties))
    ]
    weights = [np.append(parties[i].weights, np.zeros(3)) for i in range(len(parties))]
    padded, said_padded = world.run(Parties.of(tables, weights=weights))
    assert _bytes(said) == _bytes(said_padded), "a row without weight changed a message"
    _assert_same(plain, padded)


def a_row_of_weight_two_is_two_rows(world: _World) -> None:
    """Weights count: where parties are their cells, they are all that tells large from small ones.

    A protocol that sends rows draws them at random, one that trains networks takes them in random
    batches, and twice the same row uses up other random numbers than one of weight two: of these it
    is only asked that weights change what comes out.
    """
    parties = world.parties()
    tables = [all_rows(parties[i].rows) for i in range(len(parties))]
    times = [1 + (np.arange(len(table)) % 3 == 0) for table in tables]
    weighted, _ = world.run(Parties.of(tables, weights=[own.astype(float) for own in times]))
    drawn = {"rows", "network-weights"}
    if any(drawn & set(release.discloses) for release in world.protocol.releases):
        alike, _ = world.run(Parties.of(tables))
        assert _apart(weighted, alike) > 1e-9, "weights change nothing"
        return
    rows = [np.repeat(table, own, axis=0) for table, own in zip(tables, times, strict=True)]
    repeated, _ = world.run(Parties.of(rows))
    assert _apart(weighted, repeated) < 1e-9, "a row of weight 2 does not count as two rows"


def _apart(one: Run, other: Run) -> float:
    """How far the numbers that are about rows' values lie apart, whatever order they are in."""
    largest = 0.0
    for name in one.result.keys() & {"centers", "mean"}:
        first, second = (np.atleast_2d(run.result[name]) for run in (one, other))
        if first.shape != second.shape:
            return np.inf
        gaps = cdist(*(table.reshape(-1, table.shape[-1]) for table in (first, second)))
        largest = max(largest, float(gaps[linear_sum_assignment(gaps)].max()))
    return largest


def one_party_is_enough(world: _World) -> None:
    """A party alone gets a result; in a mesh it sends nothing."""
    run, _ = world.run(world.parties((12,)))
    _assert_finite(run)
    if isinstance(world.protocol, MeshProtocol):
        assert run.traffic.messages == 0, "a user without neighbours sent something"


def empty_party_is_handled_or_named(world: _World) -> None:
    """A party without rows is either dealt with or refused by name, never a crash."""
    try:
        run, _ = world.run(world.parties((9, 0, 14, 6, 2)))
    except UnpooledError as refusal:
        if "Party 1" not in str(refusal):
            raise AssertionError("the refusal does not name the party") from refusal
    else:
        _assert_finite(run)


def undeclared_is_refused(world: _World) -> None:
    """Take away any declaration, and the ledger lets that field or kind no longer out."""
    _, said = world.plain
    fields = {(m.kind, name) for _, m in said if not isinstance(m, Ask) for name in m.body}
    assert fields, "nothing was sent at all"
    for kind, name in fields:
        silenced = replace(world, protocol=_without(world.protocol, kind, name))
        try:
            silenced.run()
        except UndeclaredRelease as refusal:
            if name not in str(refusal):
                raise AssertionError("the refusal does not name the field") from refusal
            continue
        raise AssertionError(f"field {name!r} of {kind!r} left without being declared")


def everything_fits_its_declaration(world: _World) -> None:
    """Where shapes are declared, every message has them, holds numbers, and is no larger."""
    for sizes, policy in (
        ((9, 4, 14, 6, 2), STUDY),
        ((9, 0, 14, 6, 2), STUDY),
        ((40, 25, 60, 30, 12), DEPLOYMENT),
    ):
        parties, said = world.parties(sizes), list[tuple[str, Message]]()
        with suppress(UnpooledError):  # what was said before a refusal must fit all the same
            world.run(parties, said=said, policy=policy)
        asked: dict[tuple[str, int], Mapping[str, int]] = {}
        for _, message in said:
            release = _declaration(world.protocol, message)
            if release is None or not release.shapes:
                continue
            question = asked.get((message.kind, message.round))
            for body, users in _parts(message):
                wrong = misfit(release, body, parties.n_features, users, question)
                assert wrong is None, f"{message.kind!r}: {wrong}"
                most = largest_size(release, parties.n_features, users)
                fits = most is None or body_size(message.kind, body) <= most
                assert fits, f"{message.kind!r} is larger than declared"
            if isinstance(message, Ask):
                asked[message.kind, message.round] = lengths(release, message.body)


def counted_size_is_encoded_size(world: _World) -> None:
    """Traffic is what encoding every message, for every receiver, would have come to."""
    parties = world.parties()
    mesh = isinstance(world.protocol, MeshProtocol)
    run, said = world.run(blocks=len(parties)) if mesh else world.plain
    degrees = dict(zip(parties.names, world.network(len(parties)).degrees, strict=True))
    up = down = numbers = 0
    for sender, message in said:
        size = len(encode(message))
        if isinstance(message, Ask):
            down += size * len(parties)
            continue
        copies = 1
        if isinstance(message, Post):
            copies = int(degrees[sender] if message.to is None else message.to.sum())
        up += size * copies
        numbers += sum(value.size for value in message.body.values()) * copies
    assert (run.traffic.bytes_up, run.traffic.floats_up) == (up, numbers), "counted wrongly"
    expected_down = up if mesh else down
    assert run.traffic.bytes_down == expected_down, "counted wrongly on arrival"


def every_exchange_has_a_name_of_its_own(world: _World) -> None:
    """Kind and round tell one exchange from another: a resent message is known as such."""
    _, said = world.plain
    names = [(who, type(message), message.kind, message.round) for who, message in said]
    assert len(set(names)) == len(names), "two exchanges have the same kind and round"


def split_over_hosts_is_irrelevant(world: _World) -> None:
    """However users are spread over hosts, the result is the same bit for bit."""
    on_two, _ = world.plain
    for blocks in (1, 3, 5):
        split, _ = world.run(blocks=blocks)
        _assert_same(on_two, split)


def _bytes(said: Transcript) -> list[tuple[str, bytes]]:
    return [(who, encode(message)) for who, message in said]


def _assert_same(first: Run, second: Run) -> None:
    assert first.result.keys() == second.result.keys()
    for name, value in first.result.items():
        assert np.array_equal(value, second.result[name]), f"{name!r} differs"
    assert np.array_equal(first.traffic.table, second.traffic.table), "traffic differs"


def _assert_finite(run: Run) -> None:
    for name, value in run.result.items():
        assert np.isfinite(value).all(), f"{name!r} is not finite"


def _declaration(protocol: MeshProtocol | StarProtocol, message: Message) -> Release | None:
    declared = protocol.releases
    if isinstance(protocol, StarProtocol) and isinstance(message, Ask):
        declared = protocol.asks
    return next((release for release in declared if release.kind == message.kind), None)


def _parts(message: Message) -> list[tuple[Body, int | None]]:
    """The message, and how many users' it is; of a post also every single user's part."""
    if not isinstance(message, Post):
        return [(message.body, None)]
    n = len(next(iter(message.body.values()), ()))
    single = [{name: value[i : i + 1] for name, value in message.body.items()} for i in range(n)]
    return [(message.body, n), *((part, 1) for part in single)]


def _without(
    protocol: MeshProtocol | StarProtocol, kind: str, name: str
) -> MeshProtocol | StarProtocol:
    """The same protocol with one declaration less."""
    rest = tuple(
        _without_field(release, name) if release.kind == kind else release
        for release in protocol.releases
    )
    if isinstance(protocol, StarProtocol):
        return _SilencedStar(protocol, rest)
    return _SilencedMesh(protocol, rest)


def _without_field(release: Release, name: str) -> Release:
    def rest(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(own for own in names if own != name)

    return Release(
        release.kind,
        rest(release.fields),
        release.discloses,
        release.why,
        additive=rest(release.additive),
        union=rest(release.union),
    )


@dataclass(frozen=True)
class _SilencedMesh(MeshAround):
    declared: tuple[Release, ...]

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.declared


@dataclass(frozen=True)
class _SilencedStar(StarAround):
    declared: tuple[Release, ...]

    @property
    def releases(self) -> tuple[Release, ...]:
        return self.declared
